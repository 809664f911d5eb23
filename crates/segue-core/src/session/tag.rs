//! Tags that the user attaches to sessions to find them.

use std::fmt;
use std::str::FromStr;

use crate::id::IdError;
use crate::id::{check_id, is_invisible};

/// A tag: one word in lower case, so that `Urgent` and `urgent` are the same tag.
///
/// All scripts are allowed. A comma and a colon are not, because lists of tags and queries (`tag:NAME`) use them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

impl Tag {
    const ID_KIND: &str = "a tag";
    const MAX_CHARS: usize = 50;

    /// Parses a tag and converts it to lower case.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let name = text.to_lowercase();
        check_id(
            Self::ID_KIND,
            &name,
            Self::MAX_CHARS * 4,
            |c| !"-+".contains(c),
            |c| !(c.is_control() || c.is_whitespace() || is_invisible(c) || ",:".contains(c)),
        )?;
        if name.chars().count() > Self::MAX_CHARS {
            return Err(IdError::BadShape {
                kind: Self::ID_KIND,
                shape: "a word of at most 50 characters",
                text: text.to_owned(),
            });
        }
        Ok(Self(name))
    }

    /// Returns the tag as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Tag {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tag_is_one_word_in_lower_case() {
        let cases = [
            ("urgent", "urgent"),
            ("Urgent", "urgent"),
            ("ÜBER", "über"),
            ("v1.2", "v1.2"),
            ("支払い", "支払い"),
            ("#7", "#7"),
        ];
        for (text, tag) in cases {
            assert_eq!(Tag::parse(text).unwrap().as_str(), tag, "{text:?}");
        }
        assert!(Tag::parse(&"ü".repeat(50)).is_ok());
    }

    #[test]
    fn an_invalid_tag_is_rejected_with_the_reason() {
        let cases = [
            ("", "a tag may not be empty"),
            ("two words", "a tag may not contain ' '"),
            ("a\tb", "a tag may not contain '\\t'"),
            ("a,b", "a tag may not contain ','"),
            ("a:b", "a tag may not contain ':'"),
            ("a\u{202e}b", "a tag may not contain '\\u{202e}'"),
            ("-x", "a tag may not start with '-'"),
            ("+x", "a tag may not start with '+'"),
        ];
        for (text, message) in cases {
            let error = Tag::parse(text).unwrap_err();
            assert_eq!(error.to_string(), message, "{text:?}");
        }
        assert!(Tag::parse(&"x".repeat(51)).is_err());
        assert!(Tag::parse(&"x".repeat(500)).is_err());
    }

    proptest! {
        #[test]
        fn a_tag_parses_back_to_itself(text in any::<String>()) {
            if let Ok(tag) = Tag::parse(&text) {
                prop_assert_eq!(Tag::parse(tag.as_str()), Ok(tag));
            }
        }
    }
}
