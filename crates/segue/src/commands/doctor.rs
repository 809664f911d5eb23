//! `segue doctor`: the health of the store and the agents on this machine.

mod retention;

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use segue_agents::known::KNOWN_AGENTS;
use segue_agents::{Agent, Probe, Provider};
use segue_api::doctor::{AgentDiagnosis, DoctorReport, StoreDiagnosis, TransportDiagnosis};
use segue_api::text::ShellActions;
use segue_catalog::Catalog;
use segue_core::agent::{Capabilities, CapabilitySource};
use segue_core::id::ProviderId;
use segue_sqlite::{FILE_NAME, SqliteStore};
use segue_store::StoreError;

use crate::app::{self, VERSION};
use crate::cli::DoctorArgs;
use crate::error::CliError;
use crate::json_output::{path_json, print_json};
use crate::terminal::{
    Style, eprint_line, format_plural, print_line, strip_control_chars, terminal_width, wrap,
};

/// Timeout for an agent's answer about its version and capabilities.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Column at which the values of fields begin.
const INDENT: usize = 16;

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
    transports: Vec<TransportReport>,
    /// Number of native sessions on this machine. `None` if segue cannot read them.
    sessions: Option<usize>,
    /// Native sessions that the agent deletes automatically.
    retention: Option<retention::RetentionReport>,
    note: Option<String>,
}

/// State of one transport of an agent.
struct TransportReport {
    name: &'static str,
    probe_result: Result<Probe, String>,
}

impl AgentReport {
    /// Returns the answer of the first transport that works.
    fn first_probe(&self) -> Option<&Probe> {
        self.transports
            .iter()
            .find_map(|transport| transport.probe_result.as_ref().ok())
    }

    fn version(&self) -> Option<&str> {
        self.first_probe()?.version.as_deref()
    }

    fn capabilities(&self) -> Capabilities {
        let mut merged = self
            .first_probe()
            .map(|probe| probe.capabilities)
            .unwrap_or_default();
        if self.sessions.is_some() && !self.transports.is_empty() {
            // Capabilities that the agent does not report are available through its files.
            merged.list = merged.list.or(Some(CapabilitySource::Files));
            merged.delete = merged.delete.or(Some(CapabilitySource::Files));
            if merged.resume.or(merged.load).is_some() {
                merged.continue_last = merged.continue_last.or(Some(CapabilitySource::Files));
            }
        }
        merged
    }

