use super::*;
use crate::picker::data_source::{DataSource, PreviewTurn, RowTotal};
use crate::picker::keys::ListMove;
use crate::picker::tests::local_source::{FakeSource, generate_row, now};

/// State of the picker over generated data without threads: the test decides when queries are answered.
struct StateFixture {
    state: PickerState,
    source: FakeSource,
    queries: Vec<RowQuery>,
}

impl StateFixture {
    fn new(width: u16, height: u16) -> Self {
        let agents = ["claude", "codex", "gemini"].map(str::to_owned).into();
        let mut state = PickerState::new(agents, true, now());
        state.resize(Size { width, height });
        Self {
            state,
            source: FakeSource::new(now()),
            queries: Vec::new(),
        }
    }

    /// Returns a fixture whose first rows have arrived.
    fn with_first_rows() -> Self {
        let mut fixture = Self::new(80, 24);
        assert_eq!(fixture.answer_queries(), PickerAction::Continue);
        fixture
    }

    fn press(&mut self, keys: impl IntoIterator<Item = PickerKey>) -> PickerAction {
        let actions = keys.into_iter().map(|key| self.state.handle_key(key));
        actions
            .filter(|action| *action != PickerAction::Continue)
            .last()
            .unwrap_or(PickerAction::Continue)
    }

    fn type_text(&mut self, text: &str) -> PickerAction {
        self.press(text.chars().map(PickerKey::Char))
    }

    /// Answers queries until the state requests no more rows.
    fn answer_queries(&mut self) -> PickerAction {
        let mut last_action = PickerAction::Continue;
        for _ in 0..10 {
            let Some(query) = self.state.next_page_query() else {
                return last_action;
            };
            last_action = self.answer_query(query);
        }
        panic!("the state requests rows without end: {:?}", self.queries);
    }

    fn answer_query(&mut self, query: RowQuery) -> PickerAction {
        self.queries.push(query.clone());
        let page = self.source.fetch_page(&query);
        self.state.handle_answer(WorkerAnswer::Page(query, page))
    }

    fn selected_id(&self) -> &str {
        &self.state.window.selected().unwrap().id
    }

    fn visible_ids(&self) -> Vec<&str> {
        let rows = self.state.window.visible_rows();
        rows.map(|(row, _)| row.map_or("?", |row| &row.id))
            .collect()
    }
}

fn move_key(movement: ListMove) -> PickerKey {
    PickerKey::Move(movement)
}

fn choice(n: usize, action: ChoiceAction) -> PickerAction {
    choose_row(generate_row(n, now()), action)
}

#[test]
fn the_first_rows_are_queried_once() {
    let mut fixture = StateFixture::new(80, 24);
    let query = fixture.state.next_page_query().unwrap();
    assert_eq!((query.offset, query.limit), (0, 60));
    assert_eq!(fixture.state.next_page_query(), None);
    fixture.answer_query(query);
    assert_eq!(fixture.state.next_page_query(), None);
    assert_eq!(fixture.selected_id(), "id-0");
    assert_eq!(fixture.visible_ids().len(), 12);
    assert_eq!(fixture.state.window.total(), Some(RowTotal::Exact(30_000)));
}

#[test]
fn movements_stop_at_the_ends_of_the_list() {
    use ListMove::{Down, First, Last, PageDown, PageUp, Up};
    let cases = [
        (vec![Up], "id-0"),
        (vec![Down], "id-1"),
        (vec![Down, Down, Up], "id-1"),
        (vec![PageDown], "id-11"),
        (vec![PageDown, PageDown, PageUp], "id-11"),
        (vec![Last], "id-29999"),
        (vec![Last, Down], "id-29999"),
        (vec![Last, PageDown, Up], "id-29998"),
        (vec![Last, First], "id-0"),
        (vec![PageUp], "id-0"),
    ];
    for (moves, expected) in cases {
        let mut fixture = StateFixture::with_first_rows();
        for &movement in &moves {
            fixture.press([move_key(movement)]);
            fixture.answer_queries();
        }
        assert_eq!(fixture.selected_id(), expected, "{moves:?}");
        assert!(fixture.visible_ids().contains(&expected), "{moves:?}");
        assert_eq!(fixture.visible_ids().len(), 12, "{moves:?}");
    }
}

