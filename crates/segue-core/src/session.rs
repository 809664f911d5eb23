//! segue's durable unit of work.

use jiff::Timestamp;

use crate::names::names;
use crate::piped::without_piped;
use crate::{
    FeatureId, NativeId, Project, ProviderId, Purpose, Sent, SessionId, Tag, TurnId, TurnState,
};

/// Who gave a session its title. Later ones in this list win over earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleSource {
    /// Nobody: it is the beginning of the first prompt.
    Prompt,
    /// The model described the session.
    Model,
    /// A person named it.
    User,
}

names!(TitleSource {
    Prompt => "prompt",
    Model => "model",
    User => "user",
});

/// A text can't be a title.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    /// Nothing is left once blanks are removed.
    #[error("a title may not be empty")]
    Empty,
    /// Too long to be read in a list.
    #[error("a title may have at most {limit} characters, not {length}")]
    TooLong {
        /// How long it was.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
}

/// What a session is called, and by whom. One line, without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    text: String,
    source: TitleSource,
}

impl Title {
    const LIMIT: usize = 200;

    /// A title that a person or the model chose.
    pub fn given(text: &str, source: TitleSource) -> Result<Self, TitleError> {
        let text = one_line(text);
        let length = text.chars().count();
        if text.is_empty() {
            return Err(TitleError::Empty);
        }
        if length > Self::LIMIT {
            return Err(TitleError::TooLong {
                length,
                limit: Self::LIMIT,
            });
        }
        Ok(Self { text, source })
    }

    /// The title of a session nobody named: the beginning of its first prompt, after the tags and the brief it may
    /// begin with, and before what was piped.
    #[must_use]
    pub fn from_prompt(prompt: &str) -> Self {
        // A prompt may be megabytes; its first few hundred characters are all a title can use.
        let start = without_piped(Sent::words(prompt)).trim_start();
        let end = start
            .char_indices()
            .nth(400)
            .map_or(start.len(), |(at, _)| at);
        let line = one_line(start.get(..end).unwrap_or(start));
        let cut = line.char_indices().nth(80).map_or(line.len(), |(at, _)| at);
        let mut text = line;
        if cut < text.len() {
            text.truncate(cut);
            text.push('…');
        }
        if text.is_empty() {
            text.push_str("(empty prompt)");
        }
        Self {
            text,
            source: TitleSource::Prompt,
        }
    }

    /// The title of what comes of this session: a name that somebody gave gets a mark, the beginning of a prompt stays.
    #[must_use]
    pub fn marked(&self, mark: &str) -> Self {
        if self.source == TitleSource::Prompt {
            return self.clone();
        }
        let mark = format!(" ({mark})");
        let room = Self::LIMIT.saturating_sub(mark.chars().count());
        let text: String = self.text.chars().take(room).collect();
        Self::given(&(text + &mark), self.source).unwrap_or_else(|_| self.clone())
    }

    /// The title itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Who gave it.
    #[must_use]
    pub fn source(&self) -> TitleSource {
        self.source
    }
}

/// Joins all lines with single blanks and drops control characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// No turn is under way.
    Idle,
    /// A turn is under way in some process.
    Running,
    /// The last turn was cut off and has not been closed yet.
    Interrupted,
}

names!(SessionStatus {
    Idle => "idle",
    Running => "running",
    Interrupted => "interrupted",
});

/// A session: a name and a head, like a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The project it belongs to and the directory it works in.
    pub project: Project,
    /// What it is called.
    pub title: Title,
    /// What it is for; none if for nothing in particular.
    pub purpose: Option<Purpose>,
    /// The words a person put on it, in order.
    pub tags: Vec<Tag>,
    /// The agent that carries it now.
    pub provider: ProviderId,
    /// What that agent calls it, once it has said so.
    pub native_id: Option<NativeId>,
    /// Its last turn; none before the first prompt.
    pub head: Option<TurnId>,
    /// Where that turn stands.
    pub head_state: Option<TurnState>,
    /// How many turns lead to the head.
    pub turns: u32,
    /// Spend over all turns ever made in it, where known.
    pub total_tokens: Option<u64>,
    /// The session and turn number it was forked from.
    pub forked_from: Option<(SessionId, u32)>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
}

impl Session {
    /// The feature it is about, if any.
    #[must_use]
    pub fn feature(&self) -> Option<&FeatureId> {
        self.purpose.as_ref()?.scope.feature()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_marked_and_a_prompt_is_not() {
        let named = |text: &str| Title::given(text, TitleSource::User).unwrap();
        assert_eq!(named("auth").marked("fork"), named("auth (fork)"));
        let long = named(&"ü".repeat(200)).marked("fork");
        assert_eq!(long.as_str().chars().count(), 200);
        assert!(long.as_str().ends_with("ü (fork)"));
        let prompt = Title::from_prompt("fix it");
        assert_eq!(prompt.marked("fork"), prompt);
    }

    #[test]
    fn a_title_is_one_clean_line() {
        let title = Title::given("  fix\tthe \u{1b}[31mred\n button ", TitleSource::User).unwrap();
        assert_eq!(title.as_str(), "fix the [31mred button");
        assert_eq!(
            Title::given(" \n", TitleSource::User),
            Err(TitleError::Empty)
        );
        assert!(Title::given(&"x".repeat(201), TitleSource::User).is_err());
    }

    #[test]
    fn an_unnamed_session_is_called_by_its_prompt() {
        let cases = [
            ("hello", "hello"),
            ("\n\n two\nlines ", "two lines"),
            ("", "(empty prompt)"),
            ("[Feature: auth] [Role: dev]\n\nfix it", "fix it"),
            ("[Feature: auth]", "[Feature: auth]"),
            ("see [Feature: auth]", "see [Feature: auth]"),
            ("why?\n\n```stdin\nerror: no\n```\n", "why?"),
        ];
        for (prompt, title) in cases {
            assert_eq!(Title::from_prompt(prompt).as_str(), title);
        }
        let long = Title::from_prompt(&"ü".repeat(100));
        assert_eq!(long.as_str().chars().count(), 81);
        assert!(long.as_str().ends_with('…'));
    }
}
