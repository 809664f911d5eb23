//! `segue session info` and `segue session show` for native sessions.

use std::io::Write;
use std::ops::ControlFlow;

use jiff::Timestamp;
use segue_agents::known;
use segue_catalog::{NativeTurn, ReadError, Skipped};
use segue_core::number_format::figure;
use segue_core::session::TurnState;
use segue_engine::{EngineError, Native, Survey};

use super::show::{Layout, print_turn, turn_index};
use crate::app::App;
use crate::cli::ShowArgs;
use crate::error::CliError;
use crate::json_output::{self, SessionJson, TurnJson, print_json};
use crate::terminal::{Style, ago, one_line, print, say};

/// Maximum size in bytes of a session that is read completely in order to number its last turns.
const NUMBERED: u64 = 64 << 20;

/// Storage of a native session.
#[derive(Clone, Copy)]
enum Whose {
    /// The files of its agent.
    Agents,
    /// Only segue's archive, because the agent no longer has the session.
    Archives,
}

impl Whose {
    fn of(app: &App, native: &Native) -> Self {
        if app.engine.only_archived(&native.session) {
            Self::Archives
        } else {
            Self::Agents
        }
    }

    /// Returns the command with which the user resumes or restores the session.
    fn go_on(self, native: &Native) -> Option<String> {
        let (agent, id) = (&native.session.provider, &native.session.head.id);
        match self {
            Self::Agents => {
                let command = known::resume_command(agent.as_str(), id)?;
                Some(format!("{command}   (in that directory)"))
            }
            Self::Archives => Some(format!(
                "segue session restore {agent}:{id}   (gives it back to {agent})"
            )),
        }
    }

    fn in_a_sentence(self, native: &Native) -> String {
        let agent = &native.session.provider;
        match self {
            Self::Agents => format!("{agent} keeps this session; segue only reads it"),
            Self::Archives => {
                format!("{agent} does not have this session any more; it is in segue's archive")
            }
        }
    }

    fn in_short(self, native: &Native) -> String {
        match self {
            Self::Agents => format!("kept by {}", native.session.provider),
            Self::Archives => "only in segue's archive".to_owned(),
        }
    }
}

/// Reads a native session. Fails if it has no turns, which is possible because the index may list a file that was a
/// conversation earlier.
fn surveyed(app: &App, native: &Native) -> Result<Survey, CliError> {
    let survey = app.engine.survey(&native.session)?;
    if survey.turns.is_empty() {
        let cause = ReadError::NotASession {
            path: native.session.found.path.clone(),
            why: "there is no conversation in it".to_owned(),
        };
        return Err(EngineError::from(cause).into());
    }
    Ok(survey)
}

pub(super) fn info(app: &App, native: &Native, json: bool) -> Result<(), CliError> {
    let survey = surveyed(app, native)?;
    if json {
        print_json(&json_output::native_info(native, &survey));
        return Ok(());
    }
    let style = Style::stdout();
    let now = Timestamp::now();
    let (found, head) = (&native.session.found, &native.session.head);
    let field = |name: &str, value: &str| {
        print(&format!(
            "{} {}",
            style.dim(&format!("{name:<9}")),
            one_line(value)
        ));
    };
    let moment = |at: Timestamp| format!("{} ({})", at.strftime("%F %T UTC"), ago(at, now));
    let title = survey.title.as_ref().map(|title| title.as_str().to_owned());
    let title = title.unwrap_or_else(|| super::list::title(native));
    print(&style.bold(&one_line(&title)));
    field("native id", head.id.as_str());
    let version = head.version.as_ref().map(|version| format!(" {version}"));
    let agent = &native.session.provider;
    field("agent", &format!("{agent}{}", version.unwrap_or_default()));
    field("directory", head.cwd.as_deref().unwrap_or("unknown"));
    if let Some(branch) = &head.branch {
        field("branch", branch);
    }
    let tokens = json_output::total_tokens(&survey.turns);
    let tokens = tokens.map_or(String::new(), |tokens| {
        format!(", {} tokens", figure(tokens))
    });
    field("turns", &format!("{}{tokens}", survey.turns.len()));
    if survey.compactions > 0 {
        let times = survey.compactions;
        field(
            "compacted",
            &format!("{times} time(s), by the agent itself"),
        );
    }
    if let Some(at) = head.created_at {
        field("created", &moment(at));
    }
    field("updated", &moment(head.updated_at));
    if let Some(from) = &head.forked_from {
        field("forked", &format!("from {from}"));
    }
    let archived = if found.archived { ", archived" } else { "" };
    field(
        "file",
        &format!("{} ({} bytes{archived})", found.path.display(), found.size),
    );
    let whose = Whose::of(app, native);
    if let Some(command) = whose.go_on(native) {
        field("go on", &command);
    }
    print(&style.dim(&whose.in_a_sentence(native)));
    tell_skipped(survey.skipped);
    Ok(())
}