#[test]
fn only_rows_near_the_visible_ones_are_fetched() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.press([move_key(ListMove::Last)]);
    assert_eq!(
        fixture.visible_ids(),
        ["?"; 12],
        "the rows are not fetched yet"
    );
    fixture.answer_queries();
    let last_query = fixture.queries.last().unwrap();
    assert_eq!((last_query.offset, last_query.limit), (29_976, 60));
    fixture.press([move_key(ListMove::First)]);
    fixture.answer_queries();
    let earlier_queries = fixture.queries.len();
    for _ in 0..1000 {
        fixture.press([move_key(ListMove::Down)]);
        fixture.answer_queries();
    }
    assert_eq!(fixture.selected_id(), "id-1000");
    let fetches = fixture.queries.len() - earlier_queries;
    assert!(fetches < 1000 / 30, "{fetches} fetches for 1000 rows");
    assert!(fixture.queries.iter().all(|query| query.limit == 60));
}

#[test]
fn a_list_without_an_exact_total_grows_as_the_selection_moves_down() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("conversation");
    fixture.answer_queries();
    assert_eq!(fixture.state.window.total(), Some(RowTotal::AtLeast(60)));
    for _ in 0..20 {
        fixture.press([move_key(ListMove::Last)]);
        fixture.answer_queries();
    }
    assert!(fixture.state.window.total().unwrap().count() > 250);
    fixture.type_text(" 2999");
    fixture.answer_queries();
    assert_eq!(fixture.state.window.total(), Some(RowTotal::Exact(2)));
    assert_eq!(fixture.visible_ids(), ["id-2999", "id-29999"]);
}

#[test]
fn an_answer_to_an_older_query_is_dropped() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("refactor");
    let old_query = fixture.state.next_page_query().unwrap();
    fixture.press([PickerKey::Escape]);
    fixture.type_text("payment");
    let new_query = fixture.state.next_page_query().unwrap();
    fixture.answer_query(new_query);
    assert_eq!(fixture.visible_ids()[..2], ["id-0", "id-10"]);
    fixture.answer_query(old_query);
    assert_eq!(fixture.visible_ids()[..2], ["id-0", "id-10"]);
    // If the same text is typed again, it is queried again, because the dropped answer does not count.
    fixture.press([PickerKey::Escape]);
    fixture.type_text("refactor");
    fixture.answer_queries();
    assert_eq!(fixture.visible_ids()[..2], ["id-7", "id-17"]);
}

#[test]
fn a_row_key_waits_for_the_current_list() {
    let press_enter_early = || {
        let mut fixture = StateFixture::with_first_rows();
        fixture.press([move_key(ListMove::Down)]);
        fixture.type_text("refactor");
        assert_eq!(fixture.press([PickerKey::Enter]), PickerAction::Continue);
        fixture
    };
    let mut fixture = press_enter_early();
    let PickerAction::Choose(PickerChoice { row, action }) = fixture.answer_queries() else {
        panic!("nothing was chosen");
    };
    assert_eq!((row.id.as_str(), action), ("id-7", ChoiceAction::Resume));
    // Movements before the key also wait.
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("refactor");
    fixture.press([
        move_key(ListMove::Down),
        move_key(ListMove::Down),
        move_key(ListMove::Up),
        PickerKey::Show,
    ]);
    assert_eq!(
        fixture.selected_id(),
        "id-0",
        "the selection of the outdated list does not move"
    );
    let PickerAction::Choose(PickerChoice { row, .. }) = fixture.answer_queries() else {
        panic!("nothing was chosen");
    };
    assert_eq!(row.id, "id-17");
    // Further typing discards the key.
    let mut fixture = press_enter_early();
    fixture.type_text("x");
    assert_eq!(fixture.answer_queries(), PickerAction::Continue);
    // The search returns no rows.
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("zzz");
    fixture.press([PickerKey::Enter]);
    assert_eq!(fixture.answer_queries(), PickerAction::Continue);
    fixture.press([PickerKey::Escape]);
    assert_eq!(
        fixture.answer_queries(),
        PickerAction::Continue,
        "the key does not apply to another list"
    );
    // The selected row is not fetched yet.
    let mut fixture = StateFixture::with_first_rows();
    assert_eq!(
        fixture.press([move_key(ListMove::Last), PickerKey::Show]),
        PickerAction::Continue
    );
    assert_eq!(fixture.answer_queries(), choice(29_999, ChoiceAction::Show));
}

