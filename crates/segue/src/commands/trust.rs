//! `segue trust`: the user's permission for a project's file to start programs and set permissions.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use segue_api::config::{ListedTrust, TrustResult, TrustRevocation, TrustedFileState};
use segue_core::agent::RoleRegistry;

use super::config::{masked_value, setting_json};
use crate::app;
use crate::cli::TrustArgs;
use crate::config::{
    self, ConfigLayer, PROJECT_FILE_NAME, TrustStore, TrustedFile, project_root, sha256_hex,
};
use crate::error::CliError;
use crate::json_output::{path_json, print_json};
use crate::terminal::{Table, eprint_line, print_line, strip_control_chars, to_single_line};

pub(crate) fn run(args: &TrustArgs) -> Result<ExitCode, CliError> {
    if args.list {
        list_trusted_files(args)?;
    } else if args.revoke {
        revoke(args)?;
    } else {
        trust_project(args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The project's file in its current state.
struct TrustRequest {
    file: TrustedFile,
    content: Vec<u8>,
    /// Settings that need trust.
    settings: ConfigLayer,
    /// Roles without the project's file.
    roles: RoleRegistry,
}

fn load_trust_request() -> Result<TrustRequest, CliError> {
    let environment = app::config_environment()?;
    let Some(source) = config::project_file(&environment) else {
        return Err(CliError::failed(
            "your own configuration file needs no trust",
        ));
    };
    let loaded = config::read_source(&source, environment.user_home.as_deref());
    let loaded = loaded.map_err(|problems| {
        let error = problems.first().map(CliError::from);
        error.unwrap_or_else(|| CliError::usage("the file is not valid"))
    })?;
    let Some((content, mut settings)) = loaded else {
        return Err(CliError::failed(format!(
            "{PROJECT_FILE_NAME} not found in {}",
            project_root(&environment.cwd).display()
        )));
    };
    let roles = config::user_roles(&environment);
    settings.retain(|key, entry| key.trust_reason(&entry.value, &roles).is_some());
    let file = TrustedFile {
        sha256: sha256_hex(&content),
        path: source.path,
        trusted_at: Timestamp::now().to_string(),
    };
    Ok(TrustRequest {
        file,
        content,
        settings,
        roles,
    })
}

fn trust_project(args: &TrustArgs) -> Result<(), CliError> {
    let home = app::home()?;
    let request = load_trust_request()?;
    let name = to_single_line(&request.file.path.display().to_string());
    let is_trusted = TrustStore::load(&home)?.is_trusted(&request.file.path, &request.content);
    if request.settings.is_empty() || is_trusted {
        let message = if is_trusted {
            format!("{name} is already trusted.")
        } else {
            format!("No setting in {name} needs your trust.")
        };
        print_trust_status(args, &request, is_trusted, &message);
        return Ok(());
    }
    if !args.json || !args.yes {
        print_request(&request, &name);
    }
    if !args.yes && !ask_confirmation()? {
        eprint_line("nothing was changed");
        return Ok(());
    }
    let file = request.file.clone();
    TrustStore::update(&home, |trust_list| {
        trust_list
            .files
            .retain(|trusted_file| trusted_file.path != file.path);
        trust_list.files.push(file);
    })?;
    let message = format!("{name} is trusted until it changes. Revoke with: segue trust --revoke");
    print_trust_status(args, &request, true, &message);
    Ok(())
}

fn print_trust_status(args: &TrustArgs, request: &TrustRequest, trusted: bool, message: &str) {
    if args.json {
        print_json(&TrustResult {
            path: path_json(&request.file.path),
            sha256: request.file.sha256.clone(),
            trusted,
            settings: request.settings.iter().map(setting_json).collect(),
        });
    } else {
        print_line(message);
    }
}

/// Prints the settings that need trust, with the reasons.
fn print_request(request: &TrustRequest, name: &str) {
    eprint_line(&format!("{name} has settings that need your trust:"));
    for (key, entry) in &request.settings {
        let reason = key.trust_reason(&entry.value, &request.roles);
        let reason = reason.unwrap_or_default();
        let value = masked_value(key, entry).to_toml();
        eprint_line(&strip_control_chars(&format!(
            "  {key} = {value}  # {reason}"
        )));
    }
}

fn ask_confirmation() -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "cannot ask for confirmation: standard input is not a terminal",
        )
        .with_hint("add `--yes` to skip the confirmation"));
    }
    let question = "Trust this file until it changes? [y/N] ";
    let _ = write!(std::io::stderr().lock(), "{question}");
    let mut line = String::new();
    let read_result = std::io::stdin().lock().read_line(&mut line);
    read_result.map_err(|error| CliError::failed("cannot read the answer").with_cause(&error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn revoke(args: &TrustArgs) -> Result<(), CliError> {
    let home = app::home()?;
    let environment = app::config_environment()?;
    let path = project_root(&environment.cwd).join(PROJECT_FILE_NAME);
    let revoked = TrustStore::update(&home, |trust_list| {
        let old_len = trust_list.files.len();
        trust_list.files.retain(|file| file.path != path);
        old_len != trust_list.files.len()
    })?;
    let name = to_single_line(&path.display().to_string());
    if args.json {
        let path = path_json(&path);
        print_json(&TrustRevocation { path, revoked });
    } else if revoked {
        print_line(&format!("{name} is no longer trusted."));
    } else {
        print_line(&format!("{name} was not trusted."));
    }
    Ok(())
}

fn list_trusted_files(args: &TrustArgs) -> Result<(), CliError> {
    let files = TrustStore::load(&app::home()?)?.files;
    if args.json {
        print_json(&files.iter().map(file_json).collect::<Vec<_>>());
        return Ok(());
    }
    if files.is_empty() {
        eprint_line("no trusted files");
        return Ok(());
    }
    let mut table = Table::new(&["STATE", "SINCE", "FILE"]);
    for file in &files {
        table.add_row(&[
            trust_state_name(trust_state(file)).into(),
            file.trusted_at.clone(),
            file.path.display().to_string(),
        ]);
    }
    table.print();
    Ok(())
}

fn file_json(file: &TrustedFile) -> ListedTrust {
    ListedTrust {
        path: path_json(&file.path),
        sha256: file.sha256.clone(),
        trusted_at: file.trusted_at.clone(),
        state: trust_state(file),
    }
}

/// Returns the status of a trusted file: unchanged, changed or missing.
fn trust_state(file: &TrustedFile) -> TrustedFileState {
    match config::read_project_file(&file.path) {
        Some(content) if sha256_hex(&content) == file.sha256 => TrustedFileState::Trusted,
        Some(_) => TrustedFileState::Changed,
        None => TrustedFileState::Gone,
    }
}

fn trust_state_name(state: TrustedFileState) -> &'static str {
    match state {
        TrustedFileState::Trusted => "trusted",
        TrustedFileState::Changed => "changed",
        TrustedFileState::Gone => "gone",
    }
}
