//! Fixtures for the tests of the configuration.

mod sources;
mod trust;
mod values;
mod wrong;

use std::fs;

use segue_core::scope::RoleName;
use tempfile::TempDir;

use super::key::{AgentKey, Wait};
use super::*;

/// A temporary directory with the configuration files of a user and a project.
struct Machine(TempDir);

impl Machine {
    fn new(user: &str, project: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("project/.git")).unwrap();
        fs::create_dir_all(directory.path().join("project/deep")).unwrap();
        fs::write(
            directory.path().join("project/.git/HEAD"),
            "ref: refs/heads/main",
        )
        .unwrap();
        let machine = Self(directory);
        fs::write(machine.user(), user).unwrap();
        fs::write(machine.project(), project).unwrap();
        machine
    }

    fn user(&self) -> PathBuf {
        self.0.path().join("config.toml")
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project/segue.toml")
    }

    fn at(&self) -> Surroundings {
        Surroundings {
            home: self.0.path().join("home"),
            user_home: Some("/u".into()),
            cwd: self.0.path().join("project/deep"),
            user_file: Some(Source {
                owner: Owner::User,
                path: self.user(),
                named: false,
            }),
            variable: |_| None,
        }
    }

    fn load(&self) -> Loaded {
        load(&self.at(), &Flags::default())
    }

    fn trust(&self) {
        let content = fs::read(self.project()).unwrap();
        let file = TrustedFile {
            path: self.project(),
            sha256: fingerprint(&content),
            trusted_at: "2026-01-01T00:00:00Z".into(),
        };
        Trusted::change(&self.at().home, |list| list.files.push(file)).unwrap();
    }
}

fn parse(text: &str) -> Result<Layer, Vec<Problem>> {
    read::read(text, Path::new("/etc/c.toml"), Some(Path::new("/u")))
}
