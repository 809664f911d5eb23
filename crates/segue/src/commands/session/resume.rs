//! `segue session resume`: resumes a session in segue or in the agent's own program.

use std::io::IsTerminal;
use std::process::ExitCode;

use segue_api::resume::ResumeCommand;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;
use segue_engine::{NativeResume, NativeResumeError, ResolveError};
use segue_providers::exec::NativeCommand;

use crate::app::{self, App};
use crate::cli::{ChatArgs, ConversationArgs, ReplArgs, ResumeArgs};
use crate::commands::{chat, picker, repl};
use crate::config::{Config, ConfigFlags};
use crate::error::CliError;
use crate::json_output::{path_json, print_json};
use crate::terminal::{eprint_note, print_line, to_single_line};

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
    let conversation = ConversationArgs {
        resume: Some(id),
        options: args.options,
        ..ConversationArgs::default()
    };
    let is_interactive = args.prompt.is_none() && !args.json && !args.events;
    if is_interactive && std::io::stdin().is_terminal() {
        return repl::run(ReplArgs { conversation }).await;
    }
    let args = ChatArgs {
        prompt: args.prompt,
        conversation,
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
    let resolver = app.engine.resolver();
    let native_resume = match resolver.prepare_native_resume(&conversation).await {
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
        Some(program) => Err(exec_program(app, &config, &native_resume, &program)),
        None => Ok(program_missing_message(&native_resume.provider)),
    }
}

fn program_missing_message(provider: &ProviderId) -> String {
    format!("agent `{provider}` not found on this machine")
}

/// Replaces the process with the agent's own program. Returns only the error if that fails.
fn exec_program(
    app: App,
    config: &Config,
    native_resume: &NativeResume,
    program: &NativeCommand,
) -> CliError {
    // Only Gemini CLI may destroy a session once it has the terminal.
    if native_resume.provider == ProviderId::gemini()
        && let Some(guard) = app::unattended_guard(&app.home, config)
    {
        let guard_actions = guard.prepare_handover(&native_resume.cwd, &native_resume.native_id);
        app::report_guard_actions(&guard_actions);
    }
    // The store is closed before the process is replaced.
    drop(app);
    let (command, cwd) = (program.format_short(), program.cwd.to_string_lossy());
    eprint_note(&to_single_line(&format!("starting {command} in {cwd}")));
    let error = program.exec();
    CliError::failed(format!("cannot start {}", program.path.display())).with_cause(&error)
}

/// Replaces the process with the agent's own program, or prints the command with `--print`.
async fn resume_natively(id: &SessionRef, args: &ResumeArgs) -> Result<ExitCode, CliError> {
    // The configuration determines which program is started, so it must be valid.
    let app = App::open()?;
    let conversation = app.find_conversation(id).await?;
    let resolver = app.engine.resolver();
    let native_resume = resolver.prepare_native_resume(&conversation).await?;
    let provider = &native_resume.provider;
    if let Some(requested) = requested_provider(args).filter(|requested| *requested != provider) {
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
        CliError::failed(program_missing_message(provider)).with_hint(format!(
            "put `{provider}` on PATH, or set its `path` in the configuration"
        ))
    })?;
    if args.print {
        print_command(&program, &native_resume, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    Err(exec_program(app, &config, &native_resume, &program))
}

/// Returns the agent from the command line. Ignores the agent from the environment, because that does not refer to a
/// single session.
fn requested_provider(args: &ResumeArgs) -> Option<&ProviderId> {
    let env_provider = std::env::var("SEGUE_PROVIDER").ok();
    let requested = args.options.provider.as_ref();
    requested.filter(|provider| env_provider.as_deref() != Some(provider.as_str()))
}

fn print_command(program: &NativeCommand, native_resume: &NativeResume, as_json: bool) {
    if !as_json {
        print_line(&program.to_shell_command());
        return;
    }
    print_json(&ResumeCommand {
        provider: native_resume.provider.clone(),
        native_session_id: native_resume.native_id.clone(),
        cwd: path_json(&program.cwd),
        program: path_json(&program.path),
        args: program.args.clone(),
        env: program.env.iter().cloned().collect(),
        line: program.to_shell_command(),
    });
}
