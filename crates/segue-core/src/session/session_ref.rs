//! References to sessions that the user types.

use crate::id::check_id;
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
        check_id(
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
pub struct RefCandidate {
    /// Id of the session.
    pub id: SessionId,
    /// Kind of the match.
    pub matched_by: MatchedBy,
}

/// Result of choosing among candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefMatch {
    /// Exactly one session matches best.
    Unique(SessionId),
    /// Several sessions match equally well.
    Ambiguous(Vec<SessionId>),
    /// No session matches.
    None,
}

/// Chooses the session that matches best: by complete id, then by native id or alias, then by the beginning of the id,
/// then by the end of the id or the beginning of the native id.
#[must_use]
pub fn best_ref_match(candidates: &[RefCandidate]) -> RefMatch {
    let Some(best) = candidates
        .iter()
        .map(|candidate| candidate.matched_by.rank())
        .min()
    else {
        return RefMatch::None;
    };
    let mut ids: Vec<SessionId> = candidates
        .iter()
        .filter(|candidate| candidate.matched_by.rank() == best)
        .map(|candidate| candidate.id.clone())
        .collect();
    ids.sort();
    ids.dedup();
    match ids.as_slice() {
        [id] => RefMatch::Unique(id.clone()),
        _ => RefMatch::Ambiguous(ids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_by_their_form() {
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
                    kind: "a session id",
                }),
            ),
            (
                "../x",
                Err(IdError::BadCharacter {
                    kind: "a session id",
                    character: '/',
                }),
            ),
            (
                "-x",
                Err(IdError::BadStart {
                    kind: "a session id",
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

    fn candidate(tail: &str, matched_by: MatchedBy) -> RefCandidate {
        RefCandidate {
            id: SessionId::parse(&format!("20251207_143022_{tail}")).unwrap(),
            matched_by,
        }
    }

    #[test]
    fn the_best_match_wins_and_a_tie_is_ambiguous() {
        let exact = candidate("aaaa", MatchedBy::Id);
        let prefixes = [
            candidate("aaab", MatchedBy::Prefix),
            candidate("aaac", MatchedBy::Prefix),
        ];
        assert_eq!(best_ref_match(&[]), RefMatch::None);
        assert_eq!(
            best_ref_match(&[prefixes[0].clone(), exact.clone()]),
            RefMatch::Unique(exact.id)
        );
        let ids = prefixes
            .iter()
            .map(|candidate| candidate.id.clone())
            .collect();
        assert_eq!(best_ref_match(&prefixes), RefMatch::Ambiguous(ids));

        let suffix = candidate("aaad", MatchedBy::Suffix);
        assert_eq!(
            best_ref_match(std::slice::from_ref(&suffix)),
            RefMatch::Unique(suffix.id.clone())
        );
        let beginning = [prefixes[0].clone(), suffix.clone()];
        assert_eq!(
            best_ref_match(&beginning),
            RefMatch::Unique(prefixes[0].id.clone())
        );
        let native = candidate("aaae", MatchedBy::NativePrefix);
        let ids = vec![suffix.id.clone(), native.id.clone()];
        assert_eq!(best_ref_match(&[native, suffix]), RefMatch::Ambiguous(ids));
    }
}
