//! What an agent may ask of segue about conversations: what was said, where something was said, and what this one
//! is to be called. The answers are plain text of a bounded size, ready to be read by a model.

mod history;
mod page;
mod plain;
mod search;

use segue_core::{SessionId, Title, TitleSource};
use segue_store::StoreError;

use crate::Engine;

pub use history::{Detail, Turns};
pub use search::{FoundIn, FoundTurn, SearchReport, SearchRequest};

/// Why a description was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// It can't be a title.
    #[error(transparent)]
    Title(#[from] segue_core::TitleError),
    /// It has characters that have no place in a title.
    #[error("a description is one line, without control characters")]
    ControlCharacters,
    /// It could not be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// It is the title now.
    Taken(Title),
    /// A person named the session, and that name stays.
    Kept(Title),
}

impl Engine {
    /// Gives a session the title that its model proposes, unless a person chose one. Nothing is mended: a model
    /// that is told what is wrong proposes something better.
    pub async fn describe(
        &self,
        id: &SessionId,
        description: &str,
    ) -> Result<Described, DescribeError> {
        let title = proposed(description)?;
        self.store.suggest_title(id, &title).await?;
        let session = self.store.session(id).await?;
        let session = session.ok_or_else(|| StoreError::NoSession(id.clone()))?;
        Ok(match session.title.source() {
            TitleSource::User => Described::Kept(session.title),
            TitleSource::Model | TitleSource::Prompt => Described::Taken(session.title),
        })
    }
}

fn proposed(description: &str) -> Result<Title, DescribeError> {
    let description = description.trim();
    if description.chars().any(plain::steers) {
        return Err(DescribeError::ControlCharacters);
    }
    Ok(Title::given(description, TitleSource::Model)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_a_clean_line_or_refused() {
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
                Err("a description is one line, without control characters"),
            ),
            (
                "\u{1b}[31mred",
                Err("a description is one line, without control characters"),
            ),
            (
                "a\u{202e}b",
                Err("a description is one line, without control characters"),
            ),
        ];
        for (description, expected) in cases {
            let title = proposed(description);
            let title = title
                .as_ref()
                .map(Title::as_str)
                .map_err(ToString::to_string);
            assert_eq!(title, expected.map_err(str::to_owned), "{description:?}");
        }
    }
}
