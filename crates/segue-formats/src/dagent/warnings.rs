//! Remarks about invalid values in the files. An invalid value never prevents reading the others.

use serde_json::{Map, Value};

use super::session_type::DagentSessionType;
use crate::json_fields::{describe_type, object_field, string_field};

type Object = Map<String, Value>;

/// Adds a remark for each link to sessions that has the wrong type, in `feature.json` or `task.json`.
pub(super) fn check_links(path: &str, feature: &Object, task: &Object, remarks: &mut Vec<String>) {
    let mut check_type = |file: &str, field: &str, value: Option<&Value>, wanted: &Value| {
        let (actual, wanted) = (value.map_or("null", describe_type), describe_type(wanted));
        if actual != "null" && actual != wanted {
            remarks.push(format!("{file}: {field} is {actual}, not {wanted}"));
        }
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

/// Adds a remark if the `sessionId` in a file differs from the id in its name.
pub(super) fn check_session_id(id: &str, path: &str, file: &Object, remarks: &mut Vec<String>) {
    if let Some(stated_id) = string_field(file, &["sessionId"]).filter(|stated| *stated != id) {
        remarks.push(format!(
            "{path} names session {stated_id:?}; used the session id in the file name"
        ));
    }
}

/// Adds a remark if the session type is unknown.
pub(super) fn check_session_type(path: &str, context: &Object, remarks: &mut Vec<String>) {
    let stated = context.get("type").filter(|value| !value.is_null());
    let is_unknown = |value: &&Value| {
        let session_type = value.as_str().and_then(DagentSessionType::from_name);
        session_type.is_none()
    };
    if let Some(unknown) = stated.filter(is_unknown) {
        remarks.push(format!(
            "{path} has the unknown type {unknown}; used the other fields to determine the purpose"
        ));
    }
}
