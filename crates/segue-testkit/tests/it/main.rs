//! Tests of the model stub over plain HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod answers;
mod api_formats;
mod failures;
mod http;
mod real;
mod side_requests;
mod tools;

use serde_json::{Value, json};

/// The three APIs of the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestApi {
    Anthropic,
    Responses,
    Gemini,
}

const ALL_APIS: [TestApi; 3] = [TestApi::Anthropic, TestApi::Responses, TestApi::Gemini];

impl TestApi {
    /// Returns the path and the body of a request with one prompt and a shell tool.
    fn build_request(self, prompt: &str, streaming: bool) -> (String, Value) {
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        match self {
            Self::Anthropic => (
                "/v1/messages?beta=true".to_owned(),
                json!({
                    "model": "m", "stream": streaming,
                    "tools": [{"name": "Bash", "input_schema": schema}],
                    "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}]}],
                }),
            ),
            Self::Responses => (
                "/v1/responses".to_owned(),
                json!({
                    "model": "m", "stream": streaming,
                    "tools": [{"type": "function", "name": "shell", "parameters": schema}],
                    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}],
                }),
            ),
            Self::Gemini => (
                if streaming {
                    "/v1beta/models/m:streamGenerateContent?alt=sse".to_owned()
                } else {
                    "/v1beta/models/m:generateContent".to_owned()
                },
                json!({
                    "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": schema}]}],
                    "contents": [{"role": "user", "parts": [{"text": prompt}]}],
                }),
            ),
        }
    }
}