#[test]
fn an_invalid_filter_shows_an_error_and_allows_no_choice() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("error:x");
    assert_eq!(fixture.press([PickerKey::Enter]), PickerAction::Continue);
    assert_eq!(fixture.answer_queries(), PickerAction::Continue);
    let error = Some(PickerMessage::Error("unknown agent `x`\n".to_owned()));
    assert_eq!(fixture.state.message(), error);
    assert_eq!(
        fixture.press([move_key(ListMove::Down), PickerKey::Enter]),
        PickerAction::Continue
    );
    assert_eq!(
        fixture.state.message(),
        error,
        "the error stays until the search changes"
    );
    assert_eq!(
        fixture.state.next_page_query(),
        None,
        "a failed query is not repeated"
    );
    fixture.press([PickerKey::Escape]);
    assert_eq!(fixture.state.message(), None);
    assert_eq!(
        fixture.press([PickerKey::Enter]),
        choice(1, ChoiceAction::Resume),
        "the previous list is still shown"
    );
}

#[test]
fn an_ignored_filter_is_reported_while_it_is_typed() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("bad: 7 ");
    fixture.answer_queries();
    let message = PickerMessage::Info("ignored: bad: has no value".into());
    assert_eq!(fixture.state.message(), Some(message));
    assert!(fixture.state.window.selected().is_some());
    fixture.press([PickerKey::Escape]);
    fixture.answer_queries();
    assert_eq!(fixture.state.message(), None);
}

#[test]
fn the_selected_row_stays_selected_when_the_list_changes() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.press([move_key(ListMove::Down)]);
    let mut page = fixture.source.fetch_page(&fixture.queries[0]).unwrap();
    page.rows.insert(
        0,
        PickerRow {
            id: "new".to_owned(),
            ..generate_row(0, now())
        },
    );
    assert_eq!(
        fixture
            .state
            .handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Changed))),
        PickerAction::Continue
    );
    let query = fixture.state.next_page_query().unwrap();
    fixture
        .state
        .handle_answer(WorkerAnswer::Page(query, Ok(page)));
    assert_eq!(fixture.selected_id(), "id-1");
    assert_eq!(fixture.visible_ids()[..3], ["new", "id-0", "id-1"]);
    // Without changes there is no query.
    fixture
        .state
        .handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Unchanged)));
    assert_eq!(fixture.state.next_page_query(), None);
    fixture
        .state
        .handle_answer(WorkerAnswer::Refreshed(Err("the disk is full".to_owned())));
    assert_eq!(
        fixture.state.message(),
        Some(PickerMessage::Error("the disk is full".to_owned()))
    );
}

#[test]
fn the_selection_stays_inside_a_shrinking_list() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.press([move_key(ListMove::Last)]);
    fixture.answer_queries();
    fixture.source.row_count = 5;
    fixture
        .state
        .handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Changed)));
    fixture.answer_queries();
    assert_eq!(fixture.selected_id(), "id-4");
    assert_eq!(fixture.visible_ids().len(), 5);
    fixture.source.row_count = 0;
    fixture
        .state
        .handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Changed)));
    fixture.answer_queries();
    assert_eq!(fixture.state.window.selected(), None);
    assert_eq!(
        fixture.press([PickerKey::Enter, PickerKey::Tag, PickerKey::Handoff]),
        PickerAction::Continue
    );
    assert_eq!(fixture.state.mode, PickerMode::List);
}

