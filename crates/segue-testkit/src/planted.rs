//! Long sessions with facts planted in them, to see which of them are still known after compaction.
//!
//! Mostly tool output, as real sessions are. Each fact is a sentence with two made-up names that stand nowhere else; it is
//! present in a text if one line has both of them.

mod held;
mod plain;
#[cfg(test)]
mod tests;
mod tuned;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::corpus::draw::Draw;

/// What a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What the work is for.
    Goal,
    /// A rule of the user.
    Directive,
    /// Something that was settled, with its reason.
    Decision,
    /// A file that is being changed.
    File,
    /// What was tried and failed.
    Attempt,
    /// What is to be done later.
    Pending,
    /// What the user asked for last.
    LastRequest,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Goal,
        Self::Directive,
        Self::Decision,
        Self::File,
        Self::Attempt,
        Self::Pending,
        Self::LastRequest,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Directive => "directive",
            Self::Decision => "decision",
            Self::File => "file",
            Self::Attempt => "attempt",
            Self::Pending => "pending",
            Self::LastRequest => "last request",
        }
    }

    /// How many of them a session has.
    fn count(self) -> usize {
        match self {
            Self::Goal => 4,
            Self::Directive => 28,
            Self::Decision | Self::Pending => 20,
            Self::File | Self::Attempt => 16,
            Self::LastRequest => 1,
        }
    }
}

/// Which sentences stand for free prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prose {
    /// Those that the extractor was tuned with.
    Tuned,
    /// Those that nobody looked at while it was made.
    HeldOut,
}

/// A planted fact.
#[derive(Debug, Clone)]
pub struct Fact {
    /// What it is about.
    pub kind: Kind,
    /// Whether it is put in free prose, not in plain words.
    pub free: bool,
    /// In which turn it is told, from 1.
    pub turn: usize,
    /// The names that only it has.
    pub names: [String; 2],
    /// How it is told.
    pub text: String,
}

impl Fact {
    /// Whether a text has it.
    pub fn is_in(&self, text: &str) -> bool {
        let [a, b] = &self.names;
        text.lines()
            .any(|line| line.contains(a.as_str()) && line.contains(b.as_str()))
    }
}

/// What an agent did in a turn.
#[derive(Debug, Clone)]
pub enum Did {
    /// It spoke.
    Said(String),
    /// It used a tool.
    Called {
        /// The name of the tool.
        tool: &'static str,
        /// With what.
        args: Value,
        /// What came of it.
        output: String,
        /// Whether it failed.
        failed: bool,
    },
}

/// A turn of a made-up session.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What the user said.
    pub prompt: String,
    /// What the agent did.
    pub did: Vec<Did>,
}

/// A made-up session.
#[derive(Debug, Clone)]
pub struct Planted {
    /// Its turns.
    pub turns: Vec<Turn>,
    /// What is asked after them.
    pub last_request: String,
    /// The facts in it.
    pub facts: Vec<Fact>,
}

/// Makes a session of so many turns, whose tools say about so many bytes each turn, in the prose that was tuned with.
pub fn planted(turns: usize, output: usize, seed: u64) -> Planted {
    planted_in(Prose::Tuned, turns, output, seed)
}

/// Makes such a session in a prose of choice.
pub fn planted_in(prose: Prose, turns: usize, output: usize, seed: u64) -> Planted {
    let mut draw = Draw::new(seed);
    let mut facts = facts(&mut draw, prose, turns);
    let turns = (1..=turns)
        .map(|n| {
            let told: Vec<&Fact> = facts.iter().filter(|fact| fact.turn == n).collect();
            turn(&mut draw, prose, &told, output)
        })
        .collect();
    let last = facts.iter().position(|fact| fact.kind == Kind::LastRequest);
    let last_request = facts[last.unwrap()].text.clone();
    facts.sort_by_key(|fact| fact.turn);
    Planted {
        turns,
        last_request,
        facts,
    }
}

fn facts(draw: &mut Draw, prose: Prose, turns: usize) -> Vec<Fact> {
    let mut facts = Vec::new();
    for kind in Kind::ALL {
        for nth in 0..kind.count() {
            let free = (nth + draw.below(2)).is_multiple_of(2);
            let templates = templates(kind, free.then_some(prose));
            let template = templates[draw.below(templates.len())];
            let mut names = [unused(draw, &facts), unused(draw, &facts)];
            if kind == Kind::File {
                names[0] = format!("src/{}/{}.rs", name(draw), name(draw));
            }
            let text = template.replace("{A}", &names[0]).replace("{B}", &names[1]);
            let turn = match kind {
                Kind::Goal if nth == 0 => 1,
                Kind::LastRequest => turns + 1,
                _ => 1 + draw.below(turns),
            };
            facts.push(Fact {
                kind,
                free,
                turn,
                names,
                text,
            });
        }
    }
    facts
}

