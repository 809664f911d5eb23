use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use super::*;
use crate::picker::data_source::{DataSource, ListRefresh, RowActionOutcome};
use crate::picker::keys::{ListMove, PickerKey};
use crate::picker::state::WorkerAnswer;
use crate::picker::tests::local_source::{FakeSource, now};

/// Returns the state over generated data after some keys, with all queries answered.
fn state_after_keys(
    row_count: usize,
    (width, height): (u16, u16),
    search_text: &str,
    keys: &[PickerKey],
) -> PickerState {
    let agents = ["claude", "codex", "gemini"].map(str::to_owned).into();
    let mut source = FakeSource::with_rows(now(), row_count);
    let mut state = PickerState::new(agents, true, now());
    state.search_line.insert(search_text);
    state.resize(Size { width, height });
    answer_queries(&mut state, &mut source);
    for key in keys {
        state.handle_key(key.clone());
        answer_queries(&mut state, &mut source);
    }
    state
}

fn answer_queries(state: &mut PickerState, source: &mut FakeSource) {
    while let Some(query) = state.next_page_query() {
        let page = source.fetch_page(&query);
        state.handle_answer(WorkerAnswer::Page(query, page));
    }
    if let Some((row, version)) = state.next_preview_request() {
        let preview = source.load_preview(&row);
        state.handle_answer(WorkerAnswer::Preview(row.id, version, preview));
    }
}

