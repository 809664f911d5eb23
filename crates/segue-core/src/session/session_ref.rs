//! References to sessions that the user types.

use crate::id::check;
use crate::id::{FeatureId, IdError, SessionId};

/// A reference to a session, as the user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    /// `latest`: the newest session of the current project.
    Latest,
    /// `feature:NAME`: the newest session of that feature.
    Feature(FeatureId),
    /// A number from the last list, 1 to 999.
    Number(usize),
    /// A session id, its beginning or its end; a native session id or its beginning; or the name of an imported session
    /// in the program that it was imported from.
    Text(String),
}

impl SessionRef {
    /// Parses a reference. A valid reference is safe to look up; the session may not exist.
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

/// Kind of a match between a reference and a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedBy {
    /// The reference is the complete session id.
    Id,
    /// The reference is the complete native session id.
    NativeId,
    /// The reference is the name of the session in the program that it was imported from.
    Alias,
    /// The reference is the beginning of the session id.
    Prefix,
    /// The reference is the end of the session id, with at least all of its random characters.
    Suffix,
    /// The reference is the beginning of the native session id.
    NativePrefix,
}

impl MatchedBy {
    /// Returns the rank of the match, 0 for the best. The end of a session id and the beginning of a native id rank
    /// equally, because a few characters are equally weak evidence in both.
    fn rank(self) -> u8 {
        match self {
            Self::Id => 0,
            Self::NativeId | Self::Alias => 1,
            Self::Prefix => 2,
            Self::Suffix | Self::NativePrefix => 3,
        }
    }
}

/// A session that matches a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Id of the session.
    pub id: SessionId,
    /// Kind of the match.
    pub by: MatchedBy,
}

/// Result of choosing among candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Exactly one session matches best.
    One(SessionId),
    /// Several sessions match equally well.
    Ambiguous(Vec<SessionId>),
    /// No session matches.
    None,
}

/// Chooses the session that matches best: by complete id, then by native id or alias, then by the beginning of the id,
/// then by the end of the id or the beginning of the native id.
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