/// Sentences for a fact of a kind: in a free prose, or else in plain words.
fn templates(kind: Kind, free: Option<Prose>) -> Vec<&'static str> {
    let lists: &[&[&str]] = match (kind, free) {
        (Kind::Goal, None) => &[plain::GOALS],
        (Kind::Goal, Some(Prose::Tuned)) => &[tuned::GOALS],
        (Kind::Goal, Some(Prose::HeldOut)) => &[held::GOALS],
        (Kind::Directive, None) => &[plain::DIRECTIVES],
        (Kind::Directive, Some(Prose::Tuned)) => &[tuned::DIRECTIVES],
        (Kind::Directive, Some(Prose::HeldOut)) => &[held::DIRECTIVES],
        (Kind::Decision, None) => &[plain::DECISIONS_BY_USER, plain::DECISIONS_BY_AGENT],
        (Kind::Decision, Some(Prose::Tuned)) => {
            &[tuned::DECISIONS_BY_USER, tuned::DECISIONS_BY_AGENT]
        }
        (Kind::Decision, Some(Prose::HeldOut)) => {
            &[held::DECISIONS_BY_USER, held::DECISIONS_BY_AGENT]
        }
        (Kind::File, None) => &[plain::FILES_BY_AGENT],
        (Kind::File, Some(Prose::Tuned)) => &[tuned::FILES_BY_AGENT],
        (Kind::File, Some(Prose::HeldOut)) => &[held::FILES_BY_AGENT],
        (Kind::Attempt, None) => &[plain::ATTEMPTS_BY_USER, plain::ATTEMPTS_BY_AGENT],
        (Kind::Attempt, Some(Prose::Tuned)) => &[tuned::ATTEMPTS_BY_USER, tuned::ATTEMPTS_BY_AGENT],
        (Kind::Attempt, Some(Prose::HeldOut)) => &[held::ATTEMPTS_BY_USER, held::ATTEMPTS_BY_AGENT],
        (Kind::Pending, None) => &[plain::PENDING_BY_USER, plain::PENDING_BY_AGENT],
        (Kind::Pending, Some(Prose::Tuned)) => &[tuned::PENDING_BY_USER, tuned::PENDING_BY_AGENT],
        (Kind::Pending, Some(Prose::HeldOut)) => &[held::PENDING_BY_USER, held::PENDING_BY_AGENT],
        (Kind::LastRequest, None) => &[plain::LAST_REQUESTS],
        (Kind::LastRequest, Some(Prose::Tuned)) => &[tuned::LAST_REQUESTS],
        (Kind::LastRequest, Some(Prose::HeldOut)) => &[held::LAST_REQUESTS],
    };
    lists.concat()
}

/// Whether a fact is told by the user.
fn is_of_user(fact: &Fact) -> bool {
    let of = |lists: &[&[&str]]| {
        let [a, b] = &fact.names;
        let template = fact
            .text
            .replace(a.as_str(), "{A}")
            .replace(b.as_str(), "{B}");
        lists.iter().any(|list| list.contains(&template.as_str()))
    };
    match fact.kind {
        Kind::Goal | Kind::Directive | Kind::LastRequest => true,
        Kind::File => false,
        Kind::Decision | Kind::Attempt | Kind::Pending => of(&[
            plain::DECISIONS_BY_USER,
            tuned::DECISIONS_BY_USER,
            held::DECISIONS_BY_USER,
            plain::ATTEMPTS_BY_USER,
            tuned::ATTEMPTS_BY_USER,
            held::ATTEMPTS_BY_USER,
            plain::PENDING_BY_USER,
            tuned::PENDING_BY_USER,
            held::PENDING_BY_USER,
        ]),
    }
}

/// A name for something that no other fact has: made up, or two words of every day.
fn unused(draw: &mut Draw, facts: &[Fact]) -> String {
    loop {
        let name = if draw.below(2) == 0 {
            name(draw)
        } else {
            format!("{} {}", pick(draw, &COLOURS), pick(draw, &THINGS))
        };
        if !facts.iter().any(|fact| fact.names.contains(&name)) {
            return name;
        }
    }
}

/// What is said without being a fact: every other sentence names something all the same.
fn filler(draw: &mut Draw, from: &[&str]) -> String {
    let said = pick(draw, from);
    let Some(body) = said
        .strip_suffix(['.', '?', '!'])
        .filter(|_| draw.below(2) == 0)
    else {
        return said.to_owned();
    };
    let end = &said[body.len()..];
    match draw.below(4) {
        0 => format!("{body} in src/{}/{}.rs{end}", name(draw), name(draw)),
        1 => format!("{body} for {}{end}", name(draw)),
        2 => format!("{body} (see {} and {}){end}", name(draw), name(draw)),
        _ => format!(
            "{body}, as in the {} {}{end}",
            pick(draw, &COLOURS),
            pick(draw, &THINGS)
        ),
    }
}

