//! Arguments of `segue session stats`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use segue_core::id::ProviderId;
use segue_core::spend;

/// Count tokens and cost, by day, agent, model or project
///
/// Counted are the sessions that agents keep themselves, whoever started them, and those that only segue keeps. What
/// was asked once counts once, also if the conversation was forked, resumed or rewound since.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session stats                            this project, day by day
  segue session stats --all --by model --bars    which models were used most
  segue session stats --by month,provider --since all
  segue session stats --all --since 7d -p claude

Cost is what an agent says itself, else what the [prices] of your configuration make of it, else
unknown. A sum that lacks a part is shown as at least that much.")]
pub(crate) struct StatsArgs {
    /// What to put together; two of them, like month,model, take each of the first apart by the second
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "day"
    )]
    pub(crate) by: Vec<By>,

    /// Only what was spent since then: 30d is today and the 29 days before; also 2w, 6mo, 12h, 30m, `today`, `yesterday`, a day such as 2025-12-07, a time, or `all`
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    pub(crate) since: String,

    /// Only what this agent spent
    #[arg(short, long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(crate) provider: Option<ProviderId>,

    /// Only what was spent in the project that this directory belongs to, instead of this one
    #[arg(long, value_name = "PATH", conflicts_with = "all", value_hint = ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,

    /// What was spent in every project; so it is, too, with --by project
    #[arg(long)]
    pub(crate) all: bool,

    /// Only what was spent with models whose name begins like this
    #[arg(short, long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(crate) model: Option<String>,

    /// Draw a bar for the tokens of each line
    #[arg(long)]
    pub(crate) bars: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Day,
    Week,
    Month,
    Provider,
    Model,
    Project,
}

impl From<By> for spend::By {
    fn from(by: By) -> Self {
        match by {
            By::Day => Self::Day,
            By::Week => Self::Week,
            By::Month => Self::Month,
            By::Provider => Self::Provider,
            By::Model => Self::Model,
            By::Project => Self::Project,
        }
    }
}
