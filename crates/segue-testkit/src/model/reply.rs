//! Selection of the reply to a request, and its adaptation to the tools that the request offers.

use super::request::ModelRequest;
use super::script::{Reply, Script, Usage};
use super::side_requests;
use super::tools::{self, Placed};
use super::transcript;

/// Indexes of a rule and of a step in it. Failures are counted per step.
pub(crate) type Step = (usize, usize);

/// The reply to a request.
pub(crate) struct Chosen {
    pub(crate) reply: Reply,
    /// Step of the script. `None` if the reply is not from the script.
    pub(crate) step: Option<Step>,
}

/// Selects the reply to a request.
pub(crate) fn choose(script: &Script, request: &ModelRequest) -> Chosen {
    let unscripted = |text: &str| Chosen {
        reply: Reply::say(text),
        step: None,
    };
    if let Some(side) = request.side {
        let text = side_requests::answer(side, request.dialect, &request.body, script);
        return unscripted(&text);
    }
    let seen = request.seen();
    let prompt = transcript::last_prompt(&seen).unwrap_or_default();
    let mut rules = script.rules.iter().enumerate();
    let Some((rule, found)) = rules.find(|(_, rule)| prompt.contains(&rule.on)) else {
        return unscripted(&format!("You said: {prompt}"));
    };
    let round = transcript::rounds(&seen);
    match found.steps.get(round) {
        Some(reply) => Chosen {
            reply: reply.clone(),
            step: Some((rule, round)),
        },
        None => unscripted("Done."),
    }
}

/// A reply whose calls fit the offered tools.
pub(crate) struct Answer {
    pub(crate) model: String,
    pub(crate) think: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<(u64, Placed)>,
    pub(crate) usage: Usage,
    /// Number of the answer, unique within a stub.
    pub(crate) number: u64,
}

impl Answer {
    /// Adapts a reply to the tools that the request offers. Every call of `next` must return a new number.
    pub(crate) fn new(
        reply: &Reply,
        request: &ModelRequest,
        mut next: impl FnMut() -> u64,
    ) -> Self {
        let offered = tools::offered(request.dialect, &request.body);
        let mut text = reply.text.clone().unwrap_or_default();
        let mut calls = Vec::new();
        for call in &reply.calls {
            match tools::place(call, &offered) {
                Ok(placed) => calls.push((next(), placed)),
                Err(complaint) => text.push_str(&complaint),
            }
        }
        Self {
            model: request.model.clone().unwrap_or_else(|| "stub".to_owned()),
            think: reply.think.clone(),
            text,
            calls,
            usage: reply.usage,
            number: next(),
        }
    }

    /// Splits the text between words into the chunks of a stream, at most four.
    pub(crate) fn pieces(&self) -> Vec<String> {
        let words: Vec<&str> = self.text.split_inclusive(char::is_whitespace).collect();
        let size = words.len().div_ceil(4).max(1);
        words.chunks(size).map(<[&str]>::concat).collect()
    }
}
