//! Text of suggested actions.

use segue_core::hint::SuggestedAction;
use segue_core::id::ProviderId;

/// Wording of suggested actions in a frontend.
pub trait ActionText {
    /// Formats an action as a part of a hint. This is an instruction to the user, or only a command if the hint contains
    /// the instruction.
    fn format_action(&self, action: &SuggestedAction) -> String;

    /// Formats the command or option that does an action, without an instruction.
    fn format_command(&self, action: &SuggestedAction) -> String;
}

/// Wording of suggested actions as shell commands and options. The JSON output uses it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellActions;

impl ActionText for ShellActions {
    fn format_action(&self, action: &SuggestedAction) -> String {
        let command = self.format_command(action);
        match action {
            SuggestedAction::Resume(_) => format!("resume the session with `{command}`"),
            SuggestedAction::ExtendTimeouts(_) => {
                format!("retry with longer timeouts: `{command}`")
            }
            SuggestedAction::ForceRetry(_) => format!("retry anyway with `{command}`"),
            SuggestedAction::SkipCooldown => format!("use `{command}` to send the prompt anyway"),
            SuggestedAction::HandOff(..) => format!("hand the session off with `{command}`"),
            SuggestedAction::UseOtherAgent(_) => format!("use another agent with `{command}`"),
            SuggestedAction::Start => format!("start a session with `{command}`"),
            SuggestedAction::StartAnother => format!("use `{command}` to start another session"),
            SuggestedAction::StartWithOtherAgent => {
                format!("start a session with the other agent: `{command}`")
            }
            SuggestedAction::Open(_)
            | SuggestedAction::List
            | SuggestedAction::ListAll
            | SuggestedAction::Fork(_)
            | SuggestedAction::Undo(_)
            | SuggestedAction::Compact(_)
            | SuggestedAction::ShowCheckpoint(_) => command,
        }
    }

    fn format_command(&self, action: &SuggestedAction) -> String {
        let name = |agent: &Option<ProviderId>| {
            let agent = agent.as_ref().map_or("NAME", ProviderId::as_str);
            agent.to_owned()
        };
        match action {
            SuggestedAction::Resume(id) => format!("segue chat --resume {id} \"…\""),
            SuggestedAction::Open(id) => format!("segue session resume {id}"),
            SuggestedAction::ExtendTimeouts(id) => {
                format!("segue chat --resume {id} --open-timeout 120 --timeout 3600 \"…\"")
            }
            SuggestedAction::ForceRetry(id) => format!("segue chat --resume {id} --anyway \"…\""),
            SuggestedAction::SkipCooldown => "--now".to_owned(),
            SuggestedAction::HandOff(id, agent) => {
                format!("segue session handoff {id} -p {}", name(agent))
            }
            SuggestedAction::UseOtherAgent(agent) => format!("-p {}", name(agent)),
            SuggestedAction::Start => "segue chat \"…\"".to_owned(),
            SuggestedAction::StartAnother => "--new".to_owned(),
            SuggestedAction::StartWithOtherAgent => "segue chat -p NAME \"…\"".to_owned(),
            SuggestedAction::List => "segue session list".to_owned(),
            SuggestedAction::ListAll => "segue session list --all".to_owned(),
            SuggestedAction::Fork(id) => format!("segue session fork {id}"),
            SuggestedAction::Undo(id) => format!("segue session undo {id}"),
            SuggestedAction::Compact(id) => format!("segue session compact {id}"),
            SuggestedAction::ShowCheckpoint(id) => format!("segue session checkpoint {id}"),
        }
    }
}
