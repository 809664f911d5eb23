//! Runs one turn: prints events as they arrive, answers a permission request, and stops on Ctrl-C.
//!
//! `cargo run -p segue-engine --example turn`

#![allow(clippy::print_stdout, reason = "an example prints to the terminal")]

#[path = "support/program.rs"]
mod program;

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;
use segue_api::text::{ShellActions, format_decision};
use segue_core::session::Project;
use segue_engine::{ChatRequest, Engine, StopLevel, Target, TurnEvent};
use tokio::sync::{mpsc, watch};

fn main() -> Result<ExitCode> {
    program::run(turn)
}

async fn turn(engine: Engine, project: Project) -> Result<()> {
    let (stop_sender, stop_receiver) = watch::channel(StopLevel::None);
    tokio::spawn(async move {
        // The first Ctrl-C asks the agent to stop, the second one ends it. In both cases the turn is recorded as
        // cancelled.
        for level in [StopLevel::Graceful, StopLevel::Immediate] {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop_sender.send_replace(level);
            }
        }
    });
    let request = ChatRequest {
        target: Target::New,
        stop: stop_receiver,
        ..ChatRequest::new("rehearse: think hm; tool; ask; say all is done", project)
    };
    // A slow receiver slows the agent down, but loses nothing: segue writes messages to disk as they arrive.
    let (sender, mut events) = mpsc::channel(32);
    let printing = async {
        while let Some(event) = events.recv().await {
            print_event(event)?;
        }
        Ok::<(), std::io::Error>(())
    };
    let (report, printed) = tokio::join!(engine.chat(request, sender), printing);
    printed?;
    let report = report?;
    println!("turn {}: {}", report.turn, report.state.as_str());
    Ok(())
}

fn print_event(event: TurnEvent) -> std::io::Result<()> {
    match event {
        TurnEvent::Opened { provider, mode, .. } => println!("{provider}: {}", mode.as_str()),
        TurnEvent::Thought { text, .. } => println!("thinks: {text}"),
        TurnEvent::Text { text, .. } => {
            print!("{text}");
            stdout().flush()?;
        }
        TurnEvent::Tool(call) => println!("tool: {} ({})", call.name, call.status.as_str()),
        TurnEvent::PermissionRequested(request, answer) => {
            println!("asks: {}", request.call.name);
            // A turn that has stopped needs no answer, so an error is ignored. Dropping `answer` would refuse the
            // request.
            let _ = answer.send(request.allow_answer());
        }
        TurnEvent::Decided(decision) => {
            println!("decided: {}", format_decision(&decision, &ShellActions));
        }
        TurnEvent::Ended { .. } => println!(),
        // Other events are ignored: saved messages, plans, usage.
        _ => {}
    }
    Ok(())
}
