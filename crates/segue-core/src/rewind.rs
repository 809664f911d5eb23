//! Which turn of a native session is which turn of ours.

use crate::prompt_after_brief;
use crate::same_prompt::is_same_prompt;

/// How many turns of a native session lead to the last turn of a chain; none where that is in doubt.
///
/// `native` are the prompts of the native session as it was sent them, `chain` those of our turns that were ever sent,
/// both oldest first. A native session knows the whole chain from its first turn on, or was told the beginning of it with
/// its first prompt; what comes after those turns does not matter. Prompts are all that both sides have for sure, so
/// they decide.
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
    // The same prompt several times in a row can be at several places, of which only one is right.
    let mut places = (1..=chain.len()).filter(|turns| fits(*turns));
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::END_OF_RECORD;

    fn told(prompt: &str) -> String {
        format!("> what was said\n{END_OF_RECORD}\n\n{prompt}")
    }

    #[test]
    fn a_native_session_that_knows_everything_is_cut_by_number() {
        let cases: [(&[&str], &[&str], Option<usize>); 11] = [
            (&["a", "b", "c"], &["a", "b"], Some(2)),
            (&["a", "b"], &["a", "b"], Some(2)),
            (&["a", "b", "by hand", "more"], &["a"], Some(1)),
            // What is the same is told apart by its number.
            (&["go on", "go on", "go on"], &["go on", "go on"], Some(2)),
            (&["[Feature: x]\n\na", "b"], &["a", "b"], Some(2)),
            (&["a\n", " b"], &["a", "b "], Some(2)),
            // In doubt.
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
            // Before it began.
            (vec![&c, "d"], &["a", "b"], None),
            // It was told nothing, so it lacks the beginning.
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
        // The first turn was another agent's; the last native one is the fourth, not the third.
        let native = [again.as_str(), "go on", "go on"];
        let chain = ["go on", "go on", "go on"];
        assert_eq!(
            native_turns(&native, &chain),
            None,
            "nor is it the last one"
        );
        // The prompt of a first turn may have been told with a role alone.
        assert_eq!(native_turns(&[&c, "d"], &["c", "d"]), Some(2));
    }
}
