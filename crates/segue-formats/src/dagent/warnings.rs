//! Remarks about invalid values in the files. An invalid value never prevents reading the others.

use serde_json::{Map, Value};

use super::session_type::Kind;
use crate::json_fields::{self, map, text};

type Object = Map<String, Value>;

/// Adds a remark for each link to sessions that has the wrong type, in `feature.json` or `task.json`.
pub(super) fn links(path: &str, feature: &Object, task: &Object, remarks: &mut Vec<String>) {
    let mut expect = |file: &str, what: &str, value: Option<&Value>, wanted: &Value| {
        let odd = value.filter(|value| {
            !value.is_null() && json_fields::kind(value) != json_fields::kind(wanted)
        });
        remarks.extend(odd.map(|value| {
            let (found, wanted) = (json_fields::kind(value), json_fields::kind(wanted));
            format!("{file} has {found} for {what}, not {wanted}")
        }));
    };
    if path.is_empty() {
        let pointed = feature.get("sessionId");
        expect("feature.json", "sessionId", pointed, &"".into());
        return;
    }
    let file = format!("{path}task.json");
    let object = Object::new().into();
    expect(&file, "states", task.get("states"), &object);
    for (state, value) in map(task, "states").into_iter().flatten() {
        expect(&file, &format!("state {state}"), Some(value), &object);
        let ids = format!("sessionIds of {state}");
        let list = value.get("sessionIds");
        expect(&file, &ids, list, &Vec::<Value>::new().into());
        for id in list.and_then(Value::as_array).into_iter().flatten() {
            expect(&file, &format!("one of the {ids}"), Some(id), &"".into());
        }
    }
}

/// Adds a remark for each file whose `sessionId` differs from the id in its name.
pub(super) fn claims(id: &str, files: &[(&str, &Object)], remarks: &mut Vec<String>) {
    for (path, file) in files {
        let own = text(file, &["sessionId"]).filter(|own| *own != id);
        remarks.extend(own.map(|own| {
            format!(
                "{path} says that it is of session {own:?}; the name of the file is what counts"
            )
        }));
    }
}

/// Adds a remark if the session type is unknown.
pub(super) fn kind(path: &str, context: &Object, remarks: &mut Vec<String>) {
    let stated = context.get("type").filter(|value| !value.is_null());
    let known = |value: &&Value| value.as_str().and_then(Kind::from_name).is_some();
    if let Some(odd) = stated.filter(|value| !known(value)) {
        remarks.push(format!(
            "{path} has {odd} for a type, which nobody knows; what it is for is told by the rest"
        ));
    }
}
