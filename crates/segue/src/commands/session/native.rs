//! `segue session info` and `segue session show` on sessions that only an agent has.

use std::io::Write;

use jiff::Timestamp;
use segue_catalog::{NativeTurn, Skipped};
use segue_engine::Native;

use super::show::{Speakers, print_turn};
use crate::cli::ShowArgs;
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{Style, ago, clean, print, say};
use crate::wire::{self, SessionJson, TurnJson, print_json};

/// A larger session is not read through only to number its last turns.
const NUMBERED: u64 = 64 << 20;

pub(super) fn info(app: &App, native: &Native, json: bool) -> Result<(), CliError> {
    let survey = app.engine.survey(&native.session)?;
    if json {
        print_json(&wire::native_info(native, &survey));
        return Ok(());
    }
    let style = Style::stdout();
    let now = Timestamp::now();
    let (found, head) = (&native.session.found, &native.session.head);
    let field = |name: &str, value: &str| {
        print(&format!(
            "{} {}",
            style.dim(&format!("{name:<9}")),
            clean(value)
        ));
    };
    let moment = |at: Timestamp| format!("{} ({})", at.strftime("%F %T UTC"), ago(at, now));
    let title = survey.title.as_ref().map(|title| title.as_str().to_owned());
    let title = title.unwrap_or_else(|| super::list::title(native));
    print(&style.bold(&clean(&title)));
    field("native id", head.id.as_str());
    let version = head.version.as_ref().map(|version| format!(" {version}"));
    let agent = &native.session.provider;
    field("agent", &format!("{agent}{}", version.unwrap_or_default()));
    field("directory", head.cwd.as_deref().unwrap_or("unknown"));
    if let Some(branch) = &head.branch {
        field("branch", branch);
    }
    let tokens = wire::total_tokens(&survey.turns);
    let tokens = tokens.map_or(String::new(), |tokens| format!(", {tokens} tokens"));
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
    print(&style.dim(&format!("{agent} keeps this session; segue only reads it")));
    tell_skipped(survey.skipped);
    Ok(())
}

pub(super) fn transcript(app: &App, native: &Native, args: &ShowArgs) -> Result<(), CliError> {
    let huge = native.session.found.size > NUMBERED;
    if let Some(last) = args.last.filter(|_| huge) {
        let (turns, all) = app.engine.recent(&native.session, last)?;
        let numbered = (1..).zip(turns);
        let turns = numbered.map(|(n, turn)| Ok((all.then_some(n), turn)));
        let session = SessionJson::from(native);
        return print_turns(native, &session, args, turns, Skipped::default());
    }
    let survey = app.engine.survey(&native.session)?;
    let session = SessionJson::surveyed(native, &survey);
    let before = args
        .last
        .map_or(0, |last| survey.turns.len().saturating_sub(last));
    let turns = (1..).zip(&survey.turns).skip(before).map(|(n, turn)| {
        let turn = app.engine.recall(&native.session, turn)?;
        Ok((Some(n), turn))
    });
    print_turns(native, &session, args, turns, survey.skipped)
}

/// Prints turns as they are read.
fn print_turns(
    native: &Native,
    session: &SessionJson,
    args: &ShowArgs,
    turns: impl Iterator<Item = Result<(Option<u32>, NativeTurn), CliError>>,
    skipped: Skipped,
) -> Result<(), CliError> {
    if args.one.json {
        let mut out = std::io::stdout().lock();
        let head = serde_json::to_string(session).unwrap_or_default();
        // A reader that went away is no error: there is nobody to tell.
        let _ = write!(out, "{{\"session\":{head},\"legs\":[],\"turns\":[");
        for (index, turn) in turns.enumerate() {
            let (n, turn) = turn?;
            let text = serde_json::to_string(&TurnJson::native(n, &turn)).unwrap_or_default();
            let comma = if index == 0 { "" } else { "," };
            if write!(out, "{comma}{text}").is_err() {
                return Ok(());
            }
        }
        let _ = writeln!(out, "],\"skipped\":{}}}", wire::skipped(skipped));
        return Ok(());
    }
    let style = Style::stdout();
    let provider = native.session.provider.as_str();
    print(&style.bold(&clean(&super::list::title(native))));
    let id = &native.session.head.id;
    print(&style.dim(&format!("{id} · kept by {provider}")));
    let speakers = Speakers {
        agent: provider,
        system: "note",
    };
    for turn in turns {
        let (n, turn) = turn?;
        print_turn(n, turn.state, &turn.messages, speakers, style);
    }
    tell_skipped(skipped);
    Ok(())
}

/// Says what is missing from what was shown.
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
    if skipped.torn {
        missing.push("the last line, which is cut off or still being written".to_owned());
    }
    if !missing.is_empty() {
        let mark = Style::stderr().yellow("segue:");
        say(&format!("{mark} not read: {}", missing.join("; ")));
    }
}
