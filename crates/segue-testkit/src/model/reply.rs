//! Selection of the reply to a request, and its adaptation to the tools that the request offers.

use super::request::ModelRequest;
use super::script::{Reply, Script, StubUsage};
use super::side_requests;
use super::tools::{self, StubToolCall};
use super::transcript;

/// Indexes of a rule and of a step in it. Failures are counted per step.
pub(crate) type ScriptStepIndex = (usize, usize);

/// The reply to a request.
pub(crate) struct SelectedReply {
    pub(crate) reply: Reply,
    /// Step of the script. `None` if the reply is not from the script.
    pub(crate) step: Option<ScriptStepIndex>,
}

/// Selects the reply to a request.
pub(crate) fn select_reply(script: &Script, request: &ModelRequest) -> SelectedReply {
    let unscripted = |text: &str| SelectedReply {
        reply: Reply::from_text(text),
        step: None,
    };
    if let Some(kind) = request.side_request {
        let text =
            side_requests::answer_side_request(kind, request.api_format, &request.body, script);
        return unscripted(&text);
    }
    let entries = request.transcript();
    let prompt = transcript::find_last_prompt(&entries).unwrap_or_default();
    let mut rules = script.rules.iter().enumerate();
    let Some((rule_index, matched_rule)) =
        rules.find(|(_, rule)| prompt.contains(&rule.prompt_text))
    else {
        return unscripted(&format!("You said: {prompt}"));
    };
    let round = transcript::count_tool_rounds(&entries);
    match matched_rule.steps.get(round) {
        Some(reply) => SelectedReply {
            reply: reply.clone(),
            step: Some((rule_index, round)),
        },
        None => unscripted("Done."),
    }
}

/// A reply whose calls fit the offered tools.
pub(crate) struct StubAnswer {
    pub(crate) model: String,
    pub(crate) thoughts: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<(u64, StubToolCall)>,
    pub(crate) usage: StubUsage,
    /// Number of the answer, unique within a stub.
    pub(crate) number: u64,
}

impl StubAnswer {
    /// Adapts a reply to the tools that the request offers. Every call of `next_number` must return a new number.
    pub(crate) fn new(
        reply: &Reply,
        request: &ModelRequest,
        mut next_number: impl FnMut() -> u64,
    ) -> Self {
        let offered_tools = tools::parse_offered_tools(request.api_format, &request.body);
        let mut text = reply.text.clone().unwrap_or_default();
        let mut calls = Vec::new();
        for call in &reply.calls {
            match tools::resolve_call(call, &offered_tools) {
                Ok(tool_call) => calls.push((next_number(), tool_call)),
                Err(error_text) => text.push_str(&error_text),
            }
        }
        Self {
            model: request.model.clone().unwrap_or_else(|| "stub".to_owned()),
            thoughts: reply.thoughts.clone(),
            text,
            calls,
            usage: reply.usage,
            number: next_number(),
        }
    }

    /// Splits the text between words into the chunks of a stream, at most four.
    pub(crate) fn text_chunks(&self) -> Vec<String> {
        let words: Vec<&str> = self.text.split_inclusive(char::is_whitespace).collect();
        let size = words.len().div_ceil(4).max(1);
        words.chunks(size).map(<[&str]>::concat).collect()
    }
}
