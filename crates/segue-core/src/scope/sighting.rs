//! Which native session was that of a purpose, where the store does not know?

use jiff::{SignedDuration, Timestamp};

use super::{Purpose, Scope, Tagged};
use crate::{Title, TitleSource};

/// How long ago a native session may have been used to be taken for the one of a feature or a task.
pub const RECENT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Whether something happened recently enough; exactly seven days ago still counts.
#[must_use]
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= RECENT
}

/// What tells of a native session what it was for.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// The first thing that a person asked in it, from its beginning.
    pub first_prompt: Option<&'a str>,
    /// What it is called.
    pub title: Option<&'a Title>,
    /// When something last happened in it.
    pub updated_at: Timestamp,
}

/// By what a native session was known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The tags at the start of its first prompt.
    Tag,
    /// Its title, which is the name of the feature.
    Title,
}

impl Purpose {
    /// Whether a native session was that of this purpose, and by what that is known.
    ///
    /// Tags are believed before a title: a session with the tags of something else is something else's, whatever it is
    /// called. A title that was only made from the prompt says nothing, and none says anything of a task or of a role.
    #[must_use]
    pub fn is_that_of(&self, seen: &Sighting<'_>, now: Timestamp) -> Option<Evidence> {
        if !is_recent(seen.updated_at, now) || self.scope == Scope::Project {
            return None;
        }
        if let Some(tagged) = seen.first_prompt.and_then(Tagged::read) {
            return (tagged.purpose == *self).then_some(Evidence::Tag);
        }
        match (&self.scope, &self.role, seen.title) {
            (Scope::Feature(feature), None, Some(title))
                if title.source() != TitleSource::Prompt && title.as_str() == feature.as_str() =>
            {
                Some(Evidence::Title)
            }
            _ => None,
        }
    }
}
