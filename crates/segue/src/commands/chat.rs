//! `segue chat`: one turn.

mod permission_prompt;
mod printer;
mod prompt_input;
pub(crate) mod run_turn;
pub(super) mod signals;
pub(super) mod target;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use segue_api::chat::{ChatEvent, ChatResult};
use segue_core::hint::SuggestedAction;
use segue_core::policy::WaitPreference;
use segue_core::session::SessionRef;
use segue_engine::{ChatRequest, Conversation, RefContext, StopLevel, Target, TurnReport};
use tokio::sync::watch;

pub(super) use prompt_input::{read_prompt, validate_prompt};
use signals::{InterruptScope, SignalHandler};
use target::ChatTarget;

use crate::app::App;
use crate::cli::{ChatArgs, ConversationArgs, TurnOptionArgs};
use crate::error::{CliError, HintText};
use crate::frontend::Frontend;
use crate::json_output::{self, print_json};
use crate::terminal::eprint_line;

/// Output format of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    Events,
}

impl OutputFormat {
    fn from_args(args: &ChatArgs) -> Self {
        match (args.json, args.events) {
            (true, _) => Self::Json,
            (_, true) => Self::Events,
            (false, false) => Self::Text,
        }
    }

    /// Returns the maximum length of the answer that the final result repeats, in bytes.
    fn max_text_bytes(self) -> usize {
        match self {
            Self::Text => 0,
            Self::Json => usize::MAX,
            // A caller that needs a longer answer has already received it as events.
            Self::Events => 1024 * 1024,
        }
    }
}

pub(crate) async fn run(args: ChatArgs) -> Result<ExitCode, CliError> {
    let prompt = read_prompt(args.prompt.as_deref());
    run_chat(prompt, &args.conversation, OutputFormat::from_args(&args)).await
}

/// Sends the prompt if it is valid, and prints the result.
pub(super) async fn run_chat(
    prompt_result: Result<String, CliError>,
    args: &ConversationArgs,
    format: OutputFormat,
) -> Result<ExitCode, CliError> {
    let mut partial_report = run_turn::PartialTurnReport::default();
    let outcome = match prompt_result {
        Ok(prompt) => run_prompt(prompt, args, format, &mut partial_report).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(report) => Ok(report_outcome(&report, format)),
        Err(error) if format == OutputFormat::Text => Err(error),
        Err(error) => {
            print_result(json_output::chat_error_json(partial_report, &error), format);
            Ok(error.kind.exit_code())
        }
    }
}

/// Runs the turn and prints its events. Stores in `partial_report` what was printed, also if the turn fails.
async fn run_prompt(
    prompt: String,
    args: &ConversationArgs,
    format: OutputFormat,
    partial_report: &mut run_turn::PartialTurnReport,
) -> Result<TurnReport, CliError> {
    let app = App::open()?;
    let chat_target = ChatTarget::from_args(&app, args).await?;
    let signals = SignalHandler::install(InterruptScope::Turn)?;
    let stop = signals.begin_turn();
    let request = ChatRequest {
        max_text_bytes: format.max_text_bytes(),
        explain: chat_target.resolution_steps,
        ..build_request(&app, &args.options, prompt, chat_target.target, stop)
    };
    let output = (format, Frontend::Shell);
    let forced_exit = signals.wait_for_forced_stop();
    let (outcome, collected_report) =
        run_turn::run(&app.engine, request, output, forced_exit).await;
    *partial_report = collected_report;
    let mut error = match outcome {
        Ok(report) => return Ok(report),
        Err(error) => CliError::from(error),
    };
    // The process that uses the session runs the provider of that session.
    if let (Some(session), None) = (&error.subject.session, &error.subject.provider) {
        let session = app.engine.library().session(session).await;
        error.subject.provider = session.ok().map(|session| session.provider);
    }
    Err(error)
}

/// Builds a request with these options, whose answer is streamed and not repeated in the report.
pub(super) fn build_request(
    app: &App,
    options: &TurnOptionArgs,
    prompt: String,
    target: Target,
    stop: watch::Receiver<StopLevel>,
) -> ChatRequest {
    ChatRequest {
        prompt,
        target,
        project: app.project.clone(),
        provider: options.provider.clone(),
        model: options.model.clone(),
        explain: None,
        strict: options.strict,
        wait_preference: if options.now {
            WaitPreference::SendNow
        } else {
            WaitPreference::Wait
        },
        force: options.anyway,
        permissions: options.permissions.map(Into::into),
        open_timeout: options.open_timeout.map(Duration::from_secs_f64),
        turn_timeout: options.timeout.map(Duration::from_secs_f64),
        max_text_bytes: 0,
        keep_agent: false,
        stop,
    }
}

/// Resolves the conversation to resume. Fails if its directory does not exist, because the agent runs in it.
pub(super) async fn find_resumable(
    app: &App,
    reference: &SessionRef,
    ref_context: &RefContext,
) -> Result<Conversation, CliError> {
    let resolver = app.engine.resolver();
    let conversation = resolver.find_conversation(reference, ref_context).await?;
    let recreate_hint = HintText::from("recreate the directory");
    let (cwd, hint) = match &conversation {
        Conversation::Session(session, _) => {
            let hint = recreate_hint
                .with_text(", or run `")
                .with_action(SuggestedAction::Fork(session.id.clone()))
                .with_text("` to fork the session into the current directory");
            (Some(session.project.cwd.as_str()), hint)
        }
        Conversation::Native(native) => (native.session.head.cwd.as_deref(), recreate_hint),
    };
    match cwd {
        Some(cwd) if !Path::new(cwd).is_dir() => {
            let message = format!("the session's directory {cwd} no longer exists");
            Err(CliError::failed(message).with_hint(hint))
        }
        Some(_) | None => Ok(conversation),
    }
}

/// Prints how the turn ended, and returns the exit code.
fn report_outcome(report: &TurnReport, format: OutputFormat) -> ExitCode {
    if format != OutputFormat::Text {
        print_result(json_output::chat_json(report), format);
    }
    let Some(kind) = run_turn::exit_kind(report) else {
        return ExitCode::SUCCESS;
    };
    if format == OutputFormat::Text {
        match &report.failure {
            Some(failure) => run_turn::report_failure(&report.provider, failure, Frontend::Shell),
            None => eprint_line(&format!(
                "{}; {} with: segue chat --resume {}{} \"…\"",
                run_turn::cancellation_reason(report),
                if report.sent { "continue" } else { "retry" },
                report.session,
                // `--now` skips the wait during which the prompt was cancelled.
                if run_turn::is_cancelled_while_waiting(report) {
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
pub(crate) fn print_usage_error(error: &CliError, format: OutputFormat) {
    print_result(
        json_output::chat_error_json(run_turn::PartialTurnReport::default(), error),
        format,
    );
}

fn print_result(result: ChatResult, format: OutputFormat) {
    match format {
        OutputFormat::Events => print_json(&ChatEvent::Result(Box::new(result))),
        OutputFormat::Json | OutputFormat::Text => print_json(&result),
    }
}
