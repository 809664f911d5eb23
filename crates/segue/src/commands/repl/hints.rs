//! Hints as they are said in a conversation, where commands begin with a slash.

use segue_core::{Failure, SessionId};

use crate::error::CliError;

/// An error with hints that can be followed here.
pub(super) fn here(mut error: CliError, session: Option<&SessionId>) -> CliError {
    for hint in &mut error.hints {
        *hint = translated(hint, session);
    }
    error
}

/// A failure with a hint that can be followed here.
pub(super) fn failure_here(failure: &Failure, session: &SessionId) -> Failure {
    let hint = failure.hint.as_ref();
    Failure {
        hint: hint.map(|hint| translated(hint, Some(session))),
        ..failure.clone()
    }
}

/// The commands of a shell that a hint names, as commands of the conversation; those that have none stay as they are.
fn translated(hint: &str, session: Option<&SessionId>) -> String {
    let mut hint = hint
        .replace("`segue session list --all`", "/sessions all")
        .replace("`segue session list`", "/sessions")
        .replace("segue chat -p NAME \"…\"", "/agent NAME, then /new")
        .replace("go on with another agent by -p NAME", "/handoff NAME");
    if let Some(id) = session {
        let ask = format!("segue chat --resume {id} \"…\"");
        hint = hint
            .replace(&format!("segue session handoff {id} -p "), "/handoff ")
            .replace(&format!("`segue session fork {id}`"), "/fork")
            .replace(&format!("`segue session compact {id}`"), "/compact")
            .replace(&format!("go on with: {ask}"), "ask again")
            .replace(&ask, "ask again");
        // What only an option can say needs another start.
        let options = format!("segue chat --resume {id} --");
        if let Some((before, after)) = hint.split_once(&options) {
            let after = after.replacen(" \"…\"", "", 1);
            hint = format!("{before}/quit, then segue repl --resume {id} --{after}");
        }
    }
    hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_command_here_is_called_by_it() {
        let id = SessionId::parse("20261116_101502_m4qc").unwrap();
        let cases = [
            (
                "`segue session list --all` shows every one",
                "/sessions all shows every one",
            ),
            (
                "it had 3; `segue session list` shows a new one",
                "it had 3; /sessions shows a new one",
            ),
            (
                "what was said is kept; go on with: segue chat --resume ID \"…\"",
                "what was said is kept; ask again",
            ),
            (
                "wait a while: segue chat --resume ID \"…\"; or go on with another agent by -p NAME",
                "wait a while: ask again; or /handoff NAME",
            ),
            (
                "have another agent go on: segue session handoff ID -p codex; or try it once more: segue chat --resume ID --anyway \"…\"",
                "have another agent go on: /handoff codex; or try it once more: /quit, then segue repl --resume ID --anyway",
            ),
            ("`segue session fork ID` branches off", "/fork branches off"),
            (
                "`segue session fork OTHER` branches off",
                "`segue session fork OTHER` branches off",
            ),
            (
                "`segue doctor` shows which agents can be started",
                "`segue doctor` shows which agents can be started",
            ),
        ];
        for (hint, expected) in cases {
            let named = |text: &str| text.replace("ID", id.as_str());
            assert_eq!(translated(&named(hint), Some(&id)), named(expected));
        }
    }
}
