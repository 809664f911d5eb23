//! Hints of the command line's own errors: text and suggested actions.

use segue_api::text::{ActionText, format_hint};
use segue_core::hint::{Hint, SuggestedAction};

/// Advice for the user: text, and the actions that it suggests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HintText(Vec<HintSegment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum HintSegment {
    Text(String),
    Action(SuggestedAction),
    /// The hint of a failed turn.
    Hint(Hint),
}

impl HintText {
    /// Appends text.
    #[must_use]
    pub(crate) fn with_text(mut self, text: impl Into<String>) -> Self {
        self.0.push(HintSegment::Text(text.into()));
        self
    }

    /// Appends a suggested action.
    #[must_use]
    pub(crate) fn with_action(mut self, action: SuggestedAction) -> Self {
        self.0.push(HintSegment::Action(action));
        self
    }

    /// Formats the hint in the words of a frontend.
    #[must_use]
    pub(crate) fn format(&self, action_text: &dyn ActionText) -> String {
        let segments = self.0.iter().map(|segment| match segment {
            HintSegment::Text(text) => text.clone(),
            HintSegment::Action(action) => action_text.format_action(action),
            HintSegment::Hint(hint) => format_hint(hint, action_text),
        });
        segments.collect()
    }
}

impl From<String> for HintText {
    fn from(text: String) -> Self {
        Self::default().with_text(text)
    }
}

impl From<&str> for HintText {
    fn from(text: &str) -> Self {
        Self::default().with_text(text)
    }
}

impl From<SuggestedAction> for HintText {
    fn from(action: SuggestedAction) -> Self {
        Self::default().with_action(action)
    }
}

impl From<Hint> for HintText {
    fn from(hint: Hint) -> Self {
        Self(vec![HintSegment::Hint(hint)])
    }
}
