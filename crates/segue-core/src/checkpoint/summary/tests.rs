use super::*;

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn open_item(id: u32, kind: ItemKind) -> Item {
    Item {
        id,
        kind,
        text: "write the docs".into(),
        subject: None,
        turn: 1,
        message: 0,
        by: Author::Record,
        weight: 1,
        pinned: false,
    }
}

#[test]
fn an_answer_is_found_in_whatever_stands_around_it() {
    let before = Checkpoint::default();
    let source = "we moved to src/db.rs";
    for answer in [
        r#"{"decisions": ["moved to src/db.rs"]}"#,
        "Here you are:\n```json\n{\"decisions\": [\"moved to src/db.rs\"]}\n```\nAnything else?",
        r#"{ not this } {"decisions": {"text": "moved to", "why": "src/db.rs"}}"#,
        r#"{"decisions": "moved to `src/db.rs`", "unknown": 3}"#,
    ] {
        let read = summary(answer, &before, source, 100, &words);
        let read = read.unwrap_or_else(|error| panic!("{error} in {answer}"));
        assert_eq!(read.stated.len(), 1, "{answer}");
    }
}

#[test]
fn what_is_wrong_with_an_answer_is_told() {
    let before = Checkpoint {
        items: vec![
            open_item(1, ItemKind::Pending),
            open_item(2, ItemKind::Directive),
            Item {
                pinned: true,
                ..open_item(3, ItemKind::Pending)
            },
        ],
        loop_state: None,
    };
    let long = format!(r#"{{"completed": ["{}"]}}"#, "x".repeat(601));
    let many = format!(r#"{{"completed": ["a b"{}]}}"#, r#", "a b""#.repeat(60));
    for (answer, expected) in [
        ("", Objection::NoObject),
        ("I did a lot today.", Objection::NoObject),
        (r#"{"completed": ["a""#, Objection::NoObject),
        ("[]", Objection::NoObject),
        (
            r#"{"completed": 3}"#,
            Objection::NotAList("completed".into()),
        ),
        (
            r#"{"completed": [null]}"#,
            Objection::NotAList("completed".into()),
        ),
        (r#"{"completed": [], "pending": []}"#, Objection::Nothing),
        (r#"{"completed": [" "]}"#, Objection::Nothing),
        (&long, Objection::TooMuch),
        (
            &many,
            Objection::TooLarge {
                tokens: 122,
                most: 100,
            },
        ),
        (
            r#"{"completed": ["wrote src/api.rs"]}"#,
            Objection::Invented("src/api.rs".into()),
        ),
        (
            r#"{"completed": ["ran `cargo nextest`"]}"#,
            Objection::Invented("cargo nextest".into()),
        ),
        (
            r#"{"completed": ["made parseInvoice quick"]}"#,
            Objection::Invented("parseInvoice".into()),
        ),
        (
            r#"{"completed": ["it listens on port 9,999"]}"#,
            Objection::Invented("9999".into()),
        ),
        (
            r#"{"completed": ["done"], "settled": [2]}"#,
            Objection::NotOpen(2),
        ),
        (
            r#"{"completed": ["done"], "settled": [3]}"#,
            Objection::NotOpen(3),
        ),
        (
            r#"{"completed": ["done"], "settled": [9]}"#,
            Objection::NotOpen(9),
        ),
        (
            r#"{"completed": ["done"], "settled": ["x"]}"#,
            Objection::NotAList("settled".into()),
        ),
    ] {
        let read = summary(answer, &before, "we ran cargo test", 100, &words);
        assert_eq!(read, Err(expected), "{answer}");
    }
    let read = summary(
        r#"{"completed": ["ran `cargo test`"], "settled": [1]}"#,
        &before,
        "we ran cargo test",
        100,
        &words,
    );
    assert_eq!(read.unwrap().settled, [1]);
}

#[test]
fn what_was_counted_need_not_be_said_and_a_number_may_be_grouped() {
    let before = Checkpoint::default();
    let counted = r#"{"completed": ["12 tests read 1,000 rows"]}"#;
    let read = summary(counted, &before, "all 1000 rows", 100, &words);
    assert_eq!(read.unwrap().stated.len(), 1);
}

fn item(id: u32, kind: ItemKind, text: &str) -> Item {
    Item {
        text: text.into(),
        ..open_item(id, kind)
    }
}

fn summed(stated: &[(ItemKind, &str)], settled: &[u32]) -> Summary {
    Summary {
        stated: stated
            .iter()
            .map(|(kind, text)| (*kind, (*text).to_owned()))
            .collect(),
        settled: settled.to_vec(),
    }
}

fn texts(checkpoint: &Checkpoint, kind: ItemKind) -> Vec<&str> {
    checkpoint.of(kind).map(|item| item.text.as_str()).collect()
}

#[test]
fn what_is_stated_is_added_and_what_is_settled_is_done() {
    let seen = Checkpoint {
        items: vec![
            item(1, ItemKind::Pending, "write the docs"),
            item(2, ItemKind::Pending, "fix the lexer"),
            item(3, ItemKind::Pending, "rename the crate"),
        ],
        loop_state: None,
    };
    // Since the summariser received `seen`, one item was pinned, one has another text, and one was added.
    let mut to = seen.clone();
    to.items[1].pinned = true;
    to.items[2].text = "drop the crate".into();
    to.items.push(item(4, ItemKind::Directive, "no panics"));
    let stated = [
        (ItemKind::Decision, "SQLite, since it is one file"),
        // A statement with the text of an open item does not settle that item.
        (ItemKind::Done, "drop the crate from the docs today"),
    ];
    let after = summed(&stated, &[1, 2, 3]).applied(&seen, &to, 9, 1_000, &words);
    assert_eq!(
        texts(&after, ItemKind::Pending),
        ["fix the lexer", "drop the crate"]
    );
    assert_eq!(
        texts(&after, ItemKind::Done),
        ["write the docs", "drop the crate from the docs today"]
    );
    assert_eq!(texts(&after, ItemKind::Decision), [stated[0].1]);
    assert_eq!(texts(&after, ItemKind::Directive), ["no panics"]);
    let pinned: Vec<u32> = after
        .items
        .iter()
        .filter(|item| item.pinned)
        .map(|item| item.id)
        .collect();
    assert_eq!(pinned, [2]);
}

#[test]
fn what_is_stated_as_done_settles_nothing_later_on_either() {
    let before = Checkpoint {
        items: vec![item(1, ItemKind::Pending, "write docs for parser errors")],
        loop_state: None,
    };
    let stated = [(ItemKind::Done, "docs for parser errors written")];
    let after = summed(&stated, &[]).applied(&before, &before, 9, 1_000, &words);
    let later = merge(&after, Vec::new(), 1_000, &words);
    assert_eq!(
        texts(&later, ItemKind::Pending),
        ["write docs for parser errors"]
    );
}

#[test]
fn without_room_only_what_tells_least_gives_way() {
    let kinds = [
        ItemKind::Goal,
        ItemKind::Directive,
        ItemKind::Decision,
        ItemKind::Attempt,
        ItemKind::File,
        ItemKind::Blocker,
        ItemKind::Pending,
        ItemKind::Request,
    ];
    let mut to = Checkpoint {
        items: (1..)
            .zip(kinds)
            .map(|(id, kind)| item(id, kind, &format!("one of kind {}", kind.as_str())))
            .collect(),
        loop_state: None,
    };
    to.items
        .push(item(20, ItemKind::Note, "by the way it rained"));
    let stated: Vec<(ItemKind, String)> = (0..20)
        .map(|n| (ItemKind::Decision, format!("number {n} of many decisions")))
        .collect();
    let summary = Summary {
        stated,
        settled: Vec::new(),
    };
    for room in [0, 40, 80] {
        let after = summary.applied(&to, &to, 9, room, &words);
        for kind in kinds {
            let text = format!("one of kind {}", kind.as_str());
            assert!(
                texts(&after, kind).contains(&text.as_str()),
                "{text}, {room}"
            );
        }
    }
}

#[test]
fn what_a_later_part_settles_of_an_earlier_one_is_not_stated() {
    let mut all = summed(
        &[(ItemKind::Pending, "run it"), (ItemKind::Done, "built")],
        &[1],
    );
    let known = all.applied(
        &Checkpoint::default(),
        &Checkpoint::default(),
        2,
        1_000,
        &words,
    );
    let open = known.of(ItemKind::Pending).next().unwrap().id;
    let later = summed(&[(ItemKind::Done, "ran it")], &[open]);
    all.and(later, &known);
    let stated: Vec<&str> = all.stated.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(stated, ["built", "ran it"]);
}
