//! Listing of native sessions by the agent itself, for files that segue cannot read.
//!
//! Only Gemini CLI supports this. segue uses it as the last resort and only on request, because it takes seconds, calls
//! the model, and triggers Gemini CLI's own cleanup of sessions. It lists only the sessions of the directory in which
//! it runs.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use segue_agents::known;
use segue_catalog::{Found, Head, IdHint, Kind, Listed, NativeSession, parse_listing};
use segue_core::id::ProviderId;
use segue_core::session::{Title, TitleSource};
use segue_engine::{Conversation, Conversations, Native};
use segue_store::Filter;

use crate::app::{self, App};
use crate::error::CliError;
use crate::terminal::{Style, say};

const GEMINI: &str = "gemini";

/// Timeout of the listing. Gemini CLI takes five seconds to start and then requests a title from the model.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn is_gemini(provider: &ProviderId) -> bool {
    provider.as_str() == GEMINI
}

/// Returns `true` if Gemini CLI could add sessions: some of its files exist, but none could be read. A single
/// unreadable file is not sufficient, because every start of Gemini CLI triggers its own cleanup.
pub(super) fn would_help(filter: &Filter, conversations: &Conversations) -> bool {
    let unreadable = conversations.unreadable.iter();
    let read = conversations.rows.iter().any(|row| match row {
        Conversation::Session(..) => false,
        Conversation::Native(native) => is_gemini(&native.session.provider),
    });
    let mut unreadable = unreadable.map(|(provider, _)| provider);
    let wanted = filter.provider.as_ref().is_none_or(is_gemini) && !filter.is_own();
    wanted && !read && unreadable.any(is_gemini)
}

/// Adds the sessions that Gemini CLI lists itself, if the list lacks them.
pub(super) async fn complete(
    app: &App,
    filter: &Filter,
    limit: u32,
    now: Timestamp,
    conversations: &mut Conversations,
) {
    let Ok(provider) = ProviderId::parse(GEMINI) else {
        return;
    };
    if !would_help(filter, conversations) {
        return;
    }
    let mark = Style::stderr().yellow("segue:");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = known::find(GEMINI, &path) else {
        say(&format!(
            "{mark} Gemini CLI is not on PATH, so it can't be asked"
        ));
        return;
    };
    say(&format!(
        "{mark} asking Gemini CLI itself, which takes some seconds"
    ));
    let cwd = Path::new(&app.project.cwd);
    let asked = known::ask(&program, &["--list-sessions"], cwd, &app::leash(), PATIENCE).await;
    let Some(text) = asked else {
        say(&format!("{mark} it gave no answer"));
        return;
    };
    let listing = parse_listing(&text, now);
    if listing.skipped > 0 {
        say(&format!(
            "{mark} {} line(s) of its answer make no sense",
            listing.skipped
        ));
    }
    let told = listing.sessions.into_iter();
    let told = told.map(|listed| native(app, &provider, &program, listed));
    let fits = |native: &Native| {
        let updated = native.session.head.updated_at;
        filter.since.is_none_or(|since| updated >= since)
    };
    let added = app
        .engine
        .add_natives(conversations, told.filter(fits).collect(), limit)
        .await;
    if let Err(error) = added {
        say(&format!("{mark} {}", CliError::from(error).message));
    }
}

/// Builds a native session from a line of the listing. Its path is the program, because the file is unknown.
fn native(app: &App, provider: &ProviderId, program: &Path, listed: Listed) -> Native {
    let updated_at = listed.updated_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let session = NativeSession {
        provider: provider.clone(),
        found: Found {
            path: program.to_owned(),
            id: IdHint::Whole(listed.id.to_string()),
            size: 0,
            modified: updated_at,
            archived: false,
        },
        head: Head {
            kind: Kind::Conversation,
            cwd: Some(app.project.cwd.clone()),
            title: Title::given(&listed.title, TitleSource::Prompt).ok(),
            ..Head::new(listed.id, updated_at)
        },
    };
    Native {
        session,
        project: Some(app.project.key.clone()),
        known: None,
    }
}
