//! Ids of sessions, providers and turns, and names that the user chooses.
//!
//! An id that is a text is safe as a command-line argument (it never starts with `-`), as a file name (no separator,
//! never `..`, short enough) and as a database key (printable, no NUL). An id from the user or from an agent is checked
//! once, by `parse`.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// Reason why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("{kind} may not be empty")]
    Empty {
        /// Kind of id, as it is named in a message to the user.
        kind: &'static str,
    },
    /// The text is longer than the id may be.
    #[error("{kind} may have at most {limit} bytes, not {length}")]
    TooLong {
        /// Kind of id.
        kind: &'static str,
        /// Length of the text in bytes.
        length: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The text contains a character that is not allowed.
    #[error("{kind} may not contain {character:?}")]
    BadCharacter {
        /// Kind of id.
        kind: &'static str,
        /// First character that is not allowed.
        character: char,
    },
    /// The first character is not allowed in that position.
    #[error("{kind} may not start with {character:?}")]
    BadStart {
        /// Kind of id.
        kind: &'static str,
        /// First character of the text.
        character: char,
    },
    /// The characters are allowed, but the text does not have the form of this id.
    #[error("{kind} must look like {shape}, not {text:?}")]
    BadShape {
        /// Kind of id.
        kind: &'static str,
        /// Example of the correct form.
        shape: &'static str,
        /// Text that was parsed.
        text: String,
    },
    /// The last character is a space, which the user would not see.
    #[error("{kind} may not end with a space")]
    BadEnd {
        /// Kind of id.
        kind: &'static str,
    },
    /// The text is not a valid name for something that the user names, for example a feature or a role.
    #[error(
        "{reason}; a name starts with a letter, a digit or _, has at most {limit} bytes, does not contain [ ] / \\, \
         line breaks or invisible characters, and does not end with a space"
    )]
    BadName {
        /// Rule that the text violates.
        reason: Box<Self>,
        /// Maximum length in bytes.
        limit: usize,
    },
}

/// Checks the length and the characters of an id. The first character must satisfy `can_start`, and all characters must
/// satisfy `is_allowed`.
pub(crate) fn check_id(
    kind: &'static str,
    text: &str,
    limit: usize,
    can_start: fn(char) -> bool,
    is_allowed: fn(char) -> bool,
) -> Result<(), IdError> {
    let Some(first) = text.chars().next() else {
        return Err(IdError::Empty { kind });
    };
    if text.len() > limit {
        return Err(IdError::TooLong {
            kind,
            length: text.len(),
            limit,
        });
    }
    if let Some(character) = text.chars().find(|&c| !is_allowed(c)) {
        return Err(IdError::BadCharacter { kind, character });
    }
    if !can_start(first) {
        return Err(IdError::BadStart {
            kind,
            character: first,
        });
    }
    Ok(())
}

/// Defines an id that is a text. The function after `=>` checks whether a text is valid.
macro_rules! text_id {
    ($(#[$attribute:meta])* pub struct $name:ident => $check:expr) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Parses the id, which is stored exactly as given. Fails if it is not valid.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> Result<(), IdError> = $check;
                check(text).map(|()| Self(text.to_owned()))
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}

pub(crate) use text_id;

text_id! {
    /// Id of a session: its creation time (UTC) and four random characters, `20251207_143022_k3f9`.
    ///
    /// Session ids sort by time, are readable, and in practice do not collide across machines.
    pub struct SessionId => check_session_id
}

/// Characters of the random tail of a session id. No two of them look alike.
const TAIL_ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

impl SessionId {
    /// Number of random characters in an id.
    pub const TAIL_LEN: usize = 4;

    /// Returns the random characters, which are enough to identify a session in most cases.
    #[must_use]
    pub fn tail(&self) -> &str {
        // An id is ASCII and longer than the tail, so the index is a character boundary within the text.
        let (_, tail) = self.0.split_at(self.0.len() - Self::TAIL_LEN);
        tail
    }

    /// Creates the id of a session created at `created_at`. `random` determines its last four characters.
    #[must_use]
    pub fn from_timestamp(created_at: Timestamp, random: u32) -> Self {
        let mut remaining = random;
        let tail: String = std::iter::repeat_with(|| {
            let character = TAIL_ALPHABET[(remaining % 32) as usize];
            remaining /= 32;
            char::from(character)
        })
        .take(Self::TAIL_LEN)
        .collect();
        Self(format!("{}_{tail}", created_at.strftime("%Y%m%d_%H%M%S")))
    }
}

fn check_session_id(text: &str) -> Result<(), IdError> {
    const ID_KIND: &str = "a session id";
    check_id(
        ID_KIND,
        text,
        64,
        |c| c.is_ascii_alphanumeric(),
        |c| c.is_ascii_alphanumeric() || c == '_',
    )?;
    let is_digits =
        |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_digit());
    let is_tail = |part: &str| {
        part.len() == SessionId::TAIL_LEN
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
    };
    let parts: Vec<&str> = text.split('_').collect();
    match parts.as_slice() {
        [date, time, random] if is_digits(date, 8) && is_digits(time, 6) && is_tail(random) => {
            Ok(())
        }
        _ => Err(IdError::BadShape {
            kind: ID_KIND,
            shape: "20251207_143022_k3f9",
            text: text.to_owned(),
        }),
    }
}

text_id! {
    /// Id that a provider gave to a native session.
    pub struct NativeId => |text| check_id(
        "a native session id",
        text,
        200,
        |c| c.is_ascii_alphanumeric() || c == '_',
        |c| c.is_ascii_alphanumeric() || "-_.:@+=~".contains(c),
    )
}

text_id! {
    /// Name of a feature that sessions belong to.
    ///
    /// All scripts are allowed. Characters that would break a prompt header (`]`), a path or a terminal are not.
    pub struct FeatureId => |text| check_name("a feature name", text, 200)
}

/// Checks a name that the user chose: it must be safe in a prompt header, in a path and on a terminal.
pub(crate) fn check_name(kind: &'static str, text: &str, limit: usize) -> Result<(), IdError> {
    let result = check_id(
        kind,
        text,
        limit,
        |c| c.is_alphanumeric() || c == '_',
        |c| {
            !(c.is_control()
                || "/\\[]".contains(c)
                || (c.is_whitespace() && c != ' ')
                || is_invisible(c))
        },
    );
    let reason = match result {
        Err(reason) => reason,
        Ok(()) if text.ends_with(' ') => IdError::BadEnd { kind },
        Ok(()) => return Ok(()),
    };
    Err(IdError::BadName {
        reason: Box::new(reason),
        limit,
    })
}

/// Returns `true` if `c` is invisible but changes how the text around it is displayed.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

text_id! {
    /// Name of a provider: `claude`, `codex`, `gemini`, `rehearsal`, or `acp:NAME` from the configuration.
    pub struct ProviderId => |text| check_id(
        "a provider name",
        text,
        64,
        |c| c.is_ascii_lowercase(),
        |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c),
    )
}

