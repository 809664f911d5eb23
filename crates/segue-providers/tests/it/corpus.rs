//! Tests with files of the real CLIs, and with handwritten sessions in older formats, which are read to the same types.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use segue_providers::{
    NativeTurn, ReadStart, Reader, RequestCollector, RequestDeduplicator, read_outline, read_turns,
    read_turns_from,
};

use crate::agents::{SAMPLE_AGENTS, SampleAgent};
use crate::conversation_text::format_turns;

fn sorted_entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries
}

/// Returns each scenario of each version of an agent: its name, and the agent's home at its end.
fn list_scenarios(agent: &SampleAgent) -> Vec<(String, PathBuf)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(agent.name);
    let mut scenarios = Vec::new();
    if !fixtures.is_dir() {
        // An older format: only the sample has it.
        return scenarios;
    }
    for version in sorted_entries(&fixtures) {
        for scenario in sorted_entries(&version) {
            let name = scenario
                .strip_prefix(&fixtures)
                .unwrap()
                .display()
                .to_string();
            scenarios.push((name, scenario));
        }
    }
    scenarios
}

/// Formats everything that is read from a home. Ids and times are those of the day on which the corpus was created.
fn format_home(reader: &dyn Reader, home: &Path) -> String {
    let mut scan = reader.scan_sessions();
    scan.locations.sort_by(|a, b| a.path.cmp(&b.path));
    let mut text = String::new();
    for location in &scan.locations {
        let head = reader.read_head(location).unwrap();
        let path = location.path.strip_prefix(home).unwrap();
        let _ = writeln!(text, "## {}", path.display());
        let _ = writeln!(
            text,
            "{:?} {} in {} on {} by {}, from {} to {}",
            head.kind,
            head.id,
            head.cwd.as_deref().unwrap_or("-"),
            head.branch.as_deref().unwrap_or("-"),
            head.agent_version.as_deref().unwrap_or("-"),
            head.created_at.map_or("-".to_owned(), |at| at.to_string()),
            head.updated_at,
        );
        let title = head.title.as_ref();
        let title =
            title.map(|title| format!("{:?} from {}", title.as_str(), title.source().as_str()));
        let _ = writeln!(
            text,
            "called {}; asked first {:?}; forked from {}{}",
            title.unwrap_or_default(),
            head.first_prompt.as_deref().unwrap_or("-"),
            head.forked_from.as_deref().unwrap_or("-"),
            if location.archived { "; archived" } else { "" },
        );
        let mut records = reader
            .open_records(location, &ReadStart::Beginning)
            .unwrap();
        let turn_builder = read_turns(records.as_mut()).unwrap();
        let turns = turn_builder.turns();
        text.push_str(&format_turns(turns));
        for (n, turn) in (1..).zip(turns) {
            let usage = turn.usage;
            let _ = writeln!(
                text,
                "usage of {n} by {}: input {:?} (cached {:?}) output {:?} total {:?} context {:?}",
                turn.model.as_deref().unwrap_or("-"),
                usage.input_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                usage.total_tokens,
                usage.context_tokens
            );
        }
        if !records.skipped().is_empty() {
            let _ = writeln!(text, "{:?}", records.skipped());
        }
        let _ = writeln!(text);
    }
    assert!(scan.unreadable.is_empty(), "{:?}", scan.unreadable);
    text
}

#[test]
fn the_corpus_matches_its_snapshots() {
    for agent in SAMPLE_AGENTS {
        for (name, home) in list_scenarios(agent) {
            let reader = (agent.new_reader)(&home);
            let name = format!("{}-{}", agent.name, name.replace('/', "-"));
            insta::assert_snapshot!(name, format_home(reader.as_ref(), &home));
        }
    }
}

#[test]
fn the_samples_match_their_snapshots() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.write_session(home.path(), agent.sample.as_bytes());
        let reader = (agent.new_reader)(home.path());
        let text = format_home(reader.as_ref(), home.path());
        insta::assert_snapshot!(format!("sample-{}", agent.name), text);
    }
}

