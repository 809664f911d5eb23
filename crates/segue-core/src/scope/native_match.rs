//! Matching of native sessions to a purpose, for sessions that the store does not contain.

use jiff::{SignedDuration, Timestamp};

use super::{Purpose, Scope, TaggedPrompt};
use crate::enum_names::named_enum;
use crate::session::{Title, TitleSource};

/// Maximum time since the last use of a native session that can match a feature or a task.
pub const NATIVE_MATCH_WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns `true` if `at` is at most [`NATIVE_MATCH_WINDOW`] before `now`; exactly seven days still count.
#[must_use]
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= NATIVE_MATCH_WINDOW
}

/// Properties of a native session that show its purpose.
#[derive(Debug, Clone, Copy)]
pub struct NativeSummary<'a> {
    /// First prompt of the user, including its tags; `None` if there is none.
    pub first_prompt: Option<&'a str>,
    /// Title of the native session; `None` if it has none.
    pub title: Option<&'a Title>,
    /// Time of the last activity in the native session.
    pub updated_at: Timestamp,
}

named_enum! {
    /// Evidence that matches a native session to a purpose.
    pub enum PurposeEvidence {
        /// The tags at the start of the first prompt.
        Tag => "tag",
        /// The title, which equals the name of the feature.
        Title => "title",
    }
}

impl Purpose {
    /// Returns the evidence that a native session belongs to this purpose; `None` if it does not.
    ///
    /// Tags take precedence over a title: a session with the tags of another purpose belongs to that purpose, whatever
    /// its title is. A title that was derived from the prompt is no evidence, and no title is evidence for a task or a
    /// role.
    #[must_use]
    pub fn match_native(
        &self,
        native: &NativeSummary<'_>,
        now: Timestamp,
    ) -> Option<PurposeEvidence> {
        if !is_recent(native.updated_at, now) || self.scope == Scope::Project {
            return None;
        }
        if let Some(tagged) = native.first_prompt.and_then(TaggedPrompt::parse) {
            return (tagged.purpose == *self).then_some(PurposeEvidence::Tag);
        }
        match (&self.scope, &self.role, native.title) {
            (Scope::Feature(feature), None, Some(title))
                if title.source() != TitleSource::Prompt && title.as_str() == feature.as_str() =>
            {
                Some(PurposeEvidence::Title)
            }
            _ => None,
        }
    }
}
