//! Arguments of `segue session search`.

use clap::{Args, ValueEnum};
use segue_core::id::ProviderId;
use segue_engine::HitOrder;

/// Search the sessions of all agents
///
/// A turn matches if it contains all words. "PHRASE" matches consecutive words, WORD* matches a prefix, and -WORD excludes
/// turns with a word (quote the query, or put it after `--`). Filters: provider:codex, project:PART,
/// role:user|assistant|tool, after:7d, before:2025-12-07, tag:NAME, feature:NAME. provider: and role: accept several values
/// separated by commas. A query may consist of filters only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session search login form
  segue session search '\"connection refused\" provider:codex after:7d'
  segue session search 'migrat* role:user' --sort best
  segue session show 1 --turn 4          (turn 4 of the first match)")]
pub(crate) struct SearchArgs {
    /// Words, phrases and filters
    #[arg(required_unless_present_any = ["provider", "since"], value_name = "WORDS")]
    pub(crate) words: Vec<String>,

    /// Only sessions of this agent, like provider:AGENT
    #[arg(short, long, value_name = "AGENT", value_parser = ProviderId::parse)]
    pub(crate) provider: Option<ProviderId>,

    /// Only turns since this time, like after:TIME: 7d, yesterday, 2025-12-07
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only sessions of this project
    #[arg(long)]
    pub(crate) here: bool,

    /// Order of the matches
    #[arg(long, value_name = "ORDER", value_enum, default_value = "newest")]
    pub(crate) sort: SearchSortArg,

    /// Maximum number of sessions; 0 for no limit
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,

    /// Maximum number of turns per session
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) each: u32,

    /// Use the index as it is, without refreshing it first
    #[arg(long)]
    pub(crate) no_refresh: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchSortArg {
    /// Newest sessions first
    Newest,
    /// Best matches first
    Best,
}

impl From<SearchSortArg> for HitOrder {
    fn from(sort: SearchSortArg) -> Self {
        match sort {
            SearchSortArg::Newest => Self::Newest,
            SearchSortArg::Best => Self::Best,
        }
    }
}
