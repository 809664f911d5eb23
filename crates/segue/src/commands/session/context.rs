//! `segue session context`: the project context of a session.

use segue_api::brief::SessionContext;
use segue_core::agent::RoleDescription;
use segue_core::number_format::format_count;
use segue_core::session::Session;
use segue_engine::{ContextRebuild, GatheredContext};

use super::require_session;
use crate::app::App;
use crate::cli::ContextArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{eprint_line, print_line, strip_control_chars};

pub(super) async fn run(app: &App, args: &ContextArgs) -> Result<(), CliError> {
    let session = require_session(app.find_conversation(&args.session.id).await?)?;
    let role = app.engine.resolver().session_role(&session)?;
    let gathered = if args.refresh {
        app.engine.briefs().refresh_context(&session, true).await?
    } else {
        app.engine.briefs().current_context(&session, false).await?
    };
    if args.session.json {
        print_json(&context_json(&session, role, &gathered));
        return Ok(());
    }
    let text = gathered.cached.context.render();
    print_line(strip_control_chars(&text).trim_end());
    print_line("");
    print_line(&format!(
        "{} tokens; {}",
        format_count(gathered.cached.tokens),
        describe_rebuild(&gathered)
    ));
    if role.is_none() {
        eprint_line("agents do not receive this context, because the session has no role");
    }
    Ok(())
}

/// Describes when and why the context was collected.
fn describe_rebuild(gathered: &GatheredContext) -> String {
    let at = gathered.cached.at.strftime("%Y-%m-%d %H:%M:%S UTC");
    match &gathered.rebuild {
        ContextRebuild::NotNeeded => format!("collected at {at}"),
        ContextRebuild::First => "collected now".to_owned(),
        ContextRebuild::Requested => "collected again, without changes".to_owned(),
        ContextRebuild::SourcesChanged(names) => {
            let names = names.join(", ");
            format!("collected again, because sources changed: {names}")
        }
    }
}

fn context_json(
    session: &Session,
    role: Option<&RoleDescription>,
    gathered: &GatheredContext,
) -> SessionContext {
    let changed_sources = match &gathered.rebuild {
        ContextRebuild::SourcesChanged(names) => names.clone(),
        ContextRebuild::NotNeeded | ContextRebuild::First | ContextRebuild::Requested => Vec::new(),
    };
    SessionContext {
        content: (&gathered.cached.context).into(),
        tokens: gathered.cached.tokens,
        updated_at: gathered.cached.at,
        gathered: gathered.rebuild != ContextRebuild::NotNeeded,
        changed: changed_sources,
        session_id: session.id.clone(),
        role: role.map(|role| role.name.clone()),
    }
}
