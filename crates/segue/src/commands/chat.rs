//! `segue chat`: one turn.

mod printer;
mod question;

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segue_core::{SessionRef, TurnState};
use segue_engine::{ChatRequest, Conversation, Stop, Target, TurnEvent, TurnReport};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::cli::ChatArgs;
use crate::error::{CliError, Kind};
use crate::setup::App;
use crate::terminal::{Style, clean, say};
use crate::wire::{self, ChatJson, print_json};
use printer::Printer;

/// How many events may wait to be printed before the turn does.
const WAITING: usize = 64;

/// In which form the turn is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
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

    /// How much of the answer is told again at the end.
    fn text_up_to(self) -> usize {
        match self {
            Self::Words => 0,
            Self::Json => usize::MAX,
            // Whoever wants a long one has it by then.
            Self::Events => 1024 * 1024,
        }
    }
}

pub(crate) async fn run(args: ChatArgs) -> Result<ExitCode, CliError> {
    let form = Form::of(&args);
    let mut began = None;
    match turn(args, form, &mut began).await {
        Ok(report) => Ok(tell(&report, form)),
        Err(error) if form == Form::Words => Err(error),
        Err(error) => {
            let (session, turn) = began.unzip();
            print_result(&ChatJson::failed(session, turn, &error), form);
            Ok(error.kind.exit_code())
        }
    }
}

/// Runs the turn and tells what happens on the way; `began` is set once the prompt is on the disk.
async fn turn(
    args: ChatArgs,
    form: Form,
    began: &mut Option<(String, u32)>,
) -> Result<TurnReport, CliError> {
    let prompt = prompt(args.prompt.as_deref())?;
    let app = App::open()?;
    let target = match (&args.resume, args.continue_last, args.new) {
        (Some(reference), ..) => resumable(&app, reference).await?,
        (None, true, _) => Target::Continue,
        // What is configured to go on with is not what a new feature is about.
        (None, false, true) => Target::New,
        (None, false, false) if args.feature.is_some() => Target::New,
        (None, false, false) => Target::Usual,
    };
    let (stop, stopped) = watch::channel(Stop::No);
    let listening = tokio::spawn(listen_for_signals(stop));
    let request = ChatRequest {
        prompt,
        target,
        project: app.project.clone(),
        provider: args.provider.clone(),
        model: args.model.clone(),
        feature: args.feature.clone(),
        strict: args.strict,
        permissions: args.permissions.map(Into::into),
        open_timeout: args.open_timeout.map(Duration::from_secs_f64),
        turn_timeout: args.timeout.map(Duration::from_secs_f64),
        text_up_to: form.text_up_to(),
        keep_open: false,
        stop: stopped.clone(),
    };
    let (sender, events) = mpsc::channel(WAITING);
    let telling = Telling::start(form, events);
    let outcome = {
        // The events end when this future is gone.
        let mut chat = std::pin::pin!(app.engine.chat(request, sender));
        loop {
            tokio::select! {
                biased;
                outcome = &mut chat => break outcome,
                () = tokio::time::sleep(printer::FRAME) => telling.spin(),
            }
        }
    };
    let told = tokio::task::spawn_blocking(move || telling.end());
    tokio::select! {
        told = told => *began = told.ok().flatten(),
        // The turn is settled; only a reader that does not read keeps us, and we were told to end.
        () = impatience(stopped) => std::process::exit(130),
    }
    listening.abort();
    Ok(outcome?)
}

