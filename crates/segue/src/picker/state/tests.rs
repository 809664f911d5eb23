use super::*;
use crate::picker::data_source::{Exchange, Shelf, Total};
use crate::picker::keys::Move;
use crate::picker::tests::local_source::{FakeShelf, now, row};

/// State of the picker over generated data without threads: the test decides when queries are answered.
struct Stage {
    state: State,
    shelf: FakeShelf,
    asked: Vec<Question>,
}

impl Stage {
    fn new(width: u16, height: u16) -> Self {
        let options = Options {
            place: Place::Everywhere,
            order: Order::Newest,
            typed: String::new(),
            agents: ["claude", "codex", "gemini"].map(str::to_owned).into(),
            colour: true,
        };
        let mut state = State::new(options, now());
        state.resize(Size { width, height });
        Self {
            state,
            shelf: FakeShelf::new(now()),
            asked: Vec::new(),
        }
    }

    /// Returns a stage whose first rows have arrived.
    fn ready() -> Self {
        let mut stage = Self::new(80, 24);
        assert_eq!(stage.answer(), Ask::Nothing);
        stage
    }

    fn press(&mut self, keys: impl IntoIterator<Item = Key>) -> Ask {
        let asks = keys.into_iter().map(|key| self.state.press(key));
        asks.filter(|ask| *ask != Ask::Nothing)
            .last()
            .unwrap_or(Ask::Nothing)
    }

    fn types(&mut self, text: &str) -> Ask {
        self.press(text.chars().map(Key::Char))
    }

    /// Answers queries until the state requests no more rows.
    fn answer(&mut self) -> Ask {
        let mut last = Ask::Nothing;
        for _ in 0..10 {
            let Some(question) = self.state.wanted_page() else {
                return last;
            };
            last = self.answer_to(question);
        }
        panic!("it asks for ever: {:?}", self.asked);
    }

    fn answer_to(&mut self, question: Question) -> Ask {
        self.asked.push(question.clone());
        let page = self.shelf.look(&question);
        self.state.told(News::Page(question, page))
    }

    fn selected(&self) -> &str {
        &self.state.window.selected().unwrap().id
    }

    fn in_view(&self) -> Vec<&str> {
        let rows = self.state.window.in_view();
        rows.map(|(row, _)| row.map_or("?", |row| &row.id))
            .collect()
    }
}

fn to(to: Move) -> Key {
    Key::Move(to)
}

fn chosen(n: usize, next: Next) -> Ask {
    choose(row(n, now()), next)
}

#[test]
fn the_first_rows_are_asked_for_once() {
    let mut stage = Stage::new(80, 24);
    let question = stage.state.wanted_page().unwrap();
    assert_eq!((question.from, question.limit), (0, 60));
    assert_eq!(stage.state.wanted_page(), None);
    stage.answer_to(question);
    assert_eq!(stage.state.wanted_page(), None);
    assert_eq!(stage.selected(), "id-0");
    assert_eq!(stage.in_view().len(), 12);
    assert_eq!(stage.state.window.total(), Some(Total::Exactly(30_000)));
}

#[test]
fn moves_end_at_the_ends_of_the_list() {
    use Move::{Down, First, Last, PageDown, PageUp, Up};
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
        let mut stage = Stage::ready();
        for &one in &moves {
            stage.press([to(one)]);
            stage.answer();
        }
        assert_eq!(stage.selected(), expected, "{moves:?}");
        assert!(stage.in_view().contains(&expected), "{moves:?}");
        assert_eq!(stage.in_view().len(), 12, "{moves:?}");
    }
}

#[test]
fn only_what_is_near_the_view_is_ever_fetched() {
    let mut stage = Stage::ready();
    stage.press([to(Move::Last)]);
    assert_eq!(stage.in_view(), ["?"; 12], "it is not there yet");
    stage.answer();
    let last = stage.asked.last().unwrap();
    assert_eq!((last.from, last.limit), (29_976, 60));
    stage.press([to(Move::First)]);
    stage.answer();
    let before = stage.asked.len();
    for _ in 0..1000 {
        stage.press([to(Move::Down)]);
        stage.answer();
    }
    assert_eq!(stage.selected(), "id-1000");
    let fetches = stage.asked.len() - before;
    assert!(fetches < 1000 / 30, "{fetches} fetches for 1000 rows");
    assert!(stage.asked.iter().all(|question| question.limit == 60));
}

