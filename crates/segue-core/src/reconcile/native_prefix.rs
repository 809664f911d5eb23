//! Position of a recorded turn in a native session.

use crate::brief::prompt_after_brief;
use crate::reconcile::prompt_match::is_same_prompt;

/// Returns the number of native turns that lead to the last turn of a chain. `None` if that is ambiguous.
///
/// `native` contains the prompts of the native session as the agent received them, `chain` the prompts of the recorded
/// turns that were ever sent, both oldest first. A native session contains the complete chain from its first turn on,
/// or its first prompt contained a brief of the beginning. Turns after these do not matter. Prompts decide, because
/// they are the only data that both sides always have.
#[must_use]
pub fn native_prefix_len(native: &[impl AsRef<str>], chain: &[impl AsRef<str>]) -> Option<usize> {
    let is_match = |count: usize| {
        let sent = native.iter().take(count).rev();
        let recorded = chain.iter().rev();
        count > 0
            && native.len() >= count
            && sent
                .zip(recorded)
                .all(|(sent, recorded)| is_same_prompt(sent.as_ref(), recorded.as_ref()))
    };
    let is_briefed = |first: &str| prompt_after_brief(first).is_some();
    if !native
        .first()
        .is_some_and(|first| is_briefed(first.as_ref()))
    {
        return is_match(chain.len()).then_some(chain.len());
    }
    // A prompt that is repeated several times in a row matches at several positions, of which only one is right.
    let mut lengths = (1..=chain.len()).filter(|count| is_match(*count));
    let length = lengths.next()?;
    lengths.next().is_none().then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::END_OF_RECORD;

    fn briefed_prompt(prompt: &str) -> String {
        format!("> hello\n{END_OF_RECORD}\n\n{prompt}")
    }

    #[test]
    fn a_complete_native_session_is_matched_by_turn_number() {
        let cases: [(&[&str], &[&str], Option<usize>); 11] = [
            (&["a", "b", "c"], &["a", "b"], Some(2)),
            (&["a", "b"], &["a", "b"], Some(2)),
            (&["a", "b", "by hand", "more"], &["a"], Some(1)),
            // Identical prompts are distinguished by their number.
            (&["go on", "go on", "go on"], &["go on", "go on"], Some(2)),
            (&["[Feature: x]\n\na", "b"], &["a", "b"], Some(2)),
            (&["a\n", " b"], &["a", "b "], Some(2)),
            // Ambiguous, or no match.
            (&["a", "by hand", "b"], &["a", "b"], None),
            (&["a"], &["a", "b"], None),
            (&["b", "c"], &["a", "b"], None),
            (&["a", ""], &["a", ""], None),
            (&[], &[], None),
        ];
        for (native, chain, expected) in cases {
            assert_eq!(
                native_prefix_len(native, chain),
                expected,
                "{native:?} {chain:?}"
            );
        }
    }

    #[test]
    fn a_briefed_native_session_is_matched_by_the_turns_after_the_brief() {
        let briefed_c = briefed_prompt("c");
        let cases: [(Vec<&str>, &[&str], Option<usize>); 6] = [
            (vec![&briefed_c, "d", "e"], &["a", "b", "c", "d"], Some(2)),
            (vec![&briefed_c, "d", "e"], &["a", "b", "c"], Some(1)),
            // The chain ends before the native session began.
            (vec![&briefed_c, "d"], &["a", "b"], None),
            // The first prompt contained no brief, so the native session does not contain the beginning.
            (vec!["c", "d"], &["a", "b", "c", "d"], None),
            (
                vec![&briefed_c, "by hand", "d"],
                &["a", "b", "c", "d"],
                None,
            ),
            (vec![], &["a"], None),
        ];
        for (native, chain, expected) in cases {
            assert_eq!(
                native_prefix_len(&native, chain),
                expected,
                "{native:?} {chain:?}"
            );
        }
        let briefed_go_on = briefed_prompt("go on");
        let native = [briefed_go_on.as_str(), "go on", "go on"];
        let chain = ["start", "go on", "go on", "go on", "go on"];
        assert_eq!(
            native_prefix_len(&native, &chain),
            None,
            "several positions match"
        );
        // The first turn was answered by another agent, so the last native turn is the fourth of the session, not the
        // third.
        let native = [briefed_go_on.as_str(), "go on", "go on"];
        let chain = ["go on", "go on", "go on"];
        assert_eq!(
            native_prefix_len(&native, &chain),
            None,
            "the last turn is ambiguous"
        );
        // The first prompt of a session can have a brief that consists of a role only.
        assert_eq!(native_prefix_len(&[&briefed_c, "d"], &["c", "d"]), Some(2));
    }
}
