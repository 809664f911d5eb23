//! `segue repl`: a conversation of several turns with one process of the agent.

mod command;
mod editor;
mod multiline;
mod reader;
mod render;
mod signals;
mod state;

use std::process::ExitCode;

use command::{Command, Typed};
use reader::{Read, Reader};
use signals::{Interrupt, Signals};
use state::Talk;

use crate::app::App;
use crate::cli::ReplArgs;
use crate::error::{CliError, Kind};
use crate::frontend::Front;
use crate::terminal::{Style, say};

pub(crate) async fn run(args: ReplArgs) -> Result<ExitCode, CliError> {
    let interactive = reader::is_interactive();
    let app = App::open()?;
    let signals = Signals::listen(if interactive {
        Interrupt::Turn
    } else {
        Interrupt::Everything
    })?;
    let mut talk = Talk::new(app, args.talk, signals.clone()).await?;
    let mut reader = Reader::new(talk.home(), talk.agents());
    if interactive {
        say(&Style::stderr().dim("/help lists the commands, Ctrl-C stops a turn, Ctrl-D ends"));
        talk.greet().await;
    }
    let failed = converse(&mut talk, &mut reader, &signals).await;
    talk.end().await;
    if let Some(session) = talk.session().filter(|_| interactive) {
        let how = format!("go on with: segue repl --resume {session}");
        say(&Style::stderr().dim(&how));
    }
    Ok(match failed {
        _ if signals.is_over() => Kind::Interrupted.exit_code(),
        // An interactive user has already seen the error.
        Some(kind) if !interactive => kind.exit_code(),
        Some(_) | None => ExitCode::SUCCESS,
    })
}

/// Reads and runs texts until the end. Returns the kind of the last failure.
async fn converse(talk: &mut Talk, reader: &mut Reader, signals: &Signals) -> Option<Kind> {
    let mut failed = None;
    while !signals.is_over() {
        let outcome = match reader.next(&talk.label(), signals).await {
            Read::Text(text) => match command::parse(&text) {
                Ok(Typed::Nothing) => Ok(()),
                Ok(Typed::Prompt(prompt)) => talk.prompt(prompt).await,
                Ok(Typed::Command(Command::Exit)) => break,
                Ok(Typed::Command(command)) => {
                    let outcome = talk.obey(command).await;
                    outcome.map_err(|error| told(error, talk.front()))
                }
                Err(error) => Err(told(error, talk.front())),
            },
            Read::Nothing => Ok(()),
            Read::Bad(error) => Err(told(error, talk.front())),
            Read::Broken(error) => {
                failed = Some(told(error, talk.front()));
                break;
            }
            Read::End => break,
        };
        failed = outcome.err().or(failed);
    }
    failed
}

/// Reports an error. The conversation continues.
#[expect(
    clippy::needless_pass_by_value,
    reason = "an error that is told is done with"
)]
fn told(error: CliError, front: Front<'_>) -> Kind {
    error.report(front);
    error.kind
}
