//! `segue session resume`: resumes a session in segue or in the agent's own program.

use std::io::IsTerminal;
use std::process::ExitCode;

use segue_agents::exec::OwnProgram;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;
use segue_engine::{Departure, EngineError, Obstacle};
use serde_json::{Map, Value, json};

use crate::app::{self, App};
use crate::cli::{ChatArgs, ReplArgs, ResumeArgs, TalkArgs};
use crate::commands::{chat, picker, repl};
use crate::config::{Config, Flags};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Style, one_line, print, say};

pub(super) async fn run(mut args: ResumeArgs) -> Result<ExitCode, CliError> {
    let Some(id) = args.id.take() else {
        if picker::is_possible() {
            return Box::pin(picker::run()).await;
        }
        return Err(CliError::usage("which session?")
            .hint("`segue session list` shows them; `latest` is the newest one of this project"));
    };
    if args.exec || args.print {
        return depart(&id, &args).await;
    }
    let talk = TalkArgs {
        resume: Some(id),
        continue_last: false,
        new: false,
        scope: Box::default(),
        explain: false,
        terms: args.terms,
    };
    let converse = args.prompt.is_none() && !args.json && !args.events;
    if converse && std::io::stdin().is_terminal() {
        return repl::run(ReplArgs { talk }).await;
    }
    let args = ChatArgs {
        prompt: args.prompt,
        talk,
        json: args.json,
        events: args.events,
    };
    chat::run(args).await
}

/// Replaces the process with the agent's own program. Returns only if that fails: `Ok` with the reason if the caller
/// can resume the session in segue instead.
pub(crate) async fn in_its_own(id: &SessionRef) -> Result<String, CliError> {
    let app = App::open()?;
    let found = app.find_any(id).await?;
    let departure = match app.engine.depart(&found).await {
        Ok(departure) => departure,
        // A session that is in use by the agent's own program cannot be resumed in segue either.
        Err(
            error @ EngineError::Stays {
                why: Obstacle::Busy { .. },
                ..
            },
        ) => return Err(error.into()),
        Err(error) => return Ok(CliError::from(error).message),
    };
    let config = app::configuration(&Flags::default())?.config;
    match app::own_program_of(&config, &departure) {
        Some(program) => {
            entrust(&app, &config, &departure);
            drop(app);
            Err(begin(&program))
        }
        None => Ok(format!(
            "{} was not found on this machine",
            departure.provider
        )),
    }
}

/// Protects a session whose agent may destroy it once the agent has the terminal. Only Gemini CLI needs this.
fn entrust(app: &App, config: &Config, departure: &Departure) {
    if departure.provider != ProviderId::gemini() {
        return;
    }
    if let Some(entrust) = app::entrust(&app.home, config) {
        let told = entrust.hand_over(&departure.cwd, &departure.native_id);
        app::tell_guarded(&told);
    }
}

/// Replaces the process with another program. Returns only the error if that fails.
fn begin(program: &OwnProgram) -> CliError {
    let mark = Style::stderr().yellow("segue:");
    let what = one_line(&program.in_short());
    let cwd = one_line(&program.cwd.to_string_lossy());
    say(&format!("{mark} starting {what} in {cwd}"));
    let error = program.exec();
    CliError::failed(format!("cannot start {}", program.path.display())).because(&error)
}

/// Replaces the process with the agent's own program, or prints the command with `--print`.
async fn depart(id: &SessionRef, args: &ResumeArgs) -> Result<ExitCode, CliError> {
    // The configuration determines which program is started, so it must be valid.
    let app = App::open()?;
    let found = app.find_any(id).await?;
    let departure = app.engine.depart(&found).await?;
    let provider = departure.provider.clone();
    if let Some(other) = asked_for(args).filter(|other| **other != provider) {
        return Err(CliError::usage(format!(
            "it is {provider} that has this session, not {other}"
        ))
        .hint(format!(
            "`segue session resume {} -p {other} \"…\"` hands it over to {other}",
            found.id()
        )));
    }
    let config = app::configuration(&Flags::default())?.config;
    let program = app::own_program_of(&config, &departure).ok_or_else(|| {
        CliError::failed(format!("{provider} was not found on this machine")).hint(format!(
            "put `{provider}` on PATH, or set its `path` in the configuration"
        ))
    })?;
    if args.print {
        let native_id = departure.native_id.as_str();
        tell(&program, &provider, native_id, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    entrust(&app, &config, &departure);
    // The store is closed before the process is replaced.
    drop(app);
    Err(begin(&program))
}

/// Returns the agent from the command line. Ignores the agent from the environment, because that does not refer to a
/// single session.
fn asked_for(args: &ResumeArgs) -> Option<&ProviderId> {
    let usual = std::env::var("SEGUE_PROVIDER").ok();
    let asked = args.terms.provider.as_ref();
    asked.filter(|provider| usual.as_deref() != Some(provider.as_str()))
}

fn tell(program: &OwnProgram, provider: &ProviderId, native_id: &str, as_json: bool) {
    if !as_json {
        print(&program.line());
        return;
    }
    let env = program.env.iter();
    let env: Map<String, Value> = env
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    print_json(&json!({
        "provider": provider.as_str(),
        "native_session_id": native_id,
        "cwd": program.cwd.to_string_lossy(),
        "program": program.path.to_string_lossy(),
        "args": program.args,
        "env": env,
        "line": program.line(),
    }));
}
