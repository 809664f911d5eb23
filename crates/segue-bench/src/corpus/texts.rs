//! Texts with the length and structure of real ones, identical in every run.
//!
//! The texts are escaped for use between the quotes of a JSON string. A number selects the text: different numbers
//! result in different texts.

use std::fmt::Write;

use super::prng::{Prng, splitmix64};
use super::vocabulary::Vocabulary;

/// Generator of texts of several kinds.
pub struct CorpusTexts {
    vocabulary: Vocabulary,
    instructions: String,
    blob: String,
}

impl Default for CorpusTexts {
    fn default() -> Self {
        let vocabulary = Vocabulary::default();
        Self {
            instructions: generate_prose(&vocabulary, 7, 24_000),
            blob: (0..1200).map(|n| base64_char(splitmix64(n))).collect(),
            vocabulary,
        }
    }
}

impl CorpusTexts {
    /// Returns the vocabulary of all texts.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns a user's prompt: one or two sentences.
    pub fn prompt(&self, n: u64) -> String {
        generate_prose(&self.vocabulary, n, 40 + splitmix64(n) % 240)
    }

    /// Returns a thought of an agent.
    pub fn thought(&self, n: u64) -> String {
        generate_prose(&self.vocabulary, n, 300 + splitmix64(n) % 900)
    }

    /// Returns an answer of an agent: at least `length` bytes, in paragraphs.
    pub fn answer(&self, n: u64, length: u64) -> String {
        generate_prose(&self.vocabulary, n, length)
    }

    /// Returns the output of a tool: at least `length` bytes of code, of a log or of search results.
    pub fn listing(&self, n: u64, length: u64) -> String {
        let append_line = match n % 4 {
            0 => append_search_result,
            1 => append_log_line,
            _ => append_code_line,
        };
        let mut prng = Prng::new(n);
        let mut text = String::new();
        for number in 1.. {
            append_line(&mut text, number, &self.vocabulary, &mut prng);
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
        append_path(&mut text, &self.vocabulary, &mut Prng::new(n));
        text
    }

    /// Returns the beginning of an agent's built-in instructions, at most `length` bytes.
    pub fn instructions_prefix(&self, length: usize) -> &str {
        let end = self.instructions.floor_char_boundary(length);
        // The end must not split an escape sequence.
        self.instructions[..end].trim_end_matches('\\')
    }

    /// Returns text that looks like a signature or like encrypted content.
    pub fn blob(&self, n: u64) -> &str {
        let length = 400 + splitmix64(n) % 800;
        self.blob.get(..usize::try_from(length).unwrap()).unwrap()
    }
}

/// Generates sentences with names from code, paths and, rarely, a unique hexadecimal number.
fn generate_prose(vocabulary: &Vocabulary, n: u64, length: u64) -> String {
    let mut prng = Prng::new(n);
    let mut text = String::new();
    loop {
        match prng.next_below(400) {
            0 => write!(text, "{:012x}", prng.next_u64() >> 16).unwrap(),
            1..=6 => append_path(&mut text, vocabulary, &mut prng),
            7..=22 => {
                text.push('`');
                append_name(&mut text, vocabulary, &mut prng);
                text.push('`');
            }
            _ => text.push_str(vocabulary.random_word(&mut prng)),
        }
        text.push_str(match prng.next_below(32) {
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
fn append_name(text: &mut String, vocabulary: &Vocabulary, prng: &mut Prng) {
    text.push_str(vocabulary.random_name_word(prng));
    for _ in 0..=prng.next_below(2) {
        text.push('_');
        text.push_str(vocabulary.random_name_word(prng));
    }
}

fn append_path(text: &mut String, vocabulary: &Vocabulary, prng: &mut Prng) {
    text.push_str(["src", "crates", "lib", "tests", "web"][prng.next_below(5)]);
    for _ in 0..=prng.next_below(3) {
        text.push('/');
        text.push_str(vocabulary.random_name_word(prng));
    }
    text.push_str([".rs", ".ts", ".py", ".go", ".md"][prng.next_below(5)]);
}

fn append_code_line(text: &mut String, number: u64, vocabulary: &Vocabulary, prng: &mut Prng) {
    write!(text, "{number:>6}\\t").unwrap();
    let parts = match prng.next_below(8) {
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
                text.push_str(vocabulary.random_word(prng));
                text.push(' ');
            }
            return;
        }
        _ => ["    }", "", ""],
    };
    let [before, between, after] = parts;
    text.push_str(before);
    if !after.is_empty() {
        append_name(text, vocabulary, prng);
        text.push_str(between);
        append_name(text, vocabulary, prng);
        text.push_str(after);
    }
}

/// Appends a line of search results.
fn append_search_result(text: &mut String, number: u64, vocabulary: &Vocabulary, prng: &mut Prng) {
    append_path(text, vocabulary, prng);
    write!(text, ":{}:", number * 7 + prng.next_u64() % 7).unwrap();
    append_code_line(text, prng.next_u64() % 900, vocabulary, prng);
}

/// Appends a line of a log.
fn append_log_line(text: &mut String, number: u64, vocabulary: &Vocabulary, prng: &mut Prng) {
    let level = ["INFO", "INFO", "DEBUG", "WARN", "ERROR"][prng.next_below(5)];
    let thousandth = prng.next_below(1000);
    write!(text, "[{:>4}.{thousandth:03}] {level} ", number * 3).unwrap();
    append_name(text, vocabulary, prng);
    text.push_str(": ");
    for _ in 0..6 {
        text.push_str(vocabulary.random_word(prng));
        text.push(' ');
    }
    write!(text, "id={:08x}", prng.next_u64() >> 32).unwrap();
}

fn base64_char(number: u64) -> char {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char::from(letters[usize::try_from(number % 64).unwrap()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_valid_inside_a_json_string() {
        let texts = CorpusTexts::default();
        for n in 0..200 {
            let generated = [
                texts.prompt(n),
                texts.thought(n),
                texts.answer(n, 1000),
                texts.listing(n, 3000),
                texts.path(n),
                texts
                    .instructions_prefix(usize::try_from(n * 100).unwrap())
                    .to_owned(),
            ];
            for text in generated {
                let quoted = format!("\"{text}\"");
                serde_json::from_str::<String>(&quoted).unwrap();
            }
        }
    }
}
