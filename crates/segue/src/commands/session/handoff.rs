//! `segue session handoff`: changes the provider of a session.

use std::process::ExitCode;

use segue_core::id::ProviderId;
use segue_core::session::{Session, SessionRef};

use crate::app::App;
use crate::cli::{HandoffArgs, OneArgs, TalkArgs, TermsArgs};
use crate::commands::chat::{self, Form};
use crate::error::CliError;
use crate::terminal::{Style, one_line, say, say_decision};

pub(super) async fn run(args: HandoffArgs) -> Result<ExitCode, CliError> {
    let Some(prompt) = args.prompt else {
        let app = App::open_to_look()?;
        let (session, words) = hand_over(&app, &args.id, &args.provider).await?;
        let go_on = format!(
            "{words}. Go on with: segue chat --resume {} \"…\"",
            session.id
        );
        let one = OneArgs {
            id: args.id,
            json: args.json,
        };
        super::tell(&app, &session, &one, &go_on).await?;
        return Ok(ExitCode::SUCCESS);
    };
    // The prompt is validated before any change.
    let prompt = chat::prompt(Some(&prompt))?;
    let app = App::open()?;
    let (session, words) = hand_over(&app, &args.id, &args.provider).await?;
    say(&format!("{} {words}", Style::stderr().yellow("segue:")));
    drop(app);
    let talk = TalkArgs {
        resume: Some(SessionRef::Text(session.id.to_string())),
        continue_last: false,
        new: false,
        scope: Box::default(),
        explain: false,
        terms: TermsArgs {
            provider: Some(args.provider),
            open_timeout: args.open_timeout,
            ..TermsArgs::default()
        },
    };
    let form = if args.json { Form::Json } else { Form::Words };
    chat::ask(Ok(prompt), &talk, form).await
}

/// Hands a session over and returns a message about the result. Adopts a native session, and reports what the new
/// provider does not receive.
pub(crate) async fn hand_over(
    app: &App,
    id: &SessionRef,
    to: &ProviderId,
) -> Result<(Session, String), CliError> {
    // The provider is checked first, because a failed handoff must not adopt a native session.
    app.engine.check_handoff(to)?;
    let session = app.take(id).await?;
    let handed = app.engine.handoff(&session, to).await?;
    handed.decisions.iter().for_each(say_decision);
    let (session, from) = (handed.session, handed.from);
    let words = if from == *to {
        format!("{} is with {to} already, no changes made", session.id)
    } else {
        let mark = Style::stderr().yellow("segue:");
        for line in &handed.left_behind {
            say(&format!("{mark} {}", one_line(line)));
        }
        let next = if handed.knows_all {
            format!("{to} has a session of its own that knows what was said, and goes on there")
        } else {
            format!("{to} is told what was said with the next prompt")
        };
        format!(
            "{} is with {to} now, not with {from} any more; {next}",
            session.id
        )
    };
    Ok((session, words))
}
