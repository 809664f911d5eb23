//! Benchmark of the first index: a complete build with no existing index.

use std::process::Command;
use std::time::Duration;

use segue_bench::measurement::{BenchmarkMode, format_verdict, print_table, quantile};

use crate::home::{ALL_AGENT_HOMES, BenchHome, SHARED_AGENT_HOMES, WrittenCorpus};
use crate::peers::{PeerPrograms, agentsview_command};
use crate::process_run::ProcessCost;

const TARGET_TIME_RATIO: f64 = 0.7;
const TARGET_PEAK_MEGABYTES: f64 = 200.0;
const TARGET_INDEX_SIZE_PERCENT: f64 = 40.0;

/// Time limit for one index build; agentsview may exceed it.
const INDEX_TIMEOUT: Duration = Duration::from_mins(15);

/// Maximum number of sessions that agentsview indexes within the time limit.
const MAX_AGENTSVIEW_SESSIONS: u64 = 10_000;

/// A program that builds its own index.
struct Indexer<'a> {
    name: &'static str,
    agent_homes: &'static [&'static str],
    /// Common prefix of the paths of its index files, relative to the home.
    index_path_prefix: &'static str,
    build_command: Box<dyn Fn(&BenchHome) -> Command + 'a>,
    rounds: usize,
    costs: Vec<Option<ProcessCost>>,
    index_bytes: u64,
    /// Home of the last round that completed.
    last_home: Option<BenchHome>,
}

/// Measures the index builds. Returns the home that agentsview has indexed, so that later benchmarks can reuse it,
/// because that build takes minutes.
pub(crate) fn measure(
    mode: BenchmarkMode,
    corpus: &WrittenCorpus,
    peers: &PeerPrograms,
) -> Option<BenchHome> {
    let is_large = corpus.total_counts(ALL_AGENT_HOMES).sessions > MAX_AGENTSVIEW_SESSIONS;
    let rounds = mode.pick(if is_large { 3 } else { 5 }, 1);
    let mut indexers = build_indexers(corpus, peers, rounds);
    for round in 0..rounds {
        for indexer in &mut indexers {
            if round < indexer.rounds {
                indexer.run_round(corpus);
            }
        }
    }
    let fast_resume = indexers
        .iter()
        .find(|candidate| candidate.name == FAST_RESUME_NAME);
    let fast_resume_costs = fast_resume.map(|peer| peer.costs.clone());
    let rows: Vec<_> = indexers
        .iter()
        .map(|indexer| indexer.format_row(corpus, fast_resume_costs.as_deref()))
        .collect();
    print_table(
        "The first index, from nothing",
        [
            "",
            "reads",
            "rounds",
            "time",
            "MB a second",
            "CPU",
            "peak",
            "index, of the transcripts",
            "time to fast-resume",
            "aims",
        ],
        &rows,
    );
    let agentsview = indexers
        .into_iter()
        .find(|candidate| candidate.name == AGENTSVIEW_NAME);
    agentsview.and_then(|agentsview| agentsview.last_home)
}

const AGENTSVIEW_NAME: &str = "agentsview";
const FAST_RESUME_NAME: &str = "fast-resume";
const SEGUE_NAME: &str = "segue";

fn build_indexers<'a>(
    corpus: &WrittenCorpus,
    peers: &'a PeerPrograms,
    rounds: usize,
) -> Vec<Indexer<'a>> {
    let segue_indexer = |agent_homes| Indexer {
        name: SEGUE_NAME,
        agent_homes,
        index_path_prefix: "segue/catalog.db",
        build_command: Box::new(|home| home.segue_command(&["index", "refresh"])),
        rounds,
        costs: Vec::new(),
        index_bytes: 0,
        last_home: None,
    };
    let mut indexers = vec![
        segue_indexer(SHARED_AGENT_HOMES),
        segue_indexer(ALL_AGENT_HOMES),
    ];
    if let Some(program) = &peers.fast_resume {
        indexers.push(Indexer {
            name: FAST_RESUME_NAME,
            agent_homes: SHARED_AGENT_HOMES,
            index_path_prefix: ".cache/fast-resume",
            build_command: Box::new(move |home| {
                home.program_command(program, &["--list", "--limit", "1"])
            }),
            rounds,
            costs: Vec::new(),
            index_bytes: 0,
            last_home: None,
        });
    }
    if let Some(program) = &peers.agentsview
        && corpus.total_counts(ALL_AGENT_HOMES).sessions <= MAX_AGENTSVIEW_SESSIONS
    {
        indexers.push(Indexer {
            name: AGENTSVIEW_NAME,
            agent_homes: ALL_AGENT_HOMES,
            index_path_prefix: ".agentsview/sessions.db",
            build_command: Box::new(move |home| agentsview_command(home, program, &["sync"])),
            rounds: 1,
            costs: Vec::new(),
            index_bytes: 0,
            last_home: None,
        });
    }
    indexers
}

