use super::*;

fn task_summary(id: &str, title: &str, status: Option<&str>) -> TaskSummary {
    TaskSummary {
        id: id.into(),
        title: title.into(),
        status: status.map(str::to_owned),
        description: None,
    }
}

fn full_context() -> ProjectContext {
    ProjectContext {
        structure: ProjectStructure {
            src_dirs: vec!["src".into(), "crates/a/src".into()],
            config_files: vec!["Cargo.toml".into()],
            has_tests: true,
            has_docs: false,
        },
        documents: vec![Document {
            name: "CLAUDE.md".into(),
            text: "Use tabs.\n".into(),
            size: 90_000,
        }],
        commits: vec![Commit {
            hash: "abc1234".into(),
            message: "fix the login".into(),
            author: "Ann".into(),
            date: "2026-11-16T10:00:00+01:00".into(),
        }],
        feature: Some(FeatureContext {
            name: "Login".into(),
            spec: Some(Document {
                name: "feature-spec.md".into(),
                text: "People log in.\n".into(),
                size: 15,
            }),
            tasks: vec![
                task_summary("form", "The form", Some("in_progress")),
                TaskSummary {
                    description: Some("\nStore it.\nMore.".into()),
                    ..task_summary("db", "db", None)
                },
            ],
            more_tasks: 3,
        }),
        task: Some(TaskContext {
            title: "The form".into(),
            description: "Two fields and a button.".into(),
            dependencies: vec![task_summary("db", "db", Some("completed"))],
            dependents: vec![task_summary("ship", "Ship it", None)],
        }),
        notes: vec!["cannot read PROJECT.md".into()],
    }
}

#[test]
fn a_context_is_rendered_in_sections() {
    let expected = "\
# Project
Sources: src, crates/a/src
Configuration: Cargo.toml
Tests: yes; documentation: none

# Recent commits
- abc1234 2026-11-16 fix the login (Ann)

# CLAUDE.md
Use tabs.
(truncated: the first 10 of 90000 bytes; read CLAUDE.md for the complete text)

# Feature Login
People log in.
Tasks:
- form [in_progress] The form
- db: Store it.
- and 3 more

# Task The form
Two fields and a button.
Depends on:
- db [completed]
Required by:
- ship Ship it

# Missing information
- cannot read PROJECT.md
";
    assert_eq!(full_context().render(), expected);
    assert_eq!(ProjectContext::default().render(), "");
}

#[test]
fn an_encoded_context_decodes_to_the_same_context() {
    let sources = vec![ContextSource {
        name: "HEAD".into(),
        stamp: "abc".into(),
    }];
    for context in [full_context(), ProjectContext::default()] {
        let (decoded, decoded_sources) =
            decode_context(&encode_context(&context, &sources)).unwrap();
        assert_eq!((decoded, &decoded_sources), (context, &sources));
    }
    for invalid in ["", "{}", "[]", r#"{"v":2}"#] {
        assert!(decode_context(invalid).is_err(), "{invalid}");
    }
    let newer = encode_context(&full_context(), &[]).replacen("\"v\":1", "\"v\":9", 1);
    let error = decode_context(&newer).unwrap_err().to_string();
    assert_eq!(error, "invalid project context: version 9 is not supported");
}

#[test]
fn changed_added_and_removed_sources_are_listed() {
    let source = |text: &str| {
        let (name, stamp) = text.split_once('=').unwrap();
        ContextSource {
            name: name.into(),
            stamp: stamp.into(),
        }
    };
    for (before, now, changed) in [
        (&["a=1", "b=1"][..], &["a=1", "b=1"][..], &[][..]),
        (&["a=1", "b=1"], &["b=1", "a=1"], &[]),
        (&["a=1"], &["a=2"], &["a"]),
        (&["a=1"], &["a=1", "b=1"], &["b"]),
        (&["a=1", "b=1"], &["a=1"], &["b"]),
        (&[], &[], &[]),
    ] {
        let parse_sources = |texts: &[&str]| -> Vec<ContextSource> {
            texts.iter().map(|text| source(text)).collect()
        };
        assert_eq!(
            changed_sources(&parse_sources(before), &parse_sources(now)),
            changed,
            "{before:?} {now:?}"
        );
    }
}

#[test]
fn a_long_text_is_cut_after_a_line() {
    for (text, max_bytes, expected) in [
        ("short", 10, "short"),
        ("one\ntwo\nthree", 10, "one\ntwo\n"),
        ("one\ntwo\n", 8, "one\ntwo\n"),
        // A single long line is cut at the limit, but never within a character.
        ("äöü", 3, "ä"),
        ("a\nbbbbbbbbbbbbbbbb", 10, "a\nbbbbbbbb"),
        ("anything", 0, ""),
    ] {
        assert_eq!(excerpt(text, max_bytes), expected, "{text:?} {max_bytes}");
    }
}
