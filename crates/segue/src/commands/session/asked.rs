//! Asking an agent for its sessions when its files can't be read.
//!
//! Only Gemini CLI can be asked, and only as the last resort, if a person says so: it takes seconds, it calls the
//! model, it tidies up among its own sessions as it always does, and it tells about the directory it is run in and
//! no other.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use segue_agents::known;
use segue_catalog::{Found, Head, IdHint, Kind, Listed, NativeSession, parse_listing};
use segue_core::{ProviderId, Title, TitleSource};
use segue_engine::{Conversation, Conversations, Native};
use segue_store::Filter;

use crate::error::CliError;
use crate::setup::{self, App};
use crate::terminal::{Style, say};

const GEMINI: &str = "gemini";

/// Gemini needs five seconds to start, and then asks the model for a title.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn is_gemini(provider: &ProviderId) -> bool {
    provider.as_str() == GEMINI
}

/// Whether asking could add something: none of Gemini's sessions could be read, although some are there. A single
/// bad file is no reason: whatever starts Gemini CLI also starts its own tidying up.
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

/// Adds what Gemini CLI itself lists to a list that lacks its sessions.
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
    let asked = known::ask(
        &program,
        &["--list-sessions"],
        cwd,
        &setup::leash(),
        PATIENCE,
    )
    .await;
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

/// What a line of the list tells of a session. Whoever listed it is all we know of where it is.
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
