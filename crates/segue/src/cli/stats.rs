//! Arguments of `segue session stats`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use segue_core::id::ProviderId;
use segue_core::spend::SpendGrouping;

/// Show token usage and cost by day, agent, model or project
///
/// The statistics include native sessions, even if segue did not start them, and sessions that only segue has. Each request
/// to a model counts once, even if the conversation was later forked, resumed or rewound.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session stats                            usage of this project by day
  segue session stats --all --by model --bars    usage of all projects by model, with bars
  segue session stats --by month,provider --since all
  segue session stats --all --since 7d -p claude

The cost is the one that the agent reports, or is computed from [prices] in your configuration, or
is unknown. A sum with unknown parts is shown as a minimum.")]
pub(crate) struct StatsArgs {
    /// Grouping; with two keys, such as month,model, each group is divided by the second key
    #[arg(long, value_name = "KEY", value_parser = grouping_parser(), value_delimiter = ',', default_value = "day")]
    pub(crate) by: Vec<SpendGrouping>,

    /// Only usage since this time: an age such as 30d (today and the 29 days before), 2w, 6mo, 12h, 30m, `today`, `yesterday`, 2025-12-07, a timestamp, or `all`
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub(crate) since: String,

    /// Only usage of this agent
    #[arg(short, long, value_name = "AGENT", value_hint = ValueHint::Other)]
    pub(crate) provider: Option<ProviderId>,

    /// Only usage in the project of this directory [default: the current project]
    #[arg(long, value_name = "PATH", conflicts_with = "all", value_hint = ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,

    /// Usage in all projects (implied by --by project)
    #[arg(long)]
    pub(crate) all: bool,

    /// Only usage of models whose name starts with this text
    #[arg(short, long, value_name = "MODEL", value_hint = ValueHint::Other)]
    pub(crate) model: Option<String>,

    /// Show a bar for the tokens of each row
    #[arg(long)]
    pub(crate) bars: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn grouping_parser() -> impl TypedValueParser<Value = SpendGrouping> {
    PossibleValuesParser::new(["day", "week", "month", "provider", "model", "project"])
        .try_map(|name| SpendGrouping::from_name(&name).ok_or("unknown key"))
}
