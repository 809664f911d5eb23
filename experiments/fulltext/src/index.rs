//! The indexes that are compared, and how one is built.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::fts::Fts;
use crate::{documents, fts, place, tantivy_index, usage};

pub struct Index {
    pub name: &'static str,
    pub make: Make,
}

pub enum Make {
    Fts(Fts),
    Tantivy { threads: usize },
}

const BASE: Fts = Fts::BASE;
const GATHERED: Fts = Fts {
    hash: 16 << 20,
    merge: 0,
    ..BASE
};

pub const INDEXES: &[Index] = &[
    Index {
        name: "unicode61",
        make: Make::Fts(BASE),
    },
    Index {
        name: "unicode61 tokenchars _",
        make: Make::Fts(Fts {
            tokenizer: "unicode61 remove_diacritics 2 tokenchars _",
            ..BASE
        }),
    },
    Index {
        name: "ascii",
        make: Make::Fts(Fts {
            tokenizer: "ascii",
            ..BASE
        }),
    },
    Index {
        name: "detail=column",
        make: Make::Fts(Fts {
            options: "detail=column, contentless_delete=1",
            ..BASE
        }),
    },
    Index {
        name: "detail=none",
        make: Make::Fts(Fts {
            options: "detail=none, contentless_delete=1",
            ..BASE
        }),
    },
    Index {
        name: "no delete",
        make: Make::Fts(Fts { options: "", ..BASE }),
    },
    Index {
        name: "no delete columnsize=0",
        make: Make::Fts(Fts {
            options: "columnsize=0",
            ..BASE
        }),
    },
    Index {
        name: "hash 8 MB",
        make: Make::Fts(Fts { hash: 8 << 20, ..BASE }),
    },
    Index {
        name: "hash 16 MB",
        make: Make::Fts(Fts { hash: 16 << 20, ..BASE }),
    },
    Index {
        name: "hash 64 MB",
        make: Make::Fts(Fts { hash: 64 << 20, ..BASE }),
    },
    Index {
        name: "automerge 0",
        make: Make::Fts(Fts { merge: 0, ..BASE }),
    },
    Index {
        name: "automerge 0 crisis 1000",
        make: Make::Fts(Fts {
            merge: 0,
            crisis: 1000,
            ..BASE
        }),
    },
    Index {
        name: "automerge 16",
        make: Make::Fts(Fts { merge: 16, ..BASE }),
    },
    Index {
        name: "hash 16 MB, automerge 0",
        make: Make::Fts(GATHERED),
    },
    Index {
        name: "hash 16 MB, automerge 0, optimize",
        make: Make::Fts(Fts {
            optimize: true,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 64 MB, automerge 0, crisis 1000, optimize",
        make: Make::Fts(Fts {
            hash: 64 << 20,
            crisis: 1000,
            optimize: true,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, page 16 KB",
        make: Make::Fts(Fts {
            page: 16 << 10,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, page 16 KB, pgsz 16000",
        make: Make::Fts(Fts {
            page: 16 << 10,
            leaf: 16_000,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, page 64 KB, pgsz 64000",
        make: Make::Fts(Fts {
            page: 64 << 10,
            leaf: 64_000,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, no journal",
        make: Make::Fts(Fts {
            journal: false,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, ascii",
        make: Make::Fts(Fts {
            tokenizer: "ascii",
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, column",
        make: Make::Fts(Fts {
            options: "detail=column, contentless_delete=1",
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, ascii, column",
        make: Make::Fts(Fts {
            tokenizer: "ascii",
            options: "detail=column, contentless_delete=1",
            ..GATHERED
        }),
    },
    Index {
        name: "hash 16 MB, automerge 0, commit 1000",
        make: Make::Fts(Fts {
            committed: 1000,
            ..GATHERED
        }),
    },
    Index {
        name: "hash 64 MB, automerge 0, one commit",
        make: Make::Fts(Fts {
            hash: 64 << 20,
            committed: usize::MAX,
            ..GATHERED
        }),
    },
    Index {
        name: "two files, hash 64 MB, automerge 0, one commit",
        make: Make::Fts(Fts {
            hash: 64 << 20,
            committed: usize::MAX,
            files: 2,
            ..GATHERED
        }),
    },
    Index {
        name: "two files",
        make: Make::Fts(Fts { files: 2, ..BASE }),
    },
    Index {
        name: "two files, hash 16 MB, automerge 0",
        make: Make::Fts(Fts { files: 2, ..GATHERED }),
    },
    Index {
        name: "two files, hash 16 MB, automerge 0, ascii",
        make: Make::Fts(Fts {
            files: 2,
            tokenizer: "ascii",
            ..GATHERED
        }),
    },
    Index {
        name: "tantivy 1 thread",
        make: Make::Tantivy { threads: 1 },
    },
    Index {
        name: "tantivy 2 threads",
        make: Make::Tantivy { threads: 2 },
    },
];

pub fn named(name: &str) -> Result<&'static Index> {
    INDEXES.iter().find(|index| index.name == name).context("no such index")
}

/// Builds an index and says what that took: MB of words a second, seconds of the processor, the size as a part of
/// the transcripts in percent, and MB of memory.
pub fn build(name: &str, scratch: &Path) -> Result<()> {
    let index = named(name)?;
    let place = place(scratch, name);
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    std::fs::create_dir_all(&place)?;
    let start = Instant::now();
    let bytes = match &index.make {
        Make::Fts(fts) => fts::build(fts, scratch, &place)?,
        Make::Tantivy { threads } => tantivy_index::build(*threads, scratch, &place)?,
    };
    let took = start.elapsed().as_secs_f64();
    println!(
        "{} {} {} {}",
        bytes as f64 / 1e6 / took,
        usage::processor()?,
        usage::size(&place)? as f64 * 100.0 / documents::transcripts(scratch)?,
        usage::peak()?
    );
    Ok(())
}