#[test]
fn escape_clears_the_search_and_then_exits() {
    let cases = [
        ("", PickerKey::Escape, PickerAction::Exit, ""),
        ("abc", PickerKey::Escape, PickerAction::Continue, ""),
        ("", PickerKey::EndOfInput, PickerAction::Exit, ""),
        ("abc", PickerKey::EndOfInput, PickerAction::Continue, "abc"),
        ("abc", PickerKey::Quit, PickerAction::Exit, "abc"),
        ("abc", PickerKey::Suspend, PickerAction::Suspend, "abc"),
        ("abc", PickerKey::Redraw, PickerAction::Redraw, "abc"),
        (
            "abc",
            PickerKey::Paste("d\ne".to_owned()),
            PickerAction::Continue,
            "abcd e",
        ),
        ("why", PickerKey::Char('?'), PickerAction::Continue, "why?"),
    ];
    for (typed, key, expected, remaining_text) in cases {
        let mut fixture = StateFixture::with_first_rows();
        fixture.type_text(typed);
        assert_eq!(
            fixture.press([key.clone()]),
            expected,
            "{key:?} after {typed:?}"
        );
        assert_eq!(
            fixture.state.search_line.text(),
            remaining_text,
            "{key:?} after {typed:?}"
        );
    }
}

#[test]
fn the_help_opens_on_an_empty_line_and_closes_with_any_key() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.type_text("?");
    assert_eq!(fixture.state.mode, PickerMode::Help { top: 0 });
    fixture.press([
        move_key(ListMove::Down),
        move_key(ListMove::Down),
        move_key(ListMove::Up),
    ]);
    assert_eq!(fixture.state.mode, PickerMode::Help { top: 1 });
    assert_eq!(fixture.press([PickerKey::Escape]), PickerAction::Continue);
    assert_eq!(fixture.state.mode, PickerMode::List);
    fixture.type_text("abc");
    fixture.press([PickerKey::Help]);
    assert_eq!(fixture.type_text("x"), PickerAction::Continue);
    assert_eq!(
        (&fixture.state.mode, fixture.state.search_line.text()),
        (&PickerMode::List, "abc")
    );
    fixture.press([PickerKey::Help]);
    assert_eq!(fixture.press([PickerKey::Quit]), PickerAction::Exit);
}

#[test]
fn project_filter_and_order_are_part_of_the_query() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.press([move_key(ListMove::Down), PickerKey::ToggleProjects]);
    fixture.answer_queries();
    assert_eq!(fixture.visible_ids()[..2], ["id-0", "id-3"]);
    assert_eq!(
        fixture.selected_id(),
        "id-0",
        "another list starts at its first row"
    );
    // Without a search there is no order by score.
    fixture.press([PickerKey::ToggleOrder]);
    assert_eq!(fixture.state.order, RowOrder::Newest);
    assert!(fixture.state.message().is_some());
    fixture.type_text("payment");
    fixture.press([PickerKey::ToggleOrder]);
    fixture.answer_queries();
    let last_query = fixture.queries.last().unwrap();
    assert_eq!(
        (last_query.project_filter, last_query.order),
        (ProjectFilter::Current, RowOrder::Best)
    );
    // A trailing blank marks the last word as complete.
    fixture.type_text(" ");
    let query = fixture.state.next_page_query();
    assert_eq!(
        query.map(|query| query.search_text),
        Some("payment ".to_owned())
    );
}

#[test]
fn a_conversation_is_handed_off_to_another_agent() {
    let cases = [
        (
            0,
            vec![PickerKey::Enter],
            choice(0, ChoiceAction::Handoff("codex".to_owned())),
        ),
        (
            0,
            vec![
                move_key(ListMove::Down),
                move_key(ListMove::Down),
                PickerKey::Enter,
            ],
            choice(0, ChoiceAction::Handoff("gemini".to_owned())),
        ),
        (
            0,
            vec![PickerKey::Char('2')],
            choice(0, ChoiceAction::Handoff("gemini".to_owned())),
        ),
        (
            0,
            vec![PickerKey::Char('3'), PickerKey::Char('x')],
            PickerAction::Continue,
        ),
        (0, vec![PickerKey::Escape], PickerAction::Continue),
        (
            1,
            vec![PickerKey::Enter],
            choice(1, ChoiceAction::Handoff("claude".to_owned())),
        ),
        (
            3,
            vec![move_key(ListMove::Last), PickerKey::Enter],
            choice(3, ChoiceAction::Handoff("gemini".to_owned())),
        ),
    ];
    for (down, keys, expected) in cases {
        let mut fixture = StateFixture::with_first_rows();
        fixture.press(vec![move_key(ListMove::Down); down]);
        assert_eq!(fixture.press([PickerKey::Handoff]), PickerAction::Continue);
        assert_eq!(fixture.press(keys.clone()), expected, "{down} {keys:?}");
    }
    let mut fixture = StateFixture::with_first_rows();
    fixture.state.agents = vec!["claude".to_owned()];
    fixture.press([PickerKey::Handoff]);
    assert_eq!(fixture.state.mode, PickerMode::List);
    assert!(matches!(
        fixture.state.message(),
        Some(PickerMessage::Error(_))
    ));
}

