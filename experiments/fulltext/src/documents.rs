//! What is indexed: a document a turn, and the questions that are asked about them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use segue_catalog::index::Texts;
use segue_catalog::{Catalog, Claude, Codex, Gemini, Start, conversation};

/// A turn: when it was (a document that comes later in the file is newer), and its words by who said them.
pub struct Document {
    pub at: i64,
    /// Prompt, answer, calls, output.
    pub columns: [String; 4],
}

const FILE: &str = "documents";
const QUESTIONS: &str = "questions.json";
const TRANSCRIPTS: &str = "transcripts";

/// How long the files were that the documents were taken from.
pub fn transcripts(scratch: &Path) -> Result<f64> {
    Ok(std::fs::read_to_string(scratch.join(TRANSCRIPTS))?.parse()?)
}

/// Reads all sessions of a home and writes their documents, and the questions about them.
pub fn write(home: &Path, scratch: &Path) -> Result<String> {
    let catalog = Catalog::new(vec![
        std::sync::Arc::new(Claude::new(home.join(".claude"))),
        std::sync::Arc::new(Codex::new(home.join(".codex"))),
        std::sync::Arc::new(Gemini::new(home.join(".gemini"))),
    ]);
    let mut sessions = catalog.sessions(None, None).sessions;
    sessions.reverse();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(scratch.join(FILE))?);
    let (mut bytes, mut messages, mut text, mut documents) = (0, 0, 0, 0);
    let mut counted = Counted::default();
    let start = Instant::now();
    for session in &sessions {
        bytes += session.found.size;
        let mut records = catalog.records(session, &Start::Beginning)?;
        for turn in conversation(records.as_mut())?.turns() {
            messages += turn.messages.len();
            documents += 1;
            let texts = Texts::of(&turn.messages);
            let at = turn.started_at.map_or(0, |at| at.as_second());
            file.write_all(&at.to_le_bytes())?;
            for column in texts.columns() {
                file.write_all(&u32::try_from(column.len())?.to_le_bytes())?;
                file.write_all(column.as_bytes())?;
                text += column.len();
            }
            counted.add(&texts);
        }
    }
    file.flush()?;
    let questions = counted.questions()?;
    std::fs::write(scratch.join(QUESTIONS), serde_json::to_string(&questions.0)?)?;
    std::fs::write(scratch.join(TRANSCRIPTS), bytes.to_string())?;
    Ok(format!(
        "{} sessions of {:.0} MB: {documents} turns with {messages} messages and {:.0} MB of words ({:.1} s to read and count)",
        sessions.len(),
        bytes as f64 / 1e6,
        text as f64 / 1e6,
        start.elapsed().as_secs_f64()
    ))
}

/// The documents, one after the other.
pub struct Documents(BufReader<File>);

impl Documents {
    pub fn open(scratch: &Path) -> Result<Self> {
        Ok(Self(BufReader::with_capacity(1 << 20, File::open(scratch.join(FILE))?)))
    }

    pub fn next(&mut self) -> Result<Option<Document>> {
        let mut at = [0; 8];
        if self.0.read_exact(&mut at).is_err() {
            return Ok(None);
        }
        let mut columns = [const { String::new() }; 4];
        for column in &mut columns {
            let mut length = [0; 4];
            self.0.read_exact(&mut length)?;
            let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
            self.0.read_exact(&mut bytes)?;
            *column = String::from_utf8(bytes)?;
        }
        let at = i64::from_le_bytes(at);
        Ok(Some(Document { at, columns }))
    }
}

/// Questions by kind, as words.
pub struct Questions(HashMap<String, Vec<String>>);

const ABSENT: &str = "zyzzyvaxq";

/// The kinds, in the order of the table.
pub const KINDS: [&str; 6] = ["absent", "rare", "common", "and", "phrase", "prefix"];

impl Questions {
    pub fn read(scratch: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(scratch.join(QUESTIONS))?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    pub fn words(&self, kind: &str) -> Result<&[String]> {
        Ok(self.0.get(kind).context("no such question")?)
    }
}

/// In how many documents each word is.
#[derive(Default)]
struct Counted {
    documents: usize,
    words: HashMap<String, usize>,
    /// Pairs of neighbours in answers.
    pairs: HashMap<(String, String), usize>,
}

impl Counted {
    fn add(&mut self, texts: &Texts) {
        self.documents += 1;
        let mut seen = HashSet::new();
        for column in texts.columns() {
            seen.extend(words(column));
        }
        let mut pairs = HashSet::new();
        let answer: Vec<String> = words(&texts.answer).collect();
        for pair in answer.windows(2).take(12) {
            pairs.insert((pair[0].clone(), pair[1].clone()));
        }
        for pair in pairs {
            *self.pairs.entry(pair).or_default() += 1;
        }
        for word in seen {
            *self.words.entry(word).or_default() += 1;
        }
    }

    fn questions(&self) -> Result<Questions> {
        let near = |wanted: usize| {
            let plain = |word: &str| word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_lowercase());
            let words = self.words.iter().filter(|(word, _)| plain(word));
            let nearest = words.min_by_key(|(word, count)| (count.abs_diff(wanted), (*word).clone()));
            anyhow::Ok(nearest.context("no words")?.0.clone())
        };
        let asked = |(one, two): &(String, String)| one.len() > 3 && two.len() > 3 && one.is_ascii() && two.is_ascii();
        let pairs = self.pairs.iter().filter(|(pair, _)| asked(pair));
        let ((one, two), _) = pairs
            .max_by_key(|(pair, count)| (**count, (*pair).clone()))
            .context("no pairs")?;
        ensure!(!self.words.contains_key(ABSENT));
        let prefix = near(self.documents / 200)?[..4].to_owned();
        let questions = [
            vec![ABSENT.to_owned()],
            vec![near(10)?],
            vec![near(self.documents / 5)?],
            vec![near(self.documents / 30)?, near(self.documents / 40)?],
            vec![one.clone(), two.clone()],
            vec![prefix],
        ];
        let kinds = KINDS.iter().map(|kind| (*kind).to_owned());
        Ok(Questions(kinds.zip(questions).collect()))
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
