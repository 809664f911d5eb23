//! Writes `docs/images/picker.svg`, the screenshot of the README: the picker with sample sessions, in a real terminal.
//!
//! Run it after a change of the picker: `cargo build -p segue && cargo run -p segue --example screenshot`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use segue_testkit::TestHome;
use segue_testkit::terminal::Pty;
use serde_json::{Value, json};

const COLUMNS: u16 = 100;
const ROWS: u16 = 24;
const CELL_WIDTH: f32 = 8.4;
const CELL_HEIGHT: f32 = 18.0;
const MARGIN: f32 = 12.0;
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d4d7dd";

/// The sixteen colours of a terminal.
const PALETTE: [&str; 16] = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
    "#7f848e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff",
];

/// A sample session of Claude Code or Codex.
struct SampleSession {
    id: &'static str,
    agent: &'static str,
    project: &'static str,
    age: SignedDuration,
    messages: &'static [(&'static str, &'static str)],
}

const SAMPLE_SESSIONS: &[SampleSession] = &[
    SampleSession {
        id: "70d61e65-1f2f-4c1e-9a57-0d4a3c1f7f7e",
        agent: "claude",
        project: "app",
        age: SignedDuration::from_mins(65),
        messages: &[
            ("user", "why does the parser drop the last line?"),
            (
                "assistant",
                "The reader splits at newlines and ignores the rest of the buffer at the end of the file.",
            ),
            ("user", "fix it, with a test"),
            (
                "assistant",
                "Done. The parser now treats the remaining text as the last line, and `no_newline_at_end` covers it.",
            ),
        ],
    },
    SampleSession {
        id: "b3c0a5d2-4e07-4a51-9c1d-7f2d0c6b8e11",
        agent: "claude",
        project: "shop",
        age: SignedDuration::from_hours(23),
        messages: &[
            ("user", "the payment test is flaky, find out why"),
            (
                "assistant",
                "The test connects before the payment server listens. It should wait for the port.",
            ),
        ],
    },
    SampleSession {
        id: "01a1e0cf-4eff-7f50-887a-feb5036ba03b",
        agent: "codex",
        project: "app",
        age: SignedDuration::from_hours(50),
        messages: &[
            ("user", "add a retry to the uploader"),
            (
                "assistant",
                "The uploader now retries three times with exponential backoff.",
            ),
            ("user", "it still fails at once when the server is down"),
            (
                "assistant",
                "A refused connection did not count as transient. It does now.",
            ),
        ],
    },
    SampleSession {
        id: "4f6d2a90-7b1e-4c57-8d3f-2a1b9c8d7e6f",
        agent: "claude",
        project: "shop",
        age: SignedDuration::from_hours(24 * 9),
        messages: &[
            ("user", "write a migration for the order table"),
            (
                "assistant",
                "The migration adds `shipped_at` and backfills it from the events.",
            ),
        ],
    },
];

