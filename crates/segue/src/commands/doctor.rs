//! `segue doctor`: the health of the store and the agents on this machine.

mod retention;

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use segue_agents::known::KNOWN;
use segue_agents::{Agent, Probe, Provider};
use segue_catalog::Catalog;
use segue_core::agent::{Capabilities, How};
use segue_core::id::ProviderId;
use segue_sqlite::{FILE_NAME, SqliteStore};
use segue_store::StoreError;
use serde_json::{Value, json};

use crate::app::{self, VERSION};
use crate::cli::DoctorArgs;
use crate::error::CliError;
use crate::json_output::{self, print_json};
use crate::terminal::{Style, clean, print, say, width, wrap};

/// Timeout for an agent's answer about its version and capabilities.
const PATIENCE: Duration = Duration::from_secs(20);

/// Column at which the values of fields begin.
const INDENT: usize = 11;

/// Health of the store.
struct StoreReport {
    path: PathBuf,
    format: Option<i64>,
    sessions: Option<u64>,
    problems: Vec<String>,
}

/// State of one agent.
struct AgentReport {
    name: String,
    path: Option<PathBuf>,
    ways: Vec<WayReport>,
    /// Number of native sessions on this machine. `None` if segue cannot read them.
    sessions: Option<usize>,
    /// Native sessions that the agent deletes automatically.
    retention: Option<retention::Report>,
    note: Option<String>,
}

/// State of one transport of an agent.
struct WayReport {
    name: &'static str,
    answer: Result<Probe, String>,
}

impl AgentReport {
    /// Returns the answer of the first transport that works.
    fn first(&self) -> Option<&Probe> {
        self.ways.iter().find_map(|way| way.answer.as_ref().ok())
    }

    fn version(&self) -> Option<&str> {
        self.first()?.version.as_deref()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = self
            .first()
            .map(|probe| probe.capabilities)
            .unwrap_or_default();
        if self.sessions.is_some() && !self.ways.is_empty() {
            // Capabilities that the agent does not report are available through its files.
            can.list = can.list.or(Some(How::Files));
            can.delete = can.delete.or(Some(How::Files));
            if can.resume.or(can.load).is_some() {
                can.continue_last = can.continue_last.or(Some(How::Files));
            }
        }
        can
    }

    fn usable(&self) -> Vec<&'static str> {
        let usable = self.ways.iter().filter(|way| way.answer.is_ok());
        usable.map(|way| way.name).collect()
    }
}

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    let store = look_at_store().await?;
    if std::io::stderr().is_terminal() && !args.json {
        say("asking the agents what they can do …");
    }
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

