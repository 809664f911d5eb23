//! Bare `segue`, and `segue session resume` without an id: the picker, and what becomes of a choice.

use std::process::ExitCode;

use segue_core::ProviderId;

use super::{repl, session};
use crate::cli::{OneArgs, ReplArgs, SessionCommand, ShowArgs, TalkArgs, TermsArgs};
use crate::error::CliError;
use crate::picker::{self, Chosen, Machine, Next, Options, Order, Place, reference};
use crate::setup::App;
use crate::terminal::Style;

/// Whether a person can be shown the picker.
pub(crate) fn is_possible() -> bool {
    picker::is_possible()
}

pub(crate) async fn run(terms: TermsArgs) -> Result<ExitCode, CliError> {
    let app = App::open_to_look()?;
    let agents = app.engine.drivable();
    let options = Options {
        place: Place::Everywhere,
        order: Order::Newest,
        typed: String::new(),
        agents: agents.iter().map(ToString::to_string).collect(),
        colour: Style::stdout().has_colour(),
    };
    drop(app);
    let Some(Chosen { row, next }) = picker::run(Machine::open, options)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let id = reference(&row)?;
    match next {
        Next::Resume => session::resume_where_it_was(id, terms).await,
        Next::Show => {
            let one = OneArgs { id, json: false };
            let show = ShowArgs {
                one,
                last: None,
                turn: None,
                full: false,
            };
            session::perform(&App::open_to_look()?, SessionCommand::Show(show)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Next::Handoff(agent) => {
            let provider =
                ProviderId::parse(&agent).map_err(|error| CliError::failed(error.to_string()))?;
            let talk = TalkArgs {
                resume: Some(id),
                continue_last: false,
                new: false,
                feature: None,
                terms: TermsArgs {
                    provider: Some(provider),
                    ..terms
                },
            };
            repl::run(ReplArgs { talk }).await
        }
    }
}
