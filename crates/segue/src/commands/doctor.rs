//! `segue doctor`: what is on this machine, and is it well?

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use segue_agents::known::{self, KNOWN};
use segue_core::Capabilities;
use segue_sqlite::{FILE_NAME, SqliteStore};
use segue_store::StoreError;
use serde_json::{Value, json};

use crate::cli::DoctorArgs;
use crate::error::CliError;
use crate::setup::{self, VERSION};
use crate::terminal::{Style, Table, clean, print};
use crate::wire::{self, print_json};

/// How long a program may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found of the store.
struct StoreReport {
    path: PathBuf,
    format: Option<i64>,
    sessions: Option<u64>,
    problems: Vec<String>,
}

/// What was found of one agent.
struct AgentReport {
    name: String,
    version: Option<String>,
    path: Option<PathBuf>,
    transports: Vec<&'static str>,
    capabilities: Capabilities,
    note: String,
}

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    let store = look_at_store().await?;
    let agents = look_at_agents().await?;
    if args.json {
        print_json(&json!({
            "version": VERSION,
            "store": store_json(&store),
            "providers": agents.iter().map(agent_json).collect::<Vec<_>>(),
        }));
    } else {
        print_report(&store, &agents);
    }
    Ok(if store.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Opens and checks the store; what is wrong with it is a finding, not a failure of the command.
async fn look_at_store() -> Result<StoreReport, CliError> {
    let home = setup::home()?;
    let mut report = StoreReport {
        path: home.join(FILE_NAME),
        format: None,
        sessions: None,
        problems: Vec::new(),
    };
    let checked = match SqliteStore::open(&home) {
        Ok(store) => store.health().await,
        Err(error) => Err(error),
    };
    match checked {
        Ok(health) => {
            report.format = Some(health.format);
            report.sessions = Some(health.sessions);
            report.problems = health.problems;
        }
        Err(error) => report.problems.push(in_words(error)),
    }
    if let Ok(found) = std::fs::metadata(&home)
        && found.permissions().mode() & 0o077 != 0
    {
        report.problems.push(format!(
            "others on this machine can look into {}; `chmod 700` it",
            home.display()
        ));
    }
    Ok(report)
}

fn in_words(error: StoreError) -> String {
    let error = CliError::from(error);
    match error.hints.first() {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message,
    }
}

async fn look_at_agents() -> Result<Vec<AgentReport>, CliError> {
    let home = setup::home()?;
    let leash = setup::leash();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let asked: Vec<_> = KNOWN
        .into_iter()
        .map(|known| {
            let (leash, found) = (leash.clone(), known::find(known.program, &path));
            tokio::spawn(async move {
                let version = match &found {
                    Some(program) => known::version(program, &leash, PATIENCE).await,
                    None => None,
                };
                (known, found, version)
            })
        })
        .collect();
    let mut reports = Vec::new();
    for answer in asked {
        let (known, path, version) = answer
            .await
            .map_err(|error| CliError::failed("cannot look at an agent").because(&error))?;
        let note = match (&path, &version) {
            (None, _) => "not found on PATH".to_owned(),
            (Some(_), Some(_)) => "found; this version of segue can't drive it yet".to_owned(),
            (Some(_), None) => format!("found, but `{} --version` gave no answer", known.program),
        };
        reports.push(AgentReport {
            name: known.provider.to_owned(),
            version,
            path,
            transports: Vec::new(),
            capabilities: Capabilities::default(),
            note,
        });
    }
    for agent in setup::agents(&home, &setup::configuration_to_look()?) {
        let probe = agent.probe(PATIENCE).await;
        let (version, capabilities, note) = match probe {
            Ok(probe) => (
                probe.version,
                probe.capabilities,
                "built in; works offline".to_owned(),
            ),
            Err(error) => (None, Capabilities::default(), error.to_string()),
        };
        reports.push(AgentReport {
            name: agent.provider().to_string(),
            version,
            path: std::env::current_exe().ok(),
            transports: vec!["acp"],
            capabilities,
            note,
        });
    }
    Ok(reports)
}

fn store_json(store: &StoreReport) -> Value {
    json!({
        "path": store.path.to_string_lossy(),
        "format": store.format,
        "sessions": store.sessions,
        "healthy": store.problems.is_empty(),
        "problems": store.problems,
    })
}

fn agent_json(agent: &AgentReport) -> Value {
    json!({
        "name": agent.name,
        "version": agent.version,
        "path": agent.path.as_ref().map(|path| path.to_string_lossy()),
        "transports": agent.transports,
        "capabilities": wire::capabilities(agent.capabilities),
        "note": agent.note,
    })
}

fn print_report(store: &StoreReport, agents: &[AgentReport]) {
    let style = Style::stdout();
    print(&style.bold(&format!("segue {VERSION}")));
    print("");
    let health = if store.problems.is_empty() {
        "healthy"
    } else {
        "NOT healthy"
    };
    let sessions = store
        .sessions
        .map_or("?".to_owned(), |sessions| sessions.to_string());
    print(&format!(
        "store    {} ({health}, {sessions} sessions)",
        store.path.display()
    ));
    for problem in &store.problems {
        print(&format!("         {}", style.red(&clean(problem))));
    }
    print("");
    let mut table = Table::new(&["AGENT", "VERSION", "CAN", "NOTE"]);
    for agent in agents {
        let can: Vec<&str> = agent
            .capabilities
            .each()
            .into_iter()
            .filter_map(|(name, how)| how.map(|_| name))
            .collect();
        table.row(&[
            agent.name.clone(),
            agent.version.clone().unwrap_or_else(|| "-".into()),
            if can.is_empty() {
                "-".into()
            } else {
                can.join(" ")
            },
            agent.note.clone(),
        ]);
    }
    table.print();
}
