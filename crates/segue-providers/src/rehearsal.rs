//! The rehearsal agent, which is built in and works offline: segue's own program, started with a hidden subcommand.

use std::path::PathBuf;

use segue_core::agent::CapabilitySource;
use segue_core::id::ProviderId;

use crate::{AcpAgent, LeashCommand};

/// Creates the rehearsal agent that runs `program` and stores its sessions in `sessions_dir`.
#[must_use]
pub fn rehearsal_agent(
    program: PathBuf,
    sessions_dir: PathBuf,
    leash: LeashCommand,
    version: &'static str,
) -> AcpAgent {
    AcpAgent {
        provider: ProviderId::rehearsal(),
        program,
        args: vec!["rehearsal-agent".into(), sessions_dir.into()],
        env: Vec::new(),
        usage_source: Some(CapabilitySource::Protocol),
        mode: None,
        fallback_mode: None,
        model: None,
        can_fail_silently: |_| false,
        leash,
        version,
    }
}
