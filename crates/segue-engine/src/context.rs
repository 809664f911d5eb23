//! Project context for an agent in a role: gathered once, cached, and rebuilt when its sources change.

mod commits;
mod dagent;
mod documents;
mod structure;

use std::path::{Path, PathBuf};

use segue_core::agent::RoleDescription;
use segue_core::brief::{Commit, Context, KeptContext, Source, changed_sources};
use segue_core::scope::{RoleName, Scope};
use segue_core::session::{Decision, DecisionKind, Session};

use crate::{Engine, EngineError};

/// Percent of the budget that the documents of a context may use.
const SHARE: u64 = 30;

/// Maximum size of all documents in bytes, however large the budget is.
const MOST: u64 = 48 * 1024;

/// Approximate number of bytes per token.
const BYTES: u64 = 4;

/// A project context, with the reason why it was rebuilt or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// Context, as it is cached.
    pub kept: KeptContext,
    /// Reason why the context was rebuilt or not.
    pub why: Gathering,
}

/// Reason why a context was rebuilt or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gathering {
    /// The cached context is current, so it was not rebuilt.
    Kept,
    /// No context was cached.
    First,
    /// The caller requested a rebuild, and no source has changed.
    Asked,
    /// The named sources have changed.
    Changed(Vec<String>),
}

/// Preamble of a brief, in a session with a role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) role: String,
    pub(crate) context: String,
    /// Decisions about the context to report to the user.
    pub(crate) news: Vec<Decision>,
}

impl Told {
    /// Estimates the tokens in the preamble. Each line counts one token more, because the brief quotes it.
    pub(crate) fn tokens(&self) -> u64 {
        let of = |text: &str| {
            let lines = u64::try_from(text.lines().count()).unwrap_or(u64::MAX);
            segue_tokens::count(text).saturating_add(lines)
        };
        of(&self.role).saturating_add(of(&self.context))
    }
}

/// Inputs for gathering a context.
struct Place {
    cwd: PathBuf,
    root: PathBuf,
    scope: Scope,
    /// Commits, newest first, or the reason why they cannot be listed.
    commits: Result<Vec<Commit>, String>,
    /// Maximum size of all documents together, in bytes.
    room: usize,
}

impl Engine {
    /// Sets the git program that lists commits. With `None`, contexts contain no commits.
    #[must_use]
    pub fn with_git(mut self, program: Option<PathBuf>) -> Self {
        self.git = program;
        self
    }

    /// Returns the role of the agent in a session; `None` if the session has no role. Fails if the role has no
    /// description, because its limits are unknown then.
    pub fn role_of(&self, session: &Session) -> Result<Option<&RoleDescription>, EngineError> {
        let purpose = session.purpose.as_ref();
        self.described(purpose.and_then(|purpose| purpose.role.as_ref()))
    }

    /// Returns the description of a role; `None` if no role is given. Fails if the role has no description.
    pub fn described(
        &self,
        role: Option<&RoleName>,
    ) -> Result<Option<&RoleDescription>, EngineError> {
        let Some(name) = role else {
            return Ok(None);
        };
        let found = self.roles.get(name);
        found.map(Some).ok_or_else(|| EngineError::UnknownRole {
            role: name.clone(),
            known: self.roles.iter().map(|role| role.name.clone()).collect(),
        })
    }

    /// Returns the current project context of a session: the cached one, unless its sources have changed or `anew`
    /// requests a rebuild. Stores nothing.
    pub async fn context_of(&self, session: &Session, anew: bool) -> Result<Gathered, EngineError> {
        let before = self.store.context(&session.id).await?;
        let cwd = PathBuf::from(&session.project.cwd);
        let root = root_of(&cwd);
        let bytes = (self.budget.saturating_mul(BYTES * SHARE) / 100).min(MOST);
        let place = Place {
            commits: commits::newest(self.git.as_deref(), &root).await,
            scope: match &session.purpose {
                Some(purpose) => purpose.scope.clone(),
                None => Scope::Project,
            },
            cwd,
            root,
            room: usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let known = before.as_ref().map(|before| before.sources.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let sources = sources(&place);
            let same = !anew && known.is_some_and(|known| known == sources);
            (!same).then(|| (gather(&place), sources))
        });
        // Reading files does not panic. If it did, the cached context would be used.
        let looked = looking.await.unwrap_or_default();
        let (context, sources, why) = match (looked, before) {
            (None, Some(kept)) => {
                let why = Gathering::Kept;
                return Ok(Gathered { kept, why });
            }
            (None, None) => (Context::default(), Vec::new(), Gathering::First),
            (Some((context, sources)), None) => (context, sources, Gathering::First),
            (Some((context, sources)), Some(before)) => {
                let changed = changed_sources(&before.sources, &sources);
                let why = if anew && changed.is_empty() {
                    Gathering::Asked
                } else {
                    Gathering::Changed(changed)
                };
                (context, sources, why)
            }
        };
        let kept = KeptContext {
            tokens: segue_tokens::count(&context.written()),
            context,
            sources,
            at: (self.world.now)(),
        };
        Ok(Gathered { kept, why })
    }

