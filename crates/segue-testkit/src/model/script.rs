//! What the stub answers: rules, steps, and the failures that are asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the model is to say to which prompt.
///
/// A rule belongs to a prompt, its steps to the rounds of that prompt: the first step answers the prompt, the
/// second answers the results of the tools that the first one called, and so on. Which step it is follows from
/// the request alone, so a script works over restarts, resumes and forks. Without a rule the stub repeats the
/// prompt; past the last step it says `Done.`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// In the order in which they are tried.
    pub rules: Vec<Rule>,
    /// What is answered when a CLI wants a conversation to be summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What is answered when a CLI wants a title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The answers to one prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the prompt contains.
    pub on: String,
    /// One reply a round.
    pub steps: Vec<Reply>,
}

impl Script {
    /// A script without rules: every prompt is repeated.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the answers to prompts that contain `prompt`. The first rule that fits counts.
    #[must_use]
    pub fn on(mut self, prompt: &str, steps: impl IntoIterator<Item = Reply>) -> Self {
        self.rules.push(Rule {
            on: prompt.to_owned(),
            steps: steps.into_iter().collect(),
        });
        self
    }

    /// What conversations are summed up to.
    #[must_use]
    pub fn summary(mut self, text: &str) -> Self {
        self.summary = Some(text.to_owned());
        self
    }

    /// What conversations are called.
    #[must_use]
    pub fn title(mut self, text: &str) -> Self {
        self.title = Some(text.to_owned());
        self
    }
}

/// One reply of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Thoughts before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// The text; it is streamed in several pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Tools that are called after the text, side by side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The tokens that are accounted for.
    pub usage: Usage,
    /// Milliseconds before the answer begins.
    pub delay_ms: u64,
    /// Milliseconds between two pieces of a streamed answer.
    pub pace_ms: u64,
    /// What happens instead of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Failure>,
    /// How often it fails before the reply is given; always, if this is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

impl Reply {
    /// A reply of text.
    pub fn say(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            ..Self::default()
        }
    }

    /// A reply that is nothing but a call.
    pub fn calling(call: Call) -> Self {
        Self::default().call(call)
    }

    /// A request that always fails.
    pub fn fail(failure: Failure) -> Self {
        Self::default().failing(failure)
    }

    /// Puts thoughts before the text.
    #[must_use]
    pub fn think(mut self, thoughts: &str) -> Self {
        self.think = Some(thoughts.to_owned());
        self
    }

    /// Calls one more tool.
    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// Accounts for these tokens.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Waits before the answer begins.
    #[must_use]
    pub fn delay(mut self, time: Duration) -> Self {
        self.delay_ms = millis(time);
        self
    }

    /// Waits between the pieces of a streamed answer.
    #[must_use]
    pub fn pace(mut self, time: Duration) -> Self {
        self.pace_ms = millis(time);
        self
    }

    /// Always fails. What the reply says is begun and never finished, if it is cut or stalls.
    #[must_use]
    pub fn failing(mut self, failure: Failure) -> Self {
        self.fail = Some(failure);
        self.times = None;
        self
    }

    /// Fails so many times, then gives the reply.
    #[must_use]
    pub fn failing_times(mut self, failure: Failure, times: u32) -> Self {
        self.fail = Some(failure);
        self.times = Some(times);
        self
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A tool call. The first three are put into the words of whatever tools the request offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// Runs a command line.
    Shell(String),
    /// Reads a file; absolute paths work everywhere.
    Read(String),
    /// Writes a whole file; absolute paths work everywhere.
    Write {
        /// The file.
        path: String,
        /// All of it.
        content: String,
    },
    /// Calls exactly this tool with exactly this input.
    Tool {
        /// As the request offers it; `SPACE__NAME` for tools that are offered in a namespace.
        name: String,
        /// The arguments.
        input: Value,
    },
}

impl Call {
    /// Runs a command line.
    pub fn shell(command: &str) -> Self {
        Self::Shell(command.to_owned())
    }

    /// Reads a file.
    pub fn read(path: impl AsRef<std::path::Path>) -> Self {
        Self::Read(path.as_ref().to_string_lossy().into_owned())
    }

    /// Writes a whole file.
    pub fn write(path: impl AsRef<std::path::Path>, content: &str) -> Self {
        Self::Write {
            path: path.as_ref().to_string_lossy().into_owned(),
            content: content.to_owned(),
        }
    }

    /// Calls a tool by its name.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::Tool {
            name: name.to_owned(),
            input,
        }
    }
}

/// Tokens, as the dialects can tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Sent. `OpenAI` and Gemini count what came from the cache among them, Anthropic does not.
    pub input: u64,
    /// Received. `OpenAI` counts the thoughts among them, Gemini does not, Anthropic does not tell.
    pub output: u64,
    /// Thoughts.
    pub thoughts: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache; only Anthropic tells.
    pub cache_write: u64,
}

/// All different and none of them zero, so that a mix-up shows.
impl Default for Usage {
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

/// How a request can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// 429, with a hint when to come back.
    RateLimit {
        /// Seconds.
        retry_after: u64,
    },
    /// 401.
    Unauthorized,
    /// 500.
    Server,
    /// 400.
    BadRequest,
    /// The conversation does not fit the model, in the dialect's own words.
    TooLong,
    /// Begins to answer and then says nothing any more, until the stub ends or ten minutes are over.
    Stall,
    /// Begins to answer and then drops the connection.
    Cut,
}
