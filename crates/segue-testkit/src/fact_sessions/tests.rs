use std::collections::HashSet;

use super::{Did, Kind, Prose, held_out, planted_in, templates, tuned_facts};

const SOURCES: [Option<Prose>; 3] = [None, Some(Prose::Tuned), Some(Prose::HeldOut)];
const FILLERS: [&[&str]; 4] = [
    tuned_facts::FILLER_BY_USER,
    tuned_facts::FILLER_BY_AGENT,
    held_out::FILLER_BY_USER,
    held_out::FILLER_BY_AGENT,
];

fn facts_of(source: Option<Prose>) -> impl Iterator<Item = &'static str> {
    Kind::ALL
        .into_iter()
        .flat_map(move |kind| templates(kind, source))
}

/// Returns all sentences of a prose, facts and fillers.
fn sentences(prose: Prose) -> Vec<&'static str> {
    let fillers = match prose {
        Prose::Tuned => [FILLERS[0], FILLERS[1]],
        Prose::HeldOut => [FILLERS[2], FILLERS[3]],
    };
    facts_of(Some(prose)).chain(fillers.concat()).collect()
}

/// Returns every sequence of five consecutive words, in lower case and without punctuation around the words.
fn fives(sentence: &str) -> Vec<String> {
    let words: Vec<String> = sentence
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.windows(5).map(|five| five.join(" ")).collect()
}

#[test]
fn a_fact_has_both_names_in_one_line_and_a_filler_has_none() {
    for template in SOURCES.into_iter().flat_map(facts_of) {
        let told = template
            .lines()
            .any(|line| line.contains("{A}") && line.contains("{B}"));
        assert!(told, "{template}");
    }
    for filler in FILLERS.concat() {
        assert!(!filler.contains(['{', '}']), "{filler}");
    }
}

#[test]
fn no_sentence_occurs_twice() {
    let mut seen = HashSet::new();
    let facts = SOURCES.into_iter().flat_map(facts_of);
    for sentence in facts.chain(FILLERS.concat()) {
        assert!(seen.insert(sentence), "{sentence}");
    }
}

#[test]
fn what_is_held_out_shares_no_five_words_in_a_row_with_what_was_looked_at() {
    let known: HashSet<String> = sentences(Prose::Tuned)
        .into_iter()
        .chain(facts_of(None))
        .flat_map(fives)
        .collect();
    let shared: Vec<(&str, String)> = sentences(Prose::HeldOut)
        .into_iter()
        .flat_map(|sentence| {
            fives(sentence)
                .into_iter()
                .map(move |five| (sentence, five))
        })
        .filter(|(_, five)| known.contains(five))
        .collect();
    assert_eq!(shared, []);
}

#[test]
fn the_held_out_set_is_no_smaller_than_the_tuned_one() {
    for kind in Kind::ALL {
        let [tuned, held] =
            [Prose::Tuned, Prose::HeldOut].map(|prose| templates(kind, Some(prose)).len());
        assert!(held >= tuned, "{}: {held} < {tuned}", kind.name());
    }
}

#[test]
fn a_session_tells_each_fact_in_its_turn_and_in_the_prose_asked_for() {
    for prose in [Prose::Tuned, Prose::HeldOut] {
        let session = planted_in(prose, 60, 200, 7);
        for fact in &session.facts {
            let [a, b] = &fact.names;
            let template = fact.text.replace(a, "{A}").replace(b, "{B}");
            let source = fact.free.then_some(prose);
            assert!(
                templates(fact.kind, source).contains(&template.as_str()),
                "{template}"
            );
            let told = match session.turns.get(fact.turn - 1) {
                None => fact.is_in(&session.last_request),
                Some(turn) => {
                    fact.is_in(&turn.prompt)
                        || turn
                            .did
                            .iter()
                            .any(|did| matches!(did, Did::Said(said) if fact.is_in(said)))
                }
            };
            assert!(told, "{}", fact.text);
        }
    }
}
