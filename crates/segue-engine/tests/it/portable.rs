//! Sessions of other programs are imported, continued and exported.

use jiff::Timestamp;
use segue_core::checkpoint::{Author, Checkpoint, Item, ItemKind};
use segue_core::id::SessionId;
use segue_core::session::{Project, Role};
use segue_engine::{Import, Target};
use segue_formats::{Kept, Line, Portable, Recap};

use crate::scripted::Stage;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn project() -> Project {
    Project {
        key: "/src/app/.git".into(),
        cwd: "/src/app".into(),
    }
}

fn line(role: Role, words: &str, second: i64) -> Line {
    Line {
        id: format!("m{second}"),
        at: at(second),
        timed: true,
        role,
        words: words.into(),
        tokens: Some(1000),
        rest: serde_json::Map::new(),
        as_it_came: true,
    }
}

fn came(lines: Vec<Line>) -> Portable {
    let rule = Item {
        id: 1,
        kind: ItemKind::Directive,
        text: "never touch the migrations".into(),
        subject: None,
        turn: 0,
        message: 0,
        by: Author::Summary,
        weight: 100,
        pinned: false,
    };
    let mut session = Portable {
        name: "3f2a".into(),
        title: None,
        purpose: None,
        provider: None,
        tags: Vec::new(),
        created_at: at(0),
        updated_at: at(90),
        past: Vec::new(),
        lines,
        recap: Some(Recap {
            checkpoint: Checkpoint {
                items: vec![rule],
                loop_state: None,
            },
            version: 7,
            created_at: at(-50),
            updated_at: at(-10),
            tokens: 11,
            replaced: Some(500),
            saved: 4000,
            as_it_came: true,
        }),
        role: None,
        context: None,
        kept: Kept::default(),
    };
    let figures = serde_json::json!({
        "checkpoint": { "version": 7, "createdAt": at(-50).to_string(),
            "tokens": { "checkpoint": 11, "lastCompactionInput": 500, "totalSaved": 4000 } },
    });
    session.kept = serde_json::from_value(figures).unwrap();
    session
}

async fn import(stage: &Stage, session: &Portable) -> SessionId {
    match stage
        .engine
        .import(session, "dagent", &project(), None)
        .await
    {
        Ok(Import::Done(session, _)) => session.id,
        other => panic!("{other:?}"),
    }
}

fn prompts(stage: &Stage) -> Vec<String> {
    stage.agent.heard.lock().unwrap().prompts.clone()
}

#[tokio::test]
async fn what_came_is_told_to_the_agent_that_goes_on() {
    let stage = Stage::new();
    let said = vec![
        line(Role::Assistant, "shall I?", 1),
        line(Role::User, "yes", 2),
        line(Role::Assistant, "the login works", 3),
    ];
    let id = import(&stage, &came(said)).await;
    let turns = stage.engine.session(&id).await.unwrap().turns;
    assert_eq!(turns, 2, "what the agent says first is a turn of its own");
    assert!(prompts(&stage).is_empty(), "nobody was asked");
    let next = stage.turn("go on", Target::Session(id.clone())).await;
    assert_eq!(next.turn, 3);
    let told = prompts(&stage).remove(0);
    for words in [
        "> shall I?",
        "> the login works",
        "never touch the migrations",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(told.ends_with("go on"));
}

#[tokio::test]
async fn a_checkpoint_without_messages_is_told_too() {
    let stage = Stage::new();
    let id = import(&stage, &came(Vec::new())).await;
    stage.turn("go on", Target::Session(id.clone())).await;
    let told = prompts(&stage).remove(0);
    assert!(told.contains("never touch the migrations"), "{told}");
    // The note that segue added is not exported.
    let session = stage.engine.session(&id).await.unwrap();
    let going = stage.engine.export(session).await.unwrap().session;
    let words: Vec<&str> = going.lines.iter().map(|line| line.words.as_str()).collect();
    assert_eq!((going.past.len(), words.first()), (0, Some(&"go on")));
}

#[tokio::test]
async fn versions_and_savings_count_on() {
    let stage = Stage::new();
    let said = vec![
        line(Role::User, "add the login form to src/login.rs", 1),
        line(Role::Assistant, "I added it, and the tests pass", 2),
    ];
    let id = import(&stage, &came(said)).await;
    let export = async || {
        let session = stage.engine.session(&id).await.unwrap();
        stage.engine.export(session).await.unwrap().session
    };
    let before = export().await;
    let recap = before.recap.unwrap();
    assert_eq!((recap.version, recap.tokens, recap.saved), (7, 11, 4000));
    assert_eq!((recap.created_at, recap.updated_at), (at(-50), at(-10)));
    assert_eq!((before.name.as_str(), before.past.len()), ("3f2a", 0));
    assert_eq!(
        (before.lines[1].id.as_str(), before.lines[1].tokens),
        ("m2", Some(1000))
    );

    let session = stage.engine.session(&id).await.unwrap();
    let compacted = stage.engine.compact(&session).await.unwrap();
    let (version, _) = compacted.made.unwrap();
    let after = export().await;
    let recap = after.recap.unwrap();
    assert_eq!((recap.version, recap.tokens), (8, version.tokens));
    // A checkpoint with more tokens than it replaces reduces the savings, in the export as in the view.
    assert_eq!(recap.saved, 4000 + version.replaced - version.tokens);
    let session = stage.engine.session(&id).await.unwrap();
    let shown = stage.engine.checkpoint(&session, None).await.unwrap();
    assert_eq!(recap.saved, shown.total_saved);
    assert_eq!((after.past.len(), after.lines.len()), (2, 0));
    assert_eq!(after.past[1].id, "m2");
}

#[tokio::test]
async fn the_same_comes_once_and_nothing_is_nothing() {
    let stage = Stage::new();
    let id = import(&stage, &came(Vec::new())).await;
    let own = Portable {
        name: id.to_string(),
        ..came(Vec::new())
    };
    for known in [came(Vec::new()), own] {
        let again = stage
            .engine
            .import(&known, "dagent", &project(), None)
            .await;
        assert!(matches!(again, Ok(Import::Already(there)) if there == id));
    }
    let empty = Portable {
        name: "empty".into(),
        recap: None,
        ..came(Vec::new())
    };
    let none = stage
        .engine
        .import(&empty, "dagent", &project(), None)
        .await;
    assert!(matches!(none, Ok(Import::Nothing)));
}