/// Returns a moment after we were told to end now.
async fn impatience(mut stop: watch::Receiver<Stop>) {
    if stop.wait_for(|level| *level == Stop::Now).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// The telling of a turn, on a thread of its own: a reader that does not read must not hold the turn up.
struct Telling {
    printer: Arc<Mutex<Printer>>,
    thread: std::thread::JoinHandle<Option<(String, u32)>>,
}

impl Telling {
    fn start(form: Form, mut events: mpsc::Receiver<TurnEvent>) -> Self {
        let printer = Arc::new(Mutex::new(Printer::new(form)));
        let shared = Arc::clone(&printer);
        let thread = std::thread::spawn(move || {
            let mut began = None;
            while let Some(event) = events.blocking_recv() {
                if let TurnEvent::Began { session, turn } = &event {
                    began = Some((session.to_string(), *turn));
                }
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .tell(event);
            }
            began
        });
        Self { printer, thread }
    }

    /// Shows that time passes, unless something is being printed just now.
    fn spin(&self) {
        if let Ok(mut printer) = self.printer.try_lock() {
            printer.spin();
        }
    }

    /// Waits until everything is told; returns the session and turn, if the prompt was written down.
    fn end(self) -> Option<(String, u32)> {
        let began = self.thread.join().ok().flatten();
        self.printer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end();
        began
    }
}

/// The session to go on with, if it can be: an agent needs the directory it works in.
async fn resumable(app: &App, reference: &SessionRef) -> Result<Target, CliError> {
    let found = app.find_any(reference).await?;
    let (cwd, fork) = match &found {
        Conversation::Session(session, _) => {
            let fork = format!(
                ", or branch off into the directory you are in with `segue session fork {}`",
                session.id
            );
            (Some(session.project.cwd.as_str()), fork)
        }
        Conversation::Native(native) => (native.session.head.cwd.as_deref(), String::new()),
    };
    match cwd {
        Some(cwd) if !Path::new(cwd).is_dir() => Err(CliError::failed(format!(
            "the session's directory {cwd} is not there"
        ))
        .hint(format!("make it again{fork}"))),
        Some(_) | None => Ok(found.id().into()),
    }
}

/// The first Ctrl-C asks the agent to stop, the second ends it; a request to terminate is sent only once.
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
            _ = interrupt.recv() => {
                let asked_before = stop.borrow().gt(&Stop::No);
                stop.send_replace(if asked_before { Stop::Now } else { Stop::Ask });
                if !asked_before && std::io::stderr().is_terminal() {
                    say("\nsegue: asking the agent to stop; Ctrl-C again ends it");
                }
            }
            _ = terminate.recv() => { stop.send_replace(Stop::Now); }
            _ = hangup.recv() => { stop.send_replace(Stop::Now); }
        }
    }
}

/// The prompt, from the argument or from standard input.
fn prompt(argument: Option<&str>) -> Result<String, CliError> {
    let text = match argument {
        Some(text) if text != "-" => text.to_owned(),
        None if std::io::stdin().is_terminal() => {
            return Err(
                CliError::usage("there is no prompt").hint("segue chat \"what you want to say\"")
            );
        }
        Some(_) | None => {
            let mut text = String::new();
            std::io::stdin()
                .lock()
                .read_to_string(&mut text)
                .map_err(|error| {
                    CliError::usage("cannot read the prompt from standard input").because(&error)
                })?;
            text
        }
    };
    if text.trim().is_empty() {
        return Err(CliError::usage("the prompt is empty"));
    }
    if text.contains('\0') {
        return Err(CliError::usage(
            "the prompt contains a NUL character, which no agent can take",
        ));
    }
    Ok(text)
}

/// Tells how the turn ended, and says with what to exit.
fn tell(report: &TurnReport, form: Form) -> ExitCode {
    if form != Form::Words {
        print_result(&ChatJson::from(report), form);
    }
    let kind = match report.state {
        TurnState::Finished => return ExitCode::SUCCESS,
        TurnState::Cancelled if report.stopped_by_policy => Kind::Policy,
        TurnState::Cancelled => Kind::Interrupted,
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => Kind::Agent,
    };
    if form == Form::Words {
        tell_failure(report);
    }
    kind.exit_code()
}

fn print_result(result: &ChatJson, form: Form) {
    match form {
        Form::Events => {
            let result = serde_json::to_value(result).unwrap_or_default();
            print_json(&wire::with_event("result", result));
        }
        Form::Json | Form::Words => print_json(result),
    }
}

fn tell_failure(report: &TurnReport) {
    let Some(failure) = &report.failure else {
        let what = if report.stopped_by_policy {
            "the agent stopped, since it was not allowed to do what it asked for (--permissions)"
        } else {
            "interrupted"
        };
        say(&format!(
            "{what}; go on with: segue chat --resume {} \"…\"",
            report.session
        ));
        return;
    };
    if let Some(stderr) = &failure.stderr {
        let style = Style::stderr();
        say(&style.dim(&format!("{} wrote to its error output:", report.provider)));
        for line in clean(stderr).lines() {
            say(&style.dim(&format!("  {line}")));
        }
    }
    let error = CliError {
        kind: Kind::Agent,
        message: failure.message.clone(),
        hints: failure.hint.clone().into_iter().collect(),
    };
    error.report();
}
