//! Arguments of `segue session delete` and `forget`.

use clap::Args;

use super::SessionRefArgs;

/// Delete a session, including the agent's native session
///
/// segue deletes the native session with the agent's own command if it has one, or removes its files. It first copies the
/// session to the trash, unless --purge is given or segue cannot read the agent's files; `segue session restore` brings it
/// back. segue does not delete a native session that another session uses, or a session that is in use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session delete --dry-run latest       show what would be deleted
  segue session delete claude:0b5e4c3a        delete a native session of Claude Code
  segue session restore claude:0b5e4c3a       restore it

A list number is accepted only with --dry-run, because it may refer to another session by now.
`segue session forget` deletes only segue's record.")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Show what would be deleted, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Delete permanently, including all copies in the archive and the trash
    #[arg(long)]
    pub(crate) purge: bool,

    /// Delete only the native session; segue's record remains
    #[arg(long)]
    pub(crate) native: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Delete segue's record of a session, but not the native session
///
/// segue then lists the native session separately, and `segue chat --resume` adopts it again, without the title, the tags
/// and the turns of other agents.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
