//! Searchable text of a turn: its words by role, with a limited length for tools.

use std::borrow::Cow;
use std::fmt;

use segue_core::json::Json;
use segue_core::session::{Message, Part, Role};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{Event, ReadError, Record, Records, Skipped};

/// Words of a turn, by role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Prompt of the user.
    pub prompt: String,
    /// Answer of the agent.
    pub answer: String,
    /// Names and arguments of the tools that the agent called.
    pub call: String,
    /// Beginning and end of the output of those tools.
    pub output: String,
}

/// Maximum number of bytes of a message. The user may paste a book, but not a disk.
const WORDS: usize = 1024 * 1024;
/// Limit of the arguments of a tool, which contain the complete file if a tool writes one.
const CALL: Bound = Bound {
    head: 3000,
    tail: 1000,
};
/// Limit of the output of a tool.
const OUTPUT: Bound = Bound {
    head: 600,
    tail: 300,
};

/// Tools by which an agent searches other sessions. Their arguments and outputs are not indexed, because a search would
/// find all earlier searches.
const ASKING: [&str; 2] = ["session_history", "session_search"];

impl Texts {
    /// Collects the words of messages.
    pub fn of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let mut texts = Self::default();
        for message in messages {
            for part in &message.parts {
                texts.add(message.role, part);
            }
        }
        texts
    }

    /// Converts the words to the form of the full-text index.
    pub(super) fn spaced(mut self) -> Self {
        for text in [
            &mut self.prompt,
            &mut self.answer,
            &mut self.call,
            &mut self.output,
        ] {
            if let Cow::Owned(spaced) = spaced(text) {
                *text = spaced;
            }
        }
        self
    }

    /// Collects the words of messages, after limiting the length of each message.
    pub(super) fn bounded(messages: &[Message]) -> Self {
        let mut messages = messages.to_vec();
        messages.iter_mut().for_each(bound);
        Self::of(&messages)
    }

    /// Returns the texts in the order of the columns in the index.
    #[must_use]
    pub fn columns(&self) -> [&str; 4] {
        [&self.prompt, &self.answer, &self.call, &self.output]
    }

    fn add(&mut self, role: Role, part: &Part) {
        let asking = |name: &str| ASKING.iter().any(|asking| name.contains(asking));
        match part {
            Part::Text(text) => {
                let to = match role {
                    Role::User => &mut self.prompt,
                    Role::Assistant => &mut self.answer,
                    Role::Tool | Role::System => &mut self.output,
                };
                line(to, text);
            }
            Part::FunctionCall { name, args, .. } => {
                line(&mut self.call, name);
                if !asking(name) {
                    line(&mut self.call, &words_of(args, CALL));
                }
            }
            Part::FunctionResponse { name, response, .. } if !asking(name) => {
                line(&mut self.output, &words_of(response, OUTPUT));
            }
            Part::Thought(_)
            | Part::FunctionResponse { .. }
            | Part::InlineData(_)
            | Part::Unknown(_) => {}
        }
    }
}

fn line(to: &mut String, text: &str) {
    if !to.is_empty() {
        to.push('\n');
    }
    to.push_str(text);
}

/// Number of bytes that a long text retains at its beginning and its end.
#[derive(Debug, Clone, Copy)]
struct Bound {
    head: usize,
    tail: usize,
}

impl Bound {
    /// Cuts a text to its beginning and its end.
    fn cut(self, text: &mut String) {
        if text.len() <= self.head + self.tail {
            return;
        }
        let head = text.floor_char_boundary(self.head);
        let tail = text.ceil_char_boundary(text.len() - self.tail);
        text.replace_range(head..tail, " … ");
    }
}

/// Returns the strings and numbers in JSON, one per line, without quotes and escapes, because a search does not find
/// words with these characters.
fn words_of(json: &Json, bound: Bound) -> String {
    let mut words = Words {
        text: String::new(),
        bound,
    };
    let mut reader = serde_json::Deserializer::from_str(json.as_str());
    let _ = reader.deserialize_any(&mut words);
    words.text
}

struct Words {
    text: String,
    bound: Bound,
}

impl Words {
    fn add(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
        self.bound.cut(&mut self.text);
    }
}

