//! The schemas in `docs/schema` are those of the types.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports a failure with a panic"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use segue_api::schema::{SCHEMAS, find_schema};
use serde_json::{Value, json};

/// Environment variable that makes the test write the schemas instead of comparing them.
const UPDATE_VARIABLE: &str = "UPDATE_SCHEMAS";

fn schema_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let directory = schema_directory();
    let is_update = std::env::var_os(UPDATE_VARIABLE).is_some();
    if is_update {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
    }
    let mut expected_files = BTreeSet::new();
    for schema in SCHEMAS {
        let name = format!("{}.json", schema.name);
        let text = serde_json::to_string_pretty(&schema.schema()).unwrap() + "\n";
        let path = directory.join(&name);
        if is_update {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/schema/{name} is out of date; run `{UPDATE_VARIABLE}=1 cargo test -p segue-api`, \
             and check that the change is compatible"
        );
        expected_files.insert(name);
    }
    let files = fs::read_dir(&directory).unwrap().flatten();
    let files: BTreeSet<String> = files
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, expected_files);
}

#[test]
fn names_are_sorted_unique_and_in_kebab_case() {
    let names: Vec<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
    for name in names {
        let is_kebab = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(is_kebab, "{name}");
    }
}

/// Appends the path of each property without a description.
fn find_undescribed(schema: &Value, path: &str, undescribed: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        return;
    };
    for (key, value) in fields {
        let path = format!("{path}/{key}");
        if let ("properties", Value::Object(properties)) = (key.as_str(), value) {
            // A variant with one field has the description of the field.
            let is_variant = properties.len() == 1 && fields.contains_key("description");
            for (name, property) in properties {
                let is_described = property.get("description").is_some()
                    // The tag of a variant has a constant value.
                    || property.get("const").is_some()
                    || is_variant;
                if !is_described {
                    undescribed.push(format!("{path}/{name}"));
                }
                find_undescribed(property, &format!("{path}/{name}"), undescribed);
            }
        } else if let Value::Array(items) = value {
            for item in items {
                find_undescribed(item, &path, undescribed);
            }
        } else {
            find_undescribed(value, &path, undescribed);
        }
    }
}

#[test]
fn every_field_has_a_description_and_no_object_is_closed() {
    for schema in SCHEMAS {
        let value = schema.schema().to_value();
        let mut undescribed = Vec::new();
        find_undescribed(&value, schema.name, &mut undescribed);
        assert_eq!(undescribed, Vec::<String>::new());
        // A later version may add fields, so a validator must accept them.
        assert!(!value.to_string().contains("ties\":false"), "{value:#}");
    }
}

#[test]
fn a_field_without_a_type_is_lost_and_null_is_not_absent() {
    let read_and_write = |name: &str, output: Value| {
        let schema = find_schema(name).unwrap();
        schema.read_and_write(output).unwrap()
    };
    let id = "20251207_143022_k3f9";
    let output = json!({ "forgotten": id, "new": 1 });
    assert_eq!(read_and_write("forget", output), json!({ "forgotten": id }));
    let output = json!({ "path": "/x", "sessions": null, "bytes": null });
    assert_eq!(
        read_and_write("index-status", output),
        json!({ "path": "/x", "sessions": null })
    );
}

/// Returns the rows of the tables in `docs/json.md` that contain a name in backticks.
fn documented_rows<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
    let cell = format!("| `{name}` |");
    let rows = document.lines().filter(|line| line.starts_with('|'));
    rows.filter(|line| line.contains(&cell)).collect()
}

#[test]
fn every_decision_step_and_hint_is_documented_with_its_fields() {
    let path = schema_directory().join("../json.md");
    let document = fs::read_to_string(path).unwrap();
    let schema = find_schema("chat").unwrap().schema().to_value();
    let definitions = &schema["$defs"];
    for (definition, tag) in [
        ("DecisionLine", "decision"),
        ("ExplainedStep", "result"),
        ("OpenReason", "type"),
        ("Hint", "hint"),
    ] {
        for variant in definitions[definition]["oneOf"].as_array().unwrap() {
            let mut fields = variant["properties"].as_object().unwrap().clone();
            let name = fields.remove(tag).unwrap()["const"].clone();
            let name = name.as_str().unwrap();
            // A variant that contains a struct has the fields of the struct.
            if let Some(reference) = variant["$ref"].as_str() {
                let referenced = &definitions[reference.rsplit('/').next().unwrap()];
                fields.extend(referenced["properties"].as_object().unwrap().clone());
            }
            let has_all_fields = |row: &&str| {
                let mut names = fields.keys();
                names.all(|field| row.contains(&format!("`{field}`")))
            };
            let rows = documented_rows(&document, name);
            assert!(
                rows.iter().any(has_all_fields),
                "docs/json.md lacks a row for `{name}` with {:?}",
                fields.keys()
            );
        }
    }
}
