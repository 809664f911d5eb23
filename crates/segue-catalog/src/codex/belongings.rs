//! Artifacts of a Codex session: its rollouts, and those that they continue.
//!
//! Codex's databases also contain rows of the session. segue ignores them: a command of Codex removes them, and Codex
//! recreates them from a restored rollout.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segue_core::id::NativeId;

use super::{Codex, home};
use crate::belongings::Gathering;
use crate::{Belongings, Found, KeepError, Keeping, Reader, Role};

impl Keeping for Codex {
    fn home(&self) -> &Path {
        self.home.root()
    }

    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError> {
        let mut all = Gathering::new(self.home.root())?;
        all.main(&found.path)?;
        for path in self.home.files_of(id.as_str()) {
            all.file(&path, Role::Side);
        }
        // A fork shares records with its parent that only the parent's file contains.
        let history = self.history(found)?;
        for path in history.paths() {
            let own = home::name(path).is_some_and(|name| name.session == id.as_str());
            all.file(path, if own { Role::Side } else { Role::Shared });
        }
        Ok(all.done())
    }

    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader> {
        Arc::new(Self::new(home))
    }
}
