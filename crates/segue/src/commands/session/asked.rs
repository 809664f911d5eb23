//! Asking an agent for its sessions when its files can't be read.
//!
//! Only Gemini CLI can be asked, and only as the last resort: it takes seconds, it calls the model, and it tells
//! about the directory it is run in and no other.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use segue_agents::known;
use segue_catalog::{Found, Head, IdHint, Kind, Listed, NativeSession, parse_listing};
use segue_core::{ProviderId, Title, TitleSource};
use segue_engine::{Conversation, Conversations, Native};
use segue_store::Filter;

use crate::setup::{self, App};
use crate::terminal::{Style, say};

const GEMINI: &str = "gemini";

/// Gemini needs five seconds to start, and then asks the model for a title.
const PATIENCE: Duration = Duration::from_mins(1);

/// Adds what Gemini CLI itself lists to a list that lacks some of its sessions, if they were asked for by name.
pub(super) async fn complete(
    app: &App,
    filter: &Filter,
    limit: u32,
    now: Timestamp,
    conversations: &mut Conversations,
) {
    let missing = conversations
        .unreadable
        .iter()
        .any(|(provider, _)| provider.as_str() == GEMINI);
    if !missing || filter.feature.is_some() {
        return;
    }
    let mark = Style::stderr().yellow("segue:");
    let Some(provider) = filter.provider.clone().filter(|it| it.as_str() == GEMINI) else {
        say(&format!(
            "{mark} `segue session list -p gemini` asks Gemini CLI itself, which takes seconds and calls the model"
        ));
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = known::find(GEMINI, &path) else {
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
    let known: Vec<_> = conversations.rows.iter().map(Conversation::id).collect();
    let told = listing
        .sessions
        .into_iter()
        .map(|listed| native(app, &provider, &program, listed));
    let fits = |native: &Native| {
        let since = filter.since;
        !known.contains(&native.id())
            && since.is_none_or(|since| native.session.head.updated_at >= since)
    };
    let told = told
        .filter(fits)
        .map(|native| Conversation::Native(Box::new(native)));
    conversations.rows.extend(told);
    conversations.sort(limit);
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
            id: listed.id,
            kind: Kind::Conversation,
            cwd: Some(app.project.cwd.clone()),
            branch: None,
            created_at: None,
            updated_at,
            title: Title::given(&listed.title, TitleSource::Prompt).ok(),
            first_prompt: None,
            forked_from: None,
            version: None,
        },
    };
    Native {
        session,
        project: Some(app.project.key.clone()),
    }
}
