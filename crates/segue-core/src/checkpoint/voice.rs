//! Who speaks in each line of a prompt: the person, somebody they quote, or a machine whose output they pasted.
//!
//! One line alone often does not tell. So what counts is the block it stands in, which ends at an empty line or at a
//! fence: nothing that others wrote may pass for a rule of the user.

use std::ops::Range;

use super::line_kind::{LineKind, classify_line, is_fence, is_labelled, is_pasted};
use crate::session::Role;

/// Who speaks in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Voice {
    /// Who sent the message.
    #[default]
    Own,
    /// That, or what stands above it goes on: it is told, and is no rule.
    Unsure,
    /// Somebody who is quoted.
    Quoted,
    /// A machine.
    Machine,
}

/// Who speaks in each line of a message.
pub(super) fn voices(lines: &[&str], role: Role) -> Vec<Voice> {
    if role != Role::User {
        // An agent words by itself what it read, and its marks and labels are its own.
        return lines.iter().map(|line| by_line(line.trim())).collect();
    }
    let ends = |line: &&str| line.trim().is_empty() || is_fence(line.trim());
    let mut voices = Vec::with_capacity(lines.len());
    let mut above = Voice::Own;
    for block in lines.split(ends) {
        voices.extend(under(above, block));
        above = voices
            .last()
            .copied()
            .filter(|_| !block.is_empty())
            .unwrap_or(above);
        // The line that ends it.
        voices.push(Voice::Own);
    }
    voices.truncate(lines.len());
    voices
}

fn by_line(line: &str) -> Voice {
    if is_pasted(line) {
        Voice::Machine
    } else {
        Voice::Own
    }
}

/// Who speaks in the lines of a block that stands under another one.
fn under(above: Voice, block: &[&str]) -> Vec<Voice> {
    let mut voices = in_block(block);
    // Tools put what they advise under what they print.
    let is_advice = above == Voice::Machine && block.first().is_some_and(|line| is_labelled(line));
    for voice in voices
        .iter_mut()
        .filter(|voice| is_advice && **voice == Voice::Own)
    {
        *voice = Voice::Unsure;
    }
    voices
}

/// Who speaks in the lines of one block.
fn in_block(block: &[&str]) -> Vec<Voice> {
    let looks: Vec<LineKind> = block.iter().map(|line| classify_line(line)).collect();
    let opened = looks.iter().position(|looks| looks.opens().is_some());
    let (above, below) = looks.split_at(opened.unwrap_or(looks.len()));
    let mut voices = unopened(above, block);
    voices.extend(opened_by(below));
    voices
}

/// Lines that no prompt of a shell and no head of a chat stands above.
fn unopened(looks: &[LineKind], block: &[&str]) -> Vec<Voice> {
    let output = output(looks);
    let mut under_machine = false;
    let voice = |(at, (looks, line)): (usize, (&LineKind, &&str))| {
        let goes_on = under_machine && line.starts_with(['\t', ' ']);
        let is_quoted = matches!(looks, LineKind::Quote | LineKind::Chat);
        let is_output = *looks == LineKind::Machine || output.contains(&at) || goes_on;
        under_machine = is_output && !is_quoted;
        match looks {
            LineKind::Quote | LineKind::Chat => Voice::Quoted,
            _ if under_machine => Voice::Machine,
            // Who goes on right under output may be the person, or the output.
            _ if !output.is_empty() && at >= output.end => Voice::Unsure,
            _ => Voice::Own,
        }
    };
    looks.iter().zip(block).enumerate().map(voice).collect()
}

/// From where to where a block is output, if most of its lines look like it.
fn output(looks: &[LineKind]) -> Range<usize> {
    let may_be = |looks: &LineKind| matches!(looks, LineKind::Machine | LineKind::LikelyMachine);
    let is_sure = looks.contains(&LineKind::Machine);
    let most = looks.iter().filter(|looks| may_be(looks)).count() * 2 > looks.len();
    let ends = (
        looks.iter().position(may_be),
        looks.iter().rposition(may_be),
    );
    match ends {
        (Some(first), Some(last)) if is_sure && most => first..last + 1,
        _ => 0..0,
    }
}

/// Lines from a prompt of a shell or the head of a chat on: all of them are what it opens.
fn opened_by(looks: &[LineKind]) -> Vec<Voice> {
    let mut open = Voice::Machine;
    let voice = |looks: &LineKind| {
        open = looks.opens().unwrap_or(open);
        open
    };
    looks.iter().map(voice).collect()
}

impl LineKind {
    /// Whose the lines are that follow it.
    fn opens(self) -> Option<Voice> {
        match self {
            Self::Shell => Some(Voice::Machine),
            Self::ChatHeader => Some(Voice::Quoted),
            Self::Machine | Self::LikelyMachine | Self::Chat | Self::Quote | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter for each line: the person, who is unsure, quoted, a machine.
    fn shown(text: &str, role: Role) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let letter = |voice| match voice {
            Voice::Own => 'p',
            Voice::Unsure => 'u',
            Voice::Quoted => 'q',
            Voice::Machine => 'm',
        };
        voices(&lines, role).into_iter().map(letter).collect()
    }

    #[test]
    fn a_block_shows_who_wrote_a_line() {
        for (text, expected) in [
            ("Never push.\nAlways test.", "pp"),
            ("Note: never push.\nHint: ask Mia.", "pp"),
            (
                "Fix it.\n\nwarning: unused variable: `x`\n --> src/main.rs:2:9\n  |\n2 |     let x = 5;\n  |   ^ help: if \
                 this is intentional, prefix it with an underscore\n  |\n  = note: must be used\n\nNever push.",
                "ppmmmmmmmpp",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    raise ValueError(\"must \
                 never be empty\")\nValueError: must never be empty\n\nAlways add a test.",
                "mmmmpp",
            ),
            (
                "it says\n$ kubectl get pods\nNAME READY\nweb-0 must wait\n\nNever restart it.",
                "pmmmpp",
            ),
            (
                "slack thread:\nbob 10:14 AM\nwe should never ship on fridays imo\nalice 10:15 AM\nalways\n\nDo you agree?",
                "pqqqqpp",
            ),
            ("bob 10:14 AM we should never ship\nwhat now?", "qp"),
            (
                "Ticket:\n> You must deliver by Friday.\n>\n> Never late.\nNever use its template.",
                "pqqqp",
            ),
            (
                "Plan: 1 to add, 0 to change, 1 to destroy\nNote: You didn't use the -out option",
                "mm",
            ),
            (
                "Plan: 1 to add\n\n\nNote: You must use -out.\nAlways.\n\nNote: never push.",
                "mppuupp",
            ),
            (
                "{\"level\":\"error\",\"msg\":\"connection must be closed\"}\nNever close it by hand.\nWhy?",
                "mpp",
            ),
            (
                "2026-11-02T10:14:03Z a\n2026-11-02T10:14:04Z b\nTODO: call bob\n2026-11-02T10:14:05Z c\nand now?",
                "mmmmu",
            ),
            (
                "npm warn deprecated a@1\nnpm warn must not be used\n\nnever mind",
                "mmpp",
            ),
            (
                "FAIL src/a.test.js\n  ✕ must never be empty (3 ms)\n  ● suite › must be shown",
                "mmm",
            ),
        ] {
            assert_eq!(shown(text, Role::User), expected, "{text}");
        }
    }

    #[test]
    fn an_agent_speaks_for_itself() {
        let text = "✓ added dates\n> quoted\n2026-11-02T10:14:03Z WARN pool";
        assert_eq!(shown(text, Role::Assistant), "ppm");
    }
}
