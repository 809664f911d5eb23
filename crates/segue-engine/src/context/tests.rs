use std::fs;

use segue_core::id::FeatureId;
use segue_core::scope::{TaskId, TaskState};

use super::*;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn place(root: &Path, scope: Scope) -> Place {
    Place {
        cwd: root.to_owned(),
        root: root.to_owned(),
        scope,
        commits: Ok(Vec::new()),
        room: 48 * 1024,
    }
}

fn feature(name: &str) -> Scope {
    Scope::Feature(FeatureId::parse(name).unwrap())
}

fn task(feature: Option<&str>, name: &str) -> Scope {
    Scope::Task {
        feature: feature.map(|name| FeatureId::parse(name).unwrap()),
        task: TaskId::parse(name).unwrap(),
        state: TaskState::parse("in_dev").unwrap(),
    }
}

const DAG: &str = r#"{
    "nodes": [
        {"id": "db", "title": "The tables", "status": "completed"},
        {"id": "form", "title": "The form", "description": "Two fields.", "status": "ready_for_dev"},
        {"id": "ship", "title": "Ship it", "dependencies": ["form", "sign"], "status": 7},
        {"title": "has no id"}, 3
    ],
    "connections": [{"from": "db", "to": "form"}, {"from": "form", "to": "ship"}, {"from": "form"}, null]
}"#;

#[test]
fn a_project_is_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(
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
    let (structure, all) = structure::survey(root);
    assert_eq!(
        (structure, all),
        (
            segue_core::brief::Structure {
                src_dirs: vec!["scripts".into(), "crates/a/src".into()],
                config_files: vec!["Cargo.toml".into()],
                has_tests: true,
                has_docs: true,
            },
            true
        )
    );
    assert_eq!(
        structure::survey(&root.join("nowhere")),
        (segue_core::brief::Structure::default(), true)
    );
    for n in 0..6_000 {
        fs::write(root.join(format!("scripts/{n}.txt")), "").unwrap();
    }
    assert!(!structure::survey(root).1, "nobody looks at all of it");
}

#[test]
fn documents_are_told_as_far_as_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let line = "Use tabs and be kind.\n";
    write(
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
    let mut place = place(root, Scope::Project);
    place.cwd = root.join("sub");
    let mut notes = Vec::new();
    let found = documents::read(&place, &mut documents::Room::of(place.room), &mut notes);
    let told: Vec<_> = found
        .iter()
        .map(|document| {
            (
                document.name.as_str(),
                document.text.len(),
                document.is_cut(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("CLAUDE.md", 24 * 1024 / line.len() * line.len(), true),
            ("AGENTS.md", "The same as CLAUDE.md.\n".len(), false),
            ("sub/AGENTS.md", 20, false)
        ]
    );
    assert_eq!(
        notes,
        [
            "GEMINI.md can't be read: it is no file",
            "sub/CLAUDE.md can't be read: it is no text in UTF-8"
        ]
    );
}

#[test]
fn a_feature_is_read_wherever_it_is_kept() {
    for home in [
        ".dagent-worktrees/auth/.dagent",
        ".dagent-worktrees/pool-1/.dagent/features/auth",
        ".dagent/features/backlog/auth",
        ".dagent",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let file = |name: &str| format!("{home}/{name}");
        write(
            root,
            &[
                (&file("feature.json"), r#"{"id": "auth", "name": "Log in"}"#),
                (&file("feature-spec.md"), "People log in.\n"),
                (&file("dag.json"), DAG),
                (
                    &file("nodes/form/task.json"),
                    r#"{"currentState": "in_dev", "states": {}}"#,
                ),
            ],
        );
        let place = place(root, task(Some("auth"), "form"));
        let context = gather(&place);
        let told = context.written();
        let (_, told) = told.split_once("# The feature").unwrap();
        assert_eq!(
            told,
            " Log in\nPeople log in.\nIts tasks:\n- db [completed] The tables\n- form [in_dev] The form: Two fields.\n\
             - ship Ship it\n\n# The task The form\nTwo fields.\nIt depends on:\n- db [completed] The tables\n\
             What waits for it:\n- ship Ship it\n",
            "{home}"
        );
    }
}

#[test]
fn what_is_missing_or_broken_is_told_as_far_as_it_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let by_name = gather(&place(root, task(Some("auth"), "form"))).written();
    assert_eq!(by_name, "# The feature auth\n\n# The task form\n");
    write(
        root,
        &[
            (".dagent/dag.json", "{ broken"),
            (
                ".dagent/nodes/form/task.json",
                r#"{"title": "The form", "dependencies": ["gone"]}"#,
            ),
        ],
    );
    let context = gather(&place(root, task(None, "form")));
    assert_eq!(context.feature, None);
    assert!(
        context.notes[0].starts_with("dag.json can't be read: "),
        "{:?}",
        context.notes
    );
    let told = context.written();
    assert!(
        told.starts_with("# The task The form\nIt depends on:\n- gone\n"),
        "{told}"
    );
    // A feature's name must not lead out of the directory.
    write(root, &[("other/.dagent/feature-spec.md", "secret")]);
    let inside = root.join("inside");
    fs::create_dir(&inside).unwrap();
    for name in ["..", ".", ".hidden"] {
        let Ok(id) = FeatureId::parse(name) else {
            continue;
        };
        let told = gather(&place(&inside, Scope::Feature(id))).written();
        assert!(!told.contains("secret"), "{told}");
    }
}

#[test]
fn sources_change_with_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, &[(".dagent/features/auth/feature-spec.md", "One.")]);
    let mut place = place(root, feature("auth"));
    let before = sources(&place);
    assert_eq!(sources(&place), before);
    let changed = |place: &Place| changed_sources(&before, &sources(place));
    fs::write(
        root.join(".dagent/features/auth/feature-spec.md"),
        "Two, longer.",
    )
    .unwrap();
    assert_eq!(changed(&place), ["feature-spec.md"]);
    fs::write(root.join("CLAUDE.md"), "Be kind.").unwrap();
    let now = changed(&place);
    assert!(now.contains(&"CLAUDE.md".to_owned()), "{now:?}");
    place.commits = Err("git can't be run".to_owned());
    let now = changed(&place);
    assert!(now.contains(&"HEAD".to_owned()), "{now:?}");
}
