//! Hands a session off to another agent, which receives a brief.
//!
//! `cargo run -p segue-engine --example handoff`

#![allow(clippy::print_stdout, reason = "an example prints to the terminal")]

#[path = "support/program.rs"]
mod program;

use std::process::ExitCode;

use anyhow::Result;
use segue_core::id::ProviderId;
use segue_core::session::Project;
use segue_engine::{ChatRequest, Engine, Target, TurnReport};
use tokio::sync::mpsc;

fn main() -> Result<ExitCode> {
    program::run(hand_off_session)
}

async fn hand_off_session(engine: Engine, project: Project) -> Result<()> {
    let first_report =
        send_prompt(&engine, &project, Target::New, "the key is under the mat").await?;
    let session = engine.library().session(&first_report.session).await?;

    let new_provider = ProviderId::parse("understudy")?;
    let outcome = engine.sessions().handoff(&session, &new_provider).await?;
    println!(
        "handed off from {} to {}",
        outcome.from, outcome.session.provider
    );

    let same_session = Target::Session(session.id);
    send_prompt(&engine, &project, same_session, "where is the key?").await?;
    Ok(())
}

async fn send_prompt(
    engine: &Engine,
    project: &Project,
    target: Target,
    prompt: &str,
) -> Result<TurnReport> {
    let request = ChatRequest {
        target,
        ..ChatRequest::new(prompt, project.clone())
    };
    let (events, _) = mpsc::channel(1);
    let report = engine.chat(request, events).await?;
    let open_mode = report
        .opened
        .as_ref()
        .map_or("not opened", |(mode, _)| mode.as_str());
    println!("{} ({open_mode}):", report.provider);
    println!(
        "  {}",
        report
            .text
            .as_deref()
            .unwrap_or_default()
            .trim_end()
            .replace('\n', "\n  ")
    );
    Ok(report)
}
