//! Read access to conversations: lists, searches, transcripts and spending.

pub(crate) mod conversations;
pub(crate) mod history;
pub(crate) mod index_sync;
pub(crate) mod plain_text;
pub(crate) mod search;
pub(crate) mod spending;
