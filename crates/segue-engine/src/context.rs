//! What an agent in a role is told of the project: gathered once, kept, and gathered anew when its sources changed.

mod commits;
mod dagent;
mod documents;
mod structure;

use std::path::{Path, PathBuf};

use segue_core::{
    Commit, Context, Decision, DecisionKind, KeptContext, RoleDescription, RoleName, Scope,
    Session, Source, changed_sources,
};

use crate::{Engine, EngineError};

/// How much of the budget the documents of a context may take, of 100.
const SHARE: u64 = 30;

/// What they have at most, however large the budget is, in bytes.
const MOST: u64 = 48 * 1024;

/// How many bytes a token has, about.
const BYTES: u64 = 4;

/// A context, and how it came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// The context.
    pub kept: KeptContext,
    /// Why it is what it is.
    pub why: Gathering,
}

/// Whether a context was gathered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gathering {
    /// It was not: it is as it was kept.
    Kept,
    /// There was none yet.
    First,
    /// It was asked for.
    Asked,
    /// These sources have changed.
    Changed(Vec<String>),
}

/// What a new native session is told before all else, in a session with a role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) role: String,
    pub(crate) context: String,
    /// What of it is news to a person.
    pub(crate) news: Vec<Decision>,
}

impl Told {
    /// How many tokens it takes, about: each of its lines is quoted, which costs one more.
    pub(crate) fn tokens(&self) -> u64 {
        let of = |text: &str| {
            let lines = u64::try_from(text.lines().count()).unwrap_or(u64::MAX);
            segue_tokens::count(text).saturating_add(lines)
        };
        of(&self.role).saturating_add(of(&self.context))
    }
}

/// Where to look, and for what.
struct Place {
    cwd: PathBuf,
    root: PathBuf,
    scope: Scope,
    /// The commits, newest first; why not.
    commits: Result<Vec<Commit>, String>,
    /// How many bytes documents may have together.
    room: usize,
}

impl Engine {
    /// The same engine, with this program to ask for commits; without one, none are told.
    #[must_use]
    pub fn with_git(mut self, program: Option<PathBuf>) -> Self {
        self.git = program;
        self
    }

    /// What the agent is to be in a session. A role that nobody describes any more is an error: what it may do is not
    /// known.
    pub fn role_of(&self, session: &Session) -> Result<Option<&RoleDescription>, EngineError> {
        let purpose = session.purpose.as_ref();
        self.described(purpose.and_then(|purpose| purpose.role.as_ref()))
    }

    /// The description of a role, if one is asked for; an error if nobody describes it.
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

    /// What a session is told of its project, as it is now: what was kept, unless its sources have changed or it is to
    /// be gathered `anew`. Nothing is changed.
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
        // Whoever looks at files does not panic; if it did, what was kept would do.
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

    /// The same, and what was gathered is kept.
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

    /// How many tokens role and context take, by what was kept of them; a role that nobody describes takes none.
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

    /// What a new native session of a session is told of its role and the project; none without a role.
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

/// What a person should know of a context that was gathered.
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

/// The top of the repository that a directory is in, or itself.
fn root_of(cwd: &Path) -> PathBuf {
    let mut above = cwd.ancestors();
    let root = above.find(|directory| directory.join(".git").exists());
    root.unwrap_or(cwd).to_owned()
}

/// What a context is gathered from, each with what tells whether it has changed.
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

/// What tells whether a file or a directory has changed.
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
