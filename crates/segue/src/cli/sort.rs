//! Arguments for the order of lists.

use clap::{Args, ValueEnum};

/// In which order sessions are listed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct OrderArgs {
    /// What to sort by: the newest, most or first in the alphabet comes first, what is not known last
    #[arg(long, value_name = "BY", value_enum, default_value_t)]
    pub(crate) sort: SortBy,

    /// The other way round
    #[arg(long)]
    pub(crate) reverse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortBy {
    /// When something last happened in it
    #[default]
    Updated,
    /// When it was made
    Created,
    /// How many turns it has
    Turns,
    /// How many tokens it used
    Tokens,
    /// What it is called
    Title,
    /// Who carries it
    Provider,
}
