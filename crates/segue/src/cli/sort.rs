//! Arguments for the order of lists.

use clap::{Args, ValueEnum};

/// Order of listed sessions.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct SortArgs {
    /// Sort key; newest, highest or alphabetically first sessions come first, unknown values last
    #[arg(long, value_name = "KEY", value_enum, default_value_t)]
    pub(crate) sort: SortKeyArg,

    /// Reverse the order
    #[arg(long)]
    pub(crate) reverse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortKeyArg {
    /// Time of the last activity
    #[default]
    Updated,
    /// Time of creation
    Created,
    /// Number of turns
    Turns,
    /// Number of tokens used
    Tokens,
    /// Title
    Title,
    /// Agent
    Provider,
}
