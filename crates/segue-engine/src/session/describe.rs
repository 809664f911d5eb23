//! Operations behind the MCP tools that segue offers to agents: read the history of a conversation, search
//! conversations, and set the title of the current session.
//!
//! The results are plain text of limited size for a model.

use segue_core::id::SessionId;
use segue_core::session::{Title, TitleSource};
use segue_store::StoreError;

use crate::library::plain_text;
use crate::session::SessionEditor;

/// Reason why a proposed title was rejected.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The text is not a valid title.
    #[error(transparent)]
    Title(#[from] segue_core::session::TitleError),
    /// The text contains control characters, such as line breaks.
    #[error("a description must be one line without control characters")]
    ControlCharacters,
    /// The store could not save the title.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Result of a title proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeOutcome {
    /// The proposal is the new title.
    Accepted(Title),
    /// The user named the session, so the user's title stays.
    Retained(Title),
}

impl SessionEditor {
    /// Sets the title that a model proposes, unless the user chose one.
    ///
    /// An invalid title is rejected and not corrected, because a model that receives the reason proposes a better one.
    pub async fn describe_session(
        &self,
        id: &SessionId,
        description: &str,
    ) -> Result<DescribeOutcome, DescribeError> {
        let title = parse_proposed_title(description)?;
        self.context.store.suggest_title(id, &title).await?;
        let session = self.context.store.session(id).await?;
        let session = session.ok_or_else(|| StoreError::NoSession(id.clone()))?;
        Ok(match session.title.source() {
            TitleSource::User => DescribeOutcome::Retained(session.title),
            TitleSource::Model | TitleSource::Prompt => DescribeOutcome::Accepted(session.title),
        })
    }
}

fn parse_proposed_title(description: &str) -> Result<Title, DescribeError> {
    let description = description.trim();
    if description.chars().any(plain_text::is_control_or_bidi) {
        return Err(DescribeError::ControlCharacters);
    }
    Ok(Title::new(description, TitleSource::Model)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_description_is_rejected() {
        let long = "x".repeat(201);
        let cases = [
            (" Fix the login ", Ok("Fix the login")),
            ("Grüße, 世界", Ok("Grüße, 世界")),
            ("", Err("a title may not be empty")),
            (" \n ", Err("a title may not be empty")),
            (
                &long,
                Err("a title may have at most 200 characters, not 201"),
            ),
            (
                "two\nlines",
                Err("a description must be one line without control characters"),
            ),
            (
                "\u{1b}[31mred",
                Err("a description must be one line without control characters"),
            ),
            (
                "a\u{202e}b",
                Err("a description must be one line without control characters"),
            ),
        ];
        for (description, expected) in cases {
            let title = parse_proposed_title(description);
            let title = title
                .as_ref()
                .map(Title::as_str)
                .map_err(ToString::to_string);
            assert_eq!(title, expected.map_err(str::to_owned), "{description:?}");
        }
    }
}
