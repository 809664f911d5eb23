//! `segue doctor`: the health of the store and the agents on this machine.

mod retention;

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use segue_api::doctor::{AgentDiagnosis, DoctorReport, StoreDiagnosis, TransportDiagnosis};
use segue_api::text::ShellActions;
use segue_catalog::Catalog;
use segue_core::agent::{Capabilities, CapabilitySource};
use segue_core::id::ProviderId;
use segue_providers::{Agent, PROVIDERS, Provider, Transport};
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

/// Diagnosis of an agent for both outputs.
struct AgentReport {
    diagnosis: AgentDiagnosis,
    /// Text about the automatic deletion of sessions, which is more precise than its JSON.
    retention_text: Option<String>,
}

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    let store = check_store().await?;
    if std::io::stderr().is_terminal() && !args.json {
        eprint_line("checking the agents …");
    }
    let agents = probe_agents().await?;
    let exit_code = if store.healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if args.json {
        print_json(&DoctorReport {
            version: VERSION.to_owned(),
            store,
            providers: agents.into_iter().map(|agent| agent.diagnosis).collect(),
        });
    } else {
        print_report(&store, &agents);
    }
    Ok(exit_code)
}

/// Opens and checks the store. Reports problems of the store as findings, not as errors of the command.
async fn check_store() -> Result<StoreDiagnosis, CliError> {
    let home = app::home()?;
    let check_result = match SqliteStore::open(&home) {
        Ok(store) => store.check_health().await,
        Err(error) => Err(error),
    };
    let (health, mut problems) = match check_result {
        Ok(health) => (Some((health.format, health.sessions)), health.problems),
        Err(error) => (None, vec![format_store_error(error)]),
    };
    if let Ok(home_metadata) = std::fs::metadata(&home)
        && home_metadata.permissions().mode() & 0o077 != 0
    {
        problems.push(format!(
            "other users on this machine can access {}; run `chmod 700` on it",
            home.display()
        ));
    }
    Ok(StoreDiagnosis {
        path: path_json(&home.join(FILE_NAME)),
        format: health.map(|(format, _)| format),
        sessions: health.map(|(_, sessions)| sessions),
        healthy: problems.is_empty(),
        problems,
    })
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
    let mut names: Vec<&str> = providers
        .iter()
        .map(|provider| provider.provider().as_str())
        .collect();
    // Common agents are listed even if they are not installed.
    for known_agent in PROVIDERS.iter().filter(|agent| agent.driver.is_some()) {
        if !names.contains(&known_agent.name) {
            names.push(known_agent.name);
        }
    }
    let mut reports = Vec::new();
    let mut probe_tasks = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let provider = providers.get(index).map(AsRef::as_ref);
        reports.push(build_agent_report(name, provider, &catalog, &home));
        for transport in provider.map_or(&[][..], Provider::transports) {
            let probe_task = tokio::spawn(probe_transport(transport.clone()));
            probe_tasks.push((index, probe_task));
        }
    }
    for (index, probe_task) in probe_tasks {
        let transport = probe_task
            .await
            .map_err(|error| CliError::failed("cannot check an agent").with_cause(&error))?;
        if let Some(report) = reports.get_mut(index) {
            add_transport(&mut report.diagnosis, transport);
        }
    }
    for report in &mut reports {
        add_file_capabilities(&mut report.diagnosis);
    }
    Ok(reports)
}

async fn probe_transport(transport: Transport) -> TransportDiagnosis {
    let (probe, problem) = match transport.agent.probe(PROBE_TIMEOUT).await {
        Ok(probe) => (Some(probe), None),
        Err(error) => (None, Some(error.to_failure(jiff::Timestamp::now()).message)),
    };
    TransportDiagnosis {
        name: transport.name.to_owned(),
        capabilities: probe.as_ref().map(|probe| probe.capabilities),
        version: probe.and_then(|probe| probe.version),
        problem,
    }
}

/// Adds a transport. The first one that works determines version and capabilities.
fn add_transport(agent: &mut AgentDiagnosis, transport: TransportDiagnosis) {
    if let Some(capabilities) = transport.capabilities {
        if agent.transports.is_empty() {
            agent.version.clone_from(&transport.version);
            agent.capabilities = capabilities;
        }
        agent.transports.push(transport.name.clone());
    }
    agent.ways.push(transport);
}