pub(super) fn transcript(app: &App, native: &Native, args: &ShowArgs) -> Result<(), CliError> {
    let huge = native.session.found.size > NUMBERED;
    if let Some(last) = args.last.filter(|_| huge) {
        let (turns, all) = app.engine.recent(&native.session, last)?;
        let mut printer = Printer::new(app, native, &SessionJson::from(native), args);
        for (n, turn) in (1..).zip(turns) {
            if printer.turn(all.then_some(n), &turn).is_break() {
                break;
            }
        }
        printer.end(None);
        return Ok(());
    }
    let survey = surveyed(app, native)?;
    let session = SessionJson::surveyed(native, &survey);
    let before = match (args.turn, args.last) {
        (Some(n), _) => turn_index(n, survey.turns.len())?,
        (None, Some(last)) => survey.turns.len().saturating_sub(last),
        (None, None) => 0,
    };
    let mut printer = Printer::new(app, native, &session, args);
    let mut tell = |index: usize, turn: NativeTurn| {
        printer.turn(u32::try_from(index + 1).ok(), &turn)?;
        match args.turn {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    app.engine
        .replay(&native.session, &survey, before, &mut tell)?;
    printer.end(Some(survey.skipped));
    Ok(())
}

/// Printer of turns while they are read.
struct Printer<'a> {
    native: &'a Native,
    json: bool,
    full: bool,
    turns: u32,
}

impl<'a> Printer<'a> {
    fn new(app: &App, native: &'a Native, session: &SessionJson, args: &ShowArgs) -> Self {
        if args.one.json {
            let head = serde_json::to_string(session).unwrap_or_default();
            // A closed reader is ignored, because no one is left to report it to.
            let _ = write!(
                std::io::stdout(),
                "{{\"session\":{head},\"legs\":[],\"turns\":["
            );
        } else {
            let style = Style::stdout();
            print(&style.bold(&one_line(&super::list::title(native))));
            let whose = Whose::of(app, native).in_short(native);
            print(&style.dim(&format!("{} · {whose}", native.session.head.id)));
        }
        Self {
            native,
            json: args.one.json,
            full: args.full,
            turns: 0,
        }
    }

    /// Prints a turn. Returns `Break` if the reader is closed.
    fn turn(&mut self, n: Option<u32>, turn: &NativeTurn) -> ControlFlow<()> {
        self.turns += 1;
        if self.json {
            let text = serde_json::to_string(&TurnJson::native(n, turn)).unwrap_or_default();
            let comma = if self.turns == 1 { "" } else { "," };
            return match write!(std::io::stdout(), "{comma}{text}") {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
        }
        let note = match turn.state {
            TurnState::Finished => "",
            // The file does not show whether the turn is running or was cut off.
            TurnState::Running => "unfinished",
            state => state.as_str(),
        };
        let layout = Layout {
            agent: self.native.session.provider.as_str(),
            system: "note",
            full: self.full,
        };
        print_turn(n, note, &turn.messages, layout)
    }

    fn end(self, skipped: Option<Skipped>) {
        if self.json {
            let skipped = skipped.map_or(serde_json::Value::Null, json_output::skipped);
            let _ = writeln!(std::io::stdout(), "],\"skipped\":{skipped}}}");
        } else if let Some(skipped) = skipped {
            tell_skipped(skipped);
        }
    }
}

/// Reports records that could not be read.
fn tell_skipped(skipped: Skipped) {
    let mut missing = Vec::new();
    let mut count = |number: u64, what: &str| {
        if number > 0 {
            missing.push(format!("{number} {what}"));
        }
    };
    count(skipped.malformed, "line(s) that make no sense");
    count(skipped.oversized, "line(s) that are too long");
    count(
        skipped.mended,
        "line(s) with broken characters, shown as \u{fffd}",
    );
    if skipped.orphaned {
        missing.push("the turns before these: they are in a session that is gone".to_owned());
    }
    if skipped.torn {
        missing.push("the last line, which is cut off or still being written".to_owned());
    }
    if !missing.is_empty() {
        let mark = Style::stderr().yellow("segue:");
        say(&format!("{mark} not read: {}", missing.join("; ")));
    }
}
