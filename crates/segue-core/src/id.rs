//! Ids that can only be made by parsing.
//!
//! A value of one of these types is safe as a command-line argument (it never starts with `-`), as a file
//! name (no separator, no `..`, short enough) and as a database key (printable, no NUL). Whatever arrives
//! from a person or an agent goes through `parse` once, at the edge.

use jiff::Timestamp;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing was given.
    #[error("{what} is empty")]
    Empty {
        /// What was being parsed, as a person would call it.
        what: &'static str,
    },
    /// More characters than the id may have.
    #[error("{what} is {length} bytes long; at most {limit} are allowed")]
    TooLong {
        /// What was being parsed.
        what: &'static str,
        /// How long it was.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A character that would not be safe.
    #[error("{what} may not contain {character:?}")]
    BadCharacter {
        /// What was being parsed.
        what: &'static str,
        /// The first offending character.
        character: char,
    },
    /// A first character that would not be safe.
    #[error("{what} may not start with {character:?}")]
    BadStart {
        /// What was being parsed.
        what: &'static str,
        /// The first character.
        character: char,
    },
    /// Safe, but not of the shape this id has.
    #[error("{what} must look like {shape}, not {text:?}")]
    BadShape {
        /// What was being parsed.
        what: &'static str,
        /// An example of the right shape.
        shape: &'static str,
        /// What was given.
        text: String,
    },
    /// A last character that nobody would see.
    #[error("{what} may not end with a blank")]
    BadEnd {
        /// What was being parsed.
        what: &'static str,
    },
    /// Not what a person may call something by.
    #[error(
        "{why}; it begins with a letter, a digit or _ and has at most {limit} bytes, without [ ] / \\, line ends, other \
         characters that can't be seen, or a blank at its end"
    )]
    BadName {
        /// What is wrong with it.
        why: Box<Self>,
        /// How long it may be.
        limit: usize,
    },
}

/// Checks length and characters; the first character is held to `start`, all of them to `allowed`.
pub(crate) fn check(
    what: &'static str,
    text: &str,
    limit: usize,
    start: fn(char) -> bool,
    allowed: fn(char) -> bool,
) -> Result<(), IdError> {
    let Some(first) = text.chars().next() else {
        return Err(IdError::Empty { what });
    };
    if text.len() > limit {
        return Err(IdError::TooLong {
            what,
            length: text.len(),
            limit,
        });
    }
    if let Some(character) = text.chars().find(|&c| !allowed(c)) {
        return Err(IdError::BadCharacter { what, character });
    }
    if !start(first) {
        return Err(IdError::BadStart {
            what,
            character: first,
        });
    }
    Ok(())
}

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
    };
}

pub(crate) use text_id;

/// A session's own id: when it was made (UTC) and four random characters, `20251207_143022_k3f9`.
///
/// It sorts by time, a person can read it, and no two machines make the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

text_id!(SessionId);

/// The characters of a session id's random tail; none can be mistaken for another.
const TAIL: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

impl SessionId {
    /// Parses a whole session id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        const WHAT: &str = "a session id";
        check(
            WHAT,
            text,
            64,
            |c| c.is_ascii_alphanumeric(),
            |c| c.is_ascii_alphanumeric() || c == '_',
        )?;
        let digits =
            |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_digit());
        let tail = |part: &str| {
            part.len() == Self::TAIL
                && part
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        };
        let parts: Vec<&str> = text.split('_').collect();
        match parts.as_slice() {
            [date, time, random] if digits(date, 8) && digits(time, 6) && tail(random) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(IdError::BadShape {
                what: WHAT,
                shape: "20251207_143022_k3f9",
                text: text.to_owned(),
            }),
        }
    }

    /// How many characters of an id are drawn.
    pub const TAIL: usize = 4;

    /// The characters that were drawn, which most often tell it from all others.
    #[must_use]
    pub fn tail(&self) -> &str {
        // An id is ASCII and longer than this.
        let (_, tail) = self.0.split_at(self.0.len() - Self::TAIL);
        tail
    }

    /// Makes the id of a session created at `at`; `random` decides its last four characters.
    #[must_use]
    pub fn at(at: Timestamp, random: u32) -> Self {
        let mut rest = random;
        let tail: String = std::iter::repeat_with(|| {
            let character = TAIL[(rest % 32) as usize];
            rest /= 32;
            char::from(character)
        })
        .take(Self::TAIL)
        .collect();
        Self(format!("{}_{tail}", at.strftime("%Y%m%d_%H%M%S")))
    }
}

/// What a provider calls a conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NativeId(String);

text_id!(NativeId);

impl NativeId {
    /// Parses an id that a provider gave.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check(
            "a native session id",
            text,
            200,
            |c| c.is_ascii_alphanumeric() || c == '_',
            |c| c.is_ascii_alphanumeric() || "-_.:@+=~".contains(c),
        )?;
        Ok(Self(text.to_owned()))
    }
}

/// The name of a feature that sessions are about.
///
/// Any script is welcome; what would break a prompt header (`]`), a path or a terminal is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(String);

text_id!(FeatureId);

impl FeatureId {
    /// Parses a feature's name; it is kept exactly as given.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check_name("a feature name", text, 200)?;
        Ok(Self(text.to_owned()))
    }
}

/// Checks a name that a person chose: it can stand in a prompt header, a path and a terminal.
pub(crate) fn check_name(what: &'static str, text: &str, limit: usize) -> Result<(), IdError> {
    let checked = check(
        what,
        text,
        limit,
        |c| c.is_alphanumeric() || c == '_',
        |c| {
            !(c.is_control()
                || "/\\[]".contains(c)
                || (c.is_whitespace() && c != ' ')
                || is_invisible(c))
        },
    );
    let why = match checked {
        Err(why) => why,
        Ok(()) if text.ends_with(' ') => IdError::BadEnd { what },
        Ok(()) => return Ok(()),
    };
    Err(IdError::BadName {
        why: Box::new(why),
        limit,
    })
}

/// Characters that a person can't see but that change what a person sees.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The name of an agent program: `claude`, `codex`, `gemini`, `rehearsal`, or `acp:NAME` from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(String);

text_id!(ProviderId);

impl ProviderId {
    /// Parses a provider's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check(
            "a provider name",
            text,
            64,
            |c| c.is_ascii_lowercase(),
            |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c),
        )?;
        Ok(Self(text.to_owned()))
    }

    /// The built-in offline agent.
    #[must_use]
    pub fn rehearsal() -> Self {
        Self("rehearsal".to_owned())
    }

    /// Claude Code.
    #[must_use]
    pub fn claude() -> Self {
        Self("claude".to_owned())
    }

    /// Codex.
    #[must_use]
    pub fn codex() -> Self {
        Self("codex".to_owned())
    }

    /// Gemini CLI.
    #[must_use]
    pub fn gemini() -> Self {
        Self("gemini".to_owned())
    }
}

/// A turn's key in the store that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(pub i64);

/// A leg's key in the store that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegId(pub i64);

#[cfg(test)]
mod tests;