#[test]
fn row_actions_run_in_the_picker_and_show_their_outcome() {
    let mut fixture = StateFixture::with_first_rows();
    let first = generate_row(0, now());
    fixture.press([PickerKey::Tag]);
    // The list may change while the user types a tag.
    fixture.press([
        PickerKey::Char(' '),
        PickerKey::Char('p'),
        PickerKey::Paste("ay\n".to_owned()),
    ]);
    assert_eq!(
        fixture.press([PickerKey::Enter]),
        PickerAction::Act(first.clone(), RowAction::Tag("pay".to_owned()))
    );
    assert_eq!(
        fixture.state.message(),
        Some(PickerMessage::Info("tagging…".to_owned()))
    );
    let outcome = |id: &str| RowActionOutcome {
        message: "tagged".to_owned(),
        id: id.to_owned(),
        fork_id: None,
    };
    let answer = WorkerAnswer::Acted("id-0".to_owned(), Ok(outcome("id-0")));
    fixture.state.handle_answer(answer);
    assert_eq!(
        fixture.state.message(),
        Some(PickerMessage::Info("tagged".to_owned()))
    );
    assert!(
        fixture.state.next_page_query().is_some(),
        "the list is queried again"
    );
    let cases = [
        (
            vec![PickerKey::Tag, PickerKey::Enter],
            PickerAction::Continue,
        ),
        (
            vec![PickerKey::Tag, PickerKey::Char('x'), PickerKey::Escape],
            PickerAction::Continue,
        ),
        (
            vec![PickerKey::Fork],
            PickerAction::Act(first.clone(), RowAction::Fork),
        ),
        (
            vec![PickerKey::Archive],
            PickerAction::Act(first, RowAction::Archive),
        ),
        (vec![PickerKey::Show], choice(0, ChoiceAction::Show)),
    ];
    for (keys, expected) in cases {
        let mut fixture = StateFixture::with_first_rows();
        assert_eq!(fixture.press(keys.clone()), expected, "{keys:?}");
        assert_eq!(fixture.state.mode, PickerMode::List, "{keys:?}");
    }
    let answer = WorkerAnswer::Acted("id-0".to_owned(), Err("no room".to_owned()));
    fixture.state.handle_answer(answer);
    assert_eq!(
        fixture.state.message(),
        Some(PickerMessage::Error("no room".to_owned()))
    );
    fixture.press([move_key(ListMove::Down)]);
    assert_eq!(fixture.state.message(), None);
}

#[test]
fn a_conversation_with_a_new_id_stays_selected() {
    // A search returns only one of several conversations that share a turn. Then the fork is selected.
    for (lists_both, expected_selection, expected_ids) in [
        (true, "adopted-2", ["fork", "id-0", "id-1", "adopted-2"]),
        (false, "fork", ["fork", "id-0", "id-1", "id-3"]),
    ] {
        let mut fixture = StateFixture::with_first_rows();
        fixture.press([
            move_key(ListMove::Down),
            move_key(ListMove::Down),
            PickerKey::Fork,
        ]);
        let outcome = RowActionOutcome {
            message: "forked".to_owned(),
            id: "adopted-2".to_owned(),
            fork_id: Some("fork".to_owned()),
        };
        fixture
            .state
            .handle_answer(WorkerAnswer::Acted("id-2".to_owned(), Ok(outcome)));
        let query = fixture.state.next_page_query().unwrap();
        let mut page = fixture.source.fetch_page(&query).unwrap();
        let origin = PickerRow {
            id: "adopted-2".to_owned(),
            ..page.rows.remove(2)
        };
        let fork = PickerRow {
            id: "fork".to_owned(),
            ..generate_row(2, now())
        };
        if lists_both {
            page.rows.insert(2, origin);
        }
        page.rows.insert(0, fork);
        fixture
            .state
            .handle_answer(WorkerAnswer::Page(query, Ok(page)));
        assert_eq!(fixture.selected_id(), expected_selection);
        assert_eq!(fixture.visible_ids()[..4], expected_ids);
    }
}