fn turn(draw: &mut Draw, prose: Prose, facts: &[&Fact], output: usize) -> Turn {
    let (by_user, by_agent) = match prose {
        Prose::Tuned => (tuned::FILLER_BY_USER, tuned::FILLER_BY_AGENT),
        Prose::HeldOut => (held::FILLER_BY_USER, held::FILLER_BY_AGENT),
    };
    let (asked, answered): (Vec<&Fact>, Vec<&Fact>) =
        facts.iter().partition(|fact| is_of_user(fact));
    let mut prompt = vec![filler(draw, by_user)];
    for fact in asked {
        let at = draw.below(prompt.len() + 1);
        prompt.insert(at, fact.text.clone());
    }
    let mut did = vec![Did::Said(filler(draw, by_agent))];
    let calls = 1 + draw.below(4);
    for _ in 0..calls {
        did.push(call(draw, output / calls));
    }
    let mut answer: Vec<String> = (0..2 + draw.below(4))
        .map(|_| filler(draw, by_agent))
        .collect();
    for fact in answered {
        if fact.kind == Kind::File {
            did.push(edit(fact));
        }
        let at = draw.below(answer.len() + 1);
        answer.insert(at, fact.text.clone());
    }
    did.push(Did::Said(answer.join(" ")));
    Turn {
        prompt: prompt.join(" "),
        did,
    }
}

fn edit(fact: &Fact) -> Did {
    let [path, name] = &fact.names;
    Did::Called {
        tool: "Edit",
        args: json!({"file_path": path, "old_string": "let a = 1;", "new_string": format!("let a = {name};")}),
        output: "The file was changed.".into(),
        failed: false,
    }
}

fn call(draw: &mut Draw, output: usize) -> Did {
    let path = format!("src/{}/{}.rs", name(draw), name(draw));
    match draw.below(3) {
        0 => Did::Called {
            tool: "Bash",
            args: json!({"command": format!("cargo test -p {}", name(draw))}),
            output: lines(draw, output, "test", "... ok"),
            failed: draw.below(5) == 0,
        },
        1 => Did::Called {
            tool: "Grep",
            args: json!({"pattern": name(draw)}),
            output: lines(draw, output, &path, "let x = call();"),
            failed: false,
        },
        _ => Did::Called {
            tool: "Read",
            args: json!({"file_path": path}),
            output: lines(draw, output, "    let", "= self.next()?;"),
            failed: false,
        },
    }
}

fn lines(draw: &mut Draw, bytes: usize, before: &str, after: &str) -> String {
    let mut out = String::with_capacity(bytes + 80);
    while out.len() < bytes {
        let (a, b) = (name(draw), name(draw));
        let _ = writeln!(out, "{before} {a}::{b} {after}");
    }
    out
}

fn pick<'a>(draw: &mut Draw, from: &[&'a str]) -> &'a str {
    from[draw.below(from.len())]
}

const COLOURS: [&str; 40] = [
    "amber", "bold", "brisk", "bronze", "calm", "clear", "copper", "coral", "dark", "deep",
    "dusty", "early", "faint", "fresh", "frozen", "gentle", "golden", "grand", "green", "hidden",
    "hollow", "humble", "icy", "iron", "late", "light", "lucky", "mellow", "narrow", "noble",
    "pale", "plain", "quiet", "rapid", "rough", "silver", "steady", "tall", "warm", "young",
];
const THINGS: [&str; 40] = [
    "anchor", "basket", "bridge", "candle", "canyon", "castle", "cedar", "cellar", "circle",
    "compass", "corner", "cottage", "drawer", "engine", "falcon", "feather", "fountain", "garden",
    "hammer", "harbour", "island", "kettle", "ladder", "lantern", "market", "meadow", "mirror",
    "orchard", "paddle", "pillow", "planet", "pocket", "river", "rocket", "saddle", "shadow",
    "signal", "temple", "tunnel", "window",
];

/// A name that is nowhere else.
fn name(draw: &mut Draw) -> String {
    const BEGIN: [&str; 16] = [
        "bar", "cor", "del", "fen", "gor", "hul", "jin", "kel", "lom", "mur", "nex", "pol", "quil",
        "rav", "sor", "tre",
    ];
    const END: [&str; 16] = [
        "bit", "dock", "fax", "gate", "hub", "kit", "line", "mesh", "node", "pack", "ring", "sync",
        "tron", "vault", "wick", "zone",
    ];
    let n = draw.next();
    format!(
        "{}{}{:04x}",
        pick(draw, &BEGIN),
        pick(draw, &END),
        n % 0x1_0000
    )
}
