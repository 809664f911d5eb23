//! `segue chat`: one turn.

mod permission_prompt;
mod printer;
mod prompt_input;
pub(crate) mod run_turn;
pub(super) mod target;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use segue_core::hint::{Hint, NextStep};
use segue_core::policy::Haste;
use segue_core::session::SessionRef;
use segue_engine::{ChatRequest, Conversation, Standpoint, Stop, Target, TurnReport};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub(super) use prompt_input::{prompt, sendable};
use target::Aim;

use crate::app::App;
use crate::cli::{ChatArgs, TalkArgs, TermsArgs};
use crate::error::CliError;
use crate::frontend::Front;
use crate::json_output::{self, ChatJson, print_json};
use crate::terminal::say;

/// Output format of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Words,
    Json,
    Events,
}

impl Form {
    fn of(args: &ChatArgs) -> Self {
        match (args.json, args.events) {
            (true, _) => Self::Json,
            (_, true) => Self::Events,
            (false, false) => Self::Words,
        }
    }

    /// Returns the maximum length of the answer that the final result repeats, in bytes.
    fn text_up_to(self) -> usize {
        match self {
            Self::Words => 0,
            Self::Json => usize::MAX,
            // A caller that needs a longer answer has already received it as events.
            Self::Events => 1024 * 1024,
        }
    }
}

pub(crate) async fn run(args: ChatArgs) -> Result<ExitCode, CliError> {
    let said = prompt(args.prompt.as_deref());
    ask(said, &args.talk, Form::of(&args)).await
}

/// Sends the prompt if it is valid, and prints the result.
pub(super) async fn ask(
    said: Result<String, CliError>,
    talk: &TalkArgs,
    form: Form,
) -> Result<ExitCode, CliError> {
    let mut told = run_turn::Told::default();
    let outcome = match said {
        Ok(prompt) => turn(prompt, talk, form, &mut told).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(report) => Ok(tell(&report, form)),
        Err(error) if form == Form::Words => Err(error),
        Err(error) => {
            print_result(&ChatJson::failed(told, &error), form);
            Ok(error.kind.exit_code())
        }
    }
}

/// Runs the turn and prints its events. Stores in `told` what was printed, also if the turn fails.
async fn turn(
    prompt: String,
    talk: &TalkArgs,
    form: Form,
    told: &mut run_turn::Told,
) -> Result<TurnReport, CliError> {
    let app = App::open()?;
    let aim = Aim::of(&app, talk).await?;
    let (stop, stopped) = watch::channel(Stop::No);
    let listening = tokio::spawn(listen_for_signals(stop));
    let request = ChatRequest {
        text_up_to: form.text_up_to(),
        explain: aim.explain,
        ..request(&app, &talk.terms, prompt, aim.target, stopped.clone())
    };
    let (outcome, all) = run_turn::play(&app.engine, request, form, impatience(stopped)).await;
    *told = all;
    listening.abort();
    let mut error = match outcome {
        Ok(report) => return Ok(report),
        Err(error) => CliError::from(error),
    };
    // The process that uses the session runs the provider of that session.
    if let (Some(session), None) = (&error.about.session, &error.about.provider) {
        let session = app.engine.session(session).await;
        error.about.provider = session.ok().map(|session| session.provider);
    }
    Err(error)
}

/// Builds a request with these options, whose answer is streamed and not repeated in the report.
pub(super) fn request(
    app: &App,
    terms: &TermsArgs,
    prompt: String,
    target: Target,
    stop: watch::Receiver<Stop>,
) -> ChatRequest {
    ChatRequest {
        prompt,
        target,
        project: app.project.clone(),
        provider: terms.provider.clone(),
        model: terms.model.clone(),
        explain: None,
        strict: terms.strict,
        haste: if terms.now {
            Haste::Ignore
        } else {
            Haste::Wait
        },
        anyway: terms.anyway,
        permissions: terms.permissions.map(Into::into),
        open_timeout: terms.open_timeout.map(Duration::from_secs_f64),
        turn_timeout: terms.timeout.map(Duration::from_secs_f64),
        text_up_to: 0,
        keep_open: false,
        stop,
    }
}

/// Completes one second after the user requested an immediate end.
async fn impatience(mut stop: watch::Receiver<Stop>) {
    if stop.wait_for(|level| *level == Stop::Now).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Resolves the conversation to resume. Fails if its directory does not exist, because the agent runs in it.
pub(super) async fn resumable(
    app: &App,
    reference: &SessionRef,
    standpoint: &Standpoint,
) -> Result<Conversation, CliError> {
    let found = app.engine.find_any(reference, standpoint).await?;
    let again = Hint::from("make it again");
    let (cwd, hint) = match &found {
        Conversation::Session(session, _) => {
            let hint = again
                .say(", or branch off into the directory you are in with `")
                .step(NextStep::Fork(session.id.clone()))
                .say("`");
            (Some(session.project.cwd.as_str()), hint)
        }
        Conversation::Native(native) => (native.session.head.cwd.as_deref(), again),
    };
    match cwd {
        Some(cwd) if !Path::new(cwd).is_dir() => {
            Err(CliError::failed(format!("the session's directory {cwd} is not there")).hint(hint))
        }
        Some(_) | None => Ok(found),
    }
}

/// Handles signals: the first Ctrl-C asks the agent to stop, the second ends it. SIGTERM and SIGHUP end it at once,
/// because they are sent only once.
async fn listen_for_signals(stop: watch::Sender<Stop>) {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return;
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => run_turn::interrupt(&stop),
            _ = terminate.recv() => { stop.send_replace(Stop::Now); }
            _ = hangup.recv() => { stop.send_replace(Stop::Now); }
        }
    }
}

/// Prints how the turn ended, and returns the exit code.
fn tell(report: &TurnReport, form: Form) -> ExitCode {
    if form != Form::Words {
        print_result(&ChatJson::from(report), form);
    }
    let Some(kind) = run_turn::failed(report) else {
        return ExitCode::SUCCESS;
    };
    if form == Form::Words {
        match &report.failure {
            Some(failure) => run_turn::tell_failure(&report.provider, failure, Front::Shell),
            None => say(&format!(
                "{}; {} with: segue chat --resume {}{} \"…\"",
                run_turn::why_cancelled(report),
                if report.sent { "go on" } else { "run it again" },
                report.session,
                // `--now` skips the wait during which the prompt was cancelled.
                if run_turn::waited(report) {
                    " --now"
                } else {
                    ""
                },
            )),
        }
    }
    kind.exit_code()
}

/// Prints the result of `chat` for arguments that cannot be parsed.
pub(crate) fn print_mistake(error: &CliError, form: Form) {
    print_result(&ChatJson::failed(run_turn::Told::default(), error), form);
}

fn print_result(result: &ChatJson, form: Form) {
    match form {
        Form::Events => {
            let result = serde_json::to_value(result).unwrap_or_default();
            print_json(&json_output::with_event("result", result));
        }
        Form::Json | Form::Words => print_json(result),
    }
}