#[test]
fn a_mistyped_tag_can_be_corrected() {
    let mut fixture = StateFixture::with_first_rows();
    fixture.press([PickerKey::Tag]);
    fixture.type_text("parser --x");
    assert_eq!(fixture.press([PickerKey::Enter]), PickerAction::Continue);
    assert!(matches!(
        fixture.state.message(),
        Some(PickerMessage::Error(_))
    ));
    let PickerMode::Tag(_, line) = &fixture.state.mode else {
        panic!("the typed text is lost");
    };
    assert_eq!(line.text(), "parser --x");
    fixture.press(vec![PickerKey::Edit(LineEdit::Backspace); 3]);
    fixture.type_text("#y");
    let tags = RowAction::Tag("parser #y".to_owned());
    assert_eq!(
        fixture.press([PickerKey::Enter]),
        PickerAction::Act(generate_row(0, now()), tags)
    );
}

#[test]
fn previews_are_read_once_and_only_if_they_fit() {
    let mut fixture = StateFixture::new(40, 10);
    fixture.answer_queries();
    assert_eq!(
        fixture.state.next_preview_request(),
        None,
        "the preview does not fit"
    );
    fixture.state.resize(Size {
        width: 80,
        height: 24,
    });
    let (first, version) = fixture.state.next_preview_request().unwrap();
    assert_eq!(first.id, "id-0");
    assert_eq!(fixture.state.next_preview_request(), None);
    fixture.press([move_key(ListMove::Down)]);
    let (second, _) = fixture.state.next_preview_request().unwrap();
    assert_eq!(second.id, "id-1");
    // A late preview is cached.
    let preview = fixture.source.load_preview(&first);
    fixture
        .state
        .handle_answer(WorkerAnswer::Preview(first.id, version, preview));
    assert_eq!(fixture.state.selected_preview(), None);
    fixture.press([move_key(ListMove::Up)]);
    assert!(fixture.state.selected_preview().is_some());
    assert_eq!(fixture.state.next_preview_request(), None);
    // After a change the preview is read again, and an outdated answer is ignored.
    fixture
        .state
        .handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Changed)));
    fixture.answer_queries();
    let (reread, _) = fixture.state.next_preview_request().unwrap();
    fixture.state.handle_answer(WorkerAnswer::Preview(
        reread.id,
        version,
        Ok(RowPreview::default()),
    ));
    assert_eq!(fixture.state.selected_preview(), None);
}

#[test]
fn the_preview_scrolls_to_its_end() {
    let mut fixture = StateFixture::with_first_rows();
    let (first, version) = fixture.state.next_preview_request().unwrap();
    let turn = PreviewTurn {
        number: 1,
        prompt: "why?".to_owned(),
        answer: "because\n".repeat(20),
    };
    let preview = RowPreview {
        last_turns: vec![turn],
        ..RowPreview::default()
    };
    fixture
        .state
        .handle_answer(WorkerAnswer::Preview(first.id, version, Ok(preview)));
    fixture.press(vec![PickerKey::PreviewDown; 100]);
    // Title, details, an empty line, the prompt and twenty lines, of which eight are visible.
    assert_eq!(fixture.state.preview_scroll, 2 + 1 + 1 + 20 - 8);
    fixture.press([PickerKey::PreviewUp]);
    assert_eq!(fixture.state.preview_scroll, 15);
    fixture.press([move_key(ListMove::Down)]);
    assert_eq!(fixture.state.preview_scroll, 0);
}
