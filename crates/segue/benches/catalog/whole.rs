//! Search and list as whole processes, from the call to the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use segue_testkit::benchmark::{
    BenchmarkComparison, Contestant, BenchmarkMode, print_table, quantile, measure_rounds, format_verdict,
};
use segue_testkit::corpus::CorpusTexts;

use crate::home::{BOTH_READ, Home, Written};
use crate::peers::{Peers, Server, agentsview_command};
use crate::ran::milliseconds;

/// At most so much of their time, if neither looks for news, and if both do.
const AIM_STALE: f64 = 0.7;
const AIM_FRESH: f64 = 0.3;

/// Words to search for, by how frequent they are.
fn questions() -> [(&'static str, String); 4] {
    let texts = CorpusTexts::default();
    let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let from = |rank| (rank..).map(|rank| texts.vocabulary().word(rank));
    let word = |rank| from(rank).find(plain).unwrap().to_owned();
    [
        ("a word that nobody said", "zyzzyvaxq".to_owned()),
        ("a rare word", word(40_000)),
        ("a common word", "function".to_owned()),
        ("two words", format!("{} {}", word(300), word(1000))),
    ]
}

/// Everybody's home, with an index that is up to date.
struct Ready<'a> {
    corpus: &'a Written,
    segue: Home,
    fast_resume: Option<(Home, &'a Path)>,
    agentsview: Option<(Home, &'a Path, Server)>,
    ripgrep: Option<&'a Path>,
}

/// `synced` is a home in which agentsview has its index already.
pub(crate) fn measure(extent: BenchmarkMode, corpus: &Written, peers: &Peers, synced: Option<Home>) {
    let ready = Ready::new(corpus, peers, synced);
    ready.check();
    let rounds = extent.pick(31, 2);
    for (kind, words) in questions() {
        ready.compare(
            &format!("Search for {kind} ({words})"),
            rounds,
            Some(&words),
        );
    }
    ready.compare("List of the newest twenty", rounds, None);
    ready.compare_after_growth(rounds);
}

impl<'a> Ready<'a> {
    fn new(corpus: &'a Written, peers: &'a Peers, synced: Option<Home>) -> Self {
        let segue = corpus.home(BOTH_READ);
        done(segue.segue(&["index", "refresh"]));
        let fast_resume = peers.fast_resume.as_deref().map(|program| {
            let home = corpus.home(BOTH_READ);
            done(home.command(program, &["--list", "--limit", "1"]));
            (home, program)
        });
        let agentsview = peers
            .agentsview
            .as_deref()
            .zip(synced)
            .map(|(program, home)| {
                let server = Server::start(&home, program);
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

    /// A search that finds nothing, or a list that is empty, would be quick for the wrong reason.
    fn check(&self) {
        for words in [Some("function"), None] {
            let output = self
                .segue(words, &[])
                .stdout(Stdio::piped())
                .output()
                .unwrap();
            let told = String::from_utf8(output.stdout).unwrap();
            assert!(told.lines().count() >= 20, "{words:?}: {told}");
        }
    }

    /// What segue is called with: a search for words, or a list.
    fn segue(&self, words: Option<&str>, more: &[&str]) -> Command {
        let mut args = match words {
            Some(words) => vec!["session", "search", words, "--limit", "20"],
            None => vec!["session", "list", "--all", "--limit", "20"],
        };
        args.extend(more);
        self.segue.segue(&args)
    }

    /// The others with no news: agentsview by its server, ripgrep by looking at every file.
    fn others(&self, words: Option<&'a str>) -> Vec<Contestant<'_>> {
        let mut others = Vec::new();
        if let Some((home, program, _)) = &self.agentsview {
            others.push(Contestant::new(
                "agentsview, asking its server",
                move || {
                    let args = match words {
                        Some(words) => vec!["session", "search", words, "--fts", "--limit", "20"],
                        None => vec!["session", "list", "--limit", "20"],
                    };
                    milliseconds(&mut agentsview_command(home, program, &args))
                },
            ));
        }
        if let (Some(program), Some(words)) = (self.ripgrep, words) {
            let word = words.split(' ').next().unwrap();
            let places: Vec<PathBuf> = BOTH_READ
                .iter()
                .map(|agent| self.corpus.path(agent))
                .collect();
            others.push(Contestant::new("rg --files-with-matches", move || {
                let mut command = self
                    .segue
                    .command(program, &["--files-with-matches", "--hidden", word]);
                milliseconds(command.args(&places))
            }));
        }
        others
    }

    fn compare(&self, title: &str, rounds: usize, words: Option<&str>) {
        let mut all = vec![
            Contestant::new("segue --no-refresh", || {
                milliseconds(&mut self.segue(words, &["--no-refresh"]))
            }),
            Contestant::new("segue", || milliseconds(&mut self.segue(words, &[]))),
        ];
        if let Some((home, program)) = &self.fast_resume {
            for refresh in [&["--no-refresh"][..], &[]] {
                let name = format!("fast-resume {}", refresh.join(""));
                all.push(Contestant::new(name.trim_end(), move || {
                    let mut args = vec!["--list", "--limit", "20"];
                    args.extend(refresh);
                    args.extend(words);
                    milliseconds(&mut home.command(program, &args))
                }));
            }
        }
        // They are slow, and only there for a picture.
        let mut others = self.others(words);
        measure_rounds(&mut all, rounds);
        measure_rounds(&mut others, rounds.min(11));
        let aims = [AIM_STALE, AIM_FRESH];
        let mut rows = Vec::new();
        for (n, contestant) in all.iter().enumerate() {
            let their = all.get(n + 2);
            rows.push(row(contestant, their.map(|their| (their, aims[n % 2]))));
        }
        rows.extend(others.iter().map(|other| row(other, None)));
        print(title, &rows);
    }

    /// Before each search, something is said in one session.
    fn compare_after_growth(&self, rounds: usize) {
        let number = std::cell::Cell::new(0);
        let grow = || {
            number.set(number.get() + 1);
            self.corpus.grow(number.get());
        };
        let words = Some("number");
        let mut all = vec![Contestant::new("segue", || {
            grow();
            milliseconds(&mut self.segue(words, &[]))
        })];
        if let Some((home, program)) = &self.fast_resume {
            all.push(Contestant::new("fast-resume", move || {
                grow();
                milliseconds(&mut home.command(program, &["--list", "--limit", "20", "number"]))
            }));
        }
        measure_rounds(&mut all, rounds);
        let mut rows = Vec::new();
        for (n, contestant) in all.iter().enumerate() {
            rows.push(row(
                contestant,
                all.get(n + 1).map(|their| (their, AIM_FRESH)),
            ));
        }
        print("Search after one session has grown", &rows);
    }
}

fn done(mut command: Command) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A contestant beside another one, if that is what it is measured by.
fn row(contestant: &Contestant<'_>, other: Option<(&Contestant<'_>, f64)>) -> [String; 6] {
    let ratio = other.map(|(other, aim)| {
        let ratio = BenchmarkComparison::from_rounds(contestant, other, |own, their| own / their);
        (
            ratio.format_cell(),
            format_verdict(&format!("at most {aim}"), ratio.median <= aim),
        )
    });
    let (ratio, aim) = ratio.unwrap_or_default();
    [
        contestant.name.clone(),
        contestant.values.len().to_string(),
        format!("{:.1} ms", contestant.median()),
        format!("{:.1} ms", quantile(&contestant.values, 0.95)),
        ratio,
        aim,
    ]
}

fn print(title: &str, rows: &[[String; 6]]) {
    let head = [
        "",
        "runs",
        "median",
        "95 of 100 within",
        "to fast-resume",
        "aim",
    ];
    print_table(title, head, rows);
}
