//! Frontends that show hints to the user: the shell and the REPL, in which commands begin with a slash.

use segue_api::text::{ActionText, ShellActions};
use segue_core::hint::SuggestedAction;
use segue_core::id::{ProviderId, SessionId};

/// Frontend in which a hint is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frontend<'a> {
    Shell,
    /// A conversation, with its session once it has one.
    Repl(Option<&'a SessionId>),
}

impl Frontend<'_> {
    /// Returns `true` if a conversation words the action. Its commands apply only to its current session.
    fn is_repl_action(&self, action: &SuggestedAction) -> bool {
        match self {
            Self::Shell => false,
            Self::Repl(session) => action_session(action).is_none_or(|id| *session == Some(id)),
        }
    }
}

impl ActionText for Frontend<'_> {
    fn format_action(&self, action: &SuggestedAction) -> String {
        let repl_text = self
            .is_repl_action(action)
            .then(|| format_repl_action(action));
        let repl_text = repl_text.flatten();
        repl_text.unwrap_or_else(|| ShellActions.format_action(action))
    }

    fn format_command(&self, action: &SuggestedAction) -> String {
        let repl_command = self
            .is_repl_action(action)
            .then(|| format_repl_command(action));
        let repl_command = repl_command.flatten();
        repl_command.unwrap_or_else(|| ShellActions.format_command(action))
    }
}

/// Words a suggested action for a conversation. `None` if only a shell command can do it.
fn format_repl_action(action: &SuggestedAction) -> Option<String> {
    // Settings that only a command-line option can change require a restart.
    let restart_command = |id: &SessionId, options: &str| {
        format!("`/quit`, then `segue repl --resume {id} {options}`")
    };
    let command = format_repl_command(action);
    Some(match action {
        SuggestedAction::Resume(_) => "send the prompt again".to_owned(),
        SuggestedAction::ExtendTimeouts(id) => {
            let command = restart_command(id, "--open-timeout 120 --timeout 3600");
            format!("retry with longer timeouts: {command}")
        }
        SuggestedAction::ForceRetry(id) => {
            format!("retry anyway: {}", restart_command(id, "--anyway"))
        }
        SuggestedAction::SkipCooldown => "wait until then".to_owned(),
        SuggestedAction::HandOff(..) | SuggestedAction::UseOtherAgent(_) => {
            format!("hand the session off with `{}`", command?)
        }
        SuggestedAction::Start => "send a prompt to start a session".to_owned(),
        SuggestedAction::StartAnother => format!("use `{}` to start another session", command?),
        SuggestedAction::StartWithOtherAgent => {
            "start a session with the other agent: `/agent NAME`, then `/new`".to_owned()
        }
        SuggestedAction::Open(_)
        | SuggestedAction::List
        | SuggestedAction::ListAll
        | SuggestedAction::Fork(_)
        | SuggestedAction::Undo(_)
        | SuggestedAction::Compact(_)
        | SuggestedAction::ShowCheckpoint(_) => command?,
    })
}

/// Returns the command of a conversation that does an action. `None` if only a shell command can do it.
fn format_repl_command(action: &SuggestedAction) -> Option<String> {
    Some(match action {
        SuggestedAction::HandOff(_, agent) | SuggestedAction::UseOtherAgent(agent) => {
            let agent = agent.as_ref().map_or("NAME", ProviderId::as_str);
            format!("/handoff {agent}")
        }
        SuggestedAction::StartAnother => "/new".to_owned(),
        SuggestedAction::List => "/sessions".to_owned(),
        SuggestedAction::ListAll => "/sessions all".to_owned(),
        SuggestedAction::Fork(_) => "/fork".to_owned(),
        SuggestedAction::Undo(_) => "/undo".to_owned(),
        SuggestedAction::Compact(_) => "/compact".to_owned(),
        SuggestedAction::ShowCheckpoint(_) => "/checkpoint".to_owned(),
        SuggestedAction::Resume(_)
        | SuggestedAction::Open(_)
        | SuggestedAction::ExtendTimeouts(_)
        | SuggestedAction::ForceRetry(_)
        | SuggestedAction::SkipCooldown
        | SuggestedAction::Start
        | SuggestedAction::StartWithOtherAgent => return None,
    })
}

