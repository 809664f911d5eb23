//! Encoding of a project context on disk, with a version number.

use serde::{Deserialize, Serialize};

use super::{ContextSource, ProjectContext};

/// Version that this build writes.
const CONTEXT_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct EncodedContext {
    v: u32,
    #[serde(flatten)]
    context: ProjectContext,
    sources: Vec<(String, String)>,
}

/// Error of a stored text that cannot be decoded as a project context.
#[derive(Debug, thiserror::Error)]
#[error("invalid project context: {0}")]
pub struct ContextError(String);

/// Encodes a project context and the sources from which it was gathered.
#[must_use]
pub fn encode_context(context: &ProjectContext, sources: &[ContextSource]) -> String {
    let encoded = EncodedContext {
        v: CONTEXT_FORMAT_VERSION,
        context: context.clone(),
        sources: sources
            .iter()
            .map(|source| (source.name.clone(), source.stamp.clone()))
            .collect(),
    };
    // Serialising strings and numbers into a `String` cannot fail.
    serde_json::to_string(&encoded).unwrap_or_default()
}

/// Decodes a project context and the sources from which it was gathered. Fails if the text is not valid JSON of this
/// form or has another version.
pub fn decode_context(text: &str) -> Result<(ProjectContext, Vec<ContextSource>), ContextError> {
    let EncodedContext {
        v,
        context,
        sources,
    } = serde_json::from_str(text).map_err(|error| ContextError(error.to_string()))?;
    if v != CONTEXT_FORMAT_VERSION {
        return Err(ContextError(format!("version {v} is not supported")));
    }
    let source = |(name, stamp)| ContextSource { name, stamp };
    Ok((context, sources.into_iter().map(source).collect()))
}
