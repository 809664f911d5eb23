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
pub fn native_turns(native: &[impl AsRef<str>], chain: &[impl AsRef<str>]) -> Option<usize> {
    let fits = |turns: usize| {
        let sent = native.iter().take(turns).rev();
        let ours = chain.iter().rev();
        turns > 0
            && native.len() >= turns
            && sent
                .zip(ours)
                .all(|(sent, ours)| is_same_prompt(sent.as_ref(), ours.as_ref()))
    };
    let told = |first: &str| prompt_after_brief(first).is_some();
    if !native.first().is_some_and(|first| told(first.as_ref())) {
        return fits(chain.len()).then_some(chain.len());
    }
    // A prompt that is repeated several times in a row matches at several positions, of which only one is right.
    let mut places = (1..=chain.len()).filter(|turns| fits(*turns));
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::END_OF_RECORD;

    fn told(prompt: &str) -> String {
        format!("> what was said\n{END_OF_RECORD}\n\n{prompt}")
    }

    #[test]
    fn a_native_session_that_knows_everything_is_cut_by_number() {
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
                native_turns(native, chain),
                expected,
                "{native:?} {chain:?}"
            );
        }
    }

    #[test]
    fn a_native_session_that_was_told_the_beginning_is_cut_by_what_follows() {
        let c = told("c");
        let cases: [(Vec<&str>, &[&str], Option<usize>); 6] = [
            (vec![&c, "d", "e"], &["a", "b", "c", "d"], Some(2)),
            (vec![&c, "d", "e"], &["a", "b", "c"], Some(1)),
            // The chain ends before the native session began.
            (vec![&c, "d"], &["a", "b"], None),
            // The first prompt contained no brief, so the native session does not contain the beginning.
            (vec!["c", "d"], &["a", "b", "c", "d"], None),
            (vec![&c, "by hand", "d"], &["a", "b", "c", "d"], None),
            (vec![], &["a"], None),
        ];
        for (native, chain, expected) in cases {
            assert_eq!(
                native_turns(&native, chain),
                expected,
                "{native:?} {chain:?}"
            );
        }
        let again = told("go on");
        let native = [again.as_str(), "go on", "go on"];
        let chain = ["start", "go on", "go on", "go on", "go on"];
        assert_eq!(native_turns(&native, &chain), None, "it may be any of them");
        // The first turn was answered by another agent, so the last native turn is the fourth of the session, not the
        // third.
        let native = [again.as_str(), "go on", "go on"];
        let chain = ["go on", "go on", "go on"];
        assert_eq!(
            native_turns(&native, &chain),
            None,
            "nor is it the last one"
        );
        // The first prompt of a session can have a brief that consists of a role only.
        assert_eq!(native_turns(&[&c, "d"], &["c", "d"]), Some(2));
    }
}
