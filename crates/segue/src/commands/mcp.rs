//! `segue mcp`: an MCP server for the agent of a session.

use std::iter;
use std::process::ExitCode;

use segue_api::text::ShellActions;
use segue_core::id::SessionId;
use segue_engine::RefContext;
use segue_mcp::{LazyToolContext, ToolContext};

use crate::app::{App, VERSION};
use crate::cli::McpArgs;
use crate::error::CliError;
use crate::last_list;

pub(crate) async fn run(args: McpArgs) -> Result<ExitCode, CliError> {
    let tool_context = match args.session {
        // A missing session is an error at the start, not at the first call, so that the caller can still correct it.
        Some(reference) => {
            let mut app = App::open()?;
            let session = app.find_session(&reference).await?;
            app.project = session.project;
            LazyToolContext::Ready(Box::new(build_tool_context(app, Some(session.id))))
        }
        None => LazyToolContext::from_opener(|| match App::open() {
            Ok(app) => Ok(build_tool_context(app, None)),
            Err(error) => {
                let hints = error.hints.iter().map(|hint| hint.format(&ShellActions));
                let sentences: Vec<String> = iter::once(error.message).chain(hints).collect();
                Err(sentences.join("; "))
            }
        }),
    };
    segue_mcp::serve(
        tool_context,
        VERSION,
        tokio::io::stdin(),
        tokio::io::stdout(),
    )
    .await
    .map_err(|error| CliError::failed("the MCP server failed").with_cause(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn build_tool_context(app: App, session: Option<SessionId>) -> ToolContext {
    let (home, project) = (app.home, app.project);
    let ref_context = move || RefContext {
        last_list: last_list::load(&home, &project),
        project: project.clone(),
    };
    ToolContext {
        library: app.engine.library().clone(),
        resolver: app.engine.resolver().clone(),
        sessions: app.engine.sessions().clone(),
        session,
        ref_context: Box::new(ref_context),
    }
}
