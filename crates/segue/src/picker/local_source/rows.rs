//! Conversion of conversations for the picker: rows, details, turns and snippets.

use std::path::Path;

use segue_catalog::index::NativeStatus;
use segue_core::brief::FirstPrompt;
use segue_core::session::{Message, Role, SessionStatus, Title};
use segue_engine::{Conversation, NativeEntry, Snippet};

use crate::picker::data_source::{HighlightedText, PickerRow, PreviewTurn, RowStatus, TextSpan};
use crate::terminal::format_plural;

pub(super) fn conversation_row(conversation: &Conversation) -> PickerRow {
    let id = conversation.id().to_string();
    match conversation {
        Conversation::Session(session, status) => PickerRow {
            id,
            provider: session.provider.to_string(),
            title: session.title.as_str().to_owned(),
            project: Some(directory_name(&session.project.cwd)),
            branch: None,
            updated_at: session.updated_at,
            turn_count: session.turns,
            status: match status {
                SessionStatus::Running => RowStatus::Running,
                SessionStatus::Idle | SessionStatus::Interrupted => RowStatus::Idle,
            },
            tags: session.tags.iter().map(ToString::to_string).collect(),
            feature: session.feature().map(ToString::to_string),
            snippet: None,
        },
        Conversation::Native(native) => {
            let head = &native.session.head;
            let first_prompt = head.first_prompt.as_deref().map(FirstPrompt::user_prompt);
            let title = head.title.as_ref().map(Title::as_str).or(first_prompt);
            PickerRow {
                id,
                provider: native.session.provider.to_string(),
                title: title.unwrap_or_default().to_owned(),
                project: head.cwd.as_deref().map(directory_name),
                branch: head.branch.clone(),
                updated_at: head.updated_at,
                turn_count: native.details.as_ref().map_or(0, |details| details.turns),
                status: native_row_status(native),
                tags: Vec::new(),
                feature: None,
                snippet: None,
            }
        }
    }
}

fn native_row_status(native: &NativeEntry) -> RowStatus {
    match native.details.as_ref().map(|details| details.status) {
        Some(NativeStatus::Missing) => RowStatus::Deleted,
        Some(NativeStatus::Archived) => RowStatus::Archived,
        _ if native.session.location.archived => RowStatus::Archived,
        _ => RowStatus::Idle,
    }
}

/// Returns the last component of a directory, which is the short name of a project.
fn directory_name(directory: &str) -> String {
    let name = Path::new(directory).file_name();
    name.map_or_else(
        || directory.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

pub(super) fn conversation_details(conversation: &Conversation) -> Vec<String> {
    let mut details = Vec::new();
    match conversation {
        Conversation::Session(session, _) => {
            details.push(session.project.cwd.clone());
            details.push(format!("{} · {}", session.id, session.provider));
            let tokens = session.total_tokens;
            details.extend(tokens.map(|tokens| format_plural(tokens, "token")));
        }
        Conversation::Native(native) => {
            let head = &native.session.head;
            details.extend(head.cwd.clone());
            details.push(format!("{} · {}", head.id, native.session.provider));
            let branch = head.branch.as_ref();
            details.extend(branch.map(|branch| format!("branch {branch}")));
            if let Some(indexed) = &native.details {
                let tokens = indexed.usage.total_tokens;
                let tokens = tokens.map(|tokens| format_plural(tokens, "token"));
                let parts: Vec<String> = indexed.model.clone().into_iter().chain(tokens).collect();
                if !parts.is_empty() {
                    details.push(parts.join(" · "));
                }
            }
        }
    }
    details
}

pub(super) fn preview_turn(number: usize, messages: &[Message]) -> PreviewTurn {
    let message_texts = |role: Role| {
        let role_messages = messages.iter().filter(move |message| message.role == role);
        role_messages
            .map(Message::plain_text)
            .filter(|text| !text.trim().is_empty())
    };
    PreviewTurn {
        number: u32::try_from(number).unwrap_or(u32::MAX),
        prompt: message_texts(Role::User).next().unwrap_or_default(),
        answer: message_texts(Role::Assistant)
            .next_back()
            .unwrap_or_default(),
    }
}

/// Splits a snippet into spans, with the matches marked.
pub(super) fn highlight_matches(snippet: &Snippet) -> HighlightedText {
    let mut spans = Vec::new();
    let mut position = 0;
    let mut push_span = |range: std::ops::Range<usize>, is_match| {
        if let Some(text) = snippet.text.get(range).filter(|text| !text.is_empty()) {
            spans.push(TextSpan {
                text: text.to_owned(),
                is_match,
            });
        }
    };
    for mark in &snippet.highlights {
        if mark.start >= position {
            push_span(position..mark.start, false);
            push_span(mark.clone(), true);
            position = mark.end;
        }
    }
    push_span(position..snippet.text.len(), false);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_highlighted_and_no_text_is_lost() {
        let snippet = Snippet {
            role: None,
            text: "the login form".into(),
            highlights: vec![4..9, 4..9],
        };
        let spans = highlight_matches(&snippet);
        let texts: Vec<(&str, bool)> = spans
            .iter()
            .map(|span| (span.text.as_str(), span.is_match))
            .collect();
        assert_eq!(texts, [("the ", false), ("login", true), (" form", false)]);
        assert_eq!(highlight_matches(&Snippet::default()), []);
    }
}