/// Compares the requests of each scenario with the numbers that were counted by hand in the files: requests, input,
/// output, cached and total tokens.
#[test]
fn every_request_of_the_corpus_is_counted_once() {
    let expected = [
        ("claude/2.1.312/acp", [6, 714, 101, 66, 815]),
        ("claude/2.1.325/parallel-and-failed", [2, 238, 40, 22, 278]),
        ("claude/2.1.325/resumed-and-forked", [4, 476, 80, 44, 556]),
        (
            "claude/2.1.325/rewound-and-compacted",
            [5, 595, 100, 55, 695],
        ),
        ("codex/0.166.0/acp", [5, 505, 100, 55, 605]),
        ("codex/0.166.0/failed", [4, 404, 80, 44, 484]),
        ("codex/0.166.0/resumed-and-forked", [5, 505, 100, 55, 605]),
        (
            "codex/0.166.0/reverted-compacted-archived",
            // A sixth request is in the file that the revert replaced.
            [5, 505, 100, 55, 605],
        ),
        ("gemini/0.61.0/acp", [4, 404, 100, 44, 504]),
        ("gemini/0.61.0/compacted", [4, 900_303, 100, 44, 900_403]),
        ("gemini/0.61.0/resumed", [4, 404, 100, 44, 504]),
    ];
    let mut totals = Vec::new();
    for agent in SAMPLE_AGENTS {
        for (name, home) in list_scenarios(agent) {
            let reader = (agent.new_reader)(&home);
            let mut deduplicator = RequestDeduplicator::default();
            let mut sums = [0; 5];
            let mut locations = reader.scan_sessions().locations;
            locations.sort_by(|a, b| a.path.cmp(&b.path));
            for location in locations {
                let mut records = reader
                    .open_records(&location, &ReadStart::Beginning)
                    .unwrap();
                let requests = RequestCollector::from_records(records.as_mut())
                    .unwrap()
                    .into_requests();
                for request in deduplicator.remove_copies(requests) {
                    let usage = request.usage;
                    let counts = [
                        Some(1),
                        usage.input_tokens,
                        usage.output_tokens,
                        usage.cached_tokens,
                        usage.total_tokens,
                    ];
                    for (sum, count) in sums.iter_mut().zip(counts) {
                        *sum += count.unwrap();
                    }
                }
            }
            totals.push((format!("{}/{name}", agent.name), sums));
        }
    }
    let totals: Vec<_> = totals
        .iter()
        .map(|(name, sums)| (name.as_str(), *sums))
        .collect();
    assert_eq!(totals, expected);
}

#[test]
fn each_runnable_agent_has_a_corpus() {
    for name in ["claude", "codex", "gemini"] {
        let agent = SAMPLE_AGENTS
            .iter()
            .find(|agent| agent.name == name)
            .unwrap();
        assert!(list_scenarios(agent).len() >= 2, "{name}");
    }
}

/// Formats all data of some turns.
fn format_details(turns: &[NativeTurn]) -> String {
    let details = turns.iter().map(|turn| {
        let times = (turn.started_at, turn.ended_at);
        let usage = (turn.usage, &turn.model, turn.cost);
        format!(
            "{usage:?} {times:?} {} {}\n",
            turn.message_count, turn.until
        )
    });
    format_turns(turns) + &details.collect::<String>()
}

/// Compares reading turn by turn, from an outline, and from the end.
#[test]
fn all_read_methods_return_the_same_turns() {
    for agent in SAMPLE_AGENTS {
        let directory = tempfile::tempdir().unwrap();
        agent.write_session(directory.path(), agent.sample.as_bytes());
        let sample = (agent.name.to_owned(), directory.path().to_owned());
        for (name, home) in list_scenarios(agent).into_iter().chain([sample]) {
            let reader = (agent.new_reader)(&home);
            for location in reader.scan_sessions().locations {
                let records = || {
                    reader
                        .open_records(&location, &ReadStart::Beginning)
                        .unwrap()
                };
                let all_turns = read_turns(records().as_mut()).unwrap().into_turns();
                let outlined = read_outline(records().as_mut()).unwrap().into_turns();
                assert_eq!(outlined.len(), all_turns.len(), "{name}");
                for from in 0..=all_turns.len() {
                    let mut replayed = Vec::new();
                    let mut collect_turn = |index: usize, turn: NativeTurn| {
                        assert_eq!(index, from + replayed.len());
                        replayed.push(turn);
                        ControlFlow::Continue(())
                    };
                    read_turns_from(records().as_mut(), &outlined, from, &mut collect_turn)
                        .unwrap();
                    assert_eq!(
                        format_details(&replayed),
                        format_details(&all_turns[from..]),
                        "{name} from {from}"
                    );
                }
                for count in 0..=all_turns.len() + 1 {
                    let (recent, is_complete) = reader.read_recent_turns(&location, count).unwrap();
                    let expected = &all_turns[all_turns.len().saturating_sub(count)..];
                    assert_eq!(
                        format_details(&recent),
                        format_details(expected),
                        "{name}, last {count}"
                    );
                    assert!(
                        !is_complete || count >= all_turns.len(),
                        "{name}, last {count}"
                    );
                }
            }
        }
    }
}