    /// Returns the current project context of a session, as [`Engine::context_of`] does, and stores it if it was
    /// rebuilt.
    pub async fn refresh_context(
        &self,
        session: &Session,
        anew: bool,
    ) -> Result<Gathered, EngineError> {
        let gathered = self.context_of(session, anew).await?;
        if gathered.why != Gathering::Kept {
            let kept = gathered.kept.clone();
            self.store.keep_context(&session.id, kept).await?;
        }
        Ok(gathered)
    }

    /// Estimates the tokens in role and cached context; 0 if the session has no role or one without a description.
    pub(crate) async fn told_always(&self, session: &Session) -> Result<u64, EngineError> {
        let Ok(Some(role)) = self.role_of(session) else {
            return Ok(0);
        };
        let kept = self.store.context(&session.id).await?;
        let told = Told {
            role: role.written(),
            context: kept.map_or_else(String::new, |kept| kept.context.written()),
            news: Vec::new(),
        };
        Ok(told.tokens())
    }

    /// Composes the preamble for a new native session, and stores a rebuilt context if `keeps` is `true`. `None` if the
    /// session has no role.
    pub(crate) async fn told_first(
        &self,
        session: &Session,
        keeps: bool,
    ) -> Result<Option<Told>, EngineError> {
        let Some(role) = self.role_of(session)? else {
            return Ok(None);
        };
        let gathered = if keeps {
            self.refresh_context(session, false).await?
        } else {
            self.context_of(session, false).await?
        };
        let news = news(&gathered).map(|text| Decision::new(DecisionKind::Context, text));
        Ok(Some(Told {
            role: role.written(),
            context: gathered.kept.context.written(),
            news: news.into_iter().collect(),
        }))
    }
}

/// Describes for the user which sources of a context changed and what is missing from it. `None` if the context is the
/// cached one, or if it is new and complete.
fn news(gathered: &Gathered) -> Option<String> {
    let context = &gathered.kept.context;
    let spec = context
        .feature
        .as_ref()
        .and_then(|feature| feature.spec.as_ref());
    let cut = context.documents.iter().chain(spec);
    let cut = cut.filter(|document| document.is_cut());
    let cut = cut.map(|document| {
        format!(
            "{} is told up to {} of {} bytes",
            document.name,
            document.text.len(),
            document.size
        )
    });
    let lacks: Vec<String> = cut.chain(context.notes.iter().cloned()).collect();
    let lacks = (!lacks.is_empty()).then(|| lacks.join("; "));
    match (&gathered.why, lacks) {
        (Gathering::Kept, _) | (Gathering::First | Gathering::Asked, None) => None,
        (Gathering::First | Gathering::Asked, Some(lacks)) => {
            Some(format!("the context lacks something: {lacks}"))
        }
        (Gathering::Changed(names), lacks) => {
            let lacks = lacks.map_or(String::new(), |lacks| format!("; {lacks}"));
            Some(format!(
                "the context was gathered anew, since it changed: {}{lacks}",
                names.join(", ")
            ))
        }
    }
}

/// Returns the root of the repository that contains a directory, or the directory itself if no repository does.
fn root_of(cwd: &Path) -> PathBuf {
    segue_catalog::work_tree_root(cwd).unwrap_or(cwd).to_owned()
}

/// Returns the sources of a context, each with a stamp that changes when the source does.
fn sources(place: &Place) -> Vec<Source> {
    let source = |name: &str, stamp: String| Source {
        name: name.to_owned(),
        stamp,
    };
    let head = match &place.commits {
        Ok(commits) => commits.first().map(|commit| commit.hash.clone()),
        Err(why) => Some(why.clone()),
    };
    let mut sources = vec![
        source("HEAD", head.unwrap_or_default()),
        source("the budget", place.room.to_string()),
        source("the files of the project", stamp(&place.root)),
    ];
    let files = documents::places(place).into_iter();
    let files = files.chain(dagent::places(place));
    sources.extend(files.map(|(name, path)| source(&name, stamp(&path))));
    sources
}

/// Returns a stamp that changes when a file or a directory does, made from its modification time and its size.
fn stamp(path: &Path) -> String {
    let Ok(about) = path.metadata() else {
        return "none".to_owned();
    };
    let modified = about.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!(
        "{}:{}",
        since.map_or(0, |since| since.as_nanos()),
        about.len()
    )
}

fn gather(place: &Place) -> Context {
    let mut notes = Vec::new();
    let (structure, all) = structure::survey(&place.root);
    if !all {
        notes.push("the project has more files than were looked at".to_owned());
    }
    let commits = place.commits.clone().unwrap_or_else(|why| {
        notes.push(why);
        Vec::new()
    });
    let mut room = documents::Room::of(place.room);
    let (feature, task) = dagent::read(place, &mut room, &mut notes);
    Context {
        structure,
        documents: documents::read(place, &mut room, &mut notes),
        commits,
        feature,
        task,
        notes,
    }
}

#[cfg(test)]
mod tests;