#[test]
fn a_list_that_nobody_counted_grows_as_one_goes_down() {
    let mut stage = Stage::ready();
    stage.types("conversation");
    stage.answer();
    assert_eq!(stage.state.window.total(), Some(Total::AtLeast(60)));
    for _ in 0..20 {
        stage.press([to(Move::Last)]);
        stage.answer();
    }
    assert!(stage.state.window.total().unwrap().known() > 250);
    stage.types(" 2999");
    stage.answer();
    assert_eq!(stage.state.window.total(), Some(Total::Exactly(2)));
    assert_eq!(stage.in_view(), ["id-2999", "id-29999"]);
}

#[test]
fn an_answer_to_an_older_question_is_dropped() {
    let mut stage = Stage::ready();
    stage.types("refactor");
    let old = stage.state.wanted_page().unwrap();
    stage.press([Key::Escape]);
    stage.types("payment");
    let new = stage.state.wanted_page().unwrap();
    stage.answer_to(new);
    assert_eq!(stage.in_view()[..2], ["id-0", "id-10"]);
    stage.answer_to(old);
    assert_eq!(stage.in_view()[..2], ["id-0", "id-10"]);
    // If the same text is typed again, it is queried again, because the dropped answer does not count.
    stage.press([Key::Escape]);
    stage.types("refactor");
    stage.answer();
    assert_eq!(stage.in_view()[..2], ["id-7", "id-17"]);
}

#[test]
fn a_key_for_a_row_waits_for_the_list_it_was_meant_for() {
    let enter_too_soon = || {
        let mut stage = Stage::ready();
        stage.press([to(Move::Down)]);
        stage.types("refactor");
        assert_eq!(stage.press([Key::Enter]), Ask::Nothing);
        stage
    };
    let mut stage = enter_too_soon();
    let Ask::Choose(Chosen { row, next }) = stage.answer() else {
        panic!("nothing was chosen");
    };
    assert_eq!((row.id.as_str(), next), ("id-7", Next::Resume));
    // Movements before the key also wait.
    let mut stage = Stage::ready();
    stage.types("refactor");
    stage.press([to(Move::Down), to(Move::Down), to(Move::Up), Key::Show]);
    assert_eq!(
        stage.selected(),
        "id-0",
        "the list before does not move any more"
    );
    let Ask::Choose(Chosen { row, .. }) = stage.answer() else {
        panic!("nothing was chosen");
    };
    assert_eq!(row.id, "id-17");
    // Further typing discards the key.
    let mut stage = enter_too_soon();
    stage.types("x");
    assert_eq!(stage.answer(), Ask::Nothing);
    // The search returns no rows.
    let mut stage = Stage::ready();
    stage.types("zzz");
    stage.press([Key::Enter]);
    assert_eq!(stage.answer(), Ask::Nothing);
    stage.press([Key::Escape]);
    assert_eq!(
        stage.answer(),
        Ask::Nothing,
        "it is not kept for another list"
    );
    // The selected row is not fetched yet.
    let mut stage = Stage::ready();
    assert_eq!(stage.press([to(Move::Last), Key::Show]), Ask::Nothing);
    assert_eq!(stage.answer(), chosen(29_999, Next::Show));
}

#[test]
fn a_wrong_filter_is_told_and_nothing_can_be_chosen_by_it() {
    let mut stage = Stage::ready();
    stage.types("error:x");
    assert_eq!(stage.press([Key::Enter]), Ask::Nothing);
    assert_eq!(stage.answer(), Ask::Nothing);
    let wrong = Some(Message::Wrong("there is no agent `x`\n".to_owned()));
    assert_eq!(stage.state.message(), wrong);
    assert_eq!(stage.press([to(Move::Down), Key::Enter]), Ask::Nothing);
    assert_eq!(stage.state.message(), wrong, "it stays until it is mended");
    assert_eq!(stage.state.wanted_page(), None, "it is not asked again");
    stage.press([Key::Escape]);
    assert_eq!(stage.state.message(), None);
    assert_eq!(
        stage.press([Key::Enter]),
        chosen(1, Next::Resume),
        "the list before is still there"
    );
}

