//! Gets or creates the session of a feature, adds a message without sending a prompt, and prints the brief for an
//! agent.
//!
//! `cargo run -p segue-engine --example scope`

#![allow(clippy::print_stdout, reason = "an example prints to the terminal")]

#[path = "support/program.rs"]
mod program;

use std::process::ExitCode;

use anyhow::Result;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::Project;
use segue_engine::{ChatRequest, Engine, MessageAuthor, Target};
use tokio::sync::mpsc;

fn main() -> Result<ExitCode> {
    program::run(prompt_in_scope)
}

async fn prompt_in_scope(engine: Engine, project: Project) -> Result<()> {
    let purpose = Purpose::for_scope(Scope::Feature(FeatureId::parse("checkout")?));
    let created = engine
        .resolver()
        .session_for_purpose(&purpose, None, &project)
        .await?;
    let existing = engine
        .resolver()
        .session_for_purpose(&purpose, None, &project)
        .await?;
    let session = existing.session.id;
    println!(
        "created: {}, found by its purpose: {}",
        created.is_new,
        session == created.session.id
    );

    let adding =
        engine
            .sessions()
            .add_message(&session, MessageAuthor::User, "amounts are in cents");
    println!("added as turn {}", adding.await?.turn);

    let prompt = "round them";
    let conversation = engine.library().conversation(&session).await?;
    let preview = engine
        .briefs()
        .preview_brief(&conversation, None, prompt)
        .await?;
    println!("{}", preview.plan.brief.prepend_to(prompt));

    // The purpose finds the same session, so the caller need not store its id.
    let request = ChatRequest {
        target: Target::Scope(purpose),
        ..ChatRequest::new(prompt, project)
    };
    // The receiver is dropped before the call, because this example reads no events.
    let (events, _) = mpsc::channel(1);
    let report = engine.chat(request, events).await?;
    println!("---\n{}", report.text.unwrap_or_default().trim_end());
    Ok(())
}