impl<'de> Visitor<'de> for &mut Words {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.add(text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.add(&number.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.add(&number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.add(&number.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Inner(self))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<serde::de::IgnoredAny>()?.is_some() {
            fields.next_value_seed(Inner(self))?;
        }
        Ok(())
    }
}

struct Inner<'a>(&'a mut Words);

impl<'de> serde::de::DeserializeSeed<'de> for Inner<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self.0)
    }
}

/// Records without the content that no search needs, so that a complete session fits into memory.
pub(super) struct Bounded(pub(super) Box<dyn Records>);

impl Records for Bounded {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(mut record) = self.0.next()? else {
            return Ok(None);
        };
        for event in &mut record.events {
            match event {
                Event::Prompt(said) | Event::Said(said) => bound(&mut said.message),
                Event::Compacted(summary) => *summary = None,
                Event::Step(_)
                | Event::Rewind(_)
                | Event::Used { .. }
                | Event::Ended(_)
                | Event::Titled { .. } => {}
            }
        }
        Ok(Some(record))
    }

    fn skipped(&self) -> Skipped {
        self.0.skipped()
    }
}

fn bound(message: &mut Message) {
    message.parts.retain_mut(|part| match part {
        Part::Text(text) => {
            let words = Bound {
                head: WORDS,
                tail: 0,
            };
            words.cut(text);
            true
        }
        Part::FunctionCall { args, .. } => {
            if args.as_str().len() > CALL.head + CALL.tail {
                *args = Json::string(&words_of(args, CALL));
            }
            true
        }
        Part::FunctionResponse { response, .. } => {
            if response.as_str().len() > OUTPUT.head + OUTPUT.tail {
                *response = Json::string(&words_of(response, OUTPUT));
            }
            true
        }
        Part::Thought(_) | Part::InlineData(_) | Part::Unknown(_) => false,
    });
}

/// Converts a text to the form of the index. In scripts without spaces between words, each character is surrounded by
/// spaces, so that any sequence of characters is found as a phrase. Queries are converted in the same form.
pub(super) fn spaced(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(unspaced) {
        return text.into();
    }
    let mut spaced = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if unspaced(character) {
            spaced.push(' ');
            spaced.push(character);
            spaced.push(' ');
        } else {
            spaced.push(character);
        }
    }
    spaced.into()
}

/// Returns `true` if a character belongs to a script without spaces: Han, Kana, Thai, Lao, Khmer, Myanmar.
pub(super) fn unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn texts_in_json_are_found_without_their_escapes() {
        let cases = [
            (r#""a\nb""#, "a\nb"),
            (
                r#"{"command":"ls\t-l","n":3,"deep":[{"path":"a/ü"},null,true]}"#,
                "ls\t-l\n3\na/ü",
            ),
            ("[]", ""),
        ];
        for (given, expected) in cases {
            assert_eq!(words_of(&json(given), CALL), expected, "{given}");
        }
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_kept() {
        let long = format!("begin{}end", "ü".repeat(5000));
        let kept = words_of(&Json::string(&long), OUTPUT);
        assert!(kept.starts_with("begin") && kept.ends_with("end"));
        assert!(
            kept.len() < OUTPUT.head + OUTPUT.tail + 10,
            "{}",
            kept.len()
        );
    }

    #[test]
    fn words_go_where_their_speaker_is() {
        let at = Timestamp::UNIX_EPOCH;
        let call = Part::FunctionCall {
            id: "1".into(),
            name: "Bash".into(),
            args: json(r#"{"command":"make"}"#),
        };
        let answer = |name: &str| Part::FunctionResponse {
            call_id: "1".into(),
            name: name.into(),
            response: json(r#""built""#),
            is_error: false,
        };
        let recall = answer("mcp__segue__session_search");
        let thought = Part::Thought("hm".into());
        let messages = [
            Message::text(Role::User, "build it", at),
            Message::new(
                Role::Assistant,
                vec![thought, Part::Text("I do".into()), call],
                at,
            ),
            Message::new(Role::Tool, vec![answer("Bash"), recall], at),
        ];
        let texts = Texts::of(&messages);
        assert_eq!(texts.columns(), ["build it", "I do", "Bash\nmake", "built"]);
    }

    #[test]
    fn characters_without_blanks_between_them_are_words() {
        assert_eq!(spaced("plain"), "plain");
        assert_eq!(spaced("größer"), "größer");
        assert_eq!(spaced("a函数b"), "a 函  数 b");
    }
}
