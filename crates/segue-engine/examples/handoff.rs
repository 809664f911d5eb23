//! Hands a session off to another agent, which gets a brief of it.
//!
//! `cargo run -p segue-engine --example handoff`

#![allow(clippy::print_stdout, reason = "an example speaks to whoever runs it")]

#[path = "support/program.rs"]
mod program;

use std::process::ExitCode;

use anyhow::Result;
use segue_core::id::ProviderId;
use segue_core::session::Project;
use segue_engine::{ChatRequest, Engine, Target, TurnReport};
use tokio::sync::mpsc;

fn main() -> Result<ExitCode> {
    program::run(handoff)
}

async fn handoff(engine: Engine, project: Project) -> Result<()> {
    let first = say(&engine, &project, Target::New, "the key is under the mat").await?;
    let session = engine.session(&first.session).await?;

    let to = ProviderId::parse("understudy")?;
    let handed = engine.handoff(&session, &to).await?;
    println!("{} hands over to {}", handed.from, handed.session.provider);

    let same = Target::Session(session.id);
    say(&engine, &project, same, "where is the key?").await?;
    Ok(())
}

async fn say(
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
    let opened = report
        .opened
        .as_ref()
        .map_or("not opened", |(how, _)| how.as_str());
    println!("{} ({opened}):", report.provider);
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