#[test]
fn what_is_passed_over_is_told_as_long_as_it_is_typed() {
    let mut stage = Stage::ready();
    stage.types("odd: 7 ");
    stage.answer();
    let told = Message::Said("passed over: odd: says nothing".into());
    assert_eq!(stage.state.message(), Some(told));
    assert!(stage.state.window.selected().is_some());
    stage.press([Key::Escape]);
    stage.answer();
    assert_eq!(stage.state.message(), None);
}

#[test]
fn what_is_selected_stays_so_when_the_list_changes_under_it() {
    let mut stage = Stage::ready();
    stage.press([to(Move::Down)]);
    let mut page = stage.shelf.look(&stage.asked[0]).unwrap();
    page.rows.insert(
        0,
        Row {
            id: "new".to_owned(),
            ..row(0, now())
        },
    );
    assert_eq!(
        stage.state.told(News::Refreshed(Ok(Refreshed::Changed))),
        Ask::Nothing
    );
    let question = stage.state.wanted_page().unwrap();
    stage.state.told(News::Page(question, Ok(page)));
    assert_eq!(stage.selected(), "id-1");
    assert_eq!(stage.in_view()[..3], ["new", "id-0", "id-1"]);
    // Without changes there is no query.
    stage.state.told(News::Refreshed(Ok(Refreshed::Nothing)));
    assert_eq!(stage.state.wanted_page(), None);
    stage
        .state
        .told(News::Refreshed(Err("the disk is full".to_owned())));
    assert_eq!(
        stage.state.message(),
        Some(Message::Wrong("the disk is full".to_owned()))
    );
}

#[test]
fn a_list_that_shrinks_keeps_the_selection_inside() {
    let mut stage = Stage::ready();
    stage.press([to(Move::Last)]);
    stage.answer();
    stage.shelf.all = 5;
    stage.state.told(News::Refreshed(Ok(Refreshed::Changed)));
    stage.answer();
    assert_eq!(stage.selected(), "id-4");
    assert_eq!(stage.in_view().len(), 5);
    stage.shelf.all = 0;
    stage.state.told(News::Refreshed(Ok(Refreshed::Changed)));
    stage.answer();
    assert_eq!(stage.state.window.selected(), None);
    assert_eq!(
        stage.press([Key::Enter, Key::Tag, Key::Handoff]),
        Ask::Nothing
    );
    assert_eq!(stage.state.mode, Mode::List);
}

#[test]
fn escape_clears_and_then_leaves() {
    let cases = [
        ("", Key::Escape, Ask::Leave, ""),
        ("abc", Key::Escape, Ask::Nothing, ""),
        ("", Key::EndOfInput, Ask::Leave, ""),
        ("abc", Key::EndOfInput, Ask::Nothing, "abc"),
        ("abc", Key::Quit, Ask::Leave, "abc"),
        ("abc", Key::Suspend, Ask::Suspend, "abc"),
        ("abc", Key::Redraw, Ask::Redraw, "abc"),
        ("abc", Key::Paste("d\ne".to_owned()), Ask::Nothing, "abcd e"),
        ("why", Key::Char('?'), Ask::Nothing, "why?"),
    ];
    for (typed, key, expected, left) in cases {
        let mut stage = Stage::ready();
        stage.types(typed);
        assert_eq!(
            stage.press([key.clone()]),
            expected,
            "{key:?} after {typed:?}"
        );
        assert_eq!(stage.state.line.text(), left, "{key:?} after {typed:?}");
    }
}

#[test]
fn the_help_opens_on_an_empty_line_and_closes_with_any_key() {
    let mut stage = Stage::ready();
    stage.types("?");
    assert_eq!(stage.state.mode, Mode::Help { top: 0 });
    stage.press([to(Move::Down), to(Move::Down), to(Move::Up)]);
    assert_eq!(stage.state.mode, Mode::Help { top: 1 });
    assert_eq!(stage.press([Key::Escape]), Ask::Nothing);
    assert_eq!(stage.state.mode, Mode::List);
    stage.types("abc");
    stage.press([Key::Help]);
    assert_eq!(stage.types("x"), Ask::Nothing);
    assert_eq!(
        (&stage.state.mode, stage.state.line.text()),
        (&Mode::List, "abc".to_owned())
    );
    stage.press([Key::Help]);
    assert_eq!(stage.press([Key::Quit]), Ask::Leave);
}

