//! Frontends that show hints to the user: the shell, and the conversation, in which commands begin with a slash.

use segue_core::hint::NextStep;
use segue_core::id::{ProviderId, SessionId};

/// Frontend in which a hint is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front<'a> {
    Shell,
    /// A conversation, with its session once it has one.
    Talk(Option<&'a SessionId>),
}

impl Front<'_> {
    /// Words a suggested action for this frontend.
    pub(crate) fn words(self, step: &NextStep) -> String {
        let said = match self {
            Self::Shell => None,
            Self::Talk(session) => in_conversation(step, session),
        };
        said.unwrap_or_else(|| step.to_string())
    }
}

/// Words a suggested action for a conversation. `None` if only a shell command can do it.
fn in_conversation(step: &NextStep, session: Option<&SessionId>) -> Option<String> {
    // Commands of a conversation apply only to its current session.
    if about(step).is_some_and(|id| session != Some(id)) {
        return None;
    }
    let hand_over = |agent: Option<&ProviderId>| {
        let agent = agent.map_or("NAME", ProviderId::as_str);
        format!("have another agent go on: /handoff {agent}")
    };
    // Settings that only a command-line option can change require a restart.
    let anew =
        |id: &SessionId, options: &str| format!("/quit, then segue repl --resume {id} {options}");
    Some(match step {
        NextStep::GoOn(_) => "ask again".to_owned(),
        NextStep::GiveLonger(id) => {
            let anew = anew(id, "--open-timeout 120 --timeout 3600");
            format!("give it longer: {anew}")
        }
        NextStep::TryAnyway(id) => format!("try it once more: {}", anew(id, "--anyway")),
        NextStep::AskNow => "or wait until then".to_owned(),
        NextStep::HandOver(_, agent) | NextStep::AskAnother(agent) => hand_over(agent.as_ref()),
        NextStep::Start => "the first prompt starts one".to_owned(),
        NextStep::StartAnew => "/new begins another session".to_owned(),
        NextStep::StartWithAnother => {
            "start a session with the other agent: /agent NAME, then /new".to_owned()
        }
        NextStep::List => "/sessions".to_owned(),
        NextStep::ListAll => "/sessions all".to_owned(),
        NextStep::Fork(_) => "/fork".to_owned(),
        NextStep::Undo(_) => "/undo".to_owned(),
        NextStep::Compact(_) => "/compact".to_owned(),
        NextStep::LookAtCheckpoint(_) => "/checkpoint".to_owned(),
    })
}

/// Returns the session that a suggested action applies to.
fn about(step: &NextStep) -> Option<&SessionId> {
    match step {
        NextStep::GoOn(id)
        | NextStep::GiveLonger(id)
        | NextStep::TryAnyway(id)
        | NextStep::HandOver(id, _)
        | NextStep::Fork(id)
        | NextStep::Undo(id)
        | NextStep::Compact(id)
        | NextStep::LookAtCheckpoint(id) => Some(id),
        NextStep::AskNow
        | NextStep::AskAnother(_)
        | NextStep::Start
        | NextStep::StartAnew
        | NextStep::StartWithAnother
        | NextStep::List
        | NextStep::ListAll => None,
    }
}

#[cfg(test)]
mod tests {
    use segue_core::hint::Hint;

    use super::*;

    #[test]
    fn each_place_has_its_own_words_for_a_step() {
        let id = SessionId::parse("20261116_101502_m4qc").unwrap();
        let other = SessionId::parse("20261116_101502_k3f9").unwrap();
        let codex = || Some(ProviderId::codex());
        let cases = [
            (
                NextStep::ListAll,
                "segue session list --all",
                "/sessions all",
            ),
            (
                NextStep::GoOn(id.clone()),
                "go on with: segue chat --resume ID \"…\"",
                "ask again",
            ),
            (
                NextStep::HandOver(id.clone(), codex()),
                "have another agent go on: segue session handoff ID -p codex",
                "have another agent go on: /handoff codex",
            ),
            (
                NextStep::HandOver(id.clone(), None),
                "have another agent go on: segue session handoff ID -p NAME",
                "have another agent go on: /handoff NAME",
            ),
            (
                NextStep::TryAnyway(id.clone()),
                "try it once more: segue chat --resume ID --anyway \"…\"",
                "try it once more: /quit, then segue repl --resume ID --anyway",
            ),
            (
                NextStep::GiveLonger(id.clone()),
                "give it longer: segue chat --resume ID --open-timeout 120 --timeout 3600 \"…\"",
                "give it longer: /quit, then segue repl --resume ID --open-timeout 120 --timeout 3600",
            ),
            (NextStep::Fork(id.clone()), "segue session fork ID", "/fork"),
            // Sessions other than the current session of the conversation.
            (
                NextStep::Fork(other.clone()),
                "segue session fork OTHER",
                "segue session fork OTHER",
            ),
            (
                NextStep::GoOn(other.clone()),
                "go on with: segue chat --resume OTHER \"…\"",
                "go on with: segue chat --resume OTHER \"…\"",
            ),
        ];
        for (step, shell, talk) in cases {
            let named = |text: &str| {
                let text = text.replace("OTHER", other.as_str());
                text.replace("ID", id.as_str())
            };
            assert_eq!(Front::Shell.words(&step), named(shell));
            assert_eq!(Front::Talk(Some(&id)).words(&step), named(talk));
        }
        let hint = Hint::from("it had 3; `")
            .step(NextStep::List)
            .say("` shows a new one");
        let words = hint.worded(|step| Front::Talk(None).words(step));
        assert_eq!(words, "it had 3; `/sessions` shows a new one");
    }
}
