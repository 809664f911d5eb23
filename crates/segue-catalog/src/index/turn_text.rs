//! Searchable text of a turn: its words by role, with a limited length for tools.

use std::borrow::Cow;
use std::fmt;

use segue_core::json::Json;
use segue_core::session::{Message, Part, Role};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{NativeRecord, ReadError, RecordEvent, Records, SkippedContent};

/// Words of a turn, by role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchableText {
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
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Limit of the arguments of a tool, which contain the complete file if a tool writes one.
const CALL_TEXT_LIMIT: TextLimit = TextLimit {
    head_bytes: 3000,
    tail_bytes: 1000,
};
/// Limit of the output of a tool.
const OUTPUT_TEXT_LIMIT: TextLimit = TextLimit {
    head_bytes: 600,
    tail_bytes: 300,
};

/// Tools by which an agent searches other sessions. Their arguments and outputs are not indexed, because a search would
/// find all earlier searches.
const SEARCH_TOOL_NAMES: [&str; 2] = ["session_history", "session_search"];

impl SearchableText {
    /// Collects the words of messages.
    pub fn from_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let mut turn_text = Self::default();
        for message in messages {
            for part in &message.parts {
                turn_text.add_part(message.role, part);
            }
        }
        turn_text
    }

    /// Converts the words to the form of the full-text index.
    pub(super) fn into_fts_text(mut self) -> Self {
        for text in [
            &mut self.prompt,
            &mut self.answer,
            &mut self.call,
            &mut self.output,
        ] {
            if let Cow::Owned(fts_text) = to_fts_text(text) {
                *text = fts_text;
            }
        }
        self
    }

    /// Collects the words of messages, after limiting the length of each message.
    pub(super) fn from_bounded_messages(messages: &[Message]) -> Self {
        let mut messages = messages.to_vec();
        messages.iter_mut().for_each(bound_message);
        Self::from_messages(&messages)
    }

    /// Returns the texts in the order of the columns in the index.
    #[must_use]
    pub fn columns(&self) -> [&str; 4] {
        [&self.prompt, &self.answer, &self.call, &self.output]
    }

    fn add_part(&mut self, role: Role, part: &Part) {
        let is_search_tool = |name: &str| SEARCH_TOOL_NAMES.iter().any(|tool| name.contains(tool));
        match part {
            Part::Text(text) => {
                let target = match role {
                    Role::User => &mut self.prompt,
                    Role::Assistant => &mut self.answer,
                    Role::Tool | Role::System => &mut self.output,
                };
                append_line(target, text);
            }
            Part::FunctionCall { name, args, .. } => {
                append_line(&mut self.call, name);
                if !is_search_tool(name) {
                    append_line(&mut self.call, &extract_json_words(args, CALL_TEXT_LIMIT));
                }
            }
            Part::FunctionResponse { name, response, .. } if !is_search_tool(name) => {
                append_line(
                    &mut self.output,
                    &extract_json_words(response, OUTPUT_TEXT_LIMIT),
                );
            }
            Part::Thought(_)
            | Part::FunctionResponse { .. }
            | Part::InlineData(_)
            | Part::Unknown(_) => {}
        }
    }
}

fn append_line(target: &mut String, text: &str) {
    if !target.is_empty() {
        target.push('\n');
    }
    target.push_str(text);
}

/// Number of bytes that a long text retains at its beginning and its end.
#[derive(Debug, Clone, Copy)]
struct TextLimit {
    head_bytes: usize,
    tail_bytes: usize,
}

impl TextLimit {
    /// Cuts a text to its beginning and its end.
    fn truncate(self, text: &mut String) {
        if text.len() <= self.head_bytes + self.tail_bytes {
            return;
        }
        let head = text.floor_char_boundary(self.head_bytes);
        let tail = text.ceil_char_boundary(text.len() - self.tail_bytes);
        text.replace_range(head..tail, " … ");
    }
}

/// Returns the strings and numbers in JSON, one per line, without quotes and escapes, because a search does not find
/// words with these characters.
fn extract_json_words(json: &Json, limit: TextLimit) -> String {
    let mut collector = JsonWordCollector {
        text: String::new(),
        limit,
    };
    let mut reader = serde_json::Deserializer::from_str(json.as_str());
    let _ = reader.deserialize_any(&mut collector);
    collector.text
}

struct JsonWordCollector {
    text: String,
    limit: TextLimit,
}

impl JsonWordCollector {
    fn add_line(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
        self.limit.truncate(&mut self.text);
    }
}

impl<'de> Visitor<'de> for &mut JsonWordCollector {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.add_line(text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.add_line(&number.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.add_line(&number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.add_line(&number.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(JsonWordSeed(self))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<serde::de::IgnoredAny>()?.is_some() {
            fields.next_value_seed(JsonWordSeed(self))?;
        }
        Ok(())
    }
}

struct JsonWordSeed<'a>(&'a mut JsonWordCollector);

impl<'de> serde::de::DeserializeSeed<'de> for JsonWordSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self.0)
    }
}

