//! Encoding of a project context on disk, with a version number.

use serde::{Deserialize, Serialize};

use super::{ContextSource, ProjectContext};
use crate::encoding::{decode_versioned, encode_versioned};

/// Version that this build writes.
const CONTEXT_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct EncodedContext {
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
    let source = |source: &ContextSource| (source.name.clone(), source.stamp.clone());
    let encoded = EncodedContext {
        context: context.clone(),
        sources: sources.iter().map(source).collect(),
    };
    encode_versioned(CONTEXT_FORMAT_VERSION, &encoded)
}

/// Decodes a project context and the sources from which it was gathered. Fails if the text is not valid JSON of this
/// form or has another version.
pub fn decode_context(text: &str) -> Result<(ProjectContext, Vec<ContextSource>), ContextError> {
    let encoded: EncodedContext =
        decode_versioned(CONTEXT_FORMAT_VERSION, text).map_err(ContextError)?;
    let source = |(name, stamp)| ContextSource { name, stamp };
    let sources = encoded.sources.into_iter().map(source);
    Ok((encoded.context, sources.collect()))
}
