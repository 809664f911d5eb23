//! `segue trust`: the user's permission for a project's file to start programs and set permissions.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use segue_core::agent::Roles;
use serde_json::{Value, json};

use super::config::{setting_json, shown};
use crate::app;
use crate::cli::TrustArgs;
use crate::config::{self, Layer, PROJECT_FILE, Trusted, TrustedFile, fingerprint, project_root};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, clean, one_line, print, say};

pub(crate) fn run(args: &TrustArgs) -> Result<ExitCode, CliError> {
    if args.list {
        list(args)?;
    } else if args.revoke {
        revoke(args)?;
    } else {
        trust(args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The project's file in its current state.
struct Asking {
    file: TrustedFile,
    content: Vec<u8>,
    /// Settings that need trust.
    settings: Layer,
    /// Roles without the project's file.
    roles: Roles,
}

fn asking() -> Result<Asking, CliError> {
    let at = app::surroundings()?;
    let Some(source) = config::project_file(&at) else {
        return Err(CliError::failed(
            "your own configuration file needs no trust",
        ));
    };
    let read = config::read_source(&source, at.user_home.as_deref());
    let (content, mut settings) = match read {
        Ok(Some(read)) => read,
        Ok(None) => {
            return Err(CliError::failed(format!(
                "there is no {PROJECT_FILE} in {}",
                project_root(&at.cwd).display()
            )));
        }
        Err(problems) => {
            let error = problems.first().map(CliError::from);
            return Err(error.unwrap_or_else(|| CliError::usage("the file is broken")));
        }
    };
    let roles = config::users_roles(&at);
    settings.retain(|key, entry| key.needs_trust(&entry.value, &roles).is_some());
    let file = TrustedFile {
        sha256: fingerprint(&content),
        path: source.path,
        trusted_at: Timestamp::now().to_string(),
    };
    Ok(Asking {
        file,
        content,
        settings,
        roles,
    })
}

fn trust(args: &TrustArgs) -> Result<(), CliError> {
    let home = app::home()?;
    let asking = asking()?;
    let name = one_line(&asking.file.path.display().to_string());
    let before = Trusted::read(&home)?.holds(&asking.file.path, &asking.content);
    if asking.settings.is_empty() || before {
        let words = if before {
            format!("{name} is trusted already.")
        } else {
            format!("Nothing in {name} needs your trust.")
        };
        tell(args, &asking, before, &words);
        return Ok(());
    }
    if !args.json || !args.yes {
        show(&asking, &name);
    }
    if !args.yes && !confirmed()? {
        say("nothing was changed");
        return Ok(());
    }
    let file = asking.file.clone();
    Trusted::change(&home, |list| {
        list.files.retain(|other| other.path != file.path);
        list.files.push(file);
    })?;
    let words = format!("{name} is trusted as it is now. Take it back with: segue trust --revoke");
    tell(args, &asking, true, &words);
    Ok(())
}

fn tell(args: &TrustArgs, asking: &Asking, trusted: bool, words: &str) {
    if args.json {
        let settings = asking.settings.iter();
        let settings: Vec<Value> = settings
            .map(|(key, entry)| setting_json(key, entry))
            .collect();
        print_json(&json!({
            "path": asking.file.path.to_string_lossy(),
            "sha256": asking.file.sha256,
            "trusted": trusted,
            "settings": settings,
        }));
    } else {
        print(words);
    }
}

/// Prints the settings that need trust, with the reasons.
fn show(asking: &Asking, name: &str) {
    say(&format!("{name} asks for:"));
    for (key, entry) in &asking.settings {
        let why = key.needs_trust(&entry.value, &asking.roles);
        let why = why.unwrap_or_default();
        let value = shown(key, entry).toml();
        say(&clean(&format!("  {key} = {value}  # {why}")));
    }
}

fn confirmed() -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "trusting needs a confirmation, and there is no terminal to ask on",
        )
        .hint("add --yes"));
    }
    let question = "Trust it, until it changes? [y/N] ";
    let _ = write!(std::io::stderr().lock(), "{question}");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CliError::failed("cannot read the answer").because(&error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn revoke(args: &TrustArgs) -> Result<(), CliError> {
    let home = app::home()?;
    let at = app::surroundings()?;
    let path = project_root(&at.cwd).join(PROJECT_FILE);
    let revoked = Trusted::change(&home, |list| {
        let before = list.files.len();
        list.files.retain(|file| file.path != path);
        before != list.files.len()
    })?;
    let name = one_line(&path.display().to_string());
    if args.json {
        print_json(&json!({ "path": path.to_string_lossy(), "revoked": revoked }));
    } else if revoked {
        print(&format!("{name} is no longer trusted."));
    } else {
        print(&format!("{name} was not trusted."));
    }
    Ok(())
}

fn list(args: &TrustArgs) -> Result<(), CliError> {
    let files = Trusted::read(&app::home()?)?.files;
    if args.json {
        let files: Vec<Value> = files.iter().map(file_json).collect();
        print_json(&files);
        return Ok(());
    }
    if files.is_empty() {
        say("no project is trusted");
        return Ok(());
    }
    let mut table = Table::new(&["STATE", "SINCE", "FILE"]);
    for file in &files {
        table.row(&[
            state(file).into(),
            file.trusted_at.clone(),
            file.path.display().to_string(),
        ]);
    }
    table.print();
    Ok(())
}

fn file_json(file: &TrustedFile) -> Value {
    json!({
        "path": file.path.to_string_lossy(),
        "sha256": file.sha256,
        "trusted_at": file.trusted_at,
        "state": state(file),
    })
}

/// Returns the status of a trusted file: unchanged, changed or missing.
fn state(file: &TrustedFile) -> &'static str {
    match config::content(&file.path) {
        Some(content) if fingerprint(&content) == file.sha256 => "trusted",
        Some(_) => "changed",
        None => "gone",
    }
}
