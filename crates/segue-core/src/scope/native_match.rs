//! Matching of native sessions to a purpose, for sessions that the store does not contain.

use jiff::{SignedDuration, Timestamp};

use super::{Purpose, Scope, Tagged};
use crate::session::{Title, TitleSource};

/// Maximum time since the last use of a native session that can match a feature or a task.
pub const RECENT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns `true` if `at` is at most [`RECENT`] before `now`; exactly seven days still count.
#[must_use]
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= RECENT
}

/// Properties of a native session that show its purpose.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// First prompt of the user, including its beginning; `None` if there is none.
    pub first_prompt: Option<&'a str>,
    /// Title of the native session; `None` if it has none.
    pub title: Option<&'a Title>,
    /// Time of the last activity in the native session.
    pub updated_at: Timestamp,
}

/// Evidence that matches a native session to a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The tags at the start of the first prompt.
    Tag,
    /// The title, which equals the name of the feature.
    Title,
}

impl Purpose {
    /// Returns the evidence that a native session belongs to this purpose; `None` if it does not.
    ///
    /// Tags take precedence over a title: a session with the tags of another purpose belongs to that purpose, whatever
    /// its title is. A title that was derived from the prompt is no evidence, and no title is evidence for a task or a
    /// role.
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
