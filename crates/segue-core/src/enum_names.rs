//! Enums whose variants have names outside Rust.

/// Defines an enum with the name of each variant in JSON and in the store. Serde, and the JSON Schema, use the same
/// names.
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident {
            $($(#[$variant_attribute:meta])* $variant:ident => $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of their definition.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in JSON and in the store.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the variant with this name. `None` if it does not exist.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.as_str() == name)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::from_name(&name)
                    .ok_or_else(|| serde::de::Error::unknown_variant(&name, &[$($name),+]))
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($name),+] })
            }
        }
    };
}

pub(crate) use named_enum;
