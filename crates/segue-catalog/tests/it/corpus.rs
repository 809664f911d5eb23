//! Tests with files of the real CLIs, and with handwritten sessions in older formats, which are read to the same types.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use segue_catalog::{NativeTurn, RequestDeduplicator, Reader, ReadStart, RequestCounter, read_turns, read_outline, read_turns_from};

use crate::agents::{AGENTS, Agent};
use crate::story::story;

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries
}

/// Returns each scenario of each version of an agent: its name, and the agent's home at its end.
fn scenarios(agent: &Agent) -> Vec<(String, PathBuf)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(agent.name);
    let mut all = Vec::new();
    if !fixtures.is_dir() {
        // An older format: only the sample has it.
        return all;
    }
    for version in sorted(&fixtures) {
        for scenario in sorted(&version) {
            let name = scenario
                .strip_prefix(&fixtures)
                .unwrap()
                .display()
                .to_string();
            all.push((name, scenario));
        }
    }
    all
}

/// Formats everything that is read from a home. Ids and times are those of the day on which the corpus was created.
fn told(reader: &dyn Reader, home: &Path) -> String {
    let mut there = reader.scan_sessions();
    there.locations.sort_by(|a, b| a.path.cmp(&b.path));
    let mut text = String::new();
    for found in &there.locations {
        let head = reader.read_head(found).unwrap();
        let path = found.path.strip_prefix(home).unwrap();
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
            if found.archived { "; archived" } else { "" },
        );
        let mut records = reader.open_records(found, &ReadStart::Beginning).unwrap();
        let fold = read_turns(records.as_mut()).unwrap();
        let turns = fold.turns();
        text.push_str(&story(turns));
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
    assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
    text
}

#[test]
fn the_corpus_is_read_as_it_always_was() {
    for agent in AGENTS {
        for (name, home) in scenarios(agent) {
            let reader = (agent.reader)(&home);
            let name = format!("{}-{}", agent.name, name.replace('/', "-"));
            insta::assert_snapshot!(name, told(reader.as_ref(), &home));
        }
    }
}

#[test]
fn the_samples_are_read_as_written() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.put(home.path(), agent.sample.as_bytes());
        let reader = (agent.reader)(home.path());
        let text = told(reader.as_ref(), home.path());
        insta::assert_snapshot!(format!("sample-{}", agent.name), text);
    }
}

/// Compares the requests of each scenario with the numbers that were counted by hand in the files: requests, input,
/// output, cached and total tokens.
#[test]
fn every_request_of_the_corpus_is_counted_once() {
    let counted = [
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
    let mut told = Vec::new();
    for agent in AGENTS {
        for (name, home) in scenarios(agent) {
            let reader = (agent.reader)(&home);
            let mut originals = RequestDeduplicator::default();
            let mut sums = [0; 5];
            let mut there = reader.scan_sessions().locations;
            there.sort_by(|a, b| a.path.cmp(&b.path));
            for found in there {
                let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
                let requests = RequestCounter::from_records(records.as_mut()).unwrap().into_requests();
                for request in originals.remove_copies(requests) {
                    let usage = request.usage;
                    let figures = [
                        Some(1),
                        usage.input_tokens,
                        usage.output_tokens,
                        usage.cached_tokens,
                        usage.total_tokens,
                    ];
                    for (sum, figure) in sums.iter_mut().zip(figures) {
                        *sum += figure.unwrap();
                    }
                }
            }
            told.push((format!("{}/{name}", agent.name), sums));
        }
    }
    let told: Vec<_> = told
        .iter()
        .map(|(name, sums)| (name.as_str(), *sums))
        .collect();
    assert_eq!(told, counted);
}

#[test]
fn each_agent_that_can_be_run_has_a_corpus() {
    for name in ["claude", "codex", "gemini"] {
        let agent = AGENTS.iter().find(|agent| agent.name == name).unwrap();
        assert!(scenarios(agent).len() >= 2, "{name}");
    }
}

/// Formats all data of some turns.
fn detail(turns: &[NativeTurn]) -> String {
    let known = turns.iter().map(|turn| {
        let times = (turn.started_at, turn.ended_at);
        let spent = (turn.usage, &turn.model, turn.cost);
        format!("{spent:?} {times:?} {} {}\n", turn.message_count, turn.until)
    });
    story(turns) + &known.collect::<String>()
}

/// Compares reading turn by turn, from an outline, and from the end.
#[test]
fn however_it_is_read_it_is_the_same() {
    for agent in AGENTS {
        let directory = tempfile::tempdir().unwrap();
        agent.put(directory.path(), agent.sample.as_bytes());
        let sample = (agent.name.to_owned(), directory.path().to_owned());
        for (name, home) in scenarios(agent).into_iter().chain([sample]) {
            let reader = (agent.reader)(&home);
            for found in reader.scan_sessions().locations {
                let records = || reader.open_records(&found, &ReadStart::Beginning).unwrap();
                let whole = read_turns(records().as_mut()).unwrap().into_turns();
                let outlined = read_outline(records().as_mut()).unwrap().into_turns();
                assert_eq!(outlined.len(), whole.len(), "{name}");
                for from in 0..=whole.len() {
                    let mut again = Vec::new();
                    let mut tell = |index: usize, turn: NativeTurn| {
                        assert_eq!(index, from + again.len());
                        again.push(turn);
                        ControlFlow::Continue(())
                    };
                    read_turns_from(records().as_mut(), &outlined, from, &mut tell).unwrap();
                    assert_eq!(detail(&again), detail(&whole[from..]), "{name} from {from}");
                }
                for count in 0..=whole.len() + 1 {
                    let (last, all) = reader.read_recent_turns(&found, count).unwrap();
                    let expected = &whole[whole.len().saturating_sub(count)..];
                    assert_eq!(detail(&last), detail(expected), "{name}, last {count}");
                    assert!(!all || count >= whole.len(), "{name}, last {count}");
                }
            }
        }
    }
}