#[test]
fn place_and_order_are_part_of_the_question() {
    let mut stage = Stage::ready();
    stage.press([to(Move::Down), Key::Place]);
    stage.answer();
    assert_eq!(stage.in_view()[..2], ["id-0", "id-3"]);
    assert_eq!(stage.selected(), "id-0", "another list begins at its top");
    // Without a search there is no order by score.
    stage.press([Key::Order]);
    assert_eq!(stage.state.order, Order::Newest);
    assert!(stage.state.message().is_some());
    stage.types("payment");
    stage.press([Key::Order]);
    stage.answer();
    let last = stage.asked.last().unwrap();
    assert_eq!((last.place, last.order), (Place::Here, Order::Best));
    // A trailing blank marks the last word as complete.
    stage.types(" ");
    let asked = stage.state.wanted_page();
    assert_eq!(
        asked.map(|question| question.typed),
        Some("payment ".to_owned())
    );
}

#[test]
fn a_conversation_is_handed_to_another_agent() {
    let cases = [
        (
            0,
            vec![Key::Enter],
            chosen(0, Next::Handoff("codex".to_owned())),
        ),
        (
            0,
            vec![to(Move::Down), to(Move::Down), Key::Enter],
            chosen(0, Next::Handoff("gemini".to_owned())),
        ),
        (
            0,
            vec![Key::Char('2')],
            chosen(0, Next::Handoff("gemini".to_owned())),
        ),
        (0, vec![Key::Char('3'), Key::Char('x')], Ask::Nothing),
        (0, vec![Key::Escape], Ask::Nothing),
        (
            1,
            vec![Key::Enter],
            chosen(1, Next::Handoff("claude".to_owned())),
        ),
        (
            3,
            vec![to(Move::Last), Key::Enter],
            chosen(3, Next::Handoff("gemini".to_owned())),
        ),
    ];
    for (down, keys, expected) in cases {
        let mut stage = Stage::ready();
        stage.press(vec![to(Move::Down); down]);
        assert_eq!(stage.press([Key::Handoff]), Ask::Nothing);
        assert_eq!(stage.press(keys.clone()), expected, "{down} {keys:?}");
    }
    let mut stage = Stage::ready();
    stage.state.agents = vec!["claude".to_owned()];
    stage.press([Key::Handoff]);
    assert_eq!(stage.state.mode, Mode::List);
    assert!(matches!(stage.state.message(), Some(Message::Wrong(_))));
}

#[test]
fn deeds_are_done_in_place_and_told() {
    let mut stage = Stage::ready();
    let first = row(0, now());
    stage.press([Key::Tag]);
    // The list may change while the user types a tag.
    stage.press([
        Key::Char(' '),
        Key::Char('p'),
        Key::Paste("ay\n".to_owned()),
    ]);
    assert_eq!(
        stage.press([Key::Enter]),
        Ask::Act(first.clone(), Deed::Tag("pay".to_owned()))
    );
    assert_eq!(
        stage.state.message(),
        Some(Message::Said("tagging…".to_owned()))
    );
    let done = |id: &str| Done {
        said: "tagged".to_owned(),
        id: id.to_owned(),
        fork: None,
    };
    let told = News::Acted("id-0".to_owned(), Ok(done("id-0")));
    stage.state.told(told);
    assert_eq!(
        stage.state.message(),
        Some(Message::Said("tagged".to_owned()))
    );
    assert!(
        stage.state.wanted_page().is_some(),
        "the list is asked for again"
    );
    let others = [
        (vec![Key::Tag, Key::Enter], Ask::Nothing),
        (vec![Key::Tag, Key::Char('x'), Key::Escape], Ask::Nothing),
        (vec![Key::Fork], Ask::Act(first.clone(), Deed::Fork)),
        (vec![Key::Archive], Ask::Act(first, Deed::Archive)),
        (vec![Key::Show], chosen(0, Next::Show)),
    ];
    for (keys, expected) in others {
        let mut stage = Stage::ready();
        assert_eq!(stage.press(keys.clone()), expected, "{keys:?}");
        assert_eq!(stage.state.mode, Mode::List, "{keys:?}");
    }
    let told = News::Acted("id-0".to_owned(), Err("no room".to_owned()));
    stage.state.told(told);
    assert_eq!(
        stage.state.message(),
        Some(Message::Wrong("no room".to_owned()))
    );
    stage.press([to(Move::Down)]);
    assert_eq!(stage.state.message(), None);
}

