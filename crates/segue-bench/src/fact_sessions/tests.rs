use std::collections::HashSet;

use super::{
    FactKind, PlantedAction, Prose, build_planted_session, held_out, list_templates, tuned_facts,
};

const TEMPLATE_SOURCES: [Option<Prose>; 3] = [None, Some(Prose::Tuned), Some(Prose::HeldOut)];
const FILLER_LISTS: [&[&str]; 4] = [
    tuned_facts::FILLER_BY_USER,
    tuned_facts::FILLER_BY_AGENT,
    held_out::FILLER_BY_USER,
    held_out::FILLER_BY_AGENT,
];

fn fact_templates(source: Option<Prose>) -> impl Iterator<Item = &'static str> {
    FactKind::ALL
        .into_iter()
        .flat_map(move |kind| list_templates(kind, source))
}

/// Returns all sentences of a prose, facts and fillers.
fn list_sentences(prose: Prose) -> Vec<&'static str> {
    let fillers = match prose {
        Prose::Tuned => [FILLER_LISTS[0], FILLER_LISTS[1]],
        Prose::HeldOut => [FILLER_LISTS[2], FILLER_LISTS[3]],
    };
    fact_templates(Some(prose))
        .chain(fillers.concat())
        .collect()
}

/// Returns every sequence of five consecutive words, in lower case and without punctuation around the words.
fn five_word_sequences(sentence: &str) -> Vec<String> {
    let words: Vec<String> = sentence
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.windows(5).map(|window| window.join(" ")).collect()
}

#[test]
fn a_fact_has_both_names_in_one_line_and_a_filler_has_none() {
    for template in TEMPLATE_SOURCES.into_iter().flat_map(fact_templates) {
        let has_both_names = template
            .lines()
            .any(|line| line.contains("{A}") && line.contains("{B}"));
        assert!(has_both_names, "{template}");
    }
    for filler in FILLER_LISTS.concat() {
        assert!(!filler.contains(['{', '}']), "{filler}");
    }
}

#[test]
fn no_sentence_occurs_twice() {
    let mut unique_sentences = HashSet::new();
    let facts = TEMPLATE_SOURCES.into_iter().flat_map(fact_templates);
    for sentence in facts.chain(FILLER_LISTS.concat()) {
        assert!(unique_sentences.insert(sentence), "{sentence}");
    }
}

#[test]
fn held_out_sentences_share_no_five_words_in_a_row_with_other_sentences() {
    let known_sequences: HashSet<String> = list_sentences(Prose::Tuned)
        .into_iter()
        .chain(fact_templates(None))
        .flat_map(five_word_sequences)
        .collect();
    let shared: Vec<(&str, String)> = list_sentences(Prose::HeldOut)
        .into_iter()
        .flat_map(|sentence| {
            five_word_sequences(sentence)
                .into_iter()
                .map(move |sequence| (sentence, sequence))
        })
        .filter(|(_, sequence)| known_sequences.contains(sequence))
        .collect();
    assert_eq!(shared, []);
}

#[test]
fn the_held_out_set_is_no_smaller_than_the_tuned_one() {
    for kind in FactKind::ALL {
        let [tuned_count, held_out_count] =
            [Prose::Tuned, Prose::HeldOut].map(|prose| list_templates(kind, Some(prose)).len());
        assert!(
            held_out_count >= tuned_count,
            "{}: {held_out_count} < {tuned_count}",
            kind.name()
        );
    }
}

#[test]
fn a_session_states_each_fact_in_its_turn_and_in_the_requested_prose() {
    for prose in [Prose::Tuned, Prose::HeldOut] {
        let session = build_planted_session(prose, 60, 200, 7);
        for fact in &session.facts {
            let [a, b] = &fact.names;
            let template = fact.text.replace(a, "{A}").replace(b, "{B}");
            let source = fact.is_free_prose.then_some(prose);
            assert!(
                list_templates(fact.kind, source).contains(&template.as_str()),
                "{template}"
            );
            let is_stated = match session.turns.get(fact.turn - 1) {
                None => fact.is_in(&session.last_request),
                Some(turn) => fact.is_in(&turn.prompt)
                    || turn.actions.iter().any(
                        |action| matches!(action, PlantedAction::Message(text) if fact.is_in(text)),
                    ),
            };
            assert!(is_stated, "{}", fact.text);
        }
    }
}
