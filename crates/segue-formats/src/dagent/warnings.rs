//! Remarks about invalid values in the files. An invalid value never prevents reading the others.

use serde_json::{Map, Value};

use super::session_type::DagentSessionType;
use crate::json_fields::{self, object_field, string_field};

type Object = Map<String, Value>;

/// Adds a remark for each link to sessions that has the wrong type, in `feature.json` or `task.json`.
pub(super) fn check_links(path: &str, feature: &Object, task: &Object, remarks: &mut Vec<String>) {
    let mut check_type = |file: &str, field: &str, value: Option<&Value>, wanted: &Value| {
        let mismatch = value.filter(|value| {
            !value.is_null()
                && json_fields::describe_type(value) != json_fields::describe_type(wanted)
        });
        remarks.extend(mismatch.map(|value| {
            let (actual, wanted) = (
                json_fields::describe_type(value),
                json_fields::describe_type(wanted),
            );
            format!("{file}: {field} is {actual}, not {wanted}")
        }));
    };
    if path.is_empty() {
        let session_id = feature.get("sessionId");
        check_type("feature.json", "`sessionId`", session_id, &"".into());
        return;
    }
    let file = format!("{path}task.json");
    let object = Object::new().into();
    check_type(&file, "`states`", task.get("states"), &object);
    for (state, value) in object_field(task, "states").into_iter().flatten() {
        check_type(&file, &format!("state `{state}`"), Some(value), &object);
        let ids = format!("`sessionIds` of state `{state}`");
        let list = value.get("sessionIds");
        check_type(&file, &ids, list, &Vec::<Value>::new().into());
        for id in list.and_then(Value::as_array).into_iter().flatten() {
            check_type(&file, &format!("an entry of {ids}"), Some(id), &"".into());
        }
    }
}

/// Adds a remark for each file whose `sessionId` differs from the id in its name.
pub(super) fn check_session_ids(id: &str, files: &[(&str, &Object)], remarks: &mut Vec<String>) {
    for (path, file) in files {
        let stated_id = string_field(file, &["sessionId"]).filter(|stated_id| *stated_id != id);
        remarks.extend(stated_id.map(|stated_id| {
            format!("{path} names session {stated_id:?}; used the session id in the file name")
        }));
    }
}

/// Adds a remark if the session type is unknown.
pub(super) fn check_session_type(path: &str, context: &Object, remarks: &mut Vec<String>) {
    let stated = context.get("type").filter(|value| !value.is_null());
    let is_known = |value: &&Value| {
        value
            .as_str()
            .and_then(DagentSessionType::from_name)
            .is_some()
    };
    if let Some(unknown) = stated.filter(|value| !is_known(value)) {
        remarks.push(format!(
            "{path} has the unknown type {unknown}; used the other fields to determine the purpose"
        ));
    }
}
