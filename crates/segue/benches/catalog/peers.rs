//! The others: where they are, and how they are called.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::home::Home;

/// Those that are installed.
pub(crate) struct Peers {
    pub(crate) fast_resume: Option<PathBuf>,
    pub(crate) agentsview: Option<PathBuf>,
    pub(crate) ripgrep: Option<PathBuf>,
}

impl Peers {
    pub(crate) fn from_environment() -> Self {
        let place = std::env::var_os("SEGUE_PEERS").map(PathBuf::from);
        if place.is_none() {
            println!(
                "only segue is measured: SEGUE_PEERS is not set (`cargo xtask peers` prints it)"
            );
        }
        let program = |name: &str| Some(place.as_ref()?.join(name)).filter(|path| path.is_file());
        Self {
            // `fast-resume` is a script that calls this one: it would take longer for the wrong reason.
            fast_resume: program("fr"),
            agentsview: place.as_deref().and_then(agentsview),
            ripgrep: program("rg"),
        }
    }
}

/// The program itself, which its script in Python would call.
fn agentsview(programs: &Path) -> Option<PathBuf> {
    let libraries = programs.parent()?.join("lib");
    let pythons = std::fs::read_dir(libraries).ok()?.flatten();
    let inside = |python: std::fs::DirEntry| {
        python
            .path()
            .join("site-packages/agentsview/bin/agentsview")
    };
    pythons.map(inside).find(|path| path.is_file())
}

/// The server without which agentsview answers no question. It ends with this value.
pub(crate) struct Server(Child);

impl Server {
    /// Starts it in a home that was synced, and waits until it answers.
    pub(crate) fn start(home: &Home, agentsview: &Path) -> Self {
        let args = [
            "serve",
            "--no-sync",
            "--no-browser",
            "--no-update-check",
            "--port",
            "0",
        ];
        let server = Self(home.command(agentsview, &args).spawn().unwrap());
        let answers = || {
            let mut list =
                agentsview_command(home, agentsview, &["session", "list", "--limit", "1"]);
            list.status().unwrap().success()
        };
        for _ in 0..600 {
            if answers() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("agentsview does not answer");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that starts no server of its own.
pub(crate) fn agentsview_command(home: &Home, agentsview: &Path, args: &[&str]) -> Command {
    let mut command = home.command(agentsview, args);
    command.env("AGENTSVIEW_NO_DAEMON", "1");
    command
}