/// Records without the content that no search needs, so that a complete session fits into memory.
pub(super) struct BoundedRecords(pub(super) Box<dyn Records>);

impl Records for BoundedRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        let Some(mut record) = self.0.next()? else {
            return Ok(None);
        };
        for event in &mut record.events {
            match event {
                RecordEvent::Prompt(keyed_message) | RecordEvent::Message(keyed_message) => {
                    bound_message(&mut keyed_message.message);
                }
                RecordEvent::Compacted(summary) => *summary = None,
                RecordEvent::Anchor(_)
                | RecordEvent::Rewind(_)
                | RecordEvent::RequestUsage { .. }
                | RecordEvent::TurnEnded(_)
                | RecordEvent::TitleChanged { .. } => {}
            }
        }
        Ok(Some(record))
    }

    fn skipped(&self) -> SkippedContent {
        self.0.skipped()
    }
}

fn bound_message(message: &mut Message) {
    message.parts.retain_mut(|part| match part {
        Part::Text(text) => {
            let limit = TextLimit {
                head_bytes: MAX_MESSAGE_BYTES,
                tail_bytes: 0,
            };
            limit.truncate(text);
            true
        }
        Part::FunctionCall { args, .. } => {
            if args.as_str().len() > CALL_TEXT_LIMIT.head_bytes + CALL_TEXT_LIMIT.tail_bytes {
                *args = Json::string(&extract_json_words(args, CALL_TEXT_LIMIT));
            }
            true
        }
        Part::FunctionResponse { response, .. } => {
            if response.as_str().len() > OUTPUT_TEXT_LIMIT.head_bytes + OUTPUT_TEXT_LIMIT.tail_bytes
            {
                *response = Json::string(&extract_json_words(response, OUTPUT_TEXT_LIMIT));
            }
            true
        }
        Part::Thought(_) | Part::InlineData(_) | Part::Unknown(_) => false,
    });
}

/// Converts a text to the form of the index. In scripts without spaces between words, each character is surrounded by
/// spaces, so that any sequence of characters is found as a phrase. Queries are converted in the same form.
pub(super) fn to_fts_text(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_unspaced) {
        return text.into();
    }
    let mut fts_text = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if is_unspaced(character) {
            fts_text.push(' ');
            fts_text.push(character);
            fts_text.push(' ');
        } else {
            fts_text.push(character);
        }
    }
    fts_text.into()
}

/// Returns `true` if a character belongs to a script without spaces: Han, Kana, Thai, Lao, Khmer, Myanmar.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn parse_json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn json_strings_are_indexed_without_escapes() {
        let cases = [
            (r#""a\nb""#, "a\nb"),
            (
                r#"{"command":"ls\t-l","n":3,"deep":[{"path":"a/ü"},null,true]}"#,
                "ls\t-l\n3\na/ü",
            ),
            ("[]", ""),
        ];
        for (json, expected) in cases {
            assert_eq!(
                extract_json_words(&parse_json(json), CALL_TEXT_LIMIT),
                expected,
                "{json}"
            );
        }
    }

    #[test]
    fn a_long_text_retains_its_beginning_and_end() {
        let long = format!("begin{}end", "ü".repeat(5000));
        let truncated = extract_json_words(&Json::string(&long), OUTPUT_TEXT_LIMIT);
        assert!(truncated.starts_with("begin") && truncated.ends_with("end"));
        assert!(
            truncated.len() < OUTPUT_TEXT_LIMIT.head_bytes + OUTPUT_TEXT_LIMIT.tail_bytes + 10,
            "{}",
            truncated.len()
        );
    }

    #[test]
    fn text_is_collected_by_role() {
        let at = Timestamp::UNIX_EPOCH;
        let call = Part::FunctionCall {
            id: "1".into(),
            name: "Bash".into(),
            args: parse_json(r#"{"command":"make"}"#),
        };
        let tool_response = |name: &str| Part::FunctionResponse {
            call_id: "1".into(),
            name: name.into(),
            response: parse_json(r#""built""#),
            is_error: false,
        };
        let search_response = tool_response("mcp__segue__session_search");
        let thought = Part::Thought("hm".into());
        let messages = [
            Message::from_text(Role::User, "build it", at),
            Message::new(
                Role::Assistant,
                vec![thought, Part::Text("I do".into()), call],
                at,
            ),
            Message::new(Role::Tool, vec![tool_response("Bash"), search_response], at),
        ];
        let turn_text = SearchableText::from_messages(&messages);
        assert_eq!(
            turn_text.columns(),
            ["build it", "I do", "Bash\nmake", "built"]
        );
    }

    #[test]
    fn characters_of_unspaced_scripts_are_words() {
        assert_eq!(to_fts_text("plain"), "plain");
        assert_eq!(to_fts_text("größer"), "größer");
        assert_eq!(to_fts_text("a函数b"), "a 函  数 b");
    }
}
