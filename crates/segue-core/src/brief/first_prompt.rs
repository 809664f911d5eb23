//! Parsing of the first prompt that a native session received, to find the user's part of it.

use std::borrow::Cow;

use super::{CHECKPOINT, CONVERSATION, FRAMES, prompt_after_brief};
use crate::scope::{Purpose, Tagged};

/// A first prompt, split into its tags, its brief and the user's prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent<'a> {
    /// Purpose in the tags; `None` if the text begins with no tags.
    pub purpose: Option<Purpose>,
    /// The tags, with the whitespace after them.
    pub heading: &'a str,
    /// The brief with its separator line; empty if there is none.
    pub brief: &'a str,
    /// The user's prompt. Never empty if the message was not: text that no prompt follows is itself the prompt.
    pub prompt: &'a str,
}

impl<'a> Sent<'a> {
    /// Parses a first prompt. Only text that begins with a frame line counts as a brief, because a user may quote the
    /// other lines.
    #[must_use]
    pub fn read(sent: &'a str) -> Self {
        let tagged = Tagged::read(sent);
        let said = tagged.as_ref().map_or(sent, |tagged| tagged.rest);
        let framed = FRAMES
            .iter()
            .any(|frame| said.trim_start().starts_with(frame));
        let asked = framed.then(|| prompt_after_brief(said)).flatten();
        let prompt = [asked, Some(said)]
            .into_iter()
            .flatten()
            .find(|words| !words.trim().is_empty())
            .unwrap_or(sent);
        // `prompt` is a suffix of `said` or of `sent`, and `said` is a suffix of `sent`.
        let (before, _) = sent.split_at(sent.len() - prompt.len());
        let heading = sent.len() - said.len();
        let (heading, brief) = before.split_at(heading.min(before.len()));
        Self {
            purpose: tagged.map(|tagged| tagged.purpose),
            heading,
            brief,
            prompt,
        }
    }

    /// Returns `true` if the brief contains a checkpoint or messages, not only a role and a project context.
    #[must_use]
    pub fn tells_of_more(&self) -> bool {
        let mut lines = self.brief.lines();
        lines.any(|line| line == CHECKPOINT || line == CONVERSATION)
    }

    /// Returns the user's prompt in a first prompt.
    #[must_use]
    pub fn words(sent: &'a str) -> &'a str {
        Self::read(sent).prompt
    }

    /// Removes the brief from a first prompt. The tags stay.
    #[must_use]
    pub fn without_brief(sent: &'a str) -> Cow<'a, str> {
        let Self {
            heading,
            brief,
            prompt,
            ..
        } = Self::read(sent);
        if brief.is_empty() {
            return Cow::Borrowed(sent);
        }
        Cow::Owned(format!("{heading}{prompt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::{END_OF_RECORD, Story, compose};

    #[test]
    fn a_first_prompt_is_taken_apart() {
        let told = format!("[Your role, which you act by]\n> a tester\n\n{END_OF_RECORD}\n\n");
        let (tag, short) = ("[Feature: auth]\n\n", "[Feature: auth]");
        // The sent text; its heading, its brief and its prompt.
        let cases = [
            ("fix it".to_owned(), ["", "", "fix it"]),
            (format!("{tag}fix it"), [tag, "", "fix it"]),
            (format!("{told}fix it"), ["", &told, "fix it"]),
            (format!("{tag}{told}fix it"), [tag, &told, "fix it"]),
            // Text that no prompt follows is the prompt.
            (String::new(), ["", "", ""]),
            (short.to_owned(), ["", "", short]),
            (tag.to_owned(), ["", "", tag]),
            (format!("{tag}{told}"), [tag, "", &told]),
            // A user may quote a brief, or write a prompt that begins like one.
            (
                format!("what is\n{told}?"),
                ["", "", &format!("what is\n{told}?")],
            ),
            (
                "[Your role, which you act by] what?".to_owned(),
                ["", "", "[Your role, which you act by] what?"],
            ),
            (
                format!("{told}see\n{told}"),
                ["", &told, &format!("see\n{told}")],
            ),
        ];
        for (sent, [heading, brief, prompt]) in &cases {
            let read = Sent::read(sent);
            let apart = (read.heading, read.brief, read.prompt);
            assert_eq!(apart, (*heading, *brief, *prompt), "{sent:?}");
            let purpose = Tagged::read(sent).map(|tagged| tagged.purpose);
            assert_eq!(read.purpose, purpose, "{sent:?}");
        }
        let whole = format!("{tag}{told}fix it");
        assert_eq!(Sent::without_brief(&whole), "[Feature: auth]\n\nfix it");
    }

    #[test]
    fn whatever_a_brief_consists_of_comes_off() {
        let turns = [crate::brief::ToldTurn {
            n: 1,
            messages: vec![crate::session::Message::text(
                crate::session::Role::User,
                "hello",
                jiff::Timestamp::UNIX_EPOCH,
            )],
        }];
        for parts in 1..16_u8 {
            let part = |bit: u8, text| (parts & bit != 0).then_some(text);
            let story = Story {
                heading: Some("[Feature: auth] [Role: qa]"),
                role: part(1, "a tester"),
                context: part(2, "it is a shop"),
                checkpoint: part(4, "much was done"),
                turns: if parts & 8 == 0 { &[] } else { &turns },
                look_up: None,
                prompt: "fix it",
            };
            let brief = compose(&story, 100_000, &|text| text.len() as u64).unwrap();
            let sent = brief.with("fix it");
            assert_eq!(Sent::words(&sent), "fix it", "{sent}");
            assert_eq!(Sent::read(&sent).tells_of_more(), parts >= 4, "{sent}");
            let bare = Sent::without_brief(&sent);
            assert_eq!(bare, "[Feature: auth] [Role: qa]\n\nfix it");
        }
    }
}
