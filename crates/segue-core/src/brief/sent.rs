//! A first prompt as a native session was sent it, and what of it the person said.

use std::borrow::Cow;

use super::{CHECKPOINT, CONVERSATION, FRAMES, prompt_after_brief};
use crate::{Purpose, Tagged};

/// A first prompt, taken apart: the tags it begins with, the brief, and the words of the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent<'a> {
    /// What the tags say, if there are any.
    pub purpose: Option<Purpose>,
    /// The tags, with the blanks after them.
    pub heading: &'a str,
    /// The brief with the line that ends it; empty if nothing was told.
    pub brief: &'a str,
    /// What the person said. It is never empty where something was sent: what nothing follows is said itself.
    pub prompt: &'a str,
}

impl<'a> Sent<'a> {
    /// Takes a first prompt apart. Only what begins with a frame of a brief is one: a person may quote the rest.
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
        // Each of them is an end of the one before.
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

    /// Whether the brief tells of a conversation, and not of a role and a project alone.
    #[must_use]
    pub fn tells_of_more(&self) -> bool {
        let mut lines = self.brief.lines();
        lines.any(|line| line == CHECKPOINT || line == CONVERSATION)
    }

    /// What the person said in a first prompt.
    #[must_use]
    pub fn words(sent: &'a str) -> &'a str {
        Self::read(sent).prompt
    }

    /// A first prompt without its brief, under the same tags.
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
        // What was sent; its heading, its brief, what was said.
        let cases = [
            ("fix it".to_owned(), ["", "", "fix it"]),
            (format!("{tag}fix it"), [tag, "", "fix it"]),
            (format!("{told}fix it"), ["", &told, "fix it"]),
            (format!("{tag}{told}fix it"), [tag, &told, "fix it"]),
            // What nothing follows was said.
            (String::new(), ["", "", ""]),
            (short.to_owned(), ["", "", short]),
            (tag.to_owned(), ["", "", tag]),
            (format!("{tag}{told}"), [tag, "", &told]),
            // A person may quote a brief, or begin like one.
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
        let turns = [crate::ToldTurn {
            n: 1,
            messages: vec![crate::Message::text(
                crate::Role::User,
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