impl Indexer<'_> {
    fn run_round(&mut self, corpus: &WrittenCorpus) {
        let home = corpus.create_home(self.agent_homes);
        let cost = ProcessCost::measure(&mut (self.build_command)(&home), INDEX_TIMEOUT);
        if cost.is_some() {
            self.index_bytes = home.count_bytes(self.index_path_prefix);
            self.last_home = Some(home);
        }
        self.costs.push(cost);
    }

    /// Returns the median of a metric over the rounds, or `None` if a round exceeded the time limit.
    fn median(&self, metric: fn(ProcessCost) -> f64) -> Option<f64> {
        let values: Option<Vec<f64>> = self.costs.iter().map(|cost| cost.map(metric)).collect();
        Some(quantile(&values?, 0.5))
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "byte counts in a table need no full precision"
    )]
    fn format_row(
        &self,
        corpus: &WrittenCorpus,
        fast_resume_costs: Option<&[Option<ProcessCost>]>,
    ) -> [String; 10] {
        let megabytes = corpus.total_counts(self.agent_homes).bytes as f64 / 1e6;
        let names: Vec<&str> = self.agent_homes.iter().map(|agent| &agent[1..]).collect();
        let (Some(time), Some(cpu_seconds), Some(peak)) = (
            self.median(|cost| cost.wall_seconds),
            self.median(|cost| cost.cpu_seconds),
            self.median(|cost| cost.peak_megabytes),
        ) else {
            let timeout_text = format!("more than {} s", INDEX_TIMEOUT.as_secs());
            let mut row = [const { String::new() }; 10];
            row[..4].clone_from_slice(&[
                self.name.to_owned(),
                names.join(", "),
                self.costs.len().to_string(),
                timeout_text,
            ]);
            return row;
        };
        let size_percent = self.index_bytes as f64 * 100.0 / 1e6 / megabytes;
        let ratio = fast_resume_costs
            .filter(|_| self.agent_homes == SHARED_AGENT_HOMES)
            .map(|peer_costs| {
                let pairs = self.costs.iter().flatten().zip(peer_costs.iter().flatten());
                let ratios: Vec<f64> = pairs
                    .map(|(own, peer)| own.wall_seconds / peer.wall_seconds)
                    .collect();
                quantile(&ratios, 0.5)
            });
        let mut verdicts = Vec::new();
        if self.name == SEGUE_NAME {
            if let Some(ratio) = ratio {
                verdicts.push(format_verdict(
                    &format!("at most {TARGET_TIME_RATIO} of their time"),
                    ratio <= TARGET_TIME_RATIO,
                ));
            }
            verdicts.push(format_verdict(
                &format!("at most {TARGET_PEAK_MEGABYTES} MB"),
                peak <= TARGET_PEAK_MEGABYTES,
            ));
            verdicts.push(format_verdict(
                &format!("at most {TARGET_INDEX_SIZE_PERCENT} %"),
                size_percent <= TARGET_INDEX_SIZE_PERCENT,
            ));
        }
        [
            self.name.to_owned(),
            names.join(", "),
            self.costs.len().to_string(),
            format!("{time:.2} s"),
            format!("{:.0}", megabytes / time),
            format!("{cpu_seconds:.2} s"),
            format!("{peak:.0} MB"),
            format!("{size_percent:.1} %"),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            verdicts.join(", "),
        ]
    }
}
