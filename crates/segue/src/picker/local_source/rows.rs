//! Conversion of conversations for the picker: rows, details, turns and snippets.

use std::path::Path;

use segue_catalog::index::State;
use segue_core::brief::Sent;
use segue_core::number_format::figure;
use segue_core::session::{Message, Role, SessionStatus};
use segue_engine::{Conversation, Native, Snippet};

use crate::picker::data_source::{Exchange, Marked, Piece, Row, Standing};

pub(super) fn row(conversation: &Conversation) -> Row {
    let id = conversation.id().to_string();
    match conversation {
        Conversation::Session(session, status) => Row {
            id,
            provider: session.provider.to_string(),
            title: session.title.as_str().to_owned(),
            project: Some(short(&session.project.cwd)),
            branch: None,
            updated_at: session.updated_at,
            turns: session.turns,
            standing: match status {
                SessionStatus::Running => Standing::Running,
                SessionStatus::Idle | SessionStatus::Interrupted => Standing::Idle,
            },
            tags: session.tags.iter().map(ToString::to_string).collect(),
            feature: session.feature().map(ToString::to_string),
            hit: None,
        },
        Conversation::Native(native) => {
            let head = &native.session.head;
            let title = head.title.as_ref().map(|title| title.as_str().to_owned());
            Row {
                id,
                provider: native.session.provider.to_string(),
                title: title
                    .or_else(|| {
                        head.first_prompt
                            .as_deref()
                            .map(|prompt| Sent::words(prompt).to_owned())
                    })
                    .unwrap_or_default(),
                project: head.cwd.as_deref().map(short),
                branch: head.branch.clone(),
                updated_at: head.updated_at,
                turns: native.known.as_ref().map_or(0, |known| known.turns),
                standing: standing(native),
                tags: Vec::new(),
                feature: None,
                hit: None,
            }
        }
    }
}

fn standing(native: &Native) -> Standing {
    match native.known.as_ref().map(|known| known.state) {
        Some(State::Gone) => Standing::Gone,
        Some(State::Archived) => Standing::Archived,
        _ if native.session.found.archived => Standing::Archived,
        _ => Standing::Idle,
    }
}

/// Returns the last component of a directory, which is the short name of a project.
fn short(directory: &str) -> String {
    let name = Path::new(directory).file_name();
    name.map_or_else(
        || directory.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

pub(super) fn facts(conversation: &Conversation) -> Vec<String> {
    let mut facts = Vec::new();
    match conversation {
        Conversation::Session(session, _) => {
            facts.push(session.project.cwd.clone());
            facts.push(format!("{} · {}", session.id, session.provider));
            facts.extend(
                session
                    .total_tokens
                    .map(|tokens| format!("{} tokens", figure(tokens))),
            );
        }
        Conversation::Native(native) => {
            let head = &native.session.head;
            facts.extend(head.cwd.clone());
            facts.push(format!("{} · {}", head.id, native.session.provider));
            facts.extend(
                head.branch
                    .as_ref()
                    .map(|branch| format!("branch {branch}")),
            );
            if let Some(known) = &native.known {
                let tokens = known.usage.total_tokens;
                let tokens = tokens.map(|tokens| format!("{} tokens", figure(tokens)));
                let both: Vec<String> = known.model.clone().into_iter().chain(tokens).collect();
                if !both.is_empty() {
                    facts.push(both.join(" · "));
                }
            }
        }
    }
    facts
}

pub(super) fn exchange(n: usize, messages: &[Message]) -> Exchange {
    let words = |role: Role| {
        let said = messages.iter().filter(move |message| message.role == role);
        said.map(Message::words)
            .filter(|words| !words.trim().is_empty())
    };
    Exchange {
        n: u32::try_from(n).unwrap_or(u32::MAX),
        prompt: words(Role::User).next().unwrap_or_default(),
        answer: words(Role::Assistant).next_back().unwrap_or_default(),
    }
}

/// Splits a snippet into spans, with the matches marked.
pub(super) fn marked(snippet: &Snippet) -> Marked {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut add = |range: std::ops::Range<usize>, is_hit| {
        if let Some(text) = snippet.text.get(range).filter(|text| !text.is_empty()) {
            pieces.push(Piece {
                text: text.to_owned(),
                is_hit,
            });
        }
    };
    for mark in &snippet.marks {
        if mark.start >= from {
            add(from..mark.start, false);
            add(mark.clone(), true);
            from = mark.end;
        }
    }
    add(from..snippet.text.len(), false);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_set_off_and_nothing_is_lost() {
        let snippet = Snippet {
            role: None,
            text: "the login form".into(),
            marks: vec![4..9, 4..9],
        };
        let pieces = marked(&snippet);
        let texts: Vec<(&str, bool)> = pieces
            .iter()
            .map(|piece| (piece.text.as_str(), piece.is_hit))
            .collect();
        assert_eq!(texts, [("the ", false), ("login", true), (" form", false)]);
        assert_eq!(marked(&Snippet::default()), []);
    }
}
