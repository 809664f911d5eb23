//! Content of Gemini CLI's files, with the fields that segue reads.

use std::fmt;

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{InlineData, Part, Usage};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::reader::borrowed_json::JsonText;

/// A line of a log, or a message of a document. Its fields determine its meaning.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileLine<'a> {
    #[serde(rename = "$rewindTo")]
    pub(super) rewind_to: Option<JsonText<'a>>,
    #[serde(rename = "$set")]
    pub(super) set: Option<GeminiFileSet<'a>>,

    pub(super) id: Option<JsonText<'a>>,
    pub(super) r#type: Option<JsonText<'a>>,
    pub(super) timestamp: Option<JsonText<'a>>,
    pub(super) content: GeminiFileContent<'a>,
    /// Text that the user typed, if `content` contains a replacement of it.
    pub(super) display_content: GeminiFileContent<'a>,
    pub(super) thoughts: Option<Vec<GeminiFileThought<'a>>>,
    pub(super) tool_calls: Option<Vec<GeminiFileToolCall<'a>>>,
    pub(super) tokens: Option<GeminiFileTokens>,
    pub(super) model: Option<JsonText<'a>>,

    pub(super) session_id: Option<JsonText<'a>>,
    pub(super) project_hash: Option<JsonText<'a>>,
    pub(super) start_time: Option<JsonText<'a>>,
    pub(super) kind: Option<JsonText<'a>>,
    pub(super) summary: Option<JsonText<'a>>,
    pub(super) messages: Option<Vec<GeminiFileLine<'a>>>,
}

impl GeminiFileLine<'_> {
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.timestamp.as_deref()?.parse().ok()
    }

    /// Returns the concatenated text of its content.
    pub(super) fn text(&self) -> String {
        let parts = self.content.0.iter();
        parts.filter_map(|part| part.text.as_deref()).collect()
    }
}

/// Changes to the complete session.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileSet<'a> {
    pub(super) session_id: Option<JsonText<'a>>,
    pub(super) summary: Option<JsonText<'a>>,
    pub(super) messages: Option<Vec<GeminiFileLine<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileThought<'a> {
    subject: Option<JsonText<'a>>,
    description: Option<JsonText<'a>>,
}

impl GeminiFileThought<'_> {
    /// Formats a thought as Gemini CLI does over ACP.
    pub(super) fn to_markdown(&self) -> String {
        let owned_or_empty =
            |text: &Option<JsonText<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let (subject, description) = (
            owned_or_empty(&self.subject),
            owned_or_empty(&self.description),
        );
        match (subject.is_empty(), description.is_empty()) {
            (true, _) => description,
            (false, true) => format!("**{subject}**"),
            (false, false) => format!("**{subject}**\n{description}"),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileToolCall<'a> {
    pub(super) id: Option<JsonText<'a>>,
    pub(super) name: Option<JsonText<'a>>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) result: GeminiFileContent<'a>,
    pub(super) status: Option<JsonText<'a>>,
    pub(super) timestamp: Option<JsonText<'a>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct GeminiFileTokens {
    pub(super) input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    tool: Option<u64>,
    total: Option<u64>,
}

impl From<GeminiFileTokens> for Usage {
    fn from(tokens: GeminiFileTokens) -> Self {
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
pub(super) struct GeminiFileContent<'a>(pub(super) Vec<GeminiFilePart<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for GeminiFileContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GeminiFileContentVisitor;

        impl<'de> Visitor<'de> for GeminiFileContentVisitor {
            type Value = GeminiFileContent<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a part or a list of both")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<GeminiFileContent<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(GeminiFileContent(parts))
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<GeminiFileContent<'de>, A::Error> {
                GeminiFilePartVisitor
                    .visit_map(map)
                    .map(|part| GeminiFileContent(vec![part]))
            }

            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                text: &'de str,
            ) -> Result<GeminiFileContent<'de>, E> {
                GeminiFilePartVisitor
                    .visit_borrowed_str(text)
                    .map(|part| GeminiFileContent(vec![part]))
            }

            fn visit_str<E: serde::de::Error>(
                self,
                text: &str,
            ) -> Result<GeminiFileContent<'de>, E> {
                GeminiFilePartVisitor
                    .visit_str(text)
                    .map(|part| GeminiFileContent(vec![part]))
            }

            fn visit_unit<E>(self) -> Result<GeminiFileContent<'de>, E> {
                Ok(GeminiFileContent::default())
            }
        }

        deserializer.deserialize_any(GeminiFileContentVisitor)
    }
}