#[test]
fn a_conversation_that_is_called_otherwise_stays_selected() {
    // A search returns only one of several conversations that share a turn. Then the fork is selected.
    for (both, selected, in_view) in [
        (true, "taken-2", ["fork", "id-0", "id-1", "taken-2"]),
        (false, "fork", ["fork", "id-0", "id-1", "id-3"]),
    ] {
        let mut stage = Stage::ready();
        stage.press([to(Move::Down), to(Move::Down), Key::Fork]);
        let done = Done {
            said: "forked".to_owned(),
            id: "taken-2".to_owned(),
            fork: Some("fork".to_owned()),
        };
        stage.state.told(News::Acted("id-2".to_owned(), Ok(done)));
        let question = stage.state.wanted_page().unwrap();
        let mut page = stage.shelf.look(&question).unwrap();
        let origin = Row {
            id: "taken-2".to_owned(),
            ..page.rows.remove(2)
        };
        let fork = Row {
            id: "fork".to_owned(),
            ..row(2, now())
        };
        if both {
            page.rows.insert(2, origin);
        }
        page.rows.insert(0, fork);
        stage.state.told(News::Page(question, Ok(page)));
        assert_eq!(stage.selected(), selected);
        assert_eq!(stage.in_view()[..4], in_view);
    }
}

#[test]
fn a_mistake_in_a_tag_can_be_mended() {
    let mut stage = Stage::ready();
    stage.press([Key::Tag]);
    stage.types("parser --x");
    assert_eq!(stage.press([Key::Enter]), Ask::Nothing);
    assert!(matches!(stage.state.message(), Some(Message::Wrong(_))));
    let Mode::Tag(_, line) = &stage.state.mode else {
        panic!("what was typed is lost");
    };
    assert_eq!(line.text(), "parser --x");
    stage.press(vec![Key::Edit(Edit::Backspace); 3]);
    stage.types("#y");
    let tags = Deed::Tag("parser #y".to_owned());
    assert_eq!(stage.press([Key::Enter]), Ask::Act(row(0, now()), tags));
}

#[test]
fn previews_are_read_where_there_is_room_and_once() {
    let mut stage = Stage::new(40, 10);
    stage.answer();
    assert_eq!(
        stage.state.wanted_preview(),
        None,
        "there is no room for it"
    );
    stage.state.resize(Size {
        width: 80,
        height: 24,
    });
    let (first, ticket) = stage.state.wanted_preview().unwrap();
    assert_eq!(first.id, "id-0");
    assert_eq!(stage.state.wanted_preview(), None);
    stage.press([to(Move::Down)]);
    let (second, _) = stage.state.wanted_preview().unwrap();
    assert_eq!(second.id, "id-1");
    // A late preview is cached.
    let preview = stage.shelf.preview(&first);
    stage.state.told(News::Preview(first.id, ticket, preview));
    assert_eq!(stage.state.preview(), None);
    stage.press([to(Move::Up)]);
    assert!(stage.state.preview().is_some());
    assert_eq!(stage.state.wanted_preview(), None);
    // After a change the preview is read again, and an outdated answer is ignored.
    stage.state.told(News::Refreshed(Ok(Refreshed::Changed)));
    stage.answer();
    let (again, _) = stage.state.wanted_preview().unwrap();
    stage
        .state
        .told(News::Preview(again.id, ticket, Ok(Preview::default())));
    assert_eq!(stage.state.preview(), None);
}

#[test]
fn the_preview_scrolls_as_far_as_it_goes() {
    let mut stage = Stage::ready();
    let (first, ticket) = stage.state.wanted_preview().unwrap();
    let turn = Exchange {
        n: 1,
        prompt: "why?".to_owned(),
        answer: "because\n".repeat(20),
    };
    let preview = Preview {
        turns: vec![turn],
        ..Preview::default()
    };
    stage
        .state
        .told(News::Preview(first.id, ticket, Ok(preview)));
    stage.press(vec![Key::PreviewDown; 100]);
    // Title, details, an empty line, the prompt and twenty lines, of which eight are visible.
    assert_eq!(stage.state.scroll, 2 + 1 + 1 + 20 - 8);
    stage.press([Key::PreviewUp]);
    assert_eq!(stage.state.scroll, 15);
    stage.press([to(Move::Down)]);
    assert_eq!(stage.state.scroll, 0);
}
