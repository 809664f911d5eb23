//! Scripts of the stub: rules, steps and requested failures.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The model's replies to prompts.
///
/// A rule applies to a prompt, and its steps to the rounds of that prompt: the first step answers the prompt, the
/// second answers the results of the tools that the first one called, and so on. The request alone determines the step,
/// so a script works across restarts, resumes and forks. Without a matching rule the stub repeats the prompt; after the
/// last step it answers `Done.`
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

    /// Adds the replies to prompts that contain `prompt`. The first matching rule applies.
    #[must_use]
    pub fn with_rule(mut self, prompt: &str, steps: impl IntoIterator<Item = Reply>) -> Self {
        self.rules.push(ScriptRule {
            prompt_text: prompt.to_owned(),
            steps: steps.into_iter().collect(),
        });
        self
    }

    /// Sets the summary of conversations.
    #[must_use]
    pub fn with_summary(mut self, text: &str) -> Self {
        self.summary = Some(text.to_owned());
        self
    }

    /// Sets the title of conversations.
    #[must_use]
    pub fn with_title(mut self, text: &str) -> Self {
        self.title = Some(text.to_owned());
        self
    }
}

/// A reply of the model.
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
    /// Failure that replaces the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fail")]
    pub failure: Option<StubFailure>,
    /// Number of failures before the reply is sent. `None` if every request fails.
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

    /// Creates a reply that always fails.
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

    /// Makes the reply always fail. If the failure is a cut or a stall, the answer begins with the text of the reply
    /// and does not finish.
    #[must_use]
    pub fn with_failure(mut self, failure: StubFailure) -> Self {
        self.failure = Some(failure);
        self.failure_count = None;
        self
    }

    /// Makes the reply fail `count` times before it is sent.
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
    /// Exactly this tool, with exactly this input.
    Tool {
        /// Name in the request; `SPACE__NAME` for a tool in a namespace.
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

/// Default values are all different and not zero, so that a test detects a mix-up.
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
    /// Conversation too long for the model, reported as the API does it.
    #[serde(rename = "too_long")]
    PromptTooLong,
    /// Answer that begins and then sends no more data until the stub stops or ten minutes have passed.
    Stall,
    /// Answer that begins and then loses its connection.
    Cut,
}
