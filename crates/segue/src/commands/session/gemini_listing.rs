//! Listing of native sessions by the agent itself, for files that segue cannot read.
//!
//! Only Gemini CLI supports this. segue uses it as the last resort and only on request, because it takes seconds, calls
//! the model, and triggers Gemini CLI's own cleanup of sessions. It lists only the sessions of the directory in which
//! it runs.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use segue_catalog::{
    GeminiListedSession, IdHint, NativeSession, NativeSessionKind, SessionHead, SessionLocation,
    parse_listing,
};
use segue_core::id::ProviderId;
use segue_core::session::{Title, TitleSource};
use segue_engine::{Conversation, ConversationList, NativeEntry};
use segue_providers::known;
use segue_store::SessionFilter;

use crate::app::{self, App};
use crate::error::CliError;
use crate::terminal::{eprint_note, format_plural};

const GEMINI_PROVIDER: &str = "gemini";

/// Timeout of the listing. Gemini CLI takes five seconds to start and then requests a title from the model.
const LISTING_TIMEOUT: Duration = Duration::from_mins(1);

pub(super) fn is_gemini(provider: &ProviderId) -> bool {
    provider.as_str() == GEMINI_PROVIDER
}

/// Returns `true` if Gemini CLI could add sessions: some of its files exist, but none could be read. A single
/// unreadable file is not sufficient, because every start of Gemini CLI triggers its own cleanup.
pub(super) fn can_add_sessions(filter: &SessionFilter, conversations: &ConversationList) -> bool {
    let unreadable = conversations.unreadable.iter();
    let has_read_sessions = conversations.rows.iter().any(
        |row| matches!(row, Conversation::Native(native) if is_gemini(&native.session.provider)),
    );
    let mut unreadable = unreadable.map(|(provider, _)| provider);
    let is_requested =
        filter.provider.as_ref().is_none_or(is_gemini) && !filter.is_own_sessions_only();
    is_requested && !has_read_sessions && unreadable.any(is_gemini)
}

/// Adds the sessions that Gemini CLI lists itself, if the list lacks them.
pub(super) async fn add_listed_sessions(
    app: &App,
    filter: &SessionFilter,
    limit: u32,
    conversations: &mut ConversationList,
) {
    let Ok(provider) = ProviderId::parse(GEMINI_PROVIDER) else {
        return;
    };
    if !can_add_sessions(filter, conversations) {
        return;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = known::find_program(GEMINI_PROVIDER, &path) else {
        eprint_note("cannot list sessions with Gemini CLI: `gemini` is not on PATH");
        return;
    };
    eprint_note("listing sessions with Gemini CLI; this takes a few seconds");
    let cwd = Path::new(&app.project.cwd);
    let output = known::read_program_output(
        &program,
        &["--list-sessions"],
        cwd,
        &app::leash(),
        LISTING_TIMEOUT,
    )
    .await;
    let Some(text) = output else {
        eprint_note("Gemini CLI returned no list");
        return;
    };
    let listing = parse_listing(&text, Timestamp::now());
    if listing.skipped > 0 {
        let lines = format_plural(listing.skipped, "line");
        eprint_note(&format!(
            "ignored {lines} of Gemini CLI's list: unknown format"
        ));
    }
    let listed_sessions = listing.sessions.into_iter();
    let natives =
        listed_sessions.map(|listed| native_from_listing(app, &provider, &program, listed));
    let is_in_period = |native: &NativeEntry| {
        let updated = native.session.head.updated_at;
        filter.since.is_none_or(|since| updated >= since)
    };
    let natives = natives.filter(is_in_period).collect();
    let library = app.engine.library();
    let adding = library.add_unattached_natives(conversations, natives, limit);
    if let Err(error) = adding.await {
        eprint_note(&CliError::from(error).message);
    }
}

/// Builds a native session from a line of the listing. Its path is the program, because the file is unknown.
fn native_from_listing(
    app: &App,
    provider: &ProviderId,
    program: &Path,
    listed: GeminiListedSession,
) -> NativeEntry {
    let updated_at = listed.updated_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let session = NativeSession {
        provider: provider.clone(),
        location: SessionLocation {
            path: program.to_owned(),
            id_hint: IdHint::Complete(listed.id.to_string()),
            size: 0,
            modified: updated_at,
            archived: false,
        },
        head: SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some(app.project.cwd.clone()),
            title: Title::new(&listed.title, TitleSource::Prompt).ok(),
            ..SessionHead::new(listed.id, updated_at)
        },
    };
    NativeEntry {
        session,
        project: Some(app.project.key.clone()),
        details: None,
    }
}