fn draw_buffer(state: &PickerState) -> Buffer {
    let Size { width, height } = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw_screen(state, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the content of the screen without colours.
fn screen_text(state: &PickerState) -> String {
    let buffer = draw_buffer(state);
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
            covered = text::display_width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

const DEFAULT_SIZE: (u16, u16) = (80, 24);

#[test]
fn the_first_frame_shows_the_list_and_the_preview() {
    insta::assert_snapshot!(screen_text(&state_after_keys(30_000, DEFAULT_SIZE, "", &[])), @r"
    › type to search
    ── all projects · 30,000 sessions ──────────────────────────────────────────────
    ›  now claude   Fix the flaky payment test           @checkout segue           1
       now codex    Why does the build take nine minutes…  running web shop        2
        1m gemini   支払いテストを直して、ログも見て    #pay #日本 notes           3
        3m opencode tab here, bell, colour red, newline…  archived segue           4
        5m claude   إصلاح اختبار الدفع                             web shop        5
        8m codex    👩 launch 👍 ❤ done                    deleted notes           6
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
fn a_wide_terminal_shows_the_preview_next_to_the_list() {
    let keys = [
        PickerKey::Move(ListMove::Down),
        PickerKey::Move(ListMove::Down),
    ];
    insta::assert_snapshot!(screen_text(&state_after_keys(30_000, (130, 16), "", &keys)), @r"
    › type to search
    ── all projects · 30,000 sessions ────────────────────────────────────────────────────────────────────────────────────────────────
       now claude   Fix the flaky payment… @checkout segue          1 │ 支払いテストを直して、ログも見て
       now codex    Why does the build take… running web shop       2 │ gemini · 3 turns · 1 minute ago · notes · main · #pay · #日本
    ›   1m gemini   支払いテストを直して… #pay #日本 notes          3 │ ~/code/notes · opus-5 · 12.3k tokens · id-2
        3m opencode tab here, bell, colour… archived segue          4 │
        5m claude   إصلاح اختبار الدفع               web shop       5 │ 3 › What about number 3?
        8m codex    👩 launch 👍 ❤ done      deleted notes          6 │     I mean this one:
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
fn a_small_terminal_shows_only_the_list() {
    insta::assert_snapshot!(screen_text(&state_after_keys(30_000, (40, 10), "", &[])), @r"
    › type to search
    ── all projects · 30,000 sessions ──────
    ›  now claude Fix the flaky p… @checkout
       now codex  Why does the buil… running
        1m gemini 支払いテストを… #pay #日本
        3m openc… tab here, bell,…  archived
        5m claude إصلاح اختبار الدفع
        8m codex  👩 launch 👍 ❤ do… deleted
       12m gemini (no title)
    Enter resume  ^O show  ? help
    ");
    insta::assert_snapshot!(screen_text(&state_after_keys(30_000, (20, 4), "", &[])), @r"
    › type to search
    ── all projects · 3…
    ›  now Fix th… @che…
    Enter resume  ? help
    ");
}

#[test]
fn snippets_are_shown_if_they_fit() {
    let mut state = state_after_keys(
        30_000,
        DEFAULT_SIZE,
        "refactor",
        &[PickerKey::ToggleOrder, PickerKey::ToggleProjects],
    );
    state.handle_answer(WorkerAnswer::Progress(
        "reading claude 120/3,000".to_owned(),
    ));
    insta::assert_snapshot!(screen_text(&state), @r"
    › refactor
    ── this project · best match first · 60+ sessions ── reading claude 120/3,000 ──
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
    Enter resume  ^O show  ^X handoff  Tab all  ^Y fork  ^T tag  ^S archive  F1 help
    ");
}

#[test]
fn dialogs_overlay_the_list() {
    let third = vec![PickerKey::Move(ListMove::Down); 2];
    let tag = [&third[..], &[PickerKey::Tag, PickerKey::Char('x')]].concat();
    insta::assert_snapshot!(screen_text(&state_after_keys(30, (60, 16), "", &tag)), @r"
    › type to search
    ── all projects · 30 sessions ──────────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
    ›   1m gemini   支払いテストを…  #pay #日本 notes          3
        3m opencode tab here, bell, c… archived segue          4
        5┌ tag ───────────────────────────────────────────┐    5
        8│ 支払いテストを直して、ログも見て               │    6
       12│ #x                                             │    7
    ─────└─ Enter: apply, -TAG: remove a tag, Esc: cancel ┘─────
    支払いテストを直して、ログも見て
    gemini · 3 turns · 1 minute ago · notes · main · #pay · #日…
    ~/code/notes · opus-5 · 12.3k tokens · id-2

    3 › What about number 3?
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
    let handoff = [
        &third[..],
        &[PickerKey::Handoff, PickerKey::Move(ListMove::Down)],
    ]
    .concat();
    insta::assert_snapshot!(screen_text(&state_after_keys(30, (60, 16), "", &handoff)), @r"
    › type to search
    ── all projects · 30 sessions ──────────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
    ›   1m gemini   支払いテストを…  #pay #日本 notes          3
        3┌ hand off to ───────────────────────────────────┐    4
        5│ 支払いテストを直して、ログも見て               │    5
        8│   1 claude                                     │    6
       12│ › 2 codex                                      │    7
    ─────└────────────────── Enter: hand off, Esc: cancel ┘─────
    支払いテストを直して、ログも見て
    gemini · 3 turns · 1 minute ago · notes · main · #pay · #日…
    ~/code/notes · opus-5 · 12.3k tokens · id-2

    3 › What about number 3?
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
}

#[test]
fn the_help_lists_all_keys() {
    insta::assert_snapshot!(screen_text(&state_after_keys(30, DEFAULT_SIZE, "", &[PickerKey::Char('?')])), @r#"
    › type to ┌ keys ────────────────────────────────────────────────────┐
    ── all pro│ Enter            resume in the agent's own program       │──────────
    ›  now cla│ Ctrl-O           quit and print the transcript           │         1
       now cod│ Ctrl-X           hand the session off to another agent   │p        2
        1m gem│ Ctrl-Y           fork the session                        │         3
        3m ope│ Ctrl-T           add or remove tags                      │         4
        5m cla│ Ctrl-S           archive the session                     │p        5
        8m cod│                                                          │         6
       12m gem│ Up, Down         move; also Ctrl-P, Ctrl-N               │         7
       16m ope│ PgUp, PgDn       move by a page                          │p        8
       21m cla│ Home, End        move to the first or last session       │         9
       27m cod│ Shift-Up, -Down  scroll the preview                      │        10
       33m gem│ Tab              show this project or all projects       │p       11
       40m ope│ Ctrl-R           sort by date or by best match           │        12
    ──────────│                                                          │──────────
    Fix the fl│ provider:codex   only sessions of this agent             │
    claude · 1│ project:NAME     only sessions of this project           │
    ~/code/seg│ tag:NAME         only sessions with this tag             │
              │ after:7d         only sessions active since then         │
    1 › What a│ "a phrase"       these words in this order               │
        I mean│ Ctrl-W, -U       delete a word, or all before the cursor │
            le│ Esc              clear the search, then quit             │
    It is real│ Ctrl-C, -Z, -L   quit, suspend, refresh                  │eally
    Enter resu└────────────────────────────────────────── any key: close ┘ve  ? help
    "#);
    let keys = [PickerKey::Char('?'), PickerKey::Move(ListMove::Last)];
    insta::assert_snapshot!(screen_text(&state_after_keys(30, (50, 8), "", &keys)), @r#"
    ┌ keys ──────────────────────────────────────────┐
    │ tag:NAME         only sessions with this tag   │
    │ after:7d         only sessions active since t… │
    │ "a phrase"       these words in this order     │
    │ Ctrl-W, -U       delete a word, or all before… │
    │ Esc              clear the search, then quit   │
    │ Ctrl-C, -Z, -L   quit, suspend, refresh        │
    └──────────────────────────────── Up, Down: more ┘
    "#);
}

#[test]
fn an_empty_list_shows_suggestions() {
    let cases = [
        ("", &[][..]),
        ("", &[PickerKey::ToggleProjects]),
        ("x", &[]),
        ("x", &[PickerKey::ToggleProjects]),
    ];
    let screens = cases
        .map(|(search_text, keys)| screen_text(&state_after_keys(0, (60, 7), search_text, keys)));
    insta::assert_snapshot!(screens.join("\n"), @r#"
    › type to search
    ── all projects · 0 sessions ───────────────────────────────

      No sessions yet.
      Start one:  segue chat "explain this repository"
      List the agents:  segue doctor
    Tab here  Esc quit  ? help
    › type to search
    ── this project · 0 sessions ───────────────────────────────

      No sessions in this project yet.
      Start one:  segue chat "explain this repository"
      Tab: show all projects.
    Tab all  Esc quit  ? help
    › x
    ── all projects · newest first · 0 sessions ────────────────

      No matches.
      Esc: clear the search. F1: list the search filters.

    Tab here  Esc clear  F1 help
    › x
    ── this project · newest first · 0 sessions ────────────────

      No matches in this project.
      Tab: search all projects. Esc: clear the search.

    Tab all  Esc clear  F1 help
    "#);
}

#[test]
fn an_error_takes_one_line_and_the_previous_list_stays_visible() {
    let mut failed_state = state_after_keys(3, (60, 8), "", &[]);
    let mut source = FakeSource::with_rows(now(), 3);
    failed_state.handle_key(PickerKey::Paste("error:\u{7}x".to_owned()));
    answer_queries(&mut failed_state, &mut source);
    insta::assert_snapshot!(screen_text(&failed_state), @r"
    › error:x
    ── all projects · newest first ─────────────────────────────
       now claude   Fix the flaky pa… @checkout segue          1
       now codex    Why does the build… running web shop       2
        1m gemini   支払いテストを…  #pay #日本 notes          3


    error: unknown agent `x`
    ");
    let has_selection = draw_buffer(&failed_state)
        .content
        .iter()
        .any(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert!(
        !has_selection,
        "a row of the outdated list is shown as selected"
    );
}

#[test]
fn rows_that_are_not_fetched_are_shown_as_placeholders() {
    let mut pending_state = state_after_keys(30_000, (60, 8), "", &[]);
    pending_state.handle_key(PickerKey::Move(ListMove::Last));
    insta::assert_snapshot!(screen_text(&pending_state), @r"
    › type to search
    ── all projects · 30,000 sessions ──────────────────────────
           …
           …
           …
           …
           …
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ? help
    ");
}

/// Returns states that together show every element of the screen.
fn all_states(size: (u16, u16)) -> Vec<PickerState> {
    let down = PickerKey::Move(ListMove::Down);
    let mut states = vec![
        state_after_keys(0, size, "", &[]),
        state_after_keys(30, size, "", &[PickerKey::Char('?'), down.clone()]),
        state_after_keys(30, size, "", &[PickerKey::Handoff, down.clone()]),
        state_after_keys(
            30,
            size,
            "",
            &[PickerKey::Tag, PickerKey::Paste("日本語".repeat(20))],
        ),
        state_after_keys(30, size, "error:日本語", &[]),
        state_after_keys(30, size, "e", &[PickerKey::Move(ListMove::Last)]),
        state_after_keys(30, size, &"long ".repeat(60), &[]),
    ];
    states.extend((0..10).map(|n| state_after_keys(30, size, "", &vec![down.clone(); n])));
    let mut busy = state_after_keys(30, size, "", &[]);
    busy.handle_answer(WorkerAnswer::Progress("reading 日本語 12/3,000".to_owned()));
    let outcome = RowActionOutcome {
        message: "tagged\nit".to_owned(),
        id: "id-0".to_owned(),
        fork_id: None,
    };
    busy.handle_answer(WorkerAnswer::Acted("id-0".to_owned(), Ok(outcome)));
    states.push(busy);
    let mut broken = state_after_keys(30, size, "", &[]);
    broken.handle_answer(WorkerAnswer::Refreshed(Err("x".repeat(300))));
    broken.handle_answer(WorkerAnswer::Refreshed(Ok(ListRefresh::Unchanged)));
    states.push(broken);
    states
}

#[test]
fn every_terminal_size_can_be_drawn() {
    for width in [0, 1, 2, 5, 13, 30, 40, 60, 90, 110, 200] {
        for height in [0, 1, 2, 3, 4, 8, 16, 24] {
            for state in all_states((width, height)) {
                draw_buffer(&state);
            }
        }
    }
}

#[test]
fn columns_are_aligned_for_all_titles() {
    for width in [60, 80, 100, 200] {
        let state = state_after_keys(30, (width, 14), "", &[]);
        let buffer = draw_buffer(&state);
        let width = PickerLayout::for_size(state.size).list.width;
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
fn only_the_terminals_own_colours_are_used() {
    const ALLOWED_COLOURS: [Color; 7] = [
        Color::Reset,
        Color::Red,
        Color::Green,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Yellow,
    ];
    for state in all_states(DEFAULT_SIZE) {
        for cell in &draw_buffer(&state).content {
            assert_eq!(cell.bg, Color::Reset);
            assert!(ALLOWED_COLOURS.contains(&cell.fg), "{:?}", cell.fg);
        }
    }
    for mut state in all_states(DEFAULT_SIZE) {
        state.use_colour = false;
        for cell in &draw_buffer(&state).content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
}

#[test]
fn the_selected_row_is_visible_without_colours() {
    let mut state = state_after_keys(30, DEFAULT_SIZE, "", &[PickerKey::Move(ListMove::Down)]);
    state.use_colour = false;
    let buffer = draw_buffer(&state);
    let is_reversed =
        |y: u16| (0..80).all(|x| buffer[(x, y)].modifier.contains(Modifier::REVERSED));
    assert_eq!((0..24).filter(|&y| is_reversed(y)).collect::<Vec<_>>(), [3]);
    assert_eq!(buffer[(0, 3)].symbol(), "›");
    assert_eq!(buffer[(0, 2)].symbol(), " ");
}