/// Adds the capabilities that the agent does not report, but that are available through its files.
fn add_file_capabilities(agent: &mut AgentDiagnosis) {
    if agent.sessions.is_none() || agent.ways.is_empty() {
        return;
    }
    let from_files = Some(CapabilitySource::Files);
    let capabilities = &mut agent.capabilities;
    capabilities.list = capabilities.list.or(from_files);
    capabilities.delete = capabilities.delete.or(from_files);
    if capabilities.resume.or(capabilities.load).is_some() {
        capabilities.continue_last = capabilities.continue_last.or(from_files);
    }
}

/// Builds the report that does not require starting the agent.
fn build_agent_report(
    name: &str,
    provider: Option<&Provider>,
    catalog: &Catalog,
    home: &Path,
) -> AgentReport {
    let provider_name = name.strip_prefix("acp:").unwrap_or(name);
    let is_readable = catalog
        .providers()
        .any(|readable| readable == provider_name);
    let native_provider = ProviderId::parse(provider_name).ok();
    let native_provider = native_provider.filter(|_| is_readable);
    let natives = native_provider
        .as_ref()
        .map(|native_provider| catalog.list_sessions(Some(native_provider), None).sessions);
    let retention = native_provider.zip(natives.as_deref());
    let retention = retention.and_then(|(native_provider, natives)| {
        retention::build_report(&native_provider, natives, catalog, home)
    });
    let note = match (provider, name) {
        (None, _) => Some("not found on PATH"),
        (Some(_), "rehearsal") => Some("built-in, works offline"),
        (Some(_), _) => None,
    };
    let retention_text = retention.as_ref();
    AgentReport {
        retention_text: retention_text.map(|report| retention::format_report(name, report)),
        diagnosis: AgentDiagnosis {
            name: name.to_owned(),
            version: None,
            path: provider.and_then(Provider::program).map(path_json),
            transports: Vec::new(),
            capabilities: Capabilities::default(),
            ways: Vec::new(),
            sessions: natives.map(|natives| natives.len()),
            retention: retention.as_ref().map(retention::to_json),
            note: note.map(str::to_owned),
        },
    }
}

fn print_report(store: &StoreDiagnosis, agents: &[AgentReport]) {
    let style = Style::stdout();
    print_line(&style.bold(&format!("segue {VERSION}")));
    print_line("");
    let health = if store.healthy {
        "healthy"
    } else {
        "NOT healthy"
    };
    let sessions = store.sessions.map_or("? sessions".to_owned(), |sessions| {
        format_plural(sessions, "session")
    });
    print_line(&format!("store    {} ({health}, {sessions})", store.path));
    for problem in &store.problems {
        let problem = style.red(&strip_control_chars(problem));
        print_line(&format!("         {problem}"));
    }
    for agent in agents {
        print_line("");
        print_agent(agent, style);
    }
}

fn print_agent(report: &AgentReport, style: Style) {
    let agent = &report.diagnosis;
    let mut heading = style.bold(&agent.name);
    if let Some(version) = &agent.version {
        heading = format!("{heading} {}", strip_control_chars(version));
    }
    if let Some(note) = &agent.note {
        heading = format!("{heading}  {}", style.dim(note));
    }
    print_line(&heading);
    let width = terminal_width().map(|width| width.saturating_sub(INDENT));
    let print_field = |name: &str, text: &str| {
        let names = std::iter::once(name).chain(std::iter::repeat(""));
        for (name, text) in names.zip(wrap(text, width)) {
            print_line(&format!("{:INDENT$}{text}", format!("  {name}")));
        }
    };
    if let Some(path) = agent.path.as_ref().filter(|_| agent.name != "rehearsal") {
        print_field("program", path);
    }
    if !agent.transports.is_empty() {
        print_field("transports", &agent.transports.join(", then "));
    }
    let capabilities = agent.capabilities.entries().into_iter();
    let capabilities: Vec<String> = capabilities
        .filter_map(|(name, source)| Some(format!("{name} ({})", source?.as_str())))
        .collect();
    if !capabilities.is_empty() {
        print_field("capabilities", &capabilities.join(", "));
    }
    if let Some(sessions) = agent.sessions.filter(|sessions| *sessions > 0) {
        print_field(
            "sessions",
            &format_plural(sessions as u64, "native session"),
        );
        if let Some(text) = &report.retention_text {
            print_field("retention", text);
        }
    }
    for transport in &agent.ways {
        if let Some(problem) = &transport.problem {
            let problem = format!("{}: {}", transport.name, strip_control_chars(problem));
            print_field("problem", &style.red(&problem));
        }
    }
}
