//! Content of Gemini CLI's files, with the fields that segue reads.

use std::fmt;

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{InlineData, Part, Usage};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::json::Text;

/// A line of a log, or a message of a document. Its fields determine its meaning.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "$rewindTo")]
    pub(super) rewind_to: Option<Text<'a>>,
    #[serde(borrow, rename = "$set")]
    pub(super) set: Option<Set<'a>>,

    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) r#type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) content: Pieces<'a>,
    /// Text that the user typed, if `content` contains a replacement of it.
    #[serde(borrow)]
    pub(super) display_content: Pieces<'a>,
    #[serde(borrow)]
    pub(super) thoughts: Option<Vec<Thought<'a>>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    pub(super) tokens: Option<Tokens>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,

    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) project_hash: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) start_time: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Line<'a>>>,
}

impl Line<'_> {
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref()?.parse().ok()
    }

    /// Returns the concatenated text of its content.
    pub(super) fn words(&self) -> String {
        let pieces = self.content.0.iter();
        pieces.filter_map(|piece| piece.text.as_deref()).collect()
    }
}

/// Changes to the complete session.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Set<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Line<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Thought<'a> {
    #[serde(borrow)]
    subject: Option<Text<'a>>,
    #[serde(borrow)]
    description: Option<Text<'a>>,
}

impl Thought<'_> {
    /// Formats a thought as Gemini CLI does over ACP.
    pub(super) fn words(&self) -> String {
        let filled = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let (subject, description) = (filled(&self.subject), filled(&self.description));
        match (subject.is_empty(), description.is_empty()) {
            (true, _) => description,
            (false, true) => format!("**{subject}**"),
            (false, false) => format!("**{subject}**\n{description}"),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Pieces<'a>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    tool: Option<u64>,
    total: Option<u64>,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_add(b.unwrap_or(0)));
        // Gemini CLI's input includes cached tokens, but its output does not include thoughts.
        let input = add(tokens.input, tokens.tool);
        let output = add(tokens.output, tokens.thoughts);
        Self {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: tokens.cached,
            total_tokens: tokens.total.or_else(|| add(input, output)),
            context_tokens: add(input, output),
            context_window: None,
        }
    }
}

/// Content of a message: a text, a part, or a list of both.
#[derive(Default)]
pub(super) struct Pieces<'a>(pub(super) Vec<Piece<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Pieces<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Pieces<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a piece or a list of them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pieces<'de>, A::Error> {
                let mut pieces = Vec::new();
                while let Some(piece) = list.next_element()? {
                    pieces.push(piece);
                }
                Ok(Pieces(pieces))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Pieces<'de>, A::Error> {
                OnePiece.visit_map(map).map(|piece| Pieces(vec![piece]))
            }

            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                text: &'de str,
            ) -> Result<Pieces<'de>, E> {
                OnePiece
                    .visit_borrowed_str(text)
                    .map(|piece| Pieces(vec![piece]))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Pieces<'de>, E> {
                OnePiece.visit_str(text).map(|piece| Pieces(vec![piece]))
            }

            fn visit_unit<E>(self) -> Result<Pieces<'de>, E> {
                Ok(Pieces::default())
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// A part of a message. Its fields determine its meaning.
#[derive(Default)]
pub(super) struct Piece<'a> {
    pub(super) text: Option<Text<'a>>,
    /// Whether the text is a thought.
    pub(super) thought: bool,
    pub(super) call: Option<FunctionCall<'a>>,
    pub(super) response: Option<FunctionResponse<'a>>,
    inline: Option<Blob<'a>>,
    /// Field that segue does not support: its name and its value.
    other: Option<(Text<'a>, &'a RawValue)>,
}

impl Piece<'_> {
    /// Returns content that is neither text nor part of a tool call. `None` if there is none.
    pub(super) fn attachment(&self) -> Option<Part> {
        if let Some(blob) = &self.inline {
            return Some(Part::InlineData(InlineData {
                mime_type: match &blob.mime_type {
                    Some(mime_type) => mime_type.to_string(),
                    None => "application/octet-stream".to_owned(),
                },
                data: blob.data.as_deref().map(str::to_owned),
            }));
        }
        let (name, value) = self.other.as_ref()?;
        let name = Json::string(name);
        let json = Json::parse(format!("{{{}:{}}}", name.as_str(), value.get()));
        json.ok().map(Part::Unknown)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct FunctionResponse<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) parts: Pieces<'a>,
}

impl FunctionResponse<'_> {
    /// Returns `true` if the tool reports a failure.
    pub(super) fn is_error(&self) -> bool {
        let Some(inside) = self.response.and_then(|json| json.get().strip_prefix('{')) else {
            return false;
        };
        let shell = self.name.as_deref() == Some("run_shell_command");
        inside.trim_start().starts_with("\"error\"") || (shell && command_failed(inside))
    }

    /// Returns `true` if this text is near the beginning of the response.
    pub(super) fn begins_with(&self, words: &str) -> bool {
        let json = self.response.map_or("", RawValue::get).as_bytes();
        let beginning = json.get(..json.len().min(160)).unwrap_or_default();
        memchr::memmem::find(beginning, words.as_bytes()).is_some()
    }
}

/// Returns `true` if a command failed, although Gemini CLI reports a success of the tool. The exit code or signal is in
/// lines after the output. Older versions write these lines also for a success.
fn command_failed(json: &str) -> bool {
    let text = json.trim_end_matches(|c: char| c.is_ascii_whitespace() || "\"}".contains(c));
    for line in text.rsplit("\\n") {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        match (name, value) {
            ("Exit Code" | "Signal", "0" | "(none)")
            | ("</untrusted_context>" | "Background PIDs" | "Process Group PGID", _) => {}
            ("Exit Code" | "Signal", _) => return true,
            _ => return false,
        }
    }
    false
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Blob<'a> {
    #[serde(borrow)]
    mime_type: Option<Text<'a>>,
    #[serde(borrow)]
    data: Option<Text<'a>>,
}

struct OnePiece;

impl<'de> Visitor<'de> for OnePiece {
    type Value = Piece<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a piece")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Piece<'de>, A::Error> {
        let mut piece = Piece::default();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            match &*name {
                "text" => piece.text = map.next_value()?,
                "thought" => piece.thought = map.next_value::<Truth>()?.0,
                "functionCall" => piece.call = map.next_value()?,
                "functionResponse" => piece.response = map.next_value()?,
                "inlineData" => piece.inline = map.next_value()?,
                // Fields that only accompany other fields.
                "thoughtSignature" | "videoMetadata" | "partMetadata" | "mediaResolution" => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => piece.other = Some((name, map.next_value()?)),
            }
        }
        Ok(piece)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Piece<'de>, E> {
        Ok(Piece {
            text: Some(text.into()),
            ..Piece::default()
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Piece<'de>, E> {
        Ok(Piece {
            text: Some(text.to_owned().into()),
            ..Piece::default()
        })
    }

    fn visit_unit<E>(self) -> Result<Piece<'de>, E> {
        Ok(Piece::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnePiece)
    }
}

/// A value that is present and not `false`, because older versions marked a thought with a text.
struct Truth(bool);

impl<'de> Deserialize<'de> for Truth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json: &RawValue = Deserialize::deserialize(deserializer)?;
        Ok(Self(!matches!(json.get(), "false" | "null")))
    }
}
