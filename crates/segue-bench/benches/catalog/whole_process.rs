//! Benchmark of search and list as complete processes, from start to exit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use segue_bench::corpus::CorpusTexts;
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    quantile,
};

use crate::home::{BenchHome, SHARED_AGENT_HOMES, WrittenCorpus};
use crate::peers::{AgentsviewServer, PeerPrograms, agentsview_command};
use crate::process_run::measure_milliseconds;

/// Maximum ratio to the time of fast-resume if neither program refreshes its index.
const TARGET_STALE_RATIO: f64 = 0.7;
/// Maximum ratio to the time of fast-resume if both programs refresh their index.
const TARGET_REFRESHED_RATIO: f64 = 0.3;

/// Returns the search queries with descriptions of how frequent their words are.
fn search_queries() -> [(&'static str, String); 4] {
    let texts = CorpusTexts::default();
    let is_lowercase = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words_from = |rank| (rank..).map(|rank| texts.vocabulary().word(rank));
    let find_word = |rank| words_from(rank).find(is_lowercase).unwrap().to_owned();
    [
        ("a word that does not occur", "zyzzyvaxq".to_owned()),
        ("a rare word", find_word(40_000)),
        ("a common word", "function".to_owned()),
        (
            "two words",
            format!("{} {}", find_word(300), find_word(1000)),
        ),
    ]
}

/// Homes of all programs, each with an index that is up to date.
struct IndexedHomes<'a> {
    corpus: &'a WrittenCorpus,
    segue: BenchHome,
    fast_resume: Option<(BenchHome, &'a Path)>,
    agentsview: Option<(BenchHome, &'a Path, AgentsviewServer)>,
    ripgrep: Option<&'a Path>,
}

/// Measures all queries. `synced_home` is a home in which agentsview already has an index.
pub(crate) fn measure(
    mode: BenchmarkMode,
    corpus: &WrittenCorpus,
    peers: &PeerPrograms,
    synced_home: Option<BenchHome>,
) {
    let homes = IndexedHomes::new(corpus, peers, synced_home);
    homes.assert_results_not_empty();
    let rounds = mode.pick(31, 2);
    for (kind, words) in search_queries() {
        homes.compare_programs(
            &format!("Search for {kind} ({words})"),
            rounds,
            Some(&words),
        );
    }
    homes.compare_programs("List of the newest twenty", rounds, None);
    homes.compare_programs_after_growth(rounds);
}

impl<'a> IndexedHomes<'a> {
    fn new(
        corpus: &'a WrittenCorpus,
        peers: &'a PeerPrograms,
        synced_home: Option<BenchHome>,
    ) -> Self {
        let segue = corpus.create_home(SHARED_AGENT_HOMES);
        run_checked(segue.segue_command(&["index", "refresh"]));
        let fast_resume = peers.fast_resume.as_deref().map(|program| {
            let home = corpus.create_home(SHARED_AGENT_HOMES);
            run_checked(home.program_command(program, &["--list", "--limit", "1"]));
            (home, program)
        });
        let agentsview = peers
            .agentsview
            .as_deref()
            .zip(synced_home)
            .map(|(program, home)| {
                let server = AgentsviewServer::start(&home, program);
                (home, program, server)
            });
        Self {
            corpus,
            segue,
            fast_resume,
            agentsview,
            ripgrep: peers.ripgrep.as_deref(),
        }
    }

    /// Checks that search and list return results, because an empty result would be fast for the wrong reason.
    fn assert_results_not_empty(&self) {
        for words in [Some("function"), None] {
            let output = self
                .segue_command(words, &[])
                .stdout(Stdio::piped())
                .output()
                .unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            assert!(stdout.lines().count() >= 20, "{words:?}: {stdout}");
        }
    }

    /// Returns a `segue session search` command for `words`, or `segue session list` for `None`.
    fn segue_command(&self, words: Option<&str>, extra_args: &[&str]) -> Command {
        let mut args = match words {
            Some(words) => vec!["session", "search", words, "--limit", "20"],
            None => vec!["session", "list", "--all", "--limit", "20"],
        };
        args.extend(extra_args);
        self.segue.segue_command(&args)
    }

    /// Returns the other programs without a refresh: agentsview queries its server, ripgrep reads every file.
    fn build_other_contestants(&self, words: Option<&'a str>) -> Vec<Contestant<'_>> {
        let mut contestants = Vec::new();
        if let Some((home, program, _)) = &self.agentsview {
            contestants.push(Contestant::new(
                "agentsview, querying its server",
                move || {
                    let args = match words {
                        Some(words) => vec!["session", "search", words, "--fts", "--limit", "20"],
                        None => vec!["session", "list", "--limit", "20"],
                    };
                    measure_milliseconds(&mut agentsview_command(home, program, &args))
                },
            ));
        }
        if let (Some(program), Some(words)) = (self.ripgrep, words) {
            let word = words.split(' ').next().unwrap();
            let paths: Vec<PathBuf> = SHARED_AGENT_HOMES
                .iter()
                .map(|agent| self.corpus.agent_path(agent))
                .collect();
            contestants.push(Contestant::new("rg --files-with-matches", move || {
                let mut command = self
                    .segue
                    .program_command(program, &["--files-with-matches", "--hidden", word]);
                measure_milliseconds(command.args(&paths))
            }));
        }
        contestants
    }

    fn compare_programs(&self, title: &str, rounds: usize, words: Option<&str>) {
        let mut contestants = vec![
            Contestant::new("segue --no-refresh", || {
                measure_milliseconds(&mut self.segue_command(words, &["--no-refresh"]))
            }),
            Contestant::new("segue", || {
                measure_milliseconds(&mut self.segue_command(words, &[]))
            }),
        ];
        if let Some((home, program)) = &self.fast_resume {
            for refresh in [&["--no-refresh"][..], &[]] {
                let name = format!("fast-resume {}", refresh.join(""));
                contestants.push(Contestant::new(name.trim_end(), move || {
                    let mut args = vec!["--list", "--limit", "20"];
                    args.extend(refresh);
                    args.extend(words);
                    measure_milliseconds(&mut home.program_command(program, &args))
                }));
            }
        }
        // They are slow and have no target, so fewer rounds are enough.
        let mut other_contestants = self.build_other_contestants(words);
        measure_rounds(&mut contestants, rounds);
        measure_rounds(&mut other_contestants, rounds.min(11));
        let targets = [TARGET_STALE_RATIO, TARGET_REFRESHED_RATIO];
        let mut rows = Vec::new();
        for (index, contestant) in contestants.iter().enumerate() {
            let peer = contestants.get(index + 2);
            rows.push(format_row(
                contestant,
                peer.map(|peer| (peer, targets[index % 2])),
            ));
        }
        rows.extend(
            other_contestants
                .iter()
                .map(|entry| format_row(entry, None)),
        );
        print_results(title, &rows);
    }

    /// Measures a search after one session has grown by a prompt.
    fn compare_programs_after_growth(&self, rounds: usize) {
        let number = std::cell::Cell::new(0);
        let append_prompt = || {
            number.set(number.get() + 1);
            self.corpus.append_prompt(number.get());
        };
        let words = Some("number");
        let mut contestants = vec![Contestant::new("segue", || {
            append_prompt();
            measure_milliseconds(&mut self.segue_command(words, &[]))
        })];
        if let Some((home, program)) = &self.fast_resume {
            contestants.push(Contestant::new("fast-resume", move || {
                append_prompt();
                measure_milliseconds(
                    &mut home.program_command(program, &["--list", "--limit", "20", "number"]),
                )
            }));
        }
        measure_rounds(&mut contestants, rounds);
        let mut rows = Vec::new();
        for (index, contestant) in contestants.iter().enumerate() {
            rows.push(format_row(
                contestant,
                contestants
                    .get(index + 1)
                    .map(|peer| (peer, TARGET_REFRESHED_RATIO)),
            ));
        }
        print_results("Search after one session has grown", &rows);
    }
}

fn run_checked(mut command: Command) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Formats the row of a contestant, with the ratio to `reference` if there is one.
fn format_row(
    contestant: &Contestant<'_>,
    reference: Option<(&Contestant<'_>, f64)>,
) -> [String; 6] {
    let ratio = reference.map(|(peer, target)| {
        let ratio = BenchmarkComparison::from_rounds(contestant, peer, |own_value, peer_value| {
            own_value / peer_value
        });
        (
            ratio.format_cell(),
            format_verdict(&format!("at most {target}"), ratio.median <= target),
        )
    });
    let (ratio, verdict_cell) = ratio.unwrap_or_default();
    [
        contestant.name.clone(),
        contestant.values.len().to_string(),
        format!("{:.1} ms", contestant.median()),
        format!("{:.1} ms", quantile(&contestant.values, 0.95)),
        ratio,
        verdict_cell,
    ]
}

fn print_results(title: &str, rows: &[[String; 6]]) {
    let header = [
        "",
        "runs",
        "median",
        "95 of 100 within",
        "to fast-resume",
        "aim",
    ];
    print_table(title, header, rows);
}