/// A part of a message. Its fields determine its meaning.
#[derive(Default)]
pub(super) struct GeminiFilePart<'a> {
    pub(super) text: Option<JsonText<'a>>,
    /// Whether the text is a thought.
    pub(super) is_thought: bool,
    pub(super) call: Option<GeminiFileFunctionCall<'a>>,
    pub(super) response: Option<GeminiFileFunctionResponse<'a>>,
    inline_data: Option<GeminiFileBlob<'a>>,
    /// Field that segue does not support: its name and its value.
    unsupported_field: Option<(JsonText<'a>, &'a RawValue)>,
}

impl GeminiFilePart<'_> {
    /// Returns content that is neither text nor part of a tool call. `None` if there is none.
    pub(super) fn attachment(&self) -> Option<Part> {
        if let Some(blob) = &self.inline_data {
            return Some(Part::InlineData(InlineData {
                mime_type: match &blob.mime_type {
                    Some(mime_type) => mime_type.to_string(),
                    None => "application/octet-stream".to_owned(),
                },
                data: blob.data.as_deref().map(str::to_owned),
            }));
        }
        let (name, value) = self.unsupported_field.as_ref()?;
        let name = Json::string(name);
        let json = Json::parse(format!("{{{}:{}}}", name.as_str(), value.get()));
        json.ok().map(Part::Unknown)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileFunctionCall<'a> {
    pub(super) id: Option<JsonText<'a>>,
    pub(super) name: Option<JsonText<'a>>,
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiFileFunctionResponse<'a> {
    pub(super) id: Option<JsonText<'a>>,
    pub(super) name: Option<JsonText<'a>>,
    pub(super) response: Option<&'a RawValue>,
    pub(super) parts: GeminiFileContent<'a>,
}

impl GeminiFileFunctionResponse<'_> {
    /// Returns `true` if the tool reports a failure.
    pub(super) fn is_error(&self) -> bool {
        let Some(inside) = self.response.and_then(|json| json.get().strip_prefix('{')) else {
            return false;
        };
        let is_shell = self.name.as_deref() == Some("run_shell_command");
        inside.trim_start().starts_with("\"error\"") || (is_shell && is_failed_command(inside))
    }

    /// Returns `true` if this text is near the beginning of the response.
    pub(super) fn has_text_near_start(&self, text: &str) -> bool {
        let json = self.response.map_or("", RawValue::get).as_bytes();
        let beginning = json.get(..json.len().min(160)).unwrap_or_default();
        memchr::memmem::find(beginning, text.as_bytes()).is_some()
    }
}

/// Returns `true` if a command failed, although Gemini CLI reports a success of the tool. The exit code or signal is in
/// lines after the output. Older versions write these lines also for a success.
fn is_failed_command(json: &str) -> bool {
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
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct GeminiFileBlob<'a> {
    mime_type: Option<JsonText<'a>>,
    data: Option<JsonText<'a>>,
}

struct GeminiFilePartVisitor;

impl<'de> Visitor<'de> for GeminiFilePartVisitor {
    type Value = GeminiFilePart<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a part")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GeminiFilePart<'de>, A::Error> {
        let mut part = GeminiFilePart::default();
        while let Some(name) = map.next_key::<JsonText<'de>>()? {
            match &*name {
                "text" => part.text = map.next_value()?,
                "thought" => part.is_thought = map.next_value::<GeminiFileFlag>()?.0,
                "functionCall" => part.call = map.next_value()?,
                "functionResponse" => part.response = map.next_value()?,
                "inlineData" => part.inline_data = map.next_value()?,
                // Fields that only accompany other fields.
                "thoughtSignature" | "videoMetadata" | "partMetadata" | "mediaResolution" => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => part.unsupported_field = Some((name, map.next_value()?)),
            }
        }
        Ok(part)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<GeminiFilePart<'de>, E> {
        Ok(GeminiFilePart {
            text: Some(text.into()),
            ..GeminiFilePart::default()
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<GeminiFilePart<'de>, E> {
        Ok(GeminiFilePart {
            text: Some(text.to_owned().into()),
            ..GeminiFilePart::default()
        })
    }

    fn visit_unit<E>(self) -> Result<GeminiFilePart<'de>, E> {
        Ok(GeminiFilePart::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for GeminiFilePart<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GeminiFilePartVisitor)
    }
}

/// A value that is present and not `false`, because older versions marked a thought with a text.
struct GeminiFileFlag(bool);

impl<'de> Deserialize<'de> for GeminiFileFlag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json: &RawValue = Deserialize::deserialize(deserializer)?;
        Ok(Self(!matches!(json.get(), "false" | "null")))
    }
}
