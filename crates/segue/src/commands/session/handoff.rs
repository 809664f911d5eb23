//! `segue session handoff`: changes the provider of a session.

use std::process::ExitCode;

use segue_api::text::format_dropped_setting;
use segue_core::id::ProviderId;
use segue_core::session::{Session, SessionRef};

use crate::app::App;
use crate::cli::{ConversationArgs, HandoffArgs, TurnOptionArgs};
use crate::commands::chat::{self, OutputFormat};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::terminal::{eprint_decisions, eprint_note, to_single_line};

pub(super) async fn run(args: HandoffArgs) -> Result<ExitCode, CliError> {
    let Some(prompt) = args.prompt else {
        let app = App::open_lenient()?;
        let (session, message) =
            hand_off_session(&app, &args.id, &args.provider, Frontend::Shell).await?;
        let id = &session.id;
        let text = format!("{message}. Continue with: segue chat --resume {id} \"…\"");
        super::print_session(&app, &session, args.json, &text).await?;
        return Ok(ExitCode::SUCCESS);
    };
    // The prompt is validated before any change.
    let prompt = chat::read_prompt(Some(&prompt))?;
    let app = App::open()?;
    let (session, message) =
        hand_off_session(&app, &args.id, &args.provider, Frontend::Shell).await?;
    eprint_note(&message);
    drop(app);
    let conversation_args = ConversationArgs {
        resume: Some(SessionRef::Text(session.id.to_string())),
        options: TurnOptionArgs {
            provider: Some(args.provider),
            open_timeout: args.open_timeout,
            ..TurnOptionArgs::default()
        },
        ..ConversationArgs::default()
    };
    let format = if args.json {
        OutputFormat::Json
    } else {
        OutputFormat::Text
    };
    chat::run_chat(Ok(prompt), &conversation_args, format).await
}

/// Hands a session off and returns a message about the result. Adopts a native session, and reports what the new
/// provider does not receive.
pub(crate) async fn hand_off_session(
    app: &App,
    id: &SessionRef,
    to: &ProviderId,
    frontend: Frontend<'_>,
) -> Result<(Session, String), CliError> {
    // The provider is checked first, because a failed handoff must not adopt a native session.
    app.engine.sessions().check_handoff(to)?;
    let session = app.find_or_adopt(id).await?;
    let outcome = app.engine.sessions().handoff(&session, to).await?;
    eprint_decisions(&outcome.decisions, frontend);
    let (session, from) = (outcome.session, outcome.from);
    let message = if from == *to {
        format!(
            "session {} already uses {to}, so no handoff was needed",
            session.id
        )
    } else {
        for setting in &outcome.dropped_settings {
            let line = format_dropped_setting(&from, to, setting);
            eprint_note(&to_single_line(&line));
        }
        let next_step = if outcome.native_has_all_turns {
            "resumes its native session, which has the full history"
        } else {
            "starts a new native session with a brief"
        };
        format!(
            "handed session {} off from {from} to {to}; the next prompt {next_step}",
            session.id
        )
    };
    Ok((session, message))
}
