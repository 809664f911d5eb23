//! Text of hints.

use segue_core::hint::{Hint, SuggestedAction};
use segue_core::id::ProviderId;

use super::{ActionText, format_utc};

/// Formats a hint.
#[must_use]
pub fn format_hint(hint: &Hint, action_text: &dyn ActionText) -> String {
    let format_action = |action: SuggestedAction| action_text.format_action(&action);
    let format_resume = |session| format_action(SuggestedAction::Resume(Clone::clone(session)));
    match hint {
        Hint::CheckAgents => "run `segue doctor` to see which agents can be started".to_owned(),
        Hint::Resume { session } => {
            format!("all messages so far are saved; {}", format_resume(session))
        }
        Hint::ResumeWithBrief { session } => format!(
            "the next prompt starts a new native session with a brief; {}",
            format_resume(session)
        ),
        Hint::ResumeWithoutStrict { session } => format!(
            "without `--strict`, segue starts a new native session with a brief; {}",
            format_resume(session)
        ),
        Hint::ExtendTimeouts { session } => {
            format_action(SuggestedAction::ExtendTimeouts(session.clone()))
        }
        Hint::WaitOrHandOff { session, until } => {
            let wait = match until {
                Some(until) => format!("wait until {}", format_utc(*until)),
                None => "wait a while".to_owned(),
            };
            let hand_off = format_action(SuggestedAction::HandOff(session.clone(), None));
            format!("{wait}, then {}; or {hand_off}", format_resume(session))
        }
        Hint::WaitForProcess { session } => {
            format!("wait until it has finished, then {}", format_resume(session))
        }
        Hint::LogIn { provider, session } => {
            let instruction = describe_login(provider);
            format!("{instruction}, then {}", format_resume(session))
        }
        Hint::TrustDirectory { provider, session } => {
            let instruction = describe_trust(provider);
            format!("{instruction}, then {}", format_resume(session))
        }
        Hint::RecreateDirectory => {
            "recreate the directory, or run `segue session fork` to fork the session into the current directory"
                .to_owned()
        }
        Hint::HandOffOrForce {
            first,
            session,
            fallback,
        } => {
            let first = first.as_ref().map_or(String::new(), |first| {
                format!("{}; ", format_hint(first, action_text))
            });
            let hand_off =
                format_action(SuggestedAction::HandOff(session.clone(), fallback.clone()));
            let force = format_action(SuggestedAction::ForceRetry(session.clone()));
            format!("{first}{hand_off}; or {force}")
        }
        Hint::Recorded { text } => text.clone(),
    }
}

/// Describes how the user gives an agent credentials.
fn describe_login(provider: &ProviderId) -> String {
    match provider.as_str() {
        "claude" => "run `claude` and log in with `/login`".to_owned(),
        "codex" => "run `codex login`".to_owned(),
        "gemini" => "run `gemini` and log in with `/auth`".to_owned(),
        name => format!("log in with the program of {name}"),
    }
}

/// Describes how the user allows an agent to work in a directory.
fn describe_trust(provider: &ProviderId) -> String {
    match provider.as_str() {
        "codex" => "run `codex` in this directory once and trust the directory, or run `git init`"
            .to_owned(),
        "gemini" => "run `gemini` in this directory once and trust the directory".to_owned(),
        name => format!("run the program of {name} in this directory once and trust the directory"),
    }
}
