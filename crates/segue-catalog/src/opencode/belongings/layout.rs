//! Conversion of an exported session to the files of older versions, which can be read without a database.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Writes an export into a directory, message by message.
pub(super) fn write(export: impl Read, storage: &Path) -> io::Result<()> {
    let mut reader = serde_json::Deserializer::from_reader(export);
    Whole { storage }
        .deserialize(&mut reader)
        .map_err(io::Error::from)
}

#[derive(Deserialize)]
struct Message {
    info: Object,
    #[serde(default)]
    parts: Vec<Object>,
}

struct Whole<'a> {
    storage: &'a Path,
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exported session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "info" => {
                    let info: Object = map.next_value()?;
                    let place = path(self.storage, "session", id(&info, "projectID"), &info);
                    put(place, &info).map_err(serde::de::Error::custom)?;
                }
                "messages" => map.next_value_seed(Messages(self.storage))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Messages<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(message) = all.next_element::<Message>()? {
            let info = &message.info;
            let place = path(self.0, "message", id(info, "sessionID"), info);
            put(place, info).map_err(serde::de::Error::custom)?;
            for part in &message.parts {
                let place = path(self.0, "part", id(info, "id"), part);
                put(place, part).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Returns an id that is valid as a file name.
fn id<'a>(object: &'a Object, field: &str) -> Option<&'a str> {
    let id = object.get(field).and_then(Value::as_str);
    id.filter(|id| NativeId::parse(id).is_ok())
}

/// Returns the path `storage/<kind>/<whose>/<id>.json`.
fn path(storage: &Path, kind: &str, whose: Option<&str>, object: &Object) -> Option<PathBuf> {
    let name = format!("{}.json", id(object, "id")?);
    Some(storage.join(kind).join(whose?).join(name))
}

fn put(place: Option<PathBuf>, object: &Object) -> io::Result<()> {
    let place = place.ok_or_else(|| io::Error::other("it has an object without an id"))?;
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(place, serde_json::to_vec(object)?)
}
