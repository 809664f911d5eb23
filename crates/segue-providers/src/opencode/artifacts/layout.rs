//! Conversion of an exported session to the files of older versions, which can be read without a database.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

type JsonObject = Map<String, Value>;

/// Writes an export into a directory, message by message.
pub(super) fn write_layout(export: impl Read, storage: &Path) -> io::Result<()> {
    let mut reader = serde_json::Deserializer::from_reader(export);
    ExportLayoutSeed { storage }
        .deserialize(&mut reader)
        .map_err(io::Error::from)
}

#[derive(Deserialize)]
struct OpencodeFileExportedMessage {
    info: JsonObject,
    #[serde(default)]
    parts: Vec<JsonObject>,
}

struct ExportLayoutSeed<'a> {
    storage: &'a Path,
}

impl<'de> DeserializeSeed<'de> for ExportLayoutSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ExportLayoutSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exported session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "info" => {
                    let info: JsonObject = map.next_value()?;
                    let path =
                        object_path(self.storage, "session", valid_id(&info, "projectID"), &info);
                    write_object(path, &info).map_err(serde::de::Error::custom)?;
                }
                "messages" => map.next_value_seed(MessageLayoutSeed(self.storage))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct MessageLayoutSeed<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for MessageLayoutSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MessageLayoutSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<(), A::Error> {
        while let Some(message) = messages.next_element::<OpencodeFileExportedMessage>()? {
            let info = &message.info;
            let path = object_path(self.0, "message", valid_id(info, "sessionID"), info);
            write_object(path, info).map_err(serde::de::Error::custom)?;
            for part in &message.parts {
                let path = object_path(self.0, "part", valid_id(info, "id"), part);
                write_object(path, part).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Returns an id that is valid as a file name.
fn valid_id<'a>(object: &'a JsonObject, field: &str) -> Option<&'a str> {
    let id = object.get(field).and_then(Value::as_str);
    id.filter(|id| NativeId::parse(id).is_ok())
}

/// Returns the path `storage/<kind>/<parent id>/<id>.json`.
fn object_path(
    storage: &Path,
    kind: &str,
    parent_id: Option<&str>,
    object: &JsonObject,
) -> Option<PathBuf> {
    let name = format!("{}.json", valid_id(object, "id")?);
    Some(storage.join(kind).join(parent_id?).join(name))
}

fn write_object(path: Option<PathBuf>, object: &JsonObject) -> io::Result<()> {
    let path = path.ok_or_else(|| io::Error::other("it contains an object without an id"))?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, serde_json::to_vec(object)?)
}