impl ProviderId {
    /// Returns the id of a provider whose valid name is part of the program.
    #[must_use]
    pub fn from_static(name: &'static str) -> Self {
        debug_assert!(Self::parse(name).is_ok(), "{name:?} is no provider name");
        Self(name.to_owned())
    }

    /// Returns the id of the built-in offline agent.
    #[must_use]
    pub fn rehearsal() -> Self {
        Self("rehearsal".to_owned())
    }

    /// Returns the id of Claude Code.
    #[must_use]
    pub fn claude() -> Self {
        Self("claude".to_owned())
    }

    /// Returns the id of Codex.
    #[must_use]
    pub fn codex() -> Self {
        Self("codex".to_owned())
    }

    /// Returns the id of Gemini CLI.
    #[must_use]
    pub fn gemini() -> Self {
        Self("gemini".to_owned())
    }
}

/// Defines an opaque ID, whose bits only the store that assigned it can interpret.
macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        ///
        /// Valid only in the store that assigned it. Its order has no meaning. The text is short, safe as an argument
        /// and as a file name, and does not reveal how many rows the store has.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Creates the ID from the bits that a store assigned.
            #[must_use]
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// Returns the bits that the store assigned.
            #[must_use]
            pub const fn to_bits(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&format_bits(self.0))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_bits(text).map(Self).ok_or_else(|| IdError::BadShape {
                    kind: $kind,
                    shape: "0k3f9v7m2q8xt",
                    text: text.to_owned(),
                })
            }
        }
    };
}

opaque_id!(
    /// ID of a turn.
    TurnId, "a turn ID"
);

opaque_id!(
    /// ID of a leg.
    LegId, "a leg ID"
);

/// Digits of the text of opaque IDs: Crockford's base 32, in which no two digits look alike.
const OPAQUE_ID_DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Number of digits of an opaque ID.
const OPAQUE_ID_LEN: usize = 13;

/// Formats 64 bits as the text of an opaque ID: 13 digits, the most significant first.
#[must_use]
pub fn format_bits(bits: u64) -> String {
    let digits = (0..OPAQUE_ID_LEN).rev().map(|position| {
        let digit = usize::try_from((bits >> (5 * position)) & 31).unwrap_or(0);
        char::from(OPAQUE_ID_DIGITS.get(digit).copied().unwrap_or(b'0'))
    });
    digits.collect()
}

/// Parses the text of an opaque ID. `None` if the text has another form.
#[must_use]
pub fn parse_bits(text: &str) -> Option<u64> {
    // The first digit has 4 bits only.
    if text.len() != OPAQUE_ID_LEN || text.as_bytes().first()? > &b'f' {
        return None;
    }
    text.bytes().try_fold(0, |bits: u64, byte| {
        let digit = OPAQUE_ID_DIGITS.iter().position(|digit| *digit == byte)?;
        Some((bits << 5) | u64::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests;