/// Opens and checks the store. Reports problems of the store as findings, not as errors of the command.
async fn look_at_store() -> Result<StoreReport, CliError> {
    let home = app::home()?;
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

/// Queries version and capabilities of all agents concurrently.
async fn look_at_agents() -> Result<Vec<AgentReport>, CliError> {
    let config = app::configuration_to_look()?;
    let home = app::home()?;
    let providers = app::agents(&home, &config);
    let catalog = app::catalog(&app::project()?, &config);
    let mut names: Vec<String> = providers
        .iter()
        .map(|provider| provider.provider().to_string())
        .collect();
    // Common agents are listed even if they are not installed.
    for known in KNOWN {
        if !names.iter().any(|name| name == known.provider) {
            names.push(known.provider.to_owned());
        }
    }
    let mut asked = Vec::new();
    for provider in &providers {
        for way in provider.ways() {
            let (way, name) = (way.clone(), provider.provider().to_string());
            asked.push(tokio::spawn(async move {
                let answer = way.agent.probe(PATIENCE).await;
                let answer = answer.map_err(|error| error.failure(jiff::Timestamp::now()).message);
                (
                    name,
                    WayReport {
                        name: way.name,
                        answer,
                    },
                )
            }));
        }
    }
    let mut reports: Vec<AgentReport> = names
        .into_iter()
        .map(|name| {
            let provider = providers.iter().find(|one| one.provider().as_str() == name);
            report_of(name, provider.map(AsRef::as_ref), &catalog, &home)
        })
        .collect();
    for answer in asked {
        let (name, way) = answer
            .await
            .map_err(|error| CliError::failed("cannot look at an agent").because(&error))?;
        if let Some(report) = reports.iter_mut().find(|report| report.name == name) {
            report.ways.push(way);
        }
    }
    Ok(reports)
}

/// Builds the report that does not require starting the agent.
fn report_of(
    name: String,
    provider: Option<&Provider>,
    catalog: &Catalog,
    home: &Path,
) -> AgentReport {
    let keeper = name.strip_prefix("acp:").unwrap_or(&name);
    let keeper = ProviderId::parse(keeper).ok();
    let is_read = |keeper: &ProviderId| catalog.providers().any(|known| known == keeper.as_str());
    let keeper = keeper.filter(is_read);
    let natives = keeper
        .as_ref()
        .map(|keeper| catalog.sessions(Some(keeper), None).sessions);
    let retention = keeper.zip(natives.as_deref());
    let retention =
        retention.and_then(|(keeper, natives)| retention::look(&keeper, natives, catalog, home));
    let sessions = natives.map(|natives| natives.len());
    let note = match (provider, name.as_str()) {
        (None, _) => Some("not found on PATH".to_owned()),
        (Some(_), "rehearsal") => Some("built in; works offline".to_owned()),
        (Some(_), _) => None,
    };
    AgentReport {
        path: provider.and_then(|provider| provider.program().map(Path::to_owned)),
        ways: Vec::new(),
        name,
        sessions,
        retention,
        note,
    }
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
    let ways: Vec<Value> = agent
        .ways
        .iter()
        .map(|way| {
            let probe = way.answer.as_ref().ok();
            json!({
                "name": way.name,
                "version": probe.and_then(|probe| probe.version.as_ref()),
                "capabilities": probe.map(|probe| json_output::capabilities(probe.capabilities)),
                "problem": way.answer.as_ref().err(),
            })
        })
        .collect();
    json!({
        "name": agent.name,
        "version": agent.version(),
        "path": agent.path.as_ref().map(|path| path.to_string_lossy()),
        "transports": agent.usable(),
        "capabilities": json_output::capabilities(agent.capabilities()),
        "ways": ways,
        "sessions": agent.sessions,
        "retention": agent.retention.as_ref().map(retention::json),
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
    for agent in agents {
        print("");
        print_agent(agent, style);
    }
}

fn print_agent(agent: &AgentReport, style: Style) {
    let mut head = style.bold(&agent.name);
    if let Some(version) = agent.version() {
        head = format!("{head} {}", clean(version));
    }
    if let Some(note) = &agent.note {
        head = format!("{head}  {}", style.dim(note));
    }
    print(&head);
    let field = |name: &str, text: &str| {
        for (line, text) in wrap(text, width().map(|width| width.saturating_sub(INDENT)))
            .iter()
            .enumerate()
        {
            let name = if line == 0 { name } else { "" };
            print(&format!("{:INDENT$}{text}", format!("  {name}")));
        }
    };
    if let Some(path) = agent.path.as_ref().filter(|_| agent.name != "rehearsal") {
        field("program", &path.display().to_string());
    }
    if !agent.usable().is_empty() {
        field("by", &agent.usable().join(", then "));
    }
    let can: Vec<String> = agent
        .capabilities()
        .each()
        .into_iter()
        .filter_map(|(name, how)| Some(format!("{name} ({})", how?.as_str())))
        .collect();
    if !can.is_empty() {
        field("can", &can.join(", "));
    }
    if let Some(sessions) = agent.sessions.filter(|sessions| *sessions > 0) {
        let plural = if sessions == 1 { "" } else { "s" };
        field("has", &format!("{sessions} native session{plural}"));
        if let Some(report) = &agent.retention {
            field("keeps", &retention::in_words(&agent.name, report));
        }
    }
    for way in &agent.ways {
        if let Err(problem) = &way.answer {
            field(
                "but",
                &style.red(&format!("{}: {}", way.name, clean(problem))),
            );
        }
    }
}
