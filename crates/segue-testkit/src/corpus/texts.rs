//! Texts with the length and structure of real ones, identical in every run.
//!
//! The texts are escaped for use between the quotes of a JSON string. A number selects the text: different numbers
//! result in different texts.

use std::fmt::Write;

use super::prng::{Draw, mixed};
use super::vocabulary::Vocabulary;

/// Generator of texts of several kinds.
pub struct Texts {
    vocabulary: Vocabulary,
    instructions: String,
    blob: String,
}

impl Default for Texts {
    fn default() -> Self {
        let vocabulary = Vocabulary::default();
        Self {
            instructions: prose(&vocabulary, 7, 24_000),
            blob: (0..1200).map(|n| letter(mixed(n))).collect(),
            vocabulary,
        }
    }
}

impl Texts {
    /// Returns the vocabulary of all texts.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns a user's prompt: one or two sentences.
    pub fn prompt(&self, n: u64) -> String {
        prose(&self.vocabulary, n, 40 + mixed(n) % 240)
    }

    /// Returns a thought of an agent.
    pub fn thought(&self, n: u64) -> String {
        prose(&self.vocabulary, n, 300 + mixed(n) % 900)
    }

    /// Returns an answer of an agent: at least `length` bytes, in paragraphs.
    pub fn answer(&self, n: u64, length: u64) -> String {
        prose(&self.vocabulary, n, length)
    }

    /// Returns the output of a tool: at least `length` bytes of code, of a log or of search results.
    pub fn listing(&self, n: u64, length: u64) -> String {
        let line = match n % 4 {
            0 => place,
            1 => log,
            _ => code,
        };
        let mut draw = Draw::new(n);
        let mut text = String::new();
        for number in 1.. {
            line(&mut text, number, &self.vocabulary, &mut draw);
            text.push_str("\\n");
            if text.len() as u64 >= length {
                break;
            }
        }
        text
    }

    /// Returns the path of a file in the project.
    pub fn path(&self, n: u64) -> String {
        let mut text = String::new();
        path(&mut text, &self.vocabulary, &mut Draw::new(n));
        text
    }

    /// Returns the beginning of an agent's built-in instructions, at most `length` bytes.
    pub fn instructions_of(&self, length: usize) -> &str {
        let end = self.instructions.floor_char_boundary(length);
        // The end must not split an escape sequence.
        self.instructions[..end].trim_end_matches('\\')
    }

    /// Returns text that looks like a signature or like encrypted content.
    pub fn blob(&self, n: u64) -> &str {
        let length = 400 + mixed(n) % 800;
        self.blob.get(..usize::try_from(length).unwrap()).unwrap()
    }
}

/// Generates sentences with names from code, paths and, rarely, a unique hexadecimal number.
fn prose(vocabulary: &Vocabulary, n: u64, length: u64) -> String {
    let mut draw = Draw::new(n);
    let mut text = String::new();
    loop {
        match draw.below(400) {
            0 => write!(text, "{:012x}", draw.next() >> 16).unwrap(),
            1..=6 => path(&mut text, vocabulary, &mut draw),
            7..=22 => {
                text.push('`');
                name(&mut text, vocabulary, &mut draw);
                text.push('`');
            }
            _ => text.push_str(vocabulary.some(&mut draw)),
        }
        text.push_str(match draw.below(32) {
            0 => ".\\n\\n",
            1 => ":\\n- ",
            2 | 3 => ". ",
            4 => ", ",
            _ => " ",
        });
        if text.len() as u64 >= length {
            return text;
        }
    }
}

/// Appends a name of two or three words.
fn name(text: &mut String, vocabulary: &Vocabulary, draw: &mut Draw) {
    text.push_str(vocabulary.some_name(draw));
    for _ in 0..=draw.below(2) {
        text.push('_');
        text.push_str(vocabulary.some_name(draw));
    }
}

fn path(text: &mut String, vocabulary: &Vocabulary, draw: &mut Draw) {
    text.push_str(["src", "crates", "lib", "tests", "web"][draw.below(5)]);
    for _ in 0..=draw.below(3) {
        text.push('/');
        text.push_str(vocabulary.some_name(draw));
    }
    text.push_str([".rs", ".ts", ".py", ".go", ".md"][draw.below(5)]);
}

fn code(text: &mut String, number: u64, vocabulary: &Vocabulary, draw: &mut Draw) {
    write!(text, "{number:>6}\\t").unwrap();
    let parts = match draw.below(8) {
        0 => ["fn ", "(&self, ", ": &str) -> Result<(), Error> {"],
        1 => ["    let ", " = self.", "()?;"],
        2 => ["    if ", ".len() > ", " && !self.lenient {"],
        3 => ["        println!(\\\"{}\\\\n\\\", ", "(", "));"],
        4 => [
            "\\tif err != nil { return fmt.Errorf(\\\"cannot open %q: %w\\\", ",
            ", ",
            ")",
        ],
        5 => [
            "const ",
            " = items.map((item) => `${item.id}: ${item.",
            "}`);",
        ],
        6 => {
            text.push_str("    // ");
            for _ in 0..8 {
                text.push_str(vocabulary.some(draw));
                text.push(' ');
            }
            return;
        }
        _ => ["    }", "", ""],
    };
    let [before, between, after] = parts;
    text.push_str(before);
    if !after.is_empty() {
        name(text, vocabulary, draw);
        text.push_str(between);
        name(text, vocabulary, draw);
        text.push_str(after);
    }
}

/// Appends a line of search results.
fn place(text: &mut String, number: u64, vocabulary: &Vocabulary, draw: &mut Draw) {
    path(text, vocabulary, draw);
    write!(text, ":{}:", number * 7 + draw.next() % 7).unwrap();
    code(text, draw.next() % 900, vocabulary, draw);
}

/// Appends a line of a log.
fn log(text: &mut String, number: u64, vocabulary: &Vocabulary, draw: &mut Draw) {
    let level = ["INFO", "INFO", "DEBUG", "WARN", "ERROR"][draw.below(5)];
    let thousandth = draw.below(1000);
    write!(text, "[{:>4}.{thousandth:03}] {level} ", number * 3).unwrap();
    name(text, vocabulary, draw);
    text.push_str(": ");
    for _ in 0..6 {
        text.push_str(vocabulary.some(draw));
        text.push(' ');
    }
    write!(text, "id={:08x}", draw.next() >> 32).unwrap();
}

fn letter(draw: u64) -> char {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char::from(letters[usize::try_from(draw % 64).unwrap()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_stands_between_quotes() {
        let texts = Texts::default();
        for n in 0..200 {
            let made = [
                texts.prompt(n),
                texts.thought(n),
                texts.answer(n, 1000),
                texts.listing(n, 3000),
                texts.path(n),
                texts
                    .instructions_of(usize::try_from(n * 100).unwrap())
                    .to_owned(),
            ];
            for text in made {
                let quoted = format!("\"{text}\"");
                serde_json::from_str::<String>(&quoted).unwrap();
            }
        }
    }
}
