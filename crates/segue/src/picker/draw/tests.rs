use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use super::*;
use crate::picker::data_source::{Done, Options, Refreshed, Shelf};
use crate::picker::keys::{Key, Move};
use crate::picker::state::News;
use crate::picker::tests::local_source::{FakeShelf, now};

/// Returns the state over generated data after some keys, with all queries answered.
fn state(all: usize, (width, height): (u16, u16), typed: &str, keys: &[Key]) -> State {
    let options = Options {
        place: Place::Everywhere,
        order: Order::Newest,
        typed: typed.to_owned(),
        agents: ["claude", "codex", "gemini"].map(str::to_owned).into(),
        colour: true,
    };
    let mut shelf = FakeShelf::of(now(), all);
    let mut state = State::new(options, now());
    state.resize(Size { width, height });
    answer(&mut state, &mut shelf);
    for key in keys {
        state.press(key.clone());
        answer(&mut state, &mut shelf);
    }
    state
}

fn answer(state: &mut State, shelf: &mut FakeShelf) {
    while let Some(question) = state.wanted_page() {
        let page = shelf.look(&question);
        state.told(News::Page(question, page));
    }
    if let Some((row, ticket)) = state.wanted_preview() {
        let preview = shelf.preview(&row);
        state.told(News::Preview(row.id, ticket, preview));
    }
}

