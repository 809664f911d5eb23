//! Arguments of `segue session delete` and `forget`.

use clap::Args;

use super::OneArgs;

/// Delete a session: segue's record of it, and the agent's own session
///
/// The agent's own session is deleted the agent's way where it has one, else by removing its files. A copy goes to the
/// trash before, unless --purge is given; `segue session restore` brings it back. What another session of segue's runs on
/// stays, and so does a session that somebody is at work in.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session delete --dry-run latest       what would happen
  segue session delete claude:0b5e4c3a        a session that only Claude Code has
  segue session restore claude:0b5e4c3a       bring it back

A number from the last list is taken only with --dry-run: it may mean another session by now.
`segue session forget` deletes only segue's record.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// Say what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// For good: no copy is made, and those that there are go too
    #[arg(long)]
    pub(crate) purge: bool,

    /// Only the agent's own session; segue's record stays
    #[arg(long)]
    pub(crate) native: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Delete segue's record of a session; the agent's own session stays
///
/// The agent's own session is listed by itself from then on, and `segue chat --resume` takes it over again, without
/// the title, the tags and the turns of other agents that segue knew.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}
