//! The commands `segue session export`, `import` and `migrate`, which exchange sessions with other programs.

mod dagent_dirs;
mod export;
mod import;
mod migrate;
mod report;

pub(super) use export::run as export;
pub(super) use import::run as import;
pub(super) use migrate::run as migrate;
