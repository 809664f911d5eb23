//! Texts of the length and the make of real ones, the same in every run.
//!
//! They are made once and escaped once, as they stand between the quotes of a JSON string, so that a gigabyte
//! of sessions is written in seconds.

use std::fmt::Write;

/// How many texts there are of a kind. They repeat, but not so soon that a processor would learn them by heart.
const KINDS: u64 = 61;

const WORDS: &[&str] = &[
    "the",
    "parser",
    "returns",
    "an",
    "error",
    "when",
    "a",
    "line",
    "is",
    "cut",
    "off",
    "so",
    "tests",
    "that",
    "read",
    "it",
    "again",
    "see",
    "old",
    "state",
    "and",
    "we",
    "should",
    "keep",
    "offset",
    "before",
    "buffer",
    "grows",
    "“quoted”",
    "naïve",
    "größer",
    "–",
    "→",
    "don't",
    "`Vec<u8>`",
    "\"strict\"",
    "memory",
    "module",
    "which",
    "calls",
    "into",
    "函数",
    "✓",
    "because",
];

const CODE: &[&str] = &[
    "fn read(&mut self, line: &str) -> Result<(), Error> {",
    "    let Some(value) = self.values.get(\"name\") else {",
    "        return Err(Error::Missing { name: \"name\".into() });",
    "    };",
    "    if value.len() > LIMIT && !self.lenient {",
    "        println!(\"{}: {value:?}\\n\", self.path.display());",
    "    }",
    "",
    "    // What is not there yet is not an error: it may still be written.",
    "    for (index, entry) in self.entries.iter().enumerate() {",
    "        total += entry.size * u64::from(entry.count);",
    "    }",
    "\tif err != nil {",
    "\t\treturn fmt.Errorf(\"cannot open %q: %w\", path, err)",
    "\t}",
    "const grüße = items.map((item) => `${item.id}: ${item.name}`);",
    "export async function load(path: string): Promise<Session[]> {",
    "  const text = await readFile(path, 'utf8');",
    "}",
];

/// Texts by kind, escaped for JSON. Which one is told by a number, for instance how many came before.
pub(crate) struct Texts {
    prompts: Vec<String>,
    thoughts: Vec<String>,
    answers: Vec<String>,
    listings: Vec<String>,
    instructions: String,
    blob: String,
}

impl Texts {
    pub(crate) fn new() -> Self {
        let texts = |length: fn(u64) -> u64, text: fn(u64, u64) -> String| {
            let text = |n| escaped(&text(n, length(n)));
            (0..KINDS).map(text).collect()
        };
        Self {
            prompts: texts(|n| 80 + mixed(n) % 240, prose),
            thoughts: texts(|n| 300 + mixed(n) % 900, prose),
            answers: texts(|n| 400 + mixed(n) % 1200, prose),
            listings: texts(|n| 1000 + mixed(n) % 19_000, code),
            instructions: escaped(&prose(7, 24_000)),
            blob: (0..1200).map(|n| letter(mixed(n))).collect(),
        }
    }

    /// What a person asks: a sentence or two.
    pub(crate) fn prompt(&self, n: u64) -> &str {
        pick(&self.prompts, n)
    }

    pub(crate) fn thought(&self, n: u64) -> &str {
        pick(&self.thoughts, n)
    }

    /// About a kilobyte, in paragraphs.
    pub(crate) fn answer(&self, n: u64) -> &str {
        pick(&self.answers, n)
    }

    /// What a tool found: 1 to 20 KB of code.
    pub(crate) fn listing(&self, n: u64) -> &str {
        pick(&self.listings, n)
    }

    /// What an agent is told by its makers, at most this much of it.
    pub(crate) fn instructions_of(&self, length: usize) -> &str {
        let end = self.instructions.floor_char_boundary(length);
        // Not within an escape.
        self.instructions[..end].trim_end_matches('\\')
    }

    /// A signature, or something encrypted.
    pub(crate) fn blob(&self, n: u64) -> &str {
        let length = 400 + mixed(n) % 800;
        self.blob.get(..usize::try_from(length).unwrap()).unwrap()
    }
}

fn pick(texts: &[String], n: u64) -> &str {
    let index = mixed(n) % texts.len() as u64;
    texts.get(usize::try_from(index).unwrap()).unwrap()
}

fn prose(seed: u64, length: u64) -> String {
    let mut text = String::new();
    for n in 0.. {
        let draw = mixed(seed * 10_000 + n);
        text.push_str(WORDS[usize::try_from(draw % WORDS.len() as u64).unwrap()]);
        text.push_str(match draw >> 32 & 31 {
            0 => ".\n\n",
            1 => ":\n- ",
            2 | 3 => ". ",
            4 => ", ",
            _ => " ",
        });
        if text.len() as u64 >= length {
            break;
        }
    }
    text
}

fn code(seed: u64, length: u64) -> String {
    let mut text = String::new();
    for n in 1.. {
        let draw = mixed(seed * 10_000 + n);
        let line = CODE[usize::try_from(draw % CODE.len() as u64).unwrap()];
        writeln!(text, "{n:>6}\t{line}").unwrap();
        if text.len() as u64 >= length {
            break;
        }
    }
    text
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

fn letter(draw: u64) -> char {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char::from(letters[usize::try_from(draw % 64).unwrap()])
}

/// A number that looks like chance and is the same in every run (splitmix64).
pub(crate) fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The `n`th id of a session.
pub(crate) fn uuid(session: u64, n: u64) -> String {
    let (high, low) = (mixed(session << 32 | n), mixed(n << 32 | session));
    let digits = format!("{high:016x}{low:016x}");
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 13..16, 17..20, 20..32].map(|range| &digits[range]);
    format!("{first}-{second}-7{third}-8{fourth}-{last}")
}

/// When the `n`th thing happens in a session.
pub(crate) fn time(session: u64, n: u64) -> String {
    let seconds = 1_790_000_000 + session * 1000 + n;
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    format!("{time:.3}")
}