fn drawn(state: &State) -> Buffer {
    let Size { width, height } = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the content of the screen without colours.
fn picture(state: &State) -> String {
    let buffer = drawn(state);
    let mut lines = Vec::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..buffer.area.width {
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            covered = text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

const USUAL: (u16, u16) = (80, 24);

#[test]
fn the_first_picture() {
    insta::assert_snapshot!(picture(&state(30_000, USUAL, "", &[])), @r"
    › type to search
    ── everywhere · 30,000 conversations ───────────────────────────────────────────
    ›  now claude   Fix the flaky payment test           @checkout segue           1
       now codex    Why does the build take nine minutes…  running web shop        2
        1m gemini   支払いテストを直して、ログも見て    #pay #日本 notes           3
        3m opencode tab here, bell, colour red, newline…  archived segue           4
        5m claude   إصلاح اختبار الدفع                             web shop        5
        8m codex    👩 launch 👍 ❤ done                       gone notes           6
       12m gemini   (no title)                                     segue           7
       16m opencode refactor                                       web shop        8
       21m claude   a very long title a very long title a very lo… notes           9
       27m codex    conversation 9                                 segue          10
       33m gemini   Fix the flaky payment test                     web shop       11
       40m opencode Why does the build take nine minutes on a col… notes          12
    ────────────────────────────────────────────────────────────────────────────────
    Fix the flaky payment test
    claude · 1 turn · just now · segue · main · @checkout
    ~/code/segue · opus-5 · 12.3k tokens · id-0

    1 › What about number 1?
        I mean this one:
            let x = 1;
    It is really really really really really really really really really really
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ^T tag  ^S archive  ? help
    ");
}

#[test]
fn a_wide_terminal_has_the_preview_beside_the_list() {
    let keys = [Key::Move(Move::Down), Key::Move(Move::Down)];
    insta::assert_snapshot!(picture(&state(30_000, (130, 16), "", &keys)), @r"
    › type to search
    ── everywhere · 30,000 conversations ─────────────────────────────────────────────────────────────────────────────────────────────
       now claude   Fix the flaky payment… @checkout segue          1 │ 支払いテストを直して、ログも見て
       now codex    Why does the build take… running web shop       2 │ gemini · 3 turns · 1 minute ago · notes · main · #pay · #日本
    ›   1m gemini   支払いテストを直して… #pay #日本 notes          3 │ ~/code/notes · opus-5 · 12.3k tokens · id-2
        3m opencode tab here, bell, colour… archived segue          4 │
        5m claude   إصلاح اختبار الدفع               web shop       5 │ 3 › What about number 3?
        8m codex    👩 launch 👍 ❤ done         gone notes          6 │     I mean this one:
       12m gemini   (no title)                       segue          7 │         let x = 3;
       16m opencode refactor                         web shop       8 │ It is really really really really really really really really
       21m claude   a very long title a very long t… notes          9 │ really really really really number 3, as far as I can see.
       27m codex    conversation 9                   segue         10 │
       33m gemini   Fix the flaky payment test       web shop      11 │ 2 › What about number 2?
       40m opencode Why does the build take nine mi… notes         12 │     I mean this one:
       48m claude   支払いテストを直して、ログも見て segue         13 │         let x = 2;
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ^T tag  ^S archive  ? help
    ");
}

#[test]
fn a_small_terminal_has_the_list_alone() {
    insta::assert_snapshot!(picture(&state(30_000, (40, 10), "", &[])), @r"
    › type to search
    ── everywhere · 30,000 conversations ───
    ›  now claude Fix the flaky p… @checkout
       now codex  Why does the buil… running
        1m gemini 支払いテストを… #pay #日本
        3m openc… tab here, bell,…  archived
        5m claude إصلاح اختبار الدفع
        8m codex  👩 launch 👍 ❤ done   gone
       12m gemini (no title)
    Enter resume  ^O show  ? help
    ");
    insta::assert_snapshot!(picture(&state(30_000, (20, 4), "", &[])), @r"
    › type to search
    ── everywhere · 30,…
    ›  now Fix th… @che…
    Enter resume  ? help
    ");
}

#[test]
fn hits_are_shown_where_there_is_room() {
    let mut state = state(30_000, USUAL, "refactor", &[Key::Order, Key::Place]);
    state.told(News::Progress("reading claude 120/3,000".to_owned()));
    insta::assert_snapshot!(picture(&state), @r"
    › refactor
    ── this project · best first · 60+ conversations ─── reading claude 120/3,000 ──
    ›   2y opencode refactor  …so that the refactor is seen by everybody…        628
        2y codex    refactor  …so that the refactor is seen by everybody…        598
      24mo opencode refactor  …so that the refactor is seen by everybody…        568
      23mo codex    refactor  …so that the refactor is seen by everybody…        538
      22mo opencode refactor  …so that the refactor is seen by everybody…        508
      21mo codex    refactor  …so that the refactor is seen by everybody…        478
      20mo opencode refactor  …so that the refactor is seen by everybody…        448
      20mo codex    refactor  …so that the refactor is seen by everybody…        418
      19mo opencode refactor  …so that the refactor is seen by everybody…        388
      18mo codex    refactor  …so that the refactor is seen by everybody…        358
      17mo opencode refactor  …so that the refactor is seen by everybody…        328
      17mo codex    refactor  …so that the refactor is seen by everybody…        298
    ────────────────────────────────────────────────────────────────────────────────
    refactor
    opencode · 628 turns · 772 days ago · segue
    ~/code/segue · opus-5 · 12.3k tokens · id-1827

    …so that the refactor is seen by everybody…

    628 › What about number 628?
          I mean this one:
    Enter resume  ^O show  ^X handoff  Tab everywhere  ^Y fork  ^T tag  F1 help
    ");
}

#[test]
fn questions_lie_over_the_list() {
    let third = vec![Key::Move(Move::Down); 2];
    let tag = [&third[..], &[Key::Tag, Key::Char('x')]].concat();
    insta::assert_snapshot!(picture(&state(30, (60, 16), "", &tag)), @r"
    › type to search
    ── everywhere · 30 conversations ───────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
    ›   1m gemini   支払いテストを…  #pay #日本 notes          3
        3m opencode tab here, bell, c… archived segue          4
        5┌ tag ───────────────────────────────────────────┐    5
        8│ 支払いテストを直して、ログも見て               │    6
       12│ #x                                             │    7
    ─────└───── Enter tags, -word takes off, Esc does not ┘─────
    支払いテストを直して、ログも見て
    gemini · 3 turns · 1 minute ago · notes · main · #pay · #日…
    ~/code/notes · opus-5 · 12.3k tokens · id-2

    3 › What about number 3?
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
    let handoff = [&third[..], &[Key::Handoff, Key::Move(Move::Down)]].concat();
    insta::assert_snapshot!(picture(&state(30, (60, 16), "", &handoff)), @r"
    › type to search
    ── everywhere · 30 conversations ───────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
    ›   1m gemini   支払いテストを…  #pay #日本 notes          3
        3┌ hand over to ──────────────────────────────────┐    4
        5│ 支払いテストを直して、ログも見て               │    5
        8│   1 claude                                     │    6
       12│ › 2 codex                                      │    7
    ─────└──────────────── Enter hands over, Esc does not ┘─────
    支払いテストを直して、ログも見て
    gemini · 3 turns · 1 minute ago · notes · main · #pay · #日…
    ~/code/notes · opus-5 · 12.3k tokens · id-2

    3 › What about number 3?
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
}

#[test]
fn the_help_tells_all_keys() {
    insta::assert_snapshot!(picture(&state(30, USUAL, "", &[Key::Char('?')])), @r#"
    › type t┌ keys ────────────────────────────────────────────────────────┐
    ── every│ Enter            resume it in its own agent                  │────────
    ›  now c│ Ctrl-O           leave, and print what was said              │       1
       now c│ Ctrl-X           hand it over to another agent               │       2
        1m g│ Ctrl-Y           fork it: the same past, a future of its own │       3
        3m o│ Ctrl-T           tag it                                      │       4
        5m c│ Ctrl-S           archive it: a copy that nobody cleans up    │       5
        8m c│                                                              │       6
       12m g│ Up, Down         move; also Ctrl-P, Ctrl-N                   │       7
       16m o│ PgUp, PgDn       move by a page                              │       8
       21m c│ Home, End        the first, the last                         │       9
       27m c│ Shift-Up, -Down  scroll the preview                          │      10
       33m g│ Tab              this project, or everywhere                 │      11
       40m o│ Ctrl-R           the newest first, or the best               │      12
    ────────│                                                              │────────
    Fix the │ provider:codex   only those of an agent                      │
    claude ·│ project:NAME     only those of a project                     │
    ~/code/s│ tag:NAME         only those with a tag                       │
            │ after:7d         only those touched since then               │
    1 › What│ "a phrase"       these words, in this order                  │
        I me│ Ctrl-W, -U       delete a word, all before the cursor        │
            │ Esc              clear the search; then leave                │
    It is re│ Ctrl-C, -Z, -L   leave, suspend, look again                  │lly
    Enter re└────────────────────────────────────────────── any key closes ┘  ? help
    "#);
    let keys = [Key::Char('?'), Key::Move(Move::Last)];
    insta::assert_snapshot!(picture(&state(30, (50, 8), "", &keys)), @r#"
    ┌ keys ──────────────────────────────────────────┐
    │ tag:NAME         only those with a tag         │
    │ after:7d         only those touched since then │
    │ "a phrase"       these words, in this order    │
    │ Ctrl-W, -U       delete a word, all before th… │
    │ Esc              clear the search; then leave  │
    │ Ctrl-C, -Z, -L   leave, suspend, look again    │
    └──────────────────────────────── Up, Down: more ┘
    "#);
}

#[test]
fn where_there_is_nothing_it_says_what_to_do() {
    let cases = [
        ("", &[][..]),
        ("", &[Key::Place]),
        ("x", &[]),
        ("x", &[Key::Place]),
    ];
    let pictures = cases.map(|(typed, keys)| picture(&state(0, (60, 7), typed, keys)));
    insta::assert_snapshot!(pictures.join("\n"), @r#"
    › type to search
    ── everywhere · 0 conversations ────────────────────────────

      There are no conversations yet.
      Start one:  segue chat "explain this repository"
      See which agents are here:  segue doctor
    Tab here  Esc leave  ? help
    › type to search
    ── this project · 0 conversations ──────────────────────────

      There are no conversations in this project yet.
      Start one:  segue chat "explain this repository"
      Tab looks everywhere.
    Tab everywhere  Esc leave  ? help
    › x
    ── everywhere · newest first · 0 conversations ─────────────

      Nothing matches.
      Esc clears the search; F1 tells what can be typed.

    Tab here  Esc clear  F1 help
    › x
    ── this project · newest first · 0 conversations ───────────

      Nothing in this project matches.
      Tab looks everywhere; Esc clears the search.

    Tab everywhere  Esc clear  F1 help
    "#);
}

#[test]
fn errors_are_one_line_and_the_list_before_stays_in_view() {
    let mut wrong = state(3, (60, 8), "", &[]);
    let mut shelf = FakeShelf::of(now(), 3);
    wrong.press(Key::Paste("error:\u{7}x".to_owned()));
    answer(&mut wrong, &mut shelf);
    insta::assert_snapshot!(picture(&wrong), @r"
    › error:x
    ── everywhere · newest first ───────────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
        1m gemini   支払いテストを…  #pay #日本 notes          3


    error: there is no agent `x`
    ");
    let selected = drawn(&wrong)
        .content
        .iter()
        .any(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert!(
        !selected,
        "a row of another list looks as if it could be chosen"
    );
}

#[test]
fn rows_that_are_not_there_yet_have_their_place() {
    let mut late = state(30_000, (60, 8), "", &[]);
    late.press(Key::Move(Move::Last));
    insta::assert_snapshot!(picture(&late), @r"
    › type to search
    ── everywhere · 30,000 conversations ───────────────────────
           …
           …
           …
           …
           …
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
}

/// Returns states that together show every element of the screen.
fn all_states(size: (u16, u16)) -> Vec<State> {
    let down = Key::Move(Move::Down);
    let mut states = vec![
        state(0, size, "", &[]),
        state(30, size, "", &[Key::Char('?'), down.clone()]),
        state(30, size, "", &[Key::Handoff, down.clone()]),
        state(30, size, "", &[Key::Tag, Key::Paste("日本語".repeat(20))]),
        state(30, size, "error:日本語", &[]),
        state(30, size, "e", &[Key::Move(Move::Last)]),
        state(30, size, &"long ".repeat(60), &[]),
    ];
    states.extend((0..10).map(|n| state(30, size, "", &vec![down.clone(); n])));
    let mut busy = state(30, size, "", &[]);
    busy.told(News::Progress("reading 日本語 12/3,000".to_owned()));
    let done = Done {
        said: "tagged\nit".to_owned(),
        id: "id-0".to_owned(),
        fork: None,
    };
    busy.told(News::Acted("id-0".to_owned(), Ok(done)));
    states.push(busy);
    let mut broken = state(30, size, "", &[]);
    broken.told(News::Refreshed(Err("x".repeat(300))));
    broken.told(News::Refreshed(Ok(Refreshed::Nothing)));
    states.push(broken);
    states
}

#[test]
fn every_size_can_be_drawn() {
    for width in [0, 1, 2, 5, 13, 30, 40, 60, 90, 110, 200] {
        for height in [0, 1, 2, 3, 4, 8, 16, 24] {
            for state in all_states((width, height)) {
                drawn(&state);
            }
        }
    }
}

#[test]
fn columns_stand_under_each_other_whatever_the_titles_are() {
    for width in [60, 80, 100, 200] {
        let state = state(30, (width, 14), "", &[]);
        let buffer = drawn(&state);
        let width = Layout::of(state.size).list.width;
        let columns = (3..12).map(|y| {
            let last = (0..width).rev().find(|&x| {
                buffer[(x, y)]
                    .symbol()
                    .starts_with(|c: char| c.is_ascii_digit())
            });
            last.unwrap()
        });
        let mut columns: Vec<u16> = columns.collect();
        columns.dedup();
        assert_eq!(columns.len(), 1, "the turns end at {columns:?} of {width}");
    }
}

#[test]
fn the_terminal_keeps_its_background_and_its_colours() {
    const OURS: [Color; 7] = [
        Color::Reset,
        Color::Red,
        Color::Green,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Yellow,
    ];
    for state in all_states(USUAL) {
        for cell in &drawn(&state).content {
            assert_eq!(cell.bg, Color::Reset);
            assert!(OURS.contains(&cell.fg), "{:?}", cell.fg);
        }
    }
    for mut state in all_states(USUAL) {
        state.colour = false;
        for cell in &drawn(&state).content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
}

#[test]
fn the_selected_row_is_seen_without_colours_and_without_reverse() {
    let mut state = state(30, USUAL, "", &[Key::Move(Move::Down)]);
    state.colour = false;
    let buffer = drawn(&state);
    let is_reversed =
        |y: u16| (0..80).all(|x| buffer[(x, y)].modifier.contains(Modifier::REVERSED));
    assert_eq!((0..24).filter(|&y| is_reversed(y)).collect::<Vec<_>>(), [3]);
    assert_eq!(buffer[(0, 3)].symbol(), "›");
    assert_eq!(buffer[(0, 2)].symbol(), " ");
}