fn main() {
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().parent().unwrap().join("segue");
    let home = TestHome::new(program);
    for session in SAMPLE_SESSIONS {
        write_session(&home, session);
    }
    let _ = home.run_segue([
        "chat",
        "-p",
        "rehearsal",
        "--feature",
        "auth",
        "add the login form",
    ]);
    let mut command = home.segue_command::<&str>([]);
    command.env("TERM", "xterm-256color");
    let mut terminal = Pty::start(&command, (COLUMNS, ROWS));
    terminal.wait_for_text("5 sessions");
    terminal.wait_for_absence("refreshing");
    terminal.type_keys("\u{1b}[B");
    terminal.wait_for_text("no_newline_at_end");
    let svg = render_svg(
        terminal.lock_content().screen(),
        &home.path().to_string_lossy(),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/picker.svg");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, svg).unwrap();
}

/// Writes a session in the format of its agent.
fn write_session(home: &TestHome, session: &SampleSession) {
    let cwd = home.path().join("src").join(session.project);
    fs::create_dir_all(&cwd).unwrap();
    let cwd = cwd.to_string_lossy();
    let started_at = Timestamp::now() - session.age;
    let time = |index: usize| {
        let seconds = i64::try_from(index).unwrap();
        (started_at + SignedDuration::from_secs(seconds)).to_string()
    };
    let numbered = session.messages.iter().enumerate();
    let (path, lines): (_, Vec<Value>) = if session.agent == "claude" {
        let line = |(index, (role, text)): (usize, &(&str, &str))| {
            json!({
                "type": role, "uuid": format!("m{index}"), "sessionId": session.id, "cwd": cwd, "timestamp": time(index),
                "parentUuid": index.checked_sub(1).map(|parent| format!("m{parent}")),
                "message": { "role": role, "content": [{ "type": "text", "text": text }] },
            })
        };
        let path = format!(
            ".claude/projects/-src-{}/{}.jsonl",
            session.project, session.id
        );
        (path, numbered.map(line).collect())
    } else {
        let meta = json!({
            "timestamp": time(0), "type": "session_meta",
            "payload": { "id": session.id, "timestamp": time(0), "cwd": cwd, "cli_version": "0.166.0" },
        });
        let line = |(index, (role, text)): (usize, &(&str, &str))| {
            let kind = if *role == "user" {
                "input_text"
            } else {
                "output_text"
            };
            json!({
                "timestamp": time(index), "type": "response_item",
                "payload": { "type": "message", "role": role, "content": [{ "type": kind, "text": text }] },
            })
        };
        let path = format!(
            ".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{}.jsonl",
            session.id
        );
        (path, [meta].into_iter().chain(numbered.map(line)).collect())
    };
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    fs::write(path, text).unwrap();
}

/// Returns the colour of a cell in SVG.
fn svg_color(color: vt100::Color, default: &str) -> String {
    match color {
        vt100::Color::Default => default.to_owned(),
        vt100::Color::Idx(index) => match PALETTE.get(usize::from(index)) {
            Some(color) => (*color).to_owned(),
            None => default.to_owned(),
        },
        vt100::Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

/// Renders a screen as SVG, with one text element for each run of cells of the same style. Shows the path of the home
/// directory as `/home/ada`.
fn render_svg(screen: &vt100::Screen, home: &str) -> String {
    let (width, height) = (
        f32::from(COLUMNS) * CELL_WIDTH + 2.0 * MARGIN,
        f32::from(ROWS) * CELL_HEIGHT + 2.0 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..ROWS {
        let mut column = 0;
        while column < COLUMNS {
            let start = column;
            let style = cell_style(screen, row, column);
            let mut text = String::new();
            while column < COLUMNS && cell_style(screen, row, column) == style {
                let content = screen.cell(row, column).map_or("", vt100::Cell::contents);
                text.push_str(if content.is_empty() { " " } else { content });
                column += 1;
            }
            let is_visible = !text.trim().is_empty() || style.background != BACKGROUND;
            if is_visible {
                write_run(
                    &mut svg,
                    &style,
                    &text.replace(home, "/home/ada"),
                    (row, start),
                );
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[derive(PartialEq)]
struct CellStyle {
    foreground: String,
    background: String,
    is_bold: bool,
    is_dim: bool,
}

fn cell_style(screen: &vt100::Screen, row: u16, column: u16) -> CellStyle {
    let Some(cell) = screen.cell(row, column) else {
        return CellStyle {
            foreground: FOREGROUND.to_owned(),
            background: BACKGROUND.to_owned(),
            is_bold: false,
            is_dim: false,
        };
    };
    let foreground = svg_color(cell.fgcolor(), FOREGROUND);
    let background = svg_color(cell.bgcolor(), BACKGROUND);
    let (foreground, background) = if cell.inverse() {
        (background, foreground)
    } else {
        (foreground, background)
    };
    CellStyle {
        foreground,
        background,
        is_bold: cell.bold(),
        is_dim: cell.dim(),
    }
}

fn write_run(svg: &mut String, style: &CellStyle, text: &str, (row, column): (u16, u16)) {
    let x = MARGIN + f32::from(column) * CELL_WIDTH;
    let y = MARGIN + f32::from(row) * CELL_HEIGHT;
    let width = f32::from(u16::try_from(text.chars().count()).unwrap()) * CELL_WIDTH;
    if style.background != BACKGROUND {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{CELL_HEIGHT}\" fill=\"{}\"/>",
            style.background
        );
    }
    let weight = if style.is_bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let opacity = if style.is_dim { " opacity=\"0.6\"" } else { "" };
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" \
         fill=\"{}\"{weight}{opacity}>{escaped}</text>",
        y + 13.5,
        style.foreground
    );
}
