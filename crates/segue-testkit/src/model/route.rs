//! Routes of the stub, and the answers that need no script.

use serde_json::{Value, json};

use super::request::{Dialect, ModelRequest};
use super::script::Script;
use super::server::missing;
use super::side_requests::{self, Side};

/// Purpose of a request, according to its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Dialect),
    Count(Dialect),
    Models,
    /// Compaction by the Responses API.
    Compact,
    Missing,
}

impl Route {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Generate(dialect) | Self::Count(dialect) => dialect,
            Self::Compact => Dialect::Responses,
            Self::Models | Self::Missing => Dialect::Unknown,
        }
    }
}

/// Returns the route of a path. The version prefix is ignored, because base URLs may contain it or not.
pub(crate) fn of(method: &str, path: &str) -> Route {
    let path = path.split('?').next().unwrap_or_default();
    if method == "GET" {
        let listed = path.ends_with("/models") || path.contains("/models/");
        return if listed {
            Route::Models
        } else {
            Route::Missing
        };
    }
    let ends: [(&str, Route); 7] = [
        ("/messages", Route::Generate(Dialect::Anthropic)),
        ("/messages/count_tokens", Route::Count(Dialect::Anthropic)),
        ("/responses", Route::Generate(Dialect::Responses)),
        ("/responses/compact", Route::Compact),
        (":generateContent", Route::Generate(Dialect::Gemini)),
        (":streamGenerateContent", Route::Generate(Dialect::Gemini)),
        (":countTokens", Route::Count(Dialect::Gemini)),
    ];
    let found = ends.iter().find(|(end, _)| path.ends_with(end));
    found.map_or(Route::Missing, |(_, route)| *route)
}

/// Returns the model in `/v1beta/models/MODEL:verb`.
pub(crate) fn model_in_path(path: &str) -> Option<&str> {
    path.split_once("/models/")?.1.split([':', '?']).next()
}

/// Returns the status and the body of an answer that needs no script.
pub(crate) fn plain(route: Route, request: &ModelRequest, script: &Script) -> (u16, Value) {
    match route {
        Route::Count(Dialect::Gemini) => (200, json!({"totalTokens": 101})),
        Route::Count(_) => (200, json!({"input_tokens": 101})),
        Route::Models => (200, models()),
        Route::Compact => (200, compacted(request, script)),
        Route::Generate(_) | Route::Missing => (404, missing(&request.path)),
    }
}

/// Returns one list of models for all APIs, with the fields of each.
fn models() -> Value {
    let both = |id: &str| {
        json!({
            "id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z",
            "object": "model", "created": 1_700_000_000, "owned_by": "stub",
        })
    };
    let gemini = |id: &str| {
        json!({
            "name": format!("models/{id}"), "displayName": id,
            "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    json!({
        "object": "list",
        "data": [both("stub-model"), both("stub-model-small")],
        "has_more": false,
        "first_id": "stub-model",
        "last_id": "stub-model-small",
        "models": [gemini("gemini-2.5-flash"), gemini("gemini-2.5-pro")],
    })
}

fn compacted(request: &ModelRequest, script: &Script) -> Value {
    let summary = side_requests::answer(Side::Summary, request.dialect, &request.body, script);
    json!({
        "id": "resp_stub_compact",
        "object": "response.compaction",
        "output": [{"type": "compaction", "encrypted_content": summary}],
    })
}
