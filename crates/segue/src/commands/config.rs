//! `segue config`: effective settings, their origin, and validation of the files.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app;
use crate::cli::{ConfigArgs, ConfigCheckArgs, ConfigCommand, ConfigPathArgs, ConfigShowArgs};
use crate::config::{
    self, Entry, Flags, Found, Key, Layer, Origin, Owner, Place, Problem, Source, State, bare,
};
use crate::error::{CliError, Kind};
use crate::frontend::Front;
use crate::json_output::print_json;
use crate::terminal::{Style, Table, clean, one_line, print, say};

/// Text that replaces a secret.
const MASK: &str = "********";

pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Path(args) => path(args),
        ConfigCommand::Check(args) => check(args),
    }
}

fn show(args: &ConfigShowArgs) -> Result<ExitCode, CliError> {
    let flags = Flags {
        permissions: args.permissions.map(Into::into),
        start: args.open_timeout.map(Duration::from_secs_f64),
    };
    let loaded = app::configuration(&flags)?;
    app::tell_problems(&loaded);
    app::tell_withheld(&loaded);
    if args.json {
        let settings = loaded.settings.iter();
        let settings: Vec<Value> = settings
            .map(|(key, entry)| setting_json(key, entry))
            .collect();
        print_json(&settings);
    } else {
        for line in as_toml(&loaded.settings, args.origin) {
            print(&clean(&line));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the settings as lines of a TOML file.
fn as_toml(settings: &Layer, with_origin: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut section = Vec::new();
    for (key, entry) in settings {
        let mut path = key.path();
        let name = path.pop().unwrap_or_default();
        if path != section {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let header: Vec<String> = path.iter().map(|name| bare(name)).collect();
            lines.push(format!("[{}]", header.join(".")));
            section = path;
        }
        let origin = if with_origin {
            format!("  # {}", one_line(&entry.origin.to_string()))
        } else {
            String::new()
        };
        lines.push(format!(
            "{} = {}{origin}",
            bare(name),
            shown(key, entry).toml()
        ));
    }
    lines
}

/// Returns the value of a setting, masked if it is a secret.
pub(super) fn shown(key: &Key, entry: &Entry) -> config::Value {
    if key.is_secret() {
        config::Value::Text(MASK.into())
    } else {
        entry.value.clone()
    }
}

pub(super) fn setting_json(key: &Key, entry: &Entry) -> Value {
    let origin = match &entry.origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::File { path, line, .. } => {
            json!({ "kind": "file", "path": path.to_string_lossy(), "line": line })
        }
        Origin::Environment(name) => json!({ "kind": "environment", "name": name }),
        Origin::Flag(name) => json!({ "kind": "flag", "name": name }),
    };
    json!({ "key": key.to_string(), "value": shown(key, entry).json(), "origin": origin })
}

fn path(args: &ConfigPathArgs) -> Result<ExitCode, CliError> {
    let loaded = app::configuration(&Flags::default())?;
    if args.json {
        let files: Vec<Value> = loaded.files.iter().map(file_json).collect();
        print_json(&files);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["WHOSE", "STATE", "FILE"]);
    for Found { source, state } in &loaded.files {
        table.row(&[
            owner_name(source.owner).into(),
            state_name(*state).into(),
            source.path.display().to_string(),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

fn owner_name(owner: Owner) -> &'static str {
    match owner {
        Owner::User => "user",
        Owner::Project => "project",
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Broken => "broken",
        State::Read => "read",
        State::Trusted => "trusted",
        State::Untrusted => "untrusted",
    }
}

fn file_json(found: &Found) -> Value {
    json!({
        "owner": owner_name(found.source.owner),
        "path": found.source.path.to_string_lossy(),
        "state": state_name(found.state),
    })
}

fn check(args: &ConfigCheckArgs) -> Result<ExitCode, CliError> {
    let (checked, problems) = if let Some(file) = &args.file {
        check_file(file)?
    } else {
        let loaded = app::configuration(&Flags::default())?;
        let there = loaded.files.into_iter();
        let there = there.filter(|found| found.state != State::Absent);
        (there.map(|found| found.source).collect(), loaded.problems)
    };
    if args.json {
        print_json(&problems.iter().map(problem_json).collect::<Vec<_>>());
    } else {
        tell_checked(&checked, &problems);
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        Kind::Usage.exit_code()
    })
}

/// Validates one file, independent of its owner.
fn check_file(file: &Path) -> Result<(Vec<Source>, Vec<Problem>), CliError> {
    let at = app::surroundings()?;
    let source = Source {
        owner: Owner::User,
        path: at.cwd.join(file),
        named: true,
    };
    let problems = config::read_source(&source, at.user_home.as_deref()).err();
    Ok((vec![source], problems.unwrap_or_default()))
}

fn tell_checked(checked: &[Source], problems: &[Problem]) {
    for problem in problems {
        CliError::from(problem).report(Front::Shell);
    }
    for source in checked {
        let in_it = |problem: &&Problem| problem.place.file() == Some(source.path.as_path());
        if problems.iter().find(in_it).is_none() {
            print(&clean(&format!("{} is good", source.path.display())));
        }
    }
    if checked.is_empty() && problems.is_empty() {
        say(&Style::stderr()
            .dim("there is no configuration file; `segue config path` tells where one would be"));
    }
}

fn problem_json(problem: &Problem) -> Value {
    let (line, column) = match problem.place {
        Place::At { line, column, .. } => (Some(line), Some(column)),
        Place::File(_) | Place::Environment(_) => (None, None),
    };
    let variable = match &problem.place {
        Place::Environment(name) => Some(name),
        Place::At { .. } | Place::File(_) => None,
    };
    json!({
        "path": problem.place.file().map(Path::to_string_lossy),
        "line": line,
        "column": column,
        "variable": variable,
        "message": problem.message,
        "hint": problem.hint,
    })
}