/// Returns the session that a suggested action applies to.
fn action_session(action: &SuggestedAction) -> Option<&SessionId> {
    match action {
        SuggestedAction::Resume(id)
        | SuggestedAction::Open(id)
        | SuggestedAction::ExtendTimeouts(id)
        | SuggestedAction::ForceRetry(id)
        | SuggestedAction::HandOff(id, _)
        | SuggestedAction::Fork(id)
        | SuggestedAction::Undo(id)
        | SuggestedAction::Compact(id)
        | SuggestedAction::ShowCheckpoint(id) => Some(id),
        SuggestedAction::SkipCooldown
        | SuggestedAction::UseOtherAgent(_)
        | SuggestedAction::Start
        | SuggestedAction::StartAnother
        | SuggestedAction::StartWithOtherAgent
        | SuggestedAction::List
        | SuggestedAction::ListAll => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::HintText;

    #[test]
    fn the_shell_and_the_repl_format_an_action_differently() {
        let id = SessionId::parse("20261116_101502_m4qc").unwrap();
        let other_id = SessionId::parse("20261116_101502_k3f9").unwrap();
        let codex = || Some(ProviderId::codex());
        let cases = [
            (
                SuggestedAction::ListAll,
                "segue session list --all",
                "/sessions all",
            ),
            (
                SuggestedAction::Resume(id.clone()),
                "resume the session with `segue chat --resume ID \"…\"`",
                "send the prompt again",
            ),
            (
                SuggestedAction::HandOff(id.clone(), codex()),
                "hand the session off with `segue session handoff ID -p codex`",
                "hand the session off with `/handoff codex`",
            ),
            (
                SuggestedAction::HandOff(id.clone(), None),
                "hand the session off with `segue session handoff ID -p NAME`",
                "hand the session off with `/handoff NAME`",
            ),
            (
                SuggestedAction::ForceRetry(id.clone()),
                "retry anyway with `segue chat --resume ID --anyway \"…\"`",
                "retry anyway: `/quit`, then `segue repl --resume ID --anyway`",
            ),
            (
                SuggestedAction::ExtendTimeouts(id.clone()),
                "retry with longer timeouts: `segue chat --resume ID --open-timeout 120 --timeout 3600 \"…\"`",
                "retry with longer timeouts: `/quit`, then `segue repl --resume ID --open-timeout 120 --timeout 3600`",
            ),
            (
                SuggestedAction::Fork(id.clone()),
                "segue session fork ID",
                "/fork",
            ),
            // Sessions other than the current session of the conversation.
            (
                SuggestedAction::Fork(other_id.clone()),
                "segue session fork OTHER",
                "segue session fork OTHER",
            ),
            (
                SuggestedAction::Resume(other_id.clone()),
                "resume the session with `segue chat --resume OTHER \"…\"`",
                "resume the session with `segue chat --resume OTHER \"…\"`",
            ),
        ];
        for (action, shell, repl) in cases {
            let with_ids = |text: &str| {
                let text = text.replace("OTHER", other_id.as_str());
                text.replace("ID", id.as_str())
            };
            assert_eq!(Frontend::Shell.format_action(&action), with_ids(shell));
            assert_eq!(
                Frontend::Repl(Some(&id)).format_action(&action),
                with_ids(repl)
            );
        }
        let hint = HintText::from("run `")
            .with_action(SuggestedAction::List)
            .with_text("` to list sessions");
        let formatted = hint.format(&Frontend::Repl(None));
        assert_eq!(formatted, "run `/sessions` to list sessions");
    }
}
