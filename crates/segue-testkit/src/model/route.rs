//! Routes of the stub, and the answers that need no script.

use serde_json::{Value, json};

use super::request::{ApiFormat, ModelRequest};
use super::script::Script;
use super::server::not_found_body;
use super::side_requests::{self, SideRequestKind};

/// Purpose of a request, according to its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Generation(ApiFormat),
    TokenCount(ApiFormat),
    ModelList,
    /// Compaction by the Responses API.
    Compaction,
    Unknown,
}

impl Route {
    pub(crate) fn api_format(self) -> ApiFormat {
        match self {
            Self::Generation(api_format) | Self::TokenCount(api_format) => api_format,
            Self::Compaction => ApiFormat::Responses,
            Self::ModelList | Self::Unknown => ApiFormat::Unknown,
        }
    }
}

/// Returns the route of a path. The version prefix is ignored, because base URLs may contain it or not.
pub(crate) fn parse_route(method: &str, path: &str) -> Route {
    let path = path.split('?').next().unwrap_or_default();
    if method == "GET" {
        let is_model_list = path.ends_with("/models") || path.contains("/models/");
        return if is_model_list {
            Route::ModelList
        } else {
            Route::Unknown
        };
    }
    let suffixes: [(&str, Route); 7] = [
        ("/messages", Route::Generation(ApiFormat::Anthropic)),
        (
            "/messages/count_tokens",
            Route::TokenCount(ApiFormat::Anthropic),
        ),
        ("/responses", Route::Generation(ApiFormat::Responses)),
        ("/responses/compact", Route::Compaction),
        (":generateContent", Route::Generation(ApiFormat::Gemini)),
        (
            ":streamGenerateContent",
            Route::Generation(ApiFormat::Gemini),
        ),
        (":countTokens", Route::TokenCount(ApiFormat::Gemini)),
    ];
    let matched = suffixes.iter().find(|(suffix, _)| path.ends_with(suffix));
    matched.map_or(Route::Unknown, |(_, route)| *route)
}

/// Returns the model in `/v1beta/models/MODEL:verb`.
pub(crate) fn find_model_in_path(path: &str) -> Option<&str> {
    path.split_once("/models/")?.1.split([':', '?']).next()
}

/// Returns the status and the body of an answer that needs no script.
pub(crate) fn unscripted_response(
    route: Route,
    request: &ModelRequest,
    script: &Script,
) -> (u16, Value) {
    match route {
        Route::TokenCount(ApiFormat::Gemini) => (200, json!({"totalTokens": 101})),
        Route::TokenCount(_) => (200, json!({"input_tokens": 101})),
        Route::ModelList => (200, model_list()),
        Route::Compaction => (200, compaction_response(request, script)),
        Route::Generation(_) | Route::Unknown => (404, not_found_body(&request.path)),
    }
}

/// Returns one list of models for all APIs, with the fields of each.
fn model_list() -> Value {
    let shared_entry = |id: &str| {
        json!({
            "id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z",
            "object": "model", "created": 1_700_000_000, "owned_by": "stub",
        })
    };
    let gemini_entry = |id: &str| {
        json!({
            "name": format!("models/{id}"), "displayName": id,
            "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    json!({
        "object": "list",
        "data": [shared_entry("stub-model"), shared_entry("stub-model-small")],
        "has_more": false,
        "first_id": "stub-model",
        "last_id": "stub-model-small",
        "models": [gemini_entry("gemini-2.5-flash"), gemini_entry("gemini-2.5-pro")],
    })
}

fn compaction_response(request: &ModelRequest, script: &Script) -> Value {
    let summary = side_requests::answer_side_request(
        SideRequestKind::Summary,
        request.api_format,
        &request.body,
        script,
    );
    json!({
        "id": "resp_stub_compact",
        "object": "response.compaction",
        "output": [{"type": "compaction", "encrypted_content": summary}],
    })
}
