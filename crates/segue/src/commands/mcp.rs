//! `segue mcp`: an MCP server for the agent of a session.

use std::iter;
use std::process::ExitCode;

use segue_core::hint::Hint;
use segue_core::id::SessionId;
use segue_engine::Standpoint;
use segue_mcp::{Desk, LazyDesk};

use crate::app::{App, VERSION};
use crate::cli::McpArgs;
use crate::error::CliError;
use crate::last_list;

pub(crate) async fn run(args: McpArgs) -> Result<ExitCode, CliError> {
    let desk = match args.session {
        // A missing session is an error at the start, not at the first call, so that the caller can still correct it.
        Some(reference) => {
            let mut app = App::open()?;
            let session = app.find(&reference).await?;
            app.project = session.project;
            LazyDesk::ready(desk(app, Some(session.id)))
        }
        None => LazyDesk::later(|| match App::open() {
            Ok(app) => Ok(desk(app, None)),
            Err(error) => {
                let hints = error.hints.iter().map(Hint::to_string);
                let words: Vec<String> = iter::once(error.message).chain(hints).collect();
                Err(words.join("; "))
            }
        }),
    };
    segue_mcp::serve(desk, VERSION, tokio::io::stdin(), tokio::io::stdout())
        .await
        .map_err(|error| CliError::failed("cannot go on").because(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn desk(app: App, session: Option<SessionId>) -> Desk {
    let (home, project) = (app.home, app.project);
    let standpoint = move || Standpoint {
        last_list: last_list::recall(&home, &project),
        project: project.clone(),
    };
    Desk {
        engine: app.engine,
        session,
        standpoint: Box::new(standpoint),
    }
}
