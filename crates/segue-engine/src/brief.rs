//! Briefs: the text that a new native session receives before its first prompt.

pub(crate) mod added_messages;
pub(crate) mod compose;
pub(crate) mod project_context;
pub(crate) mod reminder;
