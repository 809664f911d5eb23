//! Operations that an agent supports, and the method of each.

use serde::{Deserialize, Serialize};

use crate::enum_names::named_enum;

named_enum! {
    /// Method by which an agent offers an operation.
    pub enum CapabilitySource {
        /// A method of the agent's protocol.
        Protocol => "protocol",
        /// A flag on the agent's command line.
        Flag => "flag",
        /// The agent's session files, which segue reads.
        Files => "files",
    }
}

/// Method of each operation of an agent. `None` if the agent does not support the operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// Lists native sessions.
    pub list: Option<CapabilitySource>,
    /// Resumes a native session and replays its messages.
    pub load: Option<CapabilitySource>,
    /// Resumes a native session without a replay.
    pub resume: Option<CapabilitySource>,
    /// Resumes the newest native session of a directory.
    pub continue_last: Option<CapabilitySource>,
    /// Forks a native session.
    pub fork: Option<CapabilitySource>,
    /// Deletes a native session.
    pub delete: Option<CapabilitySource>,
    /// Stops a turn.
    pub cancel: Option<CapabilitySource>,
    /// Works in a mode that the caller chooses.
    pub modes: Option<CapabilitySource>,
    /// Uses a model that the caller chooses.
    pub models: Option<CapabilitySource>,
    /// Reports the usage of a turn.
    pub usage: Option<CapabilitySource>,
    /// Accepts MCP servers.
    pub mcp: Option<CapabilitySource>,
}

impl Capabilities {
    /// Returns each capability with its name, in the order of the documentation.
    #[must_use]
    pub fn entries(&self) -> [(&'static str, Option<CapabilitySource>); 11] {
        [
            ("list", self.list),
            ("load", self.load),
            ("resume", self.resume),
            ("continue_last", self.continue_last),
            ("fork", self.fork),
            ("delete", self.delete),
            ("cancel", self.cancel),
            ("modes", self.modes),
            ("models", self.models),
            ("usage", self.usage),
            ("mcp", self.mcp),
        ]
    }
}
