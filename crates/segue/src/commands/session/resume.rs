//! `segue session resume`: resumes a session in segue or in the agent's own program.

use std::io::IsTerminal;
use std::process::ExitCode;

use segue_agents::exec::NativeCommand;
use segue_api::resume::ResumeCommand;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::SessionRef;
use segue_engine::{NativeResume, NativeResumeError, ResolveError};

use crate::app::{self, App};
use crate::cli::{ChatArgs, ConversationArgs, ReplArgs, ResumeArgs};
use crate::commands::{chat, picker, repl};
use crate::config::{Config, ConfigFlags};
use crate::error::CliError;
use crate::json_output::{path_json, print_json};
use crate::terminal::{Style, eprint_line, print_line, to_single_line};

pub(super) async fn run(mut args: ResumeArgs) -> Result<ExitCode, CliError> {
    let Some(id) = args.id.take() else {
        if picker::is_possible() {
            return Box::pin(picker::run()).await;
        }
        return Err(CliError::usage("no session given").with_hint(
            "run `segue session list` to list sessions, or use `latest` for the newest one of this project",
        ));
    };
    if args.exec || args.print {
        return resume_natively(&id, &args).await;
    }
    let conversation_args = ConversationArgs {
        resume: Some(id),
        continue_last: false,
        new: false,
        scope: Box::default(),
        explain: false,
        options: args.options,
    };
    let is_interactive = args.prompt.is_none() && !args.json && !args.events;
    if is_interactive && std::io::stdin().is_terminal() {
        return repl::run(ReplArgs {
            conversation: conversation_args,
        })
        .await;
    }
    let args = ChatArgs {
        prompt: args.prompt,
        conversation: conversation_args,
        json: args.json,
        events: args.events,
    };
    chat::run(args).await
}

/// Replaces the process with the agent's own program. Returns only if that fails: `Ok` with the reason if the caller
/// can resume the session in segue instead.
pub(crate) async fn resume_in_native_program(id: &SessionRef) -> Result<String, CliError> {
    let app = App::open()?;
    let conversation = app.find_conversation(id).await?;
    let native_resume = match app
        .engine
        .resolver()
        .prepare_native_resume(&conversation)
        .await
    {
        Ok(native_resume) => native_resume,
        // A session that is in use by the agent's own program cannot be resumed in segue either.
        Err(
            error @ ResolveError::NotResumable {
                reason: NativeResumeError::InUse { .. },
                ..
            },
        ) => return Err(error.into()),
        Err(error) => return Ok(CliError::from(error).message),
    };
    let config = app::load_config(&ConfigFlags::default())?.config;
    match app::native_resume_command(&config, &native_resume) {
        Some(program) => {
            guard_session(&app, &config, &native_resume);
            drop(app);
            Err(exec_program(&program))
        }
        None => Ok(format!(
            "agent `{}` not found on this machine",
            native_resume.provider
        )),
    }
}

/// Protects a session whose agent may destroy it once the agent has the terminal. Only Gemini CLI needs this.
fn guard_session(app: &App, config: &Config, native_resume: &NativeResume) {
    if native_resume.provider != ProviderId::gemini() {
        return;
    }
    if let Some(guard) = app::unattended_guard(&app.home, config) {
        let guard_actions = guard.prepare_handover(&native_resume.cwd, &native_resume.native_id);
        app::report_guard_actions(&guard_actions);
    }
}

/// Replaces the process with another program. Returns only the error if that fails.
fn exec_program(program: &NativeCommand) -> CliError {
    let prefix = Style::stderr().yellow("segue:");
    let command = to_single_line(&program.format_short());
    let cwd = to_single_line(&program.cwd.to_string_lossy());
    eprint_line(&format!("{prefix} starting {command} in {cwd}"));
    let error = program.exec();
    CliError::failed(format!("cannot start {}", program.path.display())).with_cause(&error)
}

/// Replaces the process with the agent's own program, or prints the command with `--print`.
async fn resume_natively(id: &SessionRef, args: &ResumeArgs) -> Result<ExitCode, CliError> {
    // The configuration determines which program is started, so it must be valid.
    let app = App::open()?;
    let conversation = app.find_conversation(id).await?;
    let native_resume = app
        .engine
        .resolver()
        .prepare_native_resume(&conversation)
        .await?;
    let provider = native_resume.provider.clone();
    if let Some(requested) = requested_provider(args).filter(|requested| **requested != provider) {
        return Err(CliError::usage(format!(
            "the session belongs to {provider}, not to {requested}"
        ))
        .with_hint(format!(
            "hand it off to {requested} with `segue session resume {} -p {requested} \"…\"`",
            conversation.id()
        )));
    }
    let config = app::load_config(&ConfigFlags::default())?.config;
    let program = app::native_resume_command(&config, &native_resume).ok_or_else(|| {
        CliError::failed(format!("agent `{provider}` not found on this machine")).with_hint(
            format!("put `{provider}` on PATH, or set its `path` in the configuration"),
        )
    })?;
    if args.print {
        print_command(&program, &provider, &native_resume.native_id, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    guard_session(&app, &config, &native_resume);
    // The store is closed before the process is replaced.
    drop(app);
    Err(exec_program(&program))
}

/// Returns the agent from the command line. Ignores the agent from the environment, because that does not refer to a
/// single session.
fn requested_provider(args: &ResumeArgs) -> Option<&ProviderId> {
    let env_provider = std::env::var("SEGUE_PROVIDER").ok();
    let requested = args.options.provider.as_ref();
    requested.filter(|provider| env_provider.as_deref() != Some(provider.as_str()))
}

fn print_command(
    program: &NativeCommand,
    provider: &ProviderId,
    native_id: &NativeId,
    as_json: bool,
) {
    if !as_json {
        print_line(&program.to_shell_command());
        return;
    }
    print_json(&ResumeCommand {
        provider: provider.clone(),
        native_session_id: native_id.clone(),
        cwd: path_json(&program.cwd),
        program: path_json(&program.path),
        args: program.args.clone(),
        env: program.env.iter().cloned().collect(),
        line: program.to_shell_command(),
    });
}
