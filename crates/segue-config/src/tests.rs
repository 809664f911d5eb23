//! Fixtures for the tests of the configuration.

mod definitions;
mod sources;
mod trust;
mod values;
mod wrong;

use std::fs;

use segue_core::scope::RoleName;
use tempfile::TempDir;

use segue_core::agent::PermissionPolicy;

use super::*;

/// A temporary directory with the configuration files of a user and a project.
struct ConfigFixture(TempDir);

impl ConfigFixture {
    fn new(user: &str, project: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("project/.git")).unwrap();
        fs::create_dir_all(directory.path().join("project/deep")).unwrap();
        fs::write(
            directory.path().join("project/.git/HEAD"),
            "ref: refs/heads/main",
        )
        .unwrap();
        let fixture = Self(directory);
        fs::write(fixture.user_file(), user).unwrap();
        fs::write(fixture.project_file(), project).unwrap();
        fixture
    }

    fn user_file(&self) -> PathBuf {
        self.0.path().join("config.toml")
    }

    fn project_file(&self) -> PathBuf {
        self.0.path().join("project/segue.toml")
    }

    fn inputs(&self) -> ConfigInputs {
        ConfigInputs {
            home: self.0.path().join("home"),
            user_home: Some("/u".into()),
            cwd: self.0.path().join("project/deep"),
            project_root: self.0.path().join("project"),
            user_file: Some(ConfigSource {
                owner: ConfigOwner::User,
                path: self.user_file(),
                is_required: false,
            }),
            env_var: |_| None,
        }
    }

    fn load(&self) -> LoadedConfig {
        load(&self.inputs(), &ConfigFlags::default())
    }

    fn trust_project(&self) {
        let content = fs::read(self.project_file()).unwrap();
        let file = TrustedFile {
            path: self.project_file(),
            sha256: sha256_hex(&content),
            trusted_at: "2026-01-01T00:00:00Z".into(),
        };
        TrustStore::update(&self.inputs().home, |store| store.files.push(file)).unwrap();
    }
}

/// Returns the setting with this key in TOML.
fn find_setting<'a>(settings: &'a ConfigLayer, key: &str) -> Option<&'a ConfigEntry> {
    let mut entries = settings.iter();
    let (_, entry) = entries.find(|(candidate, _)| candidate.to_string() == key)?;
    Some(entry)
}

/// Returns the last key of a file.
fn key_of(toml: &str) -> ConfigKey {
    parse_text(toml).unwrap().into_keys().next_back().unwrap()
}

fn parse_text(text: &str) -> Result<ConfigLayer, Vec<ConfigProblem>> {
    parse::parse_file(text, Path::new("/etc/c.toml"), Some(Path::new("/u")))
}
