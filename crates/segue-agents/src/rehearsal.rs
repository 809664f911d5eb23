//! `rehearsal`, the built-in offline agent: segue's own program, started with a hidden subcommand.

use std::path::PathBuf;

use segue_core::agent::How;
use segue_core::id::ProviderId;

use crate::{AcpAgent, Leash};

/// Creates the rehearsal agent of `program`, with its sessions in `directory`.
#[must_use]
pub fn rehearsal(
    program: PathBuf,
    directory: PathBuf,
    leash: Leash,
    version: &'static str,
) -> AcpAgent {
    AcpAgent {
        provider: ProviderId::rehearsal(),
        program,
        args: vec!["rehearsal-agent".into(), directory.into()],
        env: Vec::new(),
        usage: Some(How::Protocol),
        mode: None,
        mode_otherwise: None,
        model: None,
        fails_silently: |_| false,
        leash,
        version,
    }
}
