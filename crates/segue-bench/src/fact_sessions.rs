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

use crate::corpus::prng::Prng;

/// Kind of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
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

impl FactKind {
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
    fn fact_count(self) -> usize {
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
    pub kind: FactKind,
    /// Whether the sentence is in free prose instead of plain words.
    pub is_free_prose: bool,
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
pub enum PlantedAction {
    /// Message of the agent.
    Message(String),
    /// Tool call.
    ToolCall {
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
pub struct PlantedTurn {
    /// Prompt of the user.
    pub prompt: String,
    /// Actions of the agent, in order.
    pub actions: Vec<PlantedAction>,
}

/// A synthetic session with its facts.
#[derive(Debug, Clone)]
pub struct PlantedSession {
    /// Turns of the session.
    pub turns: Vec<PlantedTurn>,
    /// Prompt that follows the last turn.
    pub last_request: String,
    /// Facts in the session, in the order of their turns.
    pub facts: Vec<Fact>,
}

/// Creates a session with this number of turns and about `output_bytes` bytes of tool output per turn, in the tuned
/// prose.
pub fn build_tuned_session(turns: usize, output_bytes: usize, seed: u64) -> PlantedSession {
    build_planted_session(Prose::Tuned, turns, output_bytes, seed)
}

/// Creates a session like [`build_tuned_session`], in the given prose.
pub fn build_planted_session(
    prose: Prose,
    turns: usize,
    output_bytes: usize,
    seed: u64,
) -> PlantedSession {
    let mut prng = Prng::new(seed);
    let mut facts = generate_facts(&mut prng, prose, turns);
    let turns = (1..=turns)
        .map(|n| {
            let turn_facts: Vec<&Fact> = facts.iter().filter(|fact| fact.turn == n).collect();
            build_turn(&mut prng, prose, &turn_facts, output_bytes)
        })
        .collect();
    let last_index = facts
        .iter()
        .position(|fact| fact.kind == FactKind::LastRequest);
    let last_request = facts[last_index.unwrap()].text.clone();
    facts.sort_by_key(|fact| fact.turn);
    PlantedSession {
        turns,
        last_request,
        facts,
    }
}

fn generate_facts(prng: &mut Prng, prose: Prose, turns: usize) -> Vec<Fact> {
    let mut facts = Vec::new();
    for kind in FactKind::ALL {
        for nth in 0..kind.fact_count() {
            let is_free_prose = (nth + prng.next_below(2)).is_multiple_of(2);
            let templates = list_templates(kind, is_free_prose.then_some(prose));
            let template = templates[prng.next_below(templates.len())];
            let mut names = [
                generate_unused_name(prng, &facts),
                generate_unused_name(prng, &facts),
            ];
            if kind == FactKind::File {
                names[0] = format!("src/{}/{}.rs", generate_name(prng), generate_name(prng));
            }
            let text = template.replace("{A}", &names[0]).replace("{B}", &names[1]);
            let turn = match kind {
                FactKind::Goal if nth == 0 => 1,
                FactKind::LastRequest => turns + 1,
                _ => 1 + prng.next_below(turns),
            };
            facts.push(Fact {
                kind,
                is_free_prose,
                turn,
                names,
                text,
            });
        }
    }
    facts
}

/// Returns the sentences for a kind of fact: in the given free prose, or in plain words if `free_prose` is `None`.
fn list_templates(kind: FactKind, free_prose: Option<Prose>) -> Vec<&'static str> {
    let lists: &[&[&str]] = match (kind, free_prose) {
        (FactKind::Goal, None) => &[plain_facts::GOALS_BY_USER],
        (FactKind::Goal, Some(Prose::Tuned)) => &[tuned_facts::GOALS_BY_USER],
        (FactKind::Goal, Some(Prose::HeldOut)) => &[held_out::GOALS_BY_USER],
        (FactKind::Directive, None) => &[plain_facts::DIRECTIVES_BY_USER],
        (FactKind::Directive, Some(Prose::Tuned)) => &[tuned_facts::DIRECTIVES_BY_USER],
        (FactKind::Directive, Some(Prose::HeldOut)) => &[held_out::DIRECTIVES_BY_USER],
        (FactKind::Decision, None) => &[
            plain_facts::DECISIONS_BY_USER,
            plain_facts::DECISIONS_BY_AGENT,
        ],
        (FactKind::Decision, Some(Prose::Tuned)) => &[
            tuned_facts::DECISIONS_BY_USER,
            tuned_facts::DECISIONS_BY_AGENT,
        ],
        (FactKind::Decision, Some(Prose::HeldOut)) => {
            &[held_out::DECISIONS_BY_USER, held_out::DECISIONS_BY_AGENT]
        }
        (FactKind::File, None) => &[plain_facts::FILES_BY_AGENT],
        (FactKind::File, Some(Prose::Tuned)) => &[tuned_facts::FILES_BY_AGENT],
        (FactKind::File, Some(Prose::HeldOut)) => &[held_out::FILES_BY_AGENT],
        (FactKind::Attempt, None) => &[
            plain_facts::ATTEMPTS_BY_USER,
            plain_facts::ATTEMPTS_BY_AGENT,
        ],
        (FactKind::Attempt, Some(Prose::Tuned)) => &[
            tuned_facts::ATTEMPTS_BY_USER,
            tuned_facts::ATTEMPTS_BY_AGENT,
        ],
        (FactKind::Attempt, Some(Prose::HeldOut)) => {
            &[held_out::ATTEMPTS_BY_USER, held_out::ATTEMPTS_BY_AGENT]
        }
        (FactKind::Pending, None) => &[plain_facts::PENDING_BY_USER, plain_facts::PENDING_BY_AGENT],
        (FactKind::Pending, Some(Prose::Tuned)) => {
            &[tuned_facts::PENDING_BY_USER, tuned_facts::PENDING_BY_AGENT]
        }
        (FactKind::Pending, Some(Prose::HeldOut)) => {
            &[held_out::PENDING_BY_USER, held_out::PENDING_BY_AGENT]
        }
        (FactKind::LastRequest, None) => &[plain_facts::LAST_REQUESTS],
        (FactKind::LastRequest, Some(Prose::Tuned)) => &[tuned_facts::LAST_REQUESTS],
        (FactKind::LastRequest, Some(Prose::HeldOut)) => &[held_out::LAST_REQUESTS],
    };
    lists.concat()
}

/// Returns `true` if the user states the fact, `false` if the agent does.
fn is_stated_by_user(fact: &Fact) -> bool {
    let is_template_in = |lists: &[&[&str]]| {
        let [a, b] = &fact.names;
        let template = fact
            .text
            .replace(a.as_str(), "{A}")
            .replace(b.as_str(), "{B}");
        lists.iter().any(|list| list.contains(&template.as_str()))
    };
    match fact.kind {
        FactKind::Goal | FactKind::Directive | FactKind::LastRequest => true,
        FactKind::File => false,
        FactKind::Decision | FactKind::Attempt | FactKind::Pending => is_template_in(&[
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
fn generate_unused_name(prng: &mut Prng, facts: &[Fact]) -> String {
    loop {
        let name = if prng.next_below(2) == 0 {
            generate_name(prng)
        } else {
            format!(
                "{} {}",
                pick_random(prng, &NAME_ADJECTIVES),
                pick_random(prng, &NAME_NOUNS)
            )
        };
        if !facts.iter().any(|fact| fact.names.contains(&name)) {
            return name;
        }
    }
}

/// Returns a sentence that states no fact. Half of the sentences that end with a punctuation mark contain names all the
/// same, as facts do.
fn generate_filler(prng: &mut Prng, sentences: &[&str]) -> String {
    let sentence = pick_random(prng, sentences);
    let Some(body) = sentence
        .strip_suffix(['.', '?', '!'])
        .filter(|_| prng.next_below(2) == 0)
    else {
        return sentence.to_owned();
    };
    let end = &sentence[body.len()..];
    match prng.next_below(4) {
        0 => format!(
            "{body} in src/{}/{}.rs{end}",
            generate_name(prng),
            generate_name(prng)
        ),
        1 => format!("{body} for {}{end}", generate_name(prng)),
        2 => format!(
            "{body} (see {} and {}){end}",
            generate_name(prng),
            generate_name(prng)
        ),
        _ => format!(
            "{body}, as in the {} {}{end}",
            pick_random(prng, &NAME_ADJECTIVES),
            pick_random(prng, &NAME_NOUNS)
        ),
    }
}

fn build_turn(prng: &mut Prng, prose: Prose, facts: &[&Fact], output_bytes: usize) -> PlantedTurn {
    let (user_fillers, agent_fillers) = match prose {
        Prose::Tuned => (tuned_facts::FILLER_BY_USER, tuned_facts::FILLER_BY_AGENT),
        Prose::HeldOut => (held_out::FILLER_BY_USER, held_out::FILLER_BY_AGENT),
    };
    let (user_facts, agent_facts): (Vec<&Fact>, Vec<&Fact>) =
        facts.iter().partition(|fact| is_stated_by_user(fact));
    let mut prompt = vec![generate_filler(prng, user_fillers)];
    for fact in user_facts {
        let index = prng.next_below(prompt.len() + 1);
        prompt.insert(index, fact.text.clone());
    }
    let mut actions = vec![PlantedAction::Message(generate_filler(prng, agent_fillers))];
    let calls = 1 + prng.next_below(4);
    for _ in 0..calls {
        actions.push(generate_tool_call(prng, output_bytes / calls));
    }
    let mut answer: Vec<String> = (0..2 + prng.next_below(4))
        .map(|_| generate_filler(prng, agent_fillers))
        .collect();
    for fact in agent_facts {
        if fact.kind == FactKind::File {
            actions.push(build_edit_call(fact));
        }
        let index = prng.next_below(answer.len() + 1);
        answer.insert(index, fact.text.clone());
    }
    actions.push(PlantedAction::Message(answer.join(" ")));
    PlantedTurn {
        prompt: prompt.join(" "),
        actions,
    }
}

fn build_edit_call(fact: &Fact) -> PlantedAction {
    let [path, name] = &fact.names;
    PlantedAction::ToolCall {
        tool: "Edit",
        args: json!({"file_path": path, "old_string": "let a = 1;", "new_string": format!("let a = {name};")}),
        output: "The file was changed.".into(),
        failed: false,
    }
}

fn generate_tool_call(prng: &mut Prng, output_bytes: usize) -> PlantedAction {
    let path = format!("src/{}/{}.rs", generate_name(prng), generate_name(prng));
    match prng.next_below(3) {
        0 => PlantedAction::ToolCall {
            tool: "Bash",
            args: json!({"command": format!("cargo test -p {}", generate_name(prng))}),
            output: generate_output(prng, output_bytes, "test", "... ok"),
            failed: prng.next_below(5) == 0,
        },
        1 => PlantedAction::ToolCall {
            tool: "Grep",
            args: json!({"pattern": generate_name(prng)}),
            output: generate_output(prng, output_bytes, &path, "let x = call();"),
            failed: false,
        },
        _ => PlantedAction::ToolCall {
            tool: "Read",
            args: json!({"file_path": path}),
            output: generate_output(prng, output_bytes, "    let", "= self.next()?;"),
            failed: false,
        },
    }
}

fn generate_output(prng: &mut Prng, bytes: usize, prefix: &str, suffix: &str) -> String {
    let mut out = String::with_capacity(bytes + 80);
    while out.len() < bytes {
        let (a, b) = (generate_name(prng), generate_name(prng));
        let _ = writeln!(out, "{prefix} {a}::{b} {suffix}");
    }
    out
}

fn pick_random<'a>(prng: &mut Prng, texts: &[&'a str]) -> &'a str {
    texts[prng.next_below(texts.len())]
}

const NAME_ADJECTIVES: [&str; 40] = [
    "amber", "bold", "brisk", "bronze", "calm", "clear", "copper", "coral", "dark", "deep",
    "dusty", "early", "faint", "fresh", "frozen", "gentle", "golden", "grand", "green", "hidden",
    "hollow", "humble", "icy", "iron", "late", "light", "lucky", "mellow", "narrow", "noble",
    "pale", "plain", "quiet", "rapid", "rough", "silver", "steady", "tall", "warm", "young",
];
const NAME_NOUNS: [&str; 40] = [
    "anchor", "basket", "bridge", "candle", "canyon", "castle", "cedar", "cellar", "circle",
    "compass", "corner", "cottage", "drawer", "engine", "falcon", "feather", "fountain", "garden",
    "hammer", "harbour", "island", "kettle", "ladder", "lantern", "market", "meadow", "mirror",
    "orchard", "paddle", "pillow", "planet", "pocket", "river", "rocket", "saddle", "shadow",
    "signal", "temple", "tunnel", "window",
];

/// Returns an invented name.
fn generate_name(prng: &mut Prng) -> String {
    const NAME_PREFIXES: [&str; 16] = [
        "bar", "cor", "del", "fen", "gor", "hul", "jin", "kel", "lom", "mur", "nex", "pol", "quil",
        "rav", "sor", "tre",
    ];
    const NAME_SUFFIXES: [&str; 16] = [
        "bit", "dock", "fax", "gate", "hub", "kit", "line", "mesh", "node", "pack", "ring", "sync",
        "tron", "vault", "wick", "zone",
    ];
    let number = prng.next_u64();
    format!(
        "{}{}{:04x}",
        pick_random(prng, &NAME_PREFIXES),
        pick_random(prng, &NAME_SUFFIXES),
        number % 0x1_0000
    )
}
