//! What an agent can do, and how.

use crate::names::names;

/// By which means an agent offers an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A method of its protocol.
    Protocol,
    /// A flag on its command line.
    Flag,
    /// Its session files, read by us.
    Files,
}

names!(How {
    Protocol => "protocol",
    Flag => "flag",
    Files => "files",
});

/// What one agent can do; `None` is "can't", which differs from "has nothing to show".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// List its native sessions.
    pub list: Option<How>,
    /// Go on with a native session and replay it.
    pub load: Option<How>,
    /// Go on with a native session without replaying.
    pub resume: Option<How>,
    /// Go on with the newest native session of a directory.
    pub continue_last: Option<How>,
    /// Branch off a native session.
    pub fork: Option<How>,
    /// Delete a native session.
    pub delete: Option<How>,
    /// Stop a turn.
    pub cancel: Option<How>,
    /// Work in a mode the caller chooses.
    pub modes: Option<How>,
    /// Use a model the caller chooses.
    pub models: Option<How>,
    /// Say what a turn used.
    pub usage: Option<How>,
    /// Take MCP servers.
    pub mcp: Option<How>,
}

impl Capabilities {
    /// Each capability with its name, in the order of the documentation.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Option<How>); 11] {
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
