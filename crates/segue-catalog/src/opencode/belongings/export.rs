//! Export of a session from the database, as `opencode export` writes it, message by message.

use std::io::{self, Write};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Map, Value, json};

use super::super::database::{Database, bytes};
use crate::KeepError;

pub(super) fn write(database: &Database, id: &str, to: &mut dyn Write) -> Result<(), KeepError> {
    let path = &database.path;
    let failed = |error| KeepError::io("copy", path, error);
    let info = database.ask(|connection| info(connection, id))?;
    let Some(info) = info else {
        return Err(KeepError::Nothing(id.to_owned()));
    };
    write!(to, "{{\"info\":{info},\"messages\":[").map_err(failed)?;
    let told = database.ask(|connection| messages(connection, id, to))?;
    told.map_err(failed)?;
    writeln!(to, "]}}").map_err(failed)
}

/// Returns the session itself. Omits columns that this version does not have, and values that are not set.
fn info(connection: &Connection, id: &str) -> rusqlite::Result<Option<Value>> {
    let mut statement = connection.prepare("SELECT * FROM session WHERE id = ?1")?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let row = statement.query_row([id], |row| {
        let mut all = Map::new();
        for (index, column) in columns.iter().enumerate() {
            all.insert(column.clone(), value(row.get_ref(index)?));
        }
        Ok(all)
    });
    Ok(row.optional()?.map(|row| in_their_words(&row)))
}

fn in_their_words(row: &Map<String, Value>) -> Value {
    let plain = |name: &str| row.get(name).cloned().unwrap_or(Value::Null);
    // Columns that contain JSON as text.
    let nested = |name: &str| {
        let text = row.get(name).and_then(Value::as_str);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null)
    };
    let mut info = json!({
        "id": plain("id"),
        "slug": plain("slug"),
        "projectID": plain("project_id"),
        "workspaceID": plain("workspace_id"),
        "parentID": plain("parent_id"),
        "directory": plain("directory"),
        "path": plain("path"),
        "title": plain("title"),
        "agent": plain("agent"),
        "model": nested("model"),
        "version": plain("version"),
        "share": {"url": plain("share_url")},
        "summary": {
            "additions": plain("summary_additions"),
            "deletions": plain("summary_deletions"),
            "files": plain("summary_files"),
            "diffs": nested("summary_diffs"),
        },
        "cost": plain("cost"),
        "tokens": {
            "input": plain("tokens_input"),
            "output": plain("tokens_output"),
            "reasoning": plain("tokens_reasoning"),
            "cache": {"read": plain("tokens_cache_read"), "write": plain("tokens_cache_write")},
        },
        "metadata": nested("metadata"),
        "revert": nested("revert"),
        "permission": nested("permission"),
        "time": {
            "created": plain("time_created"),
            "updated": plain("time_updated"),
            "compacting": plain("time_compacting"),
            "archived": plain("time_archived"),
        },
    });
    without_nothing(&mut info);
    info
}

/// Removes values that are not set, and objects that contain only such values.
fn without_nothing(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(without_nothing);
        fields.retain(|_, field| {
            !field.is_null() && field.as_object().is_none_or(|all| !all.is_empty())
        });
    }
}

/// Writes the messages of a session with their parts.
fn messages(
    connection: &Connection,
    session: &str,
    to: &mut dyn Write,
) -> rusqlite::Result<io::Result<()>> {
    let mut messages = connection
        .prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts =
        connection.prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = messages.query([session])?;
    let mut first = true;
    while let Some(row) = rows.next()? {
        let id = text(row, 0)?;
        let info = object(row, &[("id", &id), ("sessionID", session)])?;
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        if let Err(error) = write!(to, "{comma}{{\"info\":{info},\"parts\":[") {
            return Ok(Err(error));
        }
        let mut inside = parts.query([&id])?;
        let mut comma = "";
        while let Some(row) = inside.next()? {
            let own = text(row, 0)?;
            let ids = [
                ("id", own.as_str()),
                ("sessionID", session),
                ("messageID", &id),
            ];
            let part = object(row, &ids)?;
            if let Err(error) = write!(to, "{comma}{part}") {
                return Ok(Err(error));
            }
            comma = ",";
        }
        if let Err(error) = write!(to, "]}}") {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Returns the object of a row, with the ids that are in separate columns.
fn object(row: &Row<'_>, ids: &[(&str, &str)]) -> rusqlite::Result<Value> {
    let mut object: Map<String, Value> =
        serde_json::from_slice(bytes(row.get_ref(1)?)).unwrap_or_default();
    for (name, id) in ids {
        object.insert((*name).to_owned(), Value::from(*id));
    }
    Ok(object.into())
}

fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(row.get_ref(index)?.as_str().unwrap_or_default().to_owned())
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
    }
}
