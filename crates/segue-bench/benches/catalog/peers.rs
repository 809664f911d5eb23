//! The other programs: their locations and command lines.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::home::BenchHome;

/// Paths of the other programs, or `None` for those that are not installed.
pub(crate) struct PeerPrograms {
    pub(crate) fast_resume: Option<PathBuf>,
    pub(crate) agentsview: Option<PathBuf>,
    pub(crate) ripgrep: Option<PathBuf>,
}

impl PeerPrograms {
    pub(crate) fn from_environment() -> Self {
        let directory = std::env::var_os("SEGUE_PEERS").map(PathBuf::from);
        if directory.is_none() {
            println!(
                "only segue is measured: SEGUE_PEERS is not set (`cargo xtask peers` prints it)"
            );
        }
        let find_program =
            |name: &str| Some(directory.as_ref()?.join(name)).filter(|path| path.is_file());
        Self {
            // `fast-resume` is a script that calls `fr`; measuring the script would add its startup time.
            fast_resume: find_program("fr"),
            agentsview: directory.as_deref().and_then(find_agentsview),
            ripgrep: find_program("rg"),
        }
    }
}

/// Finds the native program that the Python script `agentsview` calls.
fn find_agentsview(programs: &Path) -> Option<PathBuf> {
    let libraries = programs.parent()?.join("lib");
    let pythons = std::fs::read_dir(libraries).ok()?.flatten();
    let program_path = |python: std::fs::DirEntry| {
        python
            .path()
            .join("site-packages/agentsview/bin/agentsview")
    };
    pythons.map(program_path).find(|path| path.is_file())
}

/// The server that agentsview needs for queries. Dropping this value stops the server.
pub(crate) struct AgentsviewServer(Child);

impl AgentsviewServer {
    /// Starts the server in a synced home and waits until it responds.
    pub(crate) fn start(home: &BenchHome, agentsview: &Path) -> Self {
        let args = [
            "serve",
            "--no-sync",
            "--no-browser",
            "--no-update-check",
            "--port",
            "0",
        ];
        let server = Self(home.program_command(agentsview, &args).spawn().unwrap());
        let is_ready = || {
            let mut list =
                agentsview_command(home, agentsview, &["session", "list", "--limit", "1"]);
            list.status().unwrap().success()
        };
        for _ in 0..600 {
            if is_ready() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("agentsview does not respond");
    }
}

impl Drop for AgentsviewServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an agentsview command that does not start its own server.
pub(crate) fn agentsview_command(home: &BenchHome, agentsview: &Path, args: &[&str]) -> Command {
    let mut command = home.program_command(agentsview, args);
    command.env("AGENTSVIEW_NO_DAEMON", "1");
    command
}
