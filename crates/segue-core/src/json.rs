//! JSON text that is stored verbatim.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// Error of a text that is not valid JSON.
#[derive(Debug, thiserror::Error)]
#[error("not valid JSON")]
pub struct JsonError(#[from] serde_json::Error);

/// A JSON text, stored verbatim: it is validated but never reformatted.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// Validates that `text` is JSON and stores it.
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        let raw = RawValue::from_string(text.into())?;
        Ok(Self(String::from(Box::<str>::from(raw))))
    }

    /// Encodes `text` as a JSON string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self(serde_json::Value::from(text).to_string())
    }

    /// Creates an empty object.
    #[must_use]
    pub fn empty_object() -> Self {
        Self("{}".to_owned())
    }

    /// Returns the JSON on one line. A text that contains line breaks is reformatted.
    #[must_use]
    pub fn to_single_line(&self) -> String {
        let parse_value = || serde_json::from_str::<serde_json::Value>(&self.0).ok();
        let rewritten = self.0.contains('\n').then(parse_value).flatten();
        rewritten.map_or_else(|| self.0.clone(), |value| value.to_string())
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(raw.get().to_owned())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer).map_err(de::Error::custom)?;
        Ok(Self::from(&*raw))
    }
}
