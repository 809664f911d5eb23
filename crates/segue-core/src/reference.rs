//! Which session does a person mean?

use crate::id::check;
use crate::{FeatureId, IdError, SessionId};

/// What a person may type to name a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    /// `latest`: the newest one of this project.
    Latest,
    /// `feature:NAME`: the newest one about that feature.
    Feature(FeatureId),
    /// A number from the last list, 1 to 999.
    Number(usize),
    /// An id, the beginning of one or its end, or a provider's native id, or the beginning of that, or what it was
    /// called where it came from.
    Text(String),
}

impl SessionRef {
    /// Parses what was typed. What is accepted is safe to look up; whether it exists is another question.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Some(name) = text.strip_prefix("feature:") {
            return FeatureId::parse(name).map(Self::Feature);
        }
        check(
            "a session id",
            text,
            200,
            |c| c.is_ascii_alphanumeric() || c == '_',
            |c| c.is_ascii_alphanumeric() || "-_.:@+=~".contains(c),
        )?;
        // Ids start with a year, so up to three digits can only be a number from a list.
        match text.parse::<usize>() {
            Ok(number) if text.len() <= 3 => Ok(Self::Number(number)),
            Ok(_) | Err(_) => Ok(Self::Text(text.to_owned())),
        }
    }
}

/// By what a session was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedBy {
    /// Its whole id.
    Id,
    /// What its provider calls it.
    NativeId,
    /// What it was called in the program that it came from.
    Alias,
    /// The beginning of its id.
    Prefix,
    /// The end of its id, from the drawn characters on.
    Suffix,
    /// The beginning of what its provider calls it.
    NativePrefix,
}

impl MatchedBy {
    /// How well it fits, the best first. A few characters say as little at the end of one id as at the beginning of
    /// another.
    fn rank(self) -> u8 {
        match self {
            Self::Id => 0,
            Self::NativeId | Self::Alias => 1,
            Self::Prefix => 2,
            Self::Suffix | Self::NativePrefix => 3,
        }
    }
}

/// A session that fits a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub id: SessionId,
    /// By what.
    pub by: MatchedBy,
}

/// The outcome of choosing among candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Exactly one fits best.
    One(SessionId),
    /// Several fit equally well.
    Ambiguous(Vec<SessionId>),
    /// None fits.
    None,
}

/// Chooses the session that fits best: a whole id before a native id or an alias, before a part of an id.
#[must_use]
pub fn pick(candidates: &[Candidate]) -> Pick {
    let Some(best) = candidates.iter().map(|candidate| candidate.by.rank()).min() else {
        return Pick::None;
    };
    let mut ids: Vec<SessionId> = candidates
        .iter()
        .filter(|candidate| candidate.by.rank() == best)
        .map(|candidate| candidate.id.clone())
        .collect();
    ids.sort();
    ids.dedup();
    match ids.as_slice() {
        [id] => Pick::One(id.clone()),
        _ => Pick::Ambiguous(ids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart() {
        let cases = [
            ("latest", Ok(SessionRef::Latest)),
            ("3", Ok(SessionRef::Number(3))),
            ("2026", Ok(SessionRef::Text("2026".into()))),
            (
                "20251207_143022",
                Ok(SessionRef::Text("20251207_143022".into())),
            ),
            (
                "feature:pay",
                FeatureId::parse("pay").map(SessionRef::Feature),
            ),
            (
                "",
                Err(IdError::Empty {
                    what: "a session id",
                }),
            ),
            (
                "../x",
                Err(IdError::BadCharacter {
                    what: "a session id",
                    character: '/',
                }),
            ),
            (
                "-x",
                Err(IdError::BadStart {
                    what: "a session id",
                    character: '-',
                }),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(SessionRef::parse(text), expected, "{text:?}");
        }
        assert!(SessionRef::parse(&"x".repeat(300)).is_err());
        assert!(SessionRef::parse("feature:a]b").is_err());
    }

    fn candidate(tail: &str, by: MatchedBy) -> Candidate {
        Candidate {
            id: SessionId::parse(&format!("20251207_143022_{tail}")).unwrap(),
            by,
        }
    }

    #[test]
    fn the_best_match_wins_and_a_tie_is_said() {
        let exact = candidate("aaaa", MatchedBy::Id);
        let prefixes = [
            candidate("aaab", MatchedBy::Prefix),
            candidate("aaac", MatchedBy::Prefix),
        ];
        assert_eq!(pick(&[]), Pick::None);
        assert_eq!(
            pick(&[prefixes[0].clone(), exact.clone()]),
            Pick::One(exact.id)
        );
        let ids = prefixes
            .iter()
            .map(|candidate| candidate.id.clone())
            .collect();
        assert_eq!(pick(&prefixes), Pick::Ambiguous(ids));

        let end = candidate("aaad", MatchedBy::Suffix);
        assert_eq!(pick(std::slice::from_ref(&end)), Pick::One(end.id.clone()));
        let beginning = [prefixes[0].clone(), end.clone()];
        assert_eq!(pick(&beginning), Pick::One(prefixes[0].id.clone()));
        let native = candidate("aaae", MatchedBy::NativePrefix);
        let ids = vec![end.id.clone(), native.id.clone()];
        assert_eq!(pick(&[native, end]), Pick::Ambiguous(ids));
    }
}
