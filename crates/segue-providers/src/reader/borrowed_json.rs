//! JSON types that borrow from the input where possible.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Converts bytes to text, and replaces invalid UTF-8.
///
/// Uses [`String::from_utf8_lossy`] only for invalid text, because it works byte by byte, which takes longer than all
/// other work on a line.
pub(crate) fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// A JSON string, borrowed from the line if it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonText<'a>(Cow<'a, str>);

impl JsonText<'_> {
    pub(crate) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl<'a> From<&'a str> for JsonText<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for JsonText<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonTextVisitor;

        impl<'de> Visitor<'de> for JsonTextVisitor {
            type Value = JsonText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(text)))
            }
        }

        deserializer.deserialize_str(JsonTextVisitor)
    }
}

/// Content that is either one text or a list of blocks.
#[derive(Debug)]
pub(crate) enum TextOrBlocks<'a, B> {
    Text(JsonText<'a>),
    Blocks(Vec<B>),
}

impl<B> TextOrBlocks<'_, B> {
    /// Returns the concatenated text of all blocks.
    pub(crate) fn concat_text<'b>(
        &'b self,
        block_text: impl Fn(&'b B) -> Option<&'b str>,
    ) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Blocks(blocks) => blocks.iter().filter_map(block_text).collect(),
        }
    }
}

impl<'de: 'a, 'a, B: Deserialize<'de>> Deserialize<'de> for TextOrBlocks<'a, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocksVisitor<'a, B>(PhantomData<(&'a (), B)>);

        impl<'de: 'a, 'a, B: Deserialize<'de>> Visitor<'de> for TextOrBlocksVisitor<'a, B> {
            type Value = TextOrBlocks<'a, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(TextOrBlocks::Text(JsonText(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOrBlocks::Text(JsonText(Cow::Owned(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(TextOrBlocks::Blocks)
            }
        }

        deserializer.deserialize_any(TextOrBlocksVisitor(PhantomData))
    }
}
