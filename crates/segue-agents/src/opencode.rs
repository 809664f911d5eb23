//! opencode, which segue drives over ACP: the reader of its sessions.

mod artifacts;
mod database;
mod reader;
mod schema;
mod storage;

pub use reader::OpencodeReader;
