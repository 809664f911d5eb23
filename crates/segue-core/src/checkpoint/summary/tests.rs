use super::*;

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn open_item(id: u32, kind: ItemKind) -> CheckpointItem {
    CheckpointItem {
        id,
        kind,
        text: "write the docs".into(),
        subject: None,
        turn: 1,
        message_index: 0,
        author: ItemAuthor::Extraction,
        weight: 1,
        pinned: false,
    }
}

#[test]
fn an_answer_is_found_within_surrounding_text() {
    let before = Checkpoint::default();
    let source = "we moved to src/db.rs";
    for answer in [
        r#"{"decisions": ["moved to src/db.rs"]}"#,
        "Here you are:\n```json\n{\"decisions\": [\"moved to src/db.rs\"]}\n```\nAnything else?",
        r#"{ not this } {"decisions": {"text": "moved to", "why": "src/db.rs"}}"#,
        r#"{"decisions": "moved to `src/db.rs`", "unknown": 3}"#,
    ] {
        let parsed = parse_summary(answer, &before, source, 100, &count_words);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error} in {answer}"));
        assert_eq!(parsed.statements.len(), 1, "{answer}");
    }
}

#[test]
fn an_invalid_answer_is_rejected_with_its_error() {
    let before = Checkpoint {
        items: vec![
            open_item(1, ItemKind::Pending),
            open_item(2, ItemKind::Directive),
            CheckpointItem {
                pinned: true,
                ..open_item(3, ItemKind::Pending)
            },
        ],
        loop_state: None,
    };
    let long = format!(r#"{{"completed": ["{}"]}}"#, "x".repeat(601));
    let many = format!(r#"{{"completed": ["a b"{}]}}"#, r#", "a b""#.repeat(60));
    for (answer, expected) in [
        ("", SummaryError::NoJsonObject),
        ("I did a lot today.", SummaryError::NoJsonObject),
        (r#"{"completed": ["a""#, SummaryError::NoJsonObject),
        ("[]", SummaryError::NoJsonObject),
        (
            r#"{"completed": 3}"#,
            SummaryError::NotAList("completed".into()),
        ),
        (
            r#"{"completed": [null]}"#,
            SummaryError::NotAList("completed".into()),
        ),
        (r#"{"completed": [], "pending": []}"#, SummaryError::Empty),
        (r#"{"completed": [" "]}"#, SummaryError::Empty),
        (&long, SummaryError::LimitExceeded),
        (
            &many,
            SummaryError::TooManyTokens {
                tokens: 122,
                max_tokens: 100,
            },
        ),
        (
            r#"{"completed": ["wrote src/api.rs"]}"#,
            SummaryError::Invented("src/api.rs".into()),
        ),
        (
            r#"{"completed": ["ran `cargo nextest`"]}"#,
            SummaryError::Invented("cargo nextest".into()),
        ),
        (
            r#"{"completed": ["made parseInvoice quick"]}"#,
            SummaryError::Invented("parseInvoice".into()),
        ),
        (
            r#"{"completed": ["it listens on port 9,999"]}"#,
            SummaryError::Invented("9999".into()),
        ),
        (
            r#"{"completed": ["done"], "settled": [2]}"#,
            SummaryError::NotOpen(2),
        ),
        (
            r#"{"completed": ["done"], "settled": [3]}"#,
            SummaryError::NotOpen(3),
        ),
        (
            r#"{"completed": ["done"], "settled": [9]}"#,
            SummaryError::NotOpen(9),
        ),
        (
            r#"{"completed": ["done"], "settled": ["x"]}"#,
            SummaryError::NotAList("settled".into()),
        ),
    ] {
        let parsed = parse_summary(answer, &before, "we ran cargo test", 100, &count_words);
        assert_eq!(parsed, Err(expected), "{answer}");
    }
    let parsed = parse_summary(
        r#"{"completed": ["ran `cargo test`"], "settled": [1]}"#,
        &before,
        "we ran cargo test",
        100,
        &count_words,
    );
    assert_eq!(parsed.unwrap().settled_ids, [1]);
}

#[test]
fn small_counts_need_no_source_and_numbers_may_be_grouped() {
    let before = Checkpoint::default();
    let answer = r#"{"completed": ["12 tests read 1,000 rows"]}"#;
    let parsed = parse_summary(answer, &before, "all 1000 rows", 100, &count_words);
    assert_eq!(parsed.unwrap().statements.len(), 1);
}

fn item(id: u32, kind: ItemKind, text: &str) -> CheckpointItem {
    CheckpointItem {
        text: text.into(),
        ..open_item(id, kind)
    }
}

fn build_summary(statements: &[(ItemKind, &str)], settled_ids: &[u32]) -> Summary {
    Summary {
        statements: statements
            .iter()
            .map(|(kind, text)| (*kind, (*text).to_owned()))
            .collect(),
        settled_ids: settled_ids.to_vec(),
    }
}

fn item_texts(checkpoint: &Checkpoint, kind: ItemKind) -> Vec<&str> {
    checkpoint
        .items_of_kind(kind)
        .map(|item| item.text.as_str())
        .collect()
}

#[test]
fn statements_are_added_and_settled_items_become_done() {
    let received = Checkpoint {
        items: vec![
            item(1, ItemKind::Pending, "write the docs"),
            item(2, ItemKind::Pending, "fix the lexer"),
            item(3, ItemKind::Pending, "rename the crate"),
        ],
        loop_state: None,
    };
    // Since the summariser received `received`, one item was pinned, one has another text, and one was added.
    let mut current = received.clone();
    current.items[1].pinned = true;
    current.items[2].text = "drop the crate".into();
    current
        .items
        .push(item(4, ItemKind::Directive, "no panics"));
    let statements = [
        (ItemKind::Decision, "SQLite, since it is one file"),
        // A statement with the text of an open item does not settle that item.
        (ItemKind::Done, "drop the crate from the docs today"),
    ];
    let after =
        build_summary(&statements, &[1, 2, 3]).apply(&received, &current, 9, 1_000, &count_words);
    assert_eq!(
        item_texts(&after, ItemKind::Pending),
        ["fix the lexer", "drop the crate"]
    );
    assert_eq!(
        item_texts(&after, ItemKind::Done),
        ["write the docs", "drop the crate from the docs today"]
    );
    assert_eq!(item_texts(&after, ItemKind::Decision), [statements[0].1]);
    assert_eq!(item_texts(&after, ItemKind::Directive), ["no panics"]);
    let pinned: Vec<u32> = after
        .items
        .iter()
        .filter(|item| item.pinned)
        .map(|item| item.id)
        .collect();
    assert_eq!(pinned, [2]);
}

#[test]
fn a_statement_of_completed_work_settles_no_open_item() {
    let before = Checkpoint {
        items: vec![item(1, ItemKind::Pending, "write docs for parser errors")],
        loop_state: None,
    };
    let statements = [(ItemKind::Done, "docs for parser errors written")];
    let after = build_summary(&statements, &[]).apply(&before, &before, 9, 1_000, &count_words);
    let later = merge(&after, Vec::new(), 1_000, &count_words);
    assert_eq!(
        item_texts(&later, ItemKind::Pending),
        ["write docs for parser errors"]
    );
}

#[test]
fn only_unimportant_kinds_are_dropped_without_room() {
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
    let mut current = Checkpoint {
        items: (1..)
            .zip(kinds)
            .map(|(id, kind)| item(id, kind, &format!("one of kind {}", kind.as_str())))
            .collect(),
        loop_state: None,
    };
    current
        .items
        .push(item(20, ItemKind::Note, "by the way it rained"));
    let statements: Vec<(ItemKind, String)> = (0..20)
        .map(|n| (ItemKind::Decision, format!("number {n} of many decisions")))
        .collect();
    let summary = Summary {
        statements,
        settled_ids: Vec::new(),
    };
    for room in [0, 40, 80] {
        let after = summary.apply(&current, &current, 9, room, &count_words);
        for kind in kinds {
            let text = format!("one of kind {}", kind.as_str());
            assert!(
                item_texts(&after, kind).contains(&text.as_str()),
                "{text}, {room}"
            );
        }
    }
}

#[test]
fn statements_that_a_later_chunk_settles_are_removed() {
    let mut combined = build_summary(
        &[(ItemKind::Pending, "run it"), (ItemKind::Done, "built")],
        &[1],
    );
    let received = combined.apply(
        &Checkpoint::default(),
        &Checkpoint::default(),
        2,
        1_000,
        &count_words,
    );
    let open = received.items_of_kind(ItemKind::Pending).next().unwrap().id;
    let later = build_summary(&[(ItemKind::Done, "ran it")], &[open]);
    combined.append(later, &received);
    let texts: Vec<&str> = combined
        .statements
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(texts, ["built", "ran it"]);
}
