//! The first index: of all there is, from nothing.

use std::process::Command;
use std::time::Duration;

use segue_testkit::benchmark::{BenchmarkMode, print_table, quantile, format_verdict};

use crate::home::{ALL, BOTH_READ, Home, Written};
use crate::peers::{Peers, agentsview_command};
use crate::ran::Ran;

const AIM_TIME: f64 = 0.7;
const AIM_PEAK: f64 = 200.0;
const AIM_SIZE: f64 = 40.0;

/// How long is waited for agentsview.
const LIMIT: Duration = Duration::from_mins(15);

/// Beyond so many sessions it would be waited for in vain.
const MANY: u64 = 10_000;

/// One program that makes its index.
struct Indexer<'a> {
    name: &'static str,
    agents: &'static [&'static str],
    /// Where its index is in a home: how the paths of its files begin.
    place: &'static str,
    command: Box<dyn Fn(&Home) -> Command + 'a>,
    rounds: usize,
    ran: Vec<Option<Ran>>,
    size: u64,
    /// The last home that it made an index in.
    home: Option<Home>,
}

/// Returns the home that agentsview is done with, for further questions: it takes minutes.
pub(crate) fn measure(extent: BenchmarkMode, corpus: &Written, peers: &Peers) -> Option<Home> {
    let many = corpus.of(ALL).sessions > MANY;
    let rounds = extent.pick(if many { 3 } else { 5 }, 1);
    let mut indexers = indexers(corpus, peers, rounds);
    for round in 0..rounds {
        for indexer in &mut indexers {
            if round < indexer.rounds {
                indexer.run(corpus);
            }
        }
    }
    let theirs = indexers.iter().find(|other| other.name == FAST_RESUME);
    let theirs = theirs.map(|theirs| theirs.ran.clone());
    let rows: Vec<_> = indexers
        .iter()
        .map(|indexer| indexer.row(corpus, theirs.as_deref()))
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
    let slow = indexers.into_iter().find(|other| other.name == AGENTSVIEW);
    slow.and_then(|slow| slow.home)
}

const AGENTSVIEW: &str = "agentsview";
const FAST_RESUME: &str = "fast-resume";
const SEGUE: &str = "segue";

fn indexers<'a>(corpus: &Written, peers: &'a Peers, rounds: usize) -> Vec<Indexer<'a>> {
    let segue = |agents| Indexer {
        name: SEGUE,
        agents,
        place: "segue/catalog.db",
        command: Box::new(|home| home.segue(&["index", "refresh"])),
        rounds,
        ran: Vec::new(),
        size: 0,
        home: None,
    };
    let mut all = vec![segue(BOTH_READ), segue(ALL)];
    if let Some(program) = &peers.fast_resume {
        all.push(Indexer {
            name: FAST_RESUME,
            agents: BOTH_READ,
            place: ".cache/fast-resume",
            command: Box::new(move |home| home.command(program, &["--list", "--limit", "1"])),
            rounds,
            ran: Vec::new(),
            size: 0,
            home: None,
        });
    }
    if let Some(program) = &peers.agentsview
        && corpus.of(ALL).sessions <= MANY
    {
        all.push(Indexer {
            name: AGENTSVIEW,
            agents: ALL,
            place: ".agentsview/sessions.db",
            command: Box::new(move |home| agentsview_command(home, program, &["sync"])),
            rounds: 1,
            ran: Vec::new(),
            size: 0,
            home: None,
        });
    }
    all
}

impl Indexer<'_> {
    fn run(&mut self, corpus: &Written) {
        let home = corpus.home(self.agents);
        let ran = Ran::within(&mut (self.command)(&home), LIMIT);
        if ran.is_some() {
            self.size = home.size(self.place);
            self.home = Some(home);
        }
        self.ran.push(ran);
    }

    /// The median of something over the rounds; none if one did not end.
    fn median(&self, of: fn(Ran) -> f64) -> Option<f64> {
        let figures: Option<Vec<f64>> = self.ran.iter().map(|ran| ran.map(of)).collect();
        Some(quantile(&figures?, 0.5))
    }

    #[allow(clippy::cast_precision_loss, reason = "bytes, for a table")]
    fn row(&self, corpus: &Written, theirs: Option<&[Option<Ran>]>) -> [String; 10] {
        let megabytes = corpus.of(self.agents).bytes as f64 / 1e6;
        let names: Vec<&str> = self.agents.iter().map(|agent| &agent[1..]).collect();
        let (Some(time), Some(processor), Some(peak)) = (
            self.median(|ran| ran.seconds),
            self.median(|ran| ran.processor),
            self.median(|ran| ran.peak),
        ) else {
            let late = format!("more than {} s", LIMIT.as_secs());
            let mut row = [const { String::new() }; 10];
            row[..4].clone_from_slice(&[
                self.name.to_owned(),
                names.join(", "),
                self.ran.len().to_string(),
                late,
            ]);
            return row;
        };
        let size = self.size as f64 * 100.0 / 1e6 / megabytes;
        let ratio = theirs.filter(|_| self.agents == BOTH_READ).map(|theirs| {
            let pairs = self.ran.iter().flatten().zip(theirs.iter().flatten());
            let ratios: Vec<f64> = pairs
                .map(|(own, their)| own.seconds / their.seconds)
                .collect();
            quantile(&ratios, 0.5)
        });
        let mut aims = Vec::new();
        if self.name == SEGUE {
            if let Some(ratio) = ratio {
                aims.push(format_verdict(
                    &format!("at most {AIM_TIME} of their time"),
                    ratio <= AIM_TIME,
                ));
            }
            aims.push(format_verdict(&format!("at most {AIM_PEAK} MB"), peak <= AIM_PEAK));
            aims.push(format_verdict(&format!("at most {AIM_SIZE} %"), size <= AIM_SIZE));
        }
        [
            self.name.to_owned(),
            names.join(", "),
            self.ran.len().to_string(),
            format!("{time:.2} s"),
            format!("{:.0}", megabytes / time),
            format!("{processor:.2} s"),
            format!("{peak:.0} MB"),
            format!("{size:.1} %"),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            aims.join(", "),
        ]
    }
}
