//! Long sessions that contain known facts, to measure how many facts survive compaction.
//!
//! As in real sessions, most of the text is tool output. Each fact is a sentence with two invented names that occur
//! nowhere else. A text contains the fact if one of its lines contains both names.

mod held_out;
mod plain_facts;
#[cfg(test)]
mod tests;
mod tuned_facts;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::corpus::prng::Draw;

/// Kind of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Purpose of the work.
    Goal,
    /// Rule that the user set.
    Directive,
    /// Decision with its reason.
    Decision,
    /// File that is being changed.
    File,
    /// Attempt that failed.
    Attempt,
    /// Work to do later.
    Pending,
    /// Last request of the user.
    LastRequest,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Goal,
        Self::Directive,
        Self::Decision,
        Self::File,
        Self::Attempt,
        Self::Pending,
        Self::LastRequest,
    ];

    /// Returns the name of the kind.
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

    /// Returns the number of facts of this kind in a session.
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

/// Set of sentences in free prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prose {
    /// Sentences that were used to tune the checkpoint extractor.
    Tuned,
    /// Sentences that the developers of the extractor did not read.
    HeldOut,
}

/// A fact in a session.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Kind of the fact.
    pub kind: Kind,
    /// Whether the sentence is in free prose instead of plain words.
    pub free: bool,
    /// Number of the turn that contains the fact, from 1. The last request follows the last turn.
    pub turn: usize,
    /// Names that occur only in this fact.
    pub names: [String; 2],
    /// Sentence that states the fact.
    pub text: String,
}

impl Fact {
    /// Returns `true` if a line of `text` contains both names of the fact.
    pub fn is_in(&self, text: &str) -> bool {
        let [a, b] = &self.names;
        text.lines()
            .any(|line| line.contains(a.as_str()) && line.contains(b.as_str()))
    }
}

/// Action of an agent in a turn.
#[derive(Debug, Clone)]
pub enum Did {
    /// Message of the agent.
    Said(String),
    /// Tool call.
    Called {
        /// Name of the tool.
        tool: &'static str,
        /// Arguments of the call.
        args: Value,
        /// Output of the tool.
        output: String,
        /// Whether the call failed.
        failed: bool,
    },
}

/// A turn of a synthetic session.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Prompt of the user.
    pub prompt: String,
    /// Actions of the agent, in order.
    pub did: Vec<Did>,
}

/// A synthetic session with its facts.
#[derive(Debug, Clone)]
pub struct Planted {
    /// Turns of the session.
    pub turns: Vec<Turn>,
    /// Prompt that follows the last turn.
    pub last_request: String,
    /// Facts in the session, in the order of their turns.
    pub facts: Vec<Fact>,
}

/// Creates a session with this number of turns and about `output` bytes of tool output per turn, in the tuned prose.
pub fn planted(turns: usize, output: usize, seed: u64) -> Planted {
    planted_in(Prose::Tuned, turns, output, seed)
}

/// Creates a session like [`planted`], in the given prose.
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

/// Returns the sentences for a kind of fact: in the given free prose, or in plain words if `free` is `None`.
fn templates(kind: Kind, free: Option<Prose>) -> Vec<&'static str> {
    let lists: &[&[&str]] = match (kind, free) {
        (Kind::Goal, None) => &[plain_facts::GOALS],
        (Kind::Goal, Some(Prose::Tuned)) => &[tuned_facts::GOALS],
        (Kind::Goal, Some(Prose::HeldOut)) => &[held_out::GOALS],
        (Kind::Directive, None) => &[plain_facts::DIRECTIVES],
        (Kind::Directive, Some(Prose::Tuned)) => &[tuned_facts::DIRECTIVES],
        (Kind::Directive, Some(Prose::HeldOut)) => &[held_out::DIRECTIVES],
        (Kind::Decision, None) => &[
            plain_facts::DECISIONS_BY_USER,
            plain_facts::DECISIONS_BY_AGENT,
        ],
        (Kind::Decision, Some(Prose::Tuned)) => &[
            tuned_facts::DECISIONS_BY_USER,
            tuned_facts::DECISIONS_BY_AGENT,
        ],
        (Kind::Decision, Some(Prose::HeldOut)) => {
            &[held_out::DECISIONS_BY_USER, held_out::DECISIONS_BY_AGENT]
        }
        (Kind::File, None) => &[plain_facts::FILES_BY_AGENT],
        (Kind::File, Some(Prose::Tuned)) => &[tuned_facts::FILES_BY_AGENT],
        (Kind::File, Some(Prose::HeldOut)) => &[held_out::FILES_BY_AGENT],
        (Kind::Attempt, None) => &[
            plain_facts::ATTEMPTS_BY_USER,
            plain_facts::ATTEMPTS_BY_AGENT,
        ],
        (Kind::Attempt, Some(Prose::Tuned)) => &[
            tuned_facts::ATTEMPTS_BY_USER,
            tuned_facts::ATTEMPTS_BY_AGENT,
        ],
        (Kind::Attempt, Some(Prose::HeldOut)) => {
            &[held_out::ATTEMPTS_BY_USER, held_out::ATTEMPTS_BY_AGENT]
        }
        (Kind::Pending, None) => &[plain_facts::PENDING_BY_USER, plain_facts::PENDING_BY_AGENT],
        (Kind::Pending, Some(Prose::Tuned)) => {
            &[tuned_facts::PENDING_BY_USER, tuned_facts::PENDING_BY_AGENT]
        }
        (Kind::Pending, Some(Prose::HeldOut)) => {
            &[held_out::PENDING_BY_USER, held_out::PENDING_BY_AGENT]
        }
        (Kind::LastRequest, None) => &[plain_facts::LAST_REQUESTS],
        (Kind::LastRequest, Some(Prose::Tuned)) => &[tuned_facts::LAST_REQUESTS],
        (Kind::LastRequest, Some(Prose::HeldOut)) => &[held_out::LAST_REQUESTS],
    };
    lists.concat()
}

/// Returns `true` if the user states the fact, `false` if the agent does.
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
            plain_facts::DECISIONS_BY_USER,
            tuned_facts::DECISIONS_BY_USER,
            held_out::DECISIONS_BY_USER,
            plain_facts::ATTEMPTS_BY_USER,
            tuned_facts::ATTEMPTS_BY_USER,
            held_out::ATTEMPTS_BY_USER,
            plain_facts::PENDING_BY_USER,
            tuned_facts::PENDING_BY_USER,
            held_out::PENDING_BY_USER,
        ]),
    }
}

/// Returns a name that no other fact has: an invented word or two everyday words.
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

/// Returns a sentence that states no fact. Half of the sentences that end with a punctuation mark contain names all the
/// same, as facts do.
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
        Prose::Tuned => (tuned_facts::FILLER_BY_USER, tuned_facts::FILLER_BY_AGENT),
        Prose::HeldOut => (held_out::FILLER_BY_USER, held_out::FILLER_BY_AGENT),
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

/// Returns an invented name.
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