    fn usable_transports(&self) -> Vec<&'static str> {
        let usable = self
            .transports
            .iter()
            .filter(|transport| transport.probe_result.is_ok());
        usable.map(|transport| transport.name).collect()
    }
}

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    let store = check_store().await?;
    if std::io::stderr().is_terminal() && !args.json {
        eprint_line("checking the agents …");
    }
    let agents = probe_agents().await?;
    if args.json {
        print_json(&DoctorReport {
            version: VERSION.to_owned(),
            store: store_json(&store),
            providers: agents.iter().map(agent_json).collect(),
        });
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
async fn check_store() -> Result<StoreReport, CliError> {
    let home = app::home()?;
    let mut report = StoreReport {
        path: home.join(FILE_NAME),
        format: None,
        sessions: None,
        problems: Vec::new(),
    };
    let check_result = match SqliteStore::open(&home) {
        Ok(store) => store.check_health().await,
        Err(error) => Err(error),
    };
    match check_result {
        Ok(health) => {
            report.format = Some(health.format);
            report.sessions = Some(health.sessions);
            report.problems = health.problems;
        }
        Err(error) => report.problems.push(format_store_error(error)),
    }
    if let Ok(home_metadata) = std::fs::metadata(&home)
        && home_metadata.permissions().mode() & 0o077 != 0
    {
        report.problems.push(format!(
            "other users on this machine can access {}; run `chmod 700` on it",
            home.display()
        ));
    }
    Ok(report)
}

fn format_store_error(error: StoreError) -> String {
    let error = CliError::from(error);
    match error.hints.first() {
        Some(hint) => format!("{} ({})", error.message, hint.format(&ShellActions)),
        None => error.message,
    }
}

/// Queries version and capabilities of all agents concurrently.
async fn probe_agents() -> Result<Vec<AgentReport>, CliError> {
    let config = app::load_config_lenient()?;
    let home = app::home()?;
    let providers = app::build_agents(&home, &config);
    let catalog = app::build_catalog(&app::current_project()?, &config);
    let mut names: Vec<String> = providers
        .iter()
        .map(|provider| provider.provider().to_string())
        .collect();
    // Common agents are listed even if they are not installed.
    for known_agent in KNOWN_AGENTS {
        if !names.iter().any(|name| name == known_agent.provider) {
            names.push(known_agent.provider.to_owned());
        }
    }
    let mut probe_tasks = Vec::new();
    for provider in &providers {
        for transport in provider.transports() {
            let (transport, name) = (transport.clone(), provider.provider().to_string());
            probe_tasks.push(tokio::spawn(async move {
                let probe_result = transport.agent.probe(PROBE_TIMEOUT).await;
                let probe_result =
                    probe_result.map_err(|error| error.to_failure(jiff::Timestamp::now()).message);
                (
                    name,
                    TransportReport {
                        name: transport.name,
                        probe_result,
                    },
                )
            }));
        }
    }
    let mut reports: Vec<AgentReport> = names
        .into_iter()
        .map(|name| {
            let provider = providers
                .iter()
                .find(|candidate| candidate.provider().as_str() == name);
            build_agent_report(name, provider.map(AsRef::as_ref), &catalog, &home)
        })
        .collect();
    for task in probe_tasks {
        let (name, transport_report) = task
            .await
            .map_err(|error| CliError::failed("cannot check an agent").with_cause(&error))?;
        if let Some(report) = reports.iter_mut().find(|report| report.name == name) {
            report.transports.push(transport_report);
        }
    }
    Ok(reports)
}

/// Builds the report that does not require starting the agent.
fn build_agent_report(
    name: String,
    provider: Option<&Provider>,
    catalog: &Catalog,
    home: &Path,
) -> AgentReport {
    let provider_name = name.strip_prefix("acp:").unwrap_or(&name);
    let native_provider = ProviderId::parse(provider_name).ok();
    let is_readable = |native_provider: &ProviderId| {
        catalog
            .providers()
            .any(|readable| readable == native_provider.as_str())
    };
    let native_provider = native_provider.filter(is_readable);
    let natives = native_provider
        .as_ref()
        .map(|native_provider| catalog.list_sessions(Some(native_provider), None).sessions);
    let retention = native_provider.zip(natives.as_deref());
    let retention = retention.and_then(|(native_provider, natives)| {
        retention::build_report(&native_provider, natives, catalog, home)
    });
    let sessions = natives.map(|natives| natives.len());
    let note = match (provider, name.as_str()) {
        (None, _) => Some("not found on PATH".to_owned()),
        (Some(_), "rehearsal") => Some("built-in, works offline".to_owned()),
        (Some(_), _) => None,
    };
    AgentReport {
        path: provider.and_then(|provider| provider.program().map(Path::to_owned)),
        transports: Vec::new(),
        name,
        sessions,
        retention,
        note,
    }
}

fn store_json(store: &StoreReport) -> StoreDiagnosis {
    StoreDiagnosis {
        path: path_json(&store.path),
        format: store.format,
        sessions: store.sessions,
        healthy: store.problems.is_empty(),
        problems: store.problems.clone(),
    }
}

fn transport_json(transport: &TransportReport) -> TransportDiagnosis {
    let probe = transport.probe_result.as_ref().ok();
    TransportDiagnosis {
        name: transport.name.to_owned(),
        version: probe.and_then(|probe| probe.version.clone()),
        capabilities: probe.map(|probe| probe.capabilities),
        problem: transport.probe_result.as_ref().err().cloned(),
    }
}

fn agent_json(agent: &AgentReport) -> AgentDiagnosis {
    let usable_transports = agent.usable_transports().into_iter();
    AgentDiagnosis {
        name: agent.name.clone(),
        version: agent.version().map(str::to_owned),
        path: agent.path.as_deref().map(path_json),
        transports: usable_transports.map(str::to_owned).collect(),
        capabilities: agent.capabilities(),
        ways: agent.transports.iter().map(transport_json).collect(),
        sessions: agent.sessions,
        retention: agent.retention.as_ref().map(retention::to_json),
        note: agent.note.clone(),
    }
}

fn print_report(store: &StoreReport, agents: &[AgentReport]) {
    let style = Style::stdout();
    print_line(&style.bold(&format!("segue {VERSION}")));
    print_line("");
    let health = if store.problems.is_empty() {
        "healthy"
    } else {
        "NOT healthy"
    };
    let sessions = store.sessions.map_or("? sessions".to_owned(), |sessions| {
        format_plural(sessions, "session")
    });
    print_line(&format!(
        "store    {} ({health}, {sessions})",
        store.path.display()
    ));
    for problem in &store.problems {
        print_line(&format!(
            "         {}",
            style.red(&strip_control_chars(problem))
        ));
    }
    for agent in agents {
        print_line("");
        print_agent(agent, style);
    }
}

fn print_agent(agent: &AgentReport, style: Style) {
    let mut heading = style.bold(&agent.name);
    if let Some(version) = agent.version() {
        heading = format!("{heading} {}", strip_control_chars(version));
    }
    if let Some(note) = &agent.note {
        heading = format!("{heading}  {}", style.dim(note));
    }
    print_line(&heading);
    let print_field = |name: &str, text: &str| {
        for (index, text) in wrap(
            text,
            terminal_width().map(|width| width.saturating_sub(INDENT)),
        )
        .iter()
        .enumerate()
        {
            let name = if index == 0 { name } else { "" };
            print_line(&format!("{:INDENT$}{text}", format!("  {name}")));
        }
    };
    if let Some(path) = agent.path.as_ref().filter(|_| agent.name != "rehearsal") {
        print_field("program", &path.display().to_string());
    }
    if !agent.usable_transports().is_empty() {
        print_field("transports", &agent.usable_transports().join(", then "));
    }
    let capabilities: Vec<String> = agent
        .capabilities()
        .entries()
        .into_iter()
        .filter_map(|(name, source)| Some(format!("{name} ({})", source?.as_str())))
        .collect();
    if !capabilities.is_empty() {
        print_field("capabilities", &capabilities.join(", "));
    }
    if let Some(sessions) = agent.sessions.filter(|sessions| *sessions > 0) {
        let sessions = format_plural(sessions as u64, "native session");
        print_field("sessions", &sessions);
        if let Some(report) = &agent.retention {
            print_field("retention", &retention::format_report(&agent.name, report));
        }
    }
    for transport in &agent.transports {
        if let Err(problem) = &transport.probe_result {
            print_field(
                "problem",
                &style.red(&format!(
                    "{}: {}",
                    transport.name,
                    strip_control_chars(problem)
                )),
            );
        }
    }
}
