use std::fs;

use segue_core::id::FeatureId;
use segue_core::scope::{TaskId, TaskState};

use super::*;

fn write_files(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn context_inputs(root: &Path, scope: Scope) -> ContextInputs {
    ContextInputs {
        cwd: root.to_owned(),
        root: root.to_owned(),
        scope,
        commits: Ok(Vec::new()),
        max_document_bytes: 48 * 1024,
    }
}

fn feature_scope(name: &str) -> Scope {
    Scope::Feature(FeatureId::parse(name).unwrap())
}

fn task_scope(feature: Option<&str>, name: &str) -> Scope {
    Scope::Task {
        feature: feature.map(|name| FeatureId::parse(name).unwrap()),
        task: TaskId::parse(name).unwrap(),
        state: TaskState::parse("in_dev").unwrap(),
    }
}

const DAG_JSON: &str = r#"{
    "nodes": [
        {"id": "db", "title": "The tables", "status": "completed"},
        {"id": "form", "title": "The form", "description": "Two fields.", "status": "ready_for_dev"},
        {"id": "ship", "title": "Ship it", "dependencies": ["form", "sign"], "status": 7},
        {"title": "has no id"}, 3
    ],
    "connections": [{"from": "db", "to": "form"}, {"from": "form", "to": "ship"}, {"from": "form"}, null]
}"#;

#[test]
fn the_structure_of_a_project_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write_files(
        root,
        &[
            ("Cargo.toml", ""),
            ("Cargo.lock", ""),
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/deep/more.rs", ""),
            ("crates/a/tests/it.rs", ""),
            ("node_modules/x/index.js", ""),
            (".hidden/y.rs", ""),
            ("scripts/build.py", ""),
        ],
    );
    let (structure, is_complete) = structure::read_structure(root);
    assert_eq!(
        (structure, is_complete),
        (
            segue_core::brief::ProjectStructure {
                src_dirs: vec!["scripts".into(), "crates/a/src".into()],
                config_files: vec!["Cargo.toml".into()],
                has_tests: true,
                has_docs: true,
            },
            true
        )
    );
    assert_eq!(
        structure::read_structure(&root.join("missing")),
        (segue_core::brief::ProjectStructure::default(), true)
    );
    for n in 0..6_000 {
        fs::write(root.join(format!("scripts/{n}.txt")), "").unwrap();
    }
    assert!(
        !structure::read_structure(root).1,
        "the number of names that are read is limited"
    );
}

#[test]
fn documents_are_cut_to_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let line = "Use tabs and be kind.\n";
    write_files(
        root,
        &[
            ("CLAUDE.md", &line.repeat(10_000)),
            ("PROJECT.md", " \n"),
            ("sub/AGENTS.md", "In here, use blanks."),
        ],
    );
    std::os::unix::fs::symlink("CLAUDE.md", root.join("AGENTS.md")).unwrap();
    fs::create_dir(root.join("GEMINI.md")).unwrap();
    // UTF-16, which some editors write.
    fs::write(root.join("sub/CLAUDE.md"), b"\xff\xfeU\0s\0e\0").unwrap();
    let mut inputs = context_inputs(root, Scope::Project);
    inputs.cwd = root.join("sub");
    let mut notes = Vec::new();
    let documents = documents::read_documents(
        &inputs,
        &mut documents::DocumentBudget::new(inputs.max_document_bytes),
        &mut notes,
    );
    let summaries: Vec<_> = documents
        .iter()
        .map(|document| {
            (
                document.name.as_str(),
                document.text.len(),
                document.is_truncated(),
            )
        })
        .collect();
    assert_eq!(
        summaries,
        [
            ("CLAUDE.md", 24 * 1024 / line.len() * line.len(), true),
            ("AGENTS.md", "The same as CLAUDE.md.\n".len(), false),
            ("sub/AGENTS.md", 20, false)
        ]
    );
    assert_eq!(
        notes,
        [
            "cannot read GEMINI.md: not a regular file",
            "cannot read sub/CLAUDE.md: not UTF-8 text"
        ]
    );
}

#[test]
fn a_feature_is_read_from_every_supported_directory() {
    for home in [
        ".dagent-worktrees/auth/.dagent",
        ".dagent-worktrees/pool-1/.dagent/features/auth",
        ".dagent/features/backlog/auth",
        ".dagent",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let file = |name: &str| format!("{home}/{name}");
        write_files(
            root,
            &[
                (&file("feature.json"), r#"{"id": "auth", "name": "Log in"}"#),
                (&file("feature-spec.md"), "People log in.\n"),
                (&file("dag.json"), DAG_JSON),
                (
                    &file("nodes/form/task.json"),
                    r#"{"currentState": "in_dev", "states": {}}"#,
                ),
            ],
        );
        let inputs = context_inputs(root, task_scope(Some("auth"), "form"));
        let context = build_context(&inputs);
        let text = context.render();
        let (_, feature_text) = text.split_once("# Feature").unwrap();
        assert_eq!(
            feature_text,
            " Log in\nPeople log in.\nTasks:\n- db [completed] The tables\n- form [in_dev] The form: Two fields.\n\
             - ship Ship it\n\n# Task The form\nTwo fields.\nDepends on:\n- db [completed] The tables\n\
             Required by:\n- ship Ship it\n",
            "{home}"
        );
    }
}

#[test]
fn a_context_survives_missing_and_broken_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let without_files =
        build_context(&context_inputs(root, task_scope(Some("auth"), "form"))).render();
    assert_eq!(without_files, "# Feature auth\n\n# Task form\n");
    write_files(
        root,
        &[
            (".dagent/dag.json", "{ broken"),
            (
                ".dagent/nodes/form/task.json",
                r#"{"title": "The form", "dependencies": ["gone"]}"#,
            ),
        ],
    );
    let context = build_context(&context_inputs(root, task_scope(None, "form")));
    assert_eq!(context.feature, None);
    assert!(
        context.notes[0].starts_with("cannot read dag.json: "),
        "{:?}",
        context.notes
    );
    let text = context.render();
    assert!(
        text.starts_with("# Task The form\nDepends on:\n- gone\n"),
        "{text}"
    );
    // A feature's name must not lead out of the directory.
    write_files(root, &[("other/.dagent/feature-spec.md", "secret")]);
    let inside = root.join("inside");
    fs::create_dir(&inside).unwrap();
    for name in ["..", ".", ".hidden"] {
        let Ok(id) = FeatureId::parse(name) else {
            continue;
        };
        let rendered = build_context(&context_inputs(&inside, Scope::Feature(id))).render();
        assert!(!rendered.contains("secret"), "{rendered}");
    }
}

#[test]
fn sources_change_with_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write_files(root, &[(".dagent/features/auth/feature-spec.md", "One.")]);
    let mut inputs = context_inputs(root, feature_scope("auth"));
    let before = collect_sources(&inputs);
    assert_eq!(collect_sources(&inputs), before);
    let list_changed =
        |current: &ContextInputs| changed_sources(&before, &collect_sources(current));
    fs::write(
        root.join(".dagent/features/auth/feature-spec.md"),
        "Two, longer.",
    )
    .unwrap();
    assert_eq!(list_changed(&inputs), ["feature-spec.md"]);
    fs::write(root.join("CLAUDE.md"), "Be kind.").unwrap();
    let changes = list_changed(&inputs);
    assert!(changes.contains(&"CLAUDE.md".to_owned()), "{changes:?}");
    inputs.commits = Err("cannot run git".to_owned());
    let changes = list_changed(&inputs);
    assert!(changes.contains(&"HEAD".to_owned()), "{changes:?}");
}
