//! The arguments of `segue session compact`.

use clap::Args;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use crate::config::NOBODY;

/// Sum up what was said in a session, so that its next prompt needs less
///
/// What was said becomes a checkpoint, without asking a model: goal, rules, decisions, files, commands, what is open; an
/// agent may read it then and add to it, as far as the record bears it out (`compaction.summariser`). The
/// next prompt opens a native session that is told it and the newest messages. Nothing is deleted: `session show` has
/// all of it, and `session checkpoint` shows, changes and restores what it was summed up to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session compact                    the newest session of this project
  segue session compact k3f9 --dry-run     what it would come to
  segue session compact k3f9 --summariser claude
                                           have Claude add what takes reading: decisions and why, what is next
  segue session checkpoint k3f9            what it came to")]
pub(crate) struct CompactArgs {
    /// The session, as `segue session info` takes it
    #[arg(value_name = "ID", default_value = "latest", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Who reads it and adds to it, instead of the configured summariser; `none` for nobody
    #[arg(long, value_name = "AGENT", value_parser = SumsUp::parse, conflicts_with = "dry_run")]
    pub(crate) summariser: Option<SumsUp>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Summariser that the user selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SumsUp {
    Nobody,
    Agent(ProviderId),
}

impl SumsUp {
    fn parse(text: &str) -> Result<Self, segue_core::id::IdError> {
        if text == NOBODY {
            return Ok(Self::Nobody);
        }
        ProviderId::parse(text).map(Self::Agent)
    }
}
