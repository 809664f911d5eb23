//! Export of a session from the database, as `opencode export` writes it, message by message.

use std::io::{self, Write};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Map, Value, json};

use super::super::database::{OpencodeDatabase, value_bytes};
use crate::ArchiveError;

pub(super) fn write_export(
    database: &OpencodeDatabase,
    id: &str,
    writer: &mut dyn Write,
) -> Result<(), ArchiveError> {
    let path = &database.path;
    let failed = |error| ArchiveError::io("copy", path, error);
    let info = database.query(|connection| session_info(connection, id))?;
    let Some(info) = info else {
        return Err(ArchiveError::NotFound(id.to_owned()));
    };
    write!(writer, "{{\"info\":{info},\"messages\":[").map_err(failed)?;
    let result = database.query(|connection| write_messages(connection, id, writer))?;
    result.map_err(failed)?;
    writeln!(writer, "]}}").map_err(failed)
}

/// Returns the session itself. Omits columns that this version does not have, and values that are not set.
fn session_info(connection: &Connection, id: &str) -> rusqlite::Result<Option<Value>> {
    let mut statement = connection.prepare("SELECT * FROM session WHERE id = ?1")?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let row = statement.query_row([id], |row| {
        let mut fields = Map::new();
        for (index, column) in columns.iter().enumerate() {
            fields.insert(column.clone(), json_value(row.get_ref(index)?));
        }
        Ok(fields)
    });
    Ok(row.optional()?.map(|row| session_json(&row)))
}

fn session_json(row: &Map<String, Value>) -> Value {
    let column = |name: &str| row.get(name).cloned().unwrap_or(Value::Null);
    // Columns that contain JSON as text.
    let json_column = |name: &str| {
        let text = row.get(name).and_then(Value::as_str);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null)
    };
    let mut info = json!({
        "id": column("id"),
        "slug": column("slug"),
        "projectID": column("project_id"),
        "workspaceID": column("workspace_id"),
        "parentID": column("parent_id"),
        "directory": column("directory"),
        "path": column("path"),
        "title": column("title"),
        "agent": column("agent"),
        "model": json_column("model"),
        "version": column("version"),
        "share": {"url": column("share_url")},
        "summary": {
            "additions": column("summary_additions"),
            "deletions": column("summary_deletions"),
            "files": column("summary_files"),
            "diffs": json_column("summary_diffs"),
        },
        "cost": column("cost"),
        "tokens": {
            "input": column("tokens_input"),
            "output": column("tokens_output"),
            "reasoning": column("tokens_reasoning"),
            "cache": {"read": column("tokens_cache_read"), "write": column("tokens_cache_write")},
        },
        "metadata": json_column("metadata"),
        "revert": json_column("revert"),
        "permission": json_column("permission"),
        "time": {
            "created": column("time_created"),
            "updated": column("time_updated"),
            "compacting": column("time_compacting"),
            "archived": column("time_archived"),
        },
    });
    remove_unset_values(&mut info);
    info
}

/// Removes values that are not set, and objects that contain only such values.
fn remove_unset_values(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(remove_unset_values);
        fields.retain(|_, field| {
            !field.is_null() && field.as_object().is_none_or(|object| !object.is_empty())
        });
    }
}

/// Writes the messages of a session with their parts.
fn write_messages(
    connection: &Connection,
    session: &str,
    writer: &mut dyn Write,
) -> rusqlite::Result<io::Result<()>> {
    let mut messages = connection
        .prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts =
        connection.prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = messages.query([session])?;
    let mut first = true;
    while let Some(row) = rows.next()? {
        let id = text_column(row, 0)?;
        let info = row_object(row, &[("id", &id), ("sessionID", session)])?;
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        if let Err(error) = write!(writer, "{comma}{{\"info\":{info},\"parts\":[") {
            return Ok(Err(error));
        }
        let mut part_rows = parts.query([&id])?;
        let mut comma = "";
        while let Some(row) = part_rows.next()? {
            let part_id = text_column(row, 0)?;
            let ids = [
                ("id", part_id.as_str()),
                ("sessionID", session),
                ("messageID", &id),
            ];
            let part = row_object(row, &ids)?;
            if let Err(error) = write!(writer, "{comma}{part}") {
                return Ok(Err(error));
            }
            comma = ",";
        }
        if let Err(error) = write!(writer, "]}}") {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Returns the object of a row, with the ids that are in separate columns.
fn row_object(row: &Row<'_>, ids: &[(&str, &str)]) -> rusqlite::Result<Value> {
    let mut object: Map<String, Value> =
        serde_json::from_slice(value_bytes(row.get_ref(1)?)).unwrap_or_default();
    for (name, id) in ids {
        object.insert((*name).to_owned(), Value::from(*id));
    }
    Ok(object.into())
}

fn text_column(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(row.get_ref(index)?.as_str().unwrap_or_default().to_owned())
}

fn json_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
    }
}
