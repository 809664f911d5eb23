//! tantivy, with the positions of words, so that phrases are found.

use std::path::Path;

use anyhow::Result;
use tantivy::schema::{FAST, Field, Schema, TEXT};
use tantivy::{Index, IndexWriter, TantivyDocument};

use crate::documents::Documents;

pub const COLUMNS: [&str; 4] = ["prompt", "answer", "call", "output"];
pub const TIME: &str = "at";

/// What each thread may gather before it writes.
const MEMORY: usize = 32_000_000;

pub fn build(threads: usize, scratch: &Path, place: &Path) -> Result<usize> {
    let mut schema = Schema::builder();
    let columns: [Field; 4] = COLUMNS.map(|name| schema.add_text_field(name, TEXT));
    let at = schema.add_i64_field(TIME, FAST);
    let index = Index::create_in_dir(place, schema.build())?;
    let mut writer: IndexWriter = index.writer_with_num_threads(threads, MEMORY * threads)?;
    let mut documents = Documents::open(scratch)?;
    let mut bytes = 0;
    while let Some(document) = documents.next()? {
        let mut row = TantivyDocument::default();
        row.add_i64(at, document.at);
        for (field, text) in columns.iter().zip(&document.columns) {
            row.add_text(*field, text);
            bytes += text.len();
        }
        writer.add_document(row)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    Ok(bytes)
}
