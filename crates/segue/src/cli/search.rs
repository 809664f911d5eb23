//! Arguments of `segue session search`.

use clap::{Args, ValueEnum};
use segue_core::id::ProviderId;
use segue_engine::Order;

/// Find where something was said, in the sessions of all agents
///
/// All words must occur in one turn. A "phrase" must occur as it is, a word* may go on, and a -word must not occur (with quotes around it all, or after `--`).
/// provider:codex, project:PART, role:user|assistant|tool, after:7d, before:2025-12-07, tag:NAME and feature:NAME narrow
/// it down, also without words; after provider: and role: there may be several, with commas between them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session search login form
  segue session search '\"connection refused\" provider:codex after:7d'
  segue session search 'migrat* role:user' --sort best
  segue session show 1 --turn 4          (the first of what was found)")]
pub(crate) struct SearchArgs {
    /// Words, phrases and filters
    #[arg(required_unless_present_any = ["provider", "since"], value_name = "WORDS")]
    pub(crate) words: Vec<String>,

    /// Only in sessions of this agent, as provider:NAME
    #[arg(short, long, value_name = "NAME", value_parser = ProviderId::parse)]
    pub(crate) provider: Option<ProviderId>,

    /// Only in turns since then, as after:WHEN: 7d, yesterday, 2025-12-07
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,

    /// Only in sessions of this project
    #[arg(long)]
    pub(crate) here: bool,

    /// What comes first
    #[arg(long, value_name = "ORDER", value_enum, default_value = "newest")]
    pub(crate) sort: SearchSort,

    /// How many sessions at most; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,

    /// How many turns of each session
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) each: u32,

    /// Search the index as it is, without looking for what was written since
    #[arg(long)]
    pub(crate) no_refresh: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchSort {
    /// The newest sessions
    Newest,
    /// Those that fit best
    Best,
}

impl From<SearchSort> for Order {
    fn from(sort: SearchSort) -> Self {
        match sort {
            SearchSort::Newest => Self::Newest,
            SearchSort::Best => Self::Best,
        }
    }
}
