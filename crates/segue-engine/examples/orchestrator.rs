//! Prints the capabilities of agents, runs two sessions at once, lists them and resumes one.
//!
//! `cargo run -p segue-engine --example orchestrator`

#![allow(clippy::print_stdout, reason = "an example prints to the terminal")]

#[path = "support/program.rs"]
mod program;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use segue_core::id::{FeatureId, ProviderId};
use segue_core::number_format::format_plural;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::Project;
use segue_engine::{ChatRequest, Conversation, Engine, Freshness, Target, TurnError, TurnReport};
use segue_store::SessionFilter;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

fn main() -> Result<ExitCode> {
    program::run(orchestrate)
}

async fn orchestrate(engine: Engine, project: Project) -> Result<()> {
    for name in engine.agents().providers() {
        let probe = engine
            .agents()
            .get(name)?
            .probe(Duration::from_secs(20))
            .await?;
        let capabilities = probe.capabilities.entries().into_iter();
        let supported: Vec<&str> = capabilities
            .filter_map(|(capability, source)| source.map(|_| capability))
            .collect();
        println!("{name} can {}", supported.join(", "));
    }

    // All tasks share one engine. A session runs one turn at a time; several sessions run at once.
    let engine = Arc::new(engine);
    let mut turns = JoinSet::new();
    for (feature, provider) in [("login", "rehearsal"), ("search", "understudy")] {
        let request = ChatRequest {
            target: Target::Scope(Purpose::for_scope(Scope::Feature(FeatureId::parse(
                feature,
            )?))),
            provider: Some(ProviderId::parse(provider)?),
            ..ChatRequest::new(format!("plan {feature}"), project.clone())
        };
        turns.spawn(run_turn(Arc::clone(&engine), request));
    }
    let mut reports = Vec::new();
    while let Some(report) = turns.join_next().await {
        reports.push(report??);
    }

    let filter = SessionFilter {
        project: Some(project.key.clone()),
        ..SessionFilter::default()
    };
    let conversations = engine
        .library()
        .list_conversations(&filter, 20, Freshness::Fresh)
        .await?;
    let mut lines = Vec::new();
    for row in &conversations.rows {
        if let Conversation::Session(session, status) = row {
            lines.push(format!(
                "{}: {}, {}, {}",
                session.title.as_str(),
                session.provider,
                format_plural(session.turns, "turn"),
                status.as_str()
            ));
        }
    }
    lines.sort();
    println!("{}", lines.join("\n"));

    let login_report = reports
        .iter()
        .find(|report| report.provider == ProviderId::rehearsal());
    let request = ChatRequest {
        target: Target::Session(
            login_report
                .context("no report of the login session")?
                .session
                .clone(),
        ),
        // Fails if the agent no longer has its session, instead of starting a new one.
        strict: true,
        ..ChatRequest::new("go on", project)
    };
    let report = run_turn(engine, request).await?;
    let mode = report.opened.map_or("-", |(mode, _)| mode.as_str());
    println!("{mode}: {}", report.text.unwrap_or_default().trim_end());
    Ok(())
}

async fn run_turn(engine: Arc<Engine>, request: ChatRequest) -> Result<TurnReport, TurnError> {
    let (events, _) = mpsc::channel(1);
    engine.chat(request, events).await
}
