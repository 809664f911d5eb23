//! Scripts of the model stub: rules, steps and requested failures.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The model's replies to prompts.
///
/// The stub uses the first rule whose text occurs in the prompt. The first step of the rule answers the prompt, the
/// second step answers the results of the tools that the first one called, and so on. The transcript in the request
/// determines the step, so a script works across restarts, resumes and forks. Without a matching rule the stub repeats
/// the prompt; after the last step it answers `Done.`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Rules, in the order in which they are tried.
    pub rules: Vec<ScriptRule>,
    /// Answer to a CLI's request for a summary of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Answer to a CLI's request for a title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Replies to a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptRule {
    /// Text that the prompt must contain.
    #[serde(rename = "on")]
    pub prompt_text: String,
    /// Replies, one per round.
    pub steps: Vec<Reply>,
}

impl Script {
    /// Creates a script without rules, which repeats every prompt.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the replies to prompts that contain `prompt_text`. The first matching rule applies.
    #[must_use]
    pub fn with_rule(mut self, prompt_text: &str, steps: impl IntoIterator<Item = Reply>) -> Self {
        self.rules.push(ScriptRule {
            prompt_text: prompt_text.to_owned(),
            steps: steps.into_iter().collect(),
        });
        self
    }

    /// Sets the answer to requests for a summary.
    #[must_use]
    pub fn with_summary(mut self, text: &str) -> Self {
        self.summary = Some(text.to_owned());
        self
    }

    /// Sets the answer to requests for a title.
    #[must_use]
    pub fn with_title(mut self, text: &str) -> Self {
        self.title = Some(text.to_owned());
        self
    }
}

/// A reply of the model. The stub sends it as an answer in the format of the API that the request uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Thoughts before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "think")]
    pub thoughts: Option<String>,
    /// Text, which is streamed in several chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Tool calls after the text, all in the same round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Reported tokens.
    pub usage: StubUsage,
    /// Milliseconds before the answer begins.
    pub delay_ms: u64,
    /// Milliseconds before each event of a streamed answer.
    pub pace_ms: u64,
    /// Failure that is sent instead of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fail")]
    pub failure: Option<StubFailure>,
    /// Number of requests that fail before the reply is sent. `None` if every request fails. Ignored without `failure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "times")]
    pub failure_count: Option<u32>,
}

impl Reply {
    /// Creates a reply with text.
    pub fn from_text(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            ..Self::default()
        }
    }

    /// Creates a reply that consists of a tool call only.
    pub fn from_call(call: ScriptedCall) -> Self {
        Self::default().with_call(call)
    }

    /// Creates a reply without content, instead of which the failure is always sent.
    pub fn from_failure(failure: StubFailure) -> Self {
        Self::default().with_failure(failure)
    }

    /// Adds thoughts before the text.
    #[must_use]
    pub fn with_thoughts(mut self, thoughts: &str) -> Self {
        self.thoughts = Some(thoughts.to_owned());
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn with_call(mut self, call: ScriptedCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Sets the reported tokens.
    #[must_use]
    pub fn with_usage(mut self, usage: StubUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the delay before the answer begins.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay_ms = to_millis(delay);
        self
    }

    /// Sets the delay before each event of a streamed answer.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace_ms = to_millis(pace);
        self
    }

    /// Sends the failure instead of the reply, to every request. A [`StubFailure::Cut`] or [`StubFailure::Stall`]
    /// occurs after the beginning of the reply's text.
    #[must_use]
    pub fn with_failure(mut self, failure: StubFailure) -> Self {
        self.failure = Some(failure);
        self.failure_count = None;
        self
    }

    /// Sends the failure to the first `count` requests for this step, and then the reply.
    #[must_use]
    pub fn with_failures(mut self, failure: StubFailure, count: u32) -> Self {
        self.failure = Some(failure);
        self.failure_count = Some(count);
        self
    }
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A tool call. `Shell`, `Read` and `Write` are adapted to the tools that the request offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScriptedCall {
    /// Command line to run.
    Shell(String),
    /// File to read. Absolute paths work with all tools.
    Read(String),
    /// File to create or replace. Absolute paths work with all tools.
    Write {
        /// Path of the file.
        path: String,
        /// Complete content of the file.
        content: String,
    },
    /// Tool of the request, with an unchanged input.
    Tool {
        /// Name in the request; `NAMESPACE__NAME` for a tool in a namespace.
        name: String,
        /// Arguments of the call.
        input: Value,
    },
}

impl ScriptedCall {
    /// Creates a call that runs a command line.
    pub fn shell(command: &str) -> Self {
        Self::Shell(command.to_owned())
    }

    /// Creates a call that reads a file.
    pub fn read(path: impl AsRef<std::path::Path>) -> Self {
        Self::Read(path.as_ref().to_string_lossy().into_owned())
    }

    /// Creates a call that writes a complete file.
    pub fn write(path: impl AsRef<std::path::Path>, content: &str) -> Self {
        Self::Write {
            path: path.as_ref().to_string_lossy().into_owned(),
            content: content.to_owned(),
        }
    }

    /// Creates a call of a tool by its name.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::Tool {
            name: name.to_owned(),
            input,
        }
    }
}

/// Token counts that the APIs report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StubUsage {
    /// Tokens sent. For `OpenAI` and Gemini they include the tokens read from the cache, for Anthropic they do not.
    pub input: u64,
    /// Tokens received. For `OpenAI` they include thoughts, for Gemini they do not, and Anthropic does not report
    /// thoughts.
    pub output: u64,
    /// Tokens of thoughts.
    pub thoughts: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache. Only Anthropic reports them.
    pub cache_write: u64,
}

/// Default values are all different and not zero, so that a test detects swapped counts.
impl Default for StubUsage {
    fn default() -> Self {
        Self {
            input: 101,
            output: 20,
            thoughts: 5,
            cache_read: 11,
            cache_write: 7,
        }
    }
}

/// Failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StubFailure {
    /// Status 429, with the time to wait before a retry.
    RateLimit {
        /// Time to wait, in seconds.
        retry_after: u64,
    },
    /// Status 401.
    Unauthorized,
    /// Status 500.
    #[serde(rename = "server")]
    ServerError,
    /// Status 400.
    BadRequest,
    /// Error for a conversation that is too long for the model, in the form that each API uses.
    #[serde(rename = "too_long")]
    PromptTooLong,
    /// Answer that begins and then sends no more data until the stub stops or ten minutes have passed.
    Stall,
    /// Answer that begins and then breaks off, because the stub closes the connection.
    Cut,
}
