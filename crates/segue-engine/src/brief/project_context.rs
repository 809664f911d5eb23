//! Project context for an agent in a role: gathered once, cached, and rebuilt when its sources change.

mod commits;
mod dagent;
mod documents;
mod structure;

use std::path::{Path, PathBuf};

use segue_core::brief::{
    CachedContext, Commit, ContextSource, Preamble, ProjectContext, changed_sources,
};
use segue_core::scope::Scope;
use segue_core::session::{Decision, Session, TruncatedDocument};
use segue_store::StoreError;

use crate::AccessError;
use crate::brief::BriefPlanner;
use crate::context::run_blocking;

/// Percent of the budget that the documents of a context may use.
const DOCUMENT_BUDGET_PERCENT: u64 = 30;

/// Maximum size of all documents in bytes, however large the budget is.
const MAX_DOCUMENT_BYTES: u64 = 48 * 1024;

/// Approximate number of bytes per token.
const BYTES_PER_TOKEN: u64 = 4;

/// A project context, with the reason why it was rebuilt or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatheredContext {
    /// Context, as it is cached.
    pub cached: CachedContext,
    /// Reason why the context was rebuilt or not.
    pub rebuild: ContextRebuild,
}

/// Reason why a context was rebuilt or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextRebuild {
    /// The cached context is current, so it was not rebuilt.
    NotNeeded,
    /// No context was cached.
    First,
    /// The caller requested a rebuild, and no source has changed.
    Requested,
    /// The named sources have changed.
    SourcesChanged(Vec<String>),
}

/// Use of a project context, which decides whether a rebuilt context is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextUse {
    /// A preview, which stores nothing.
    Preview,
    /// The brief of a native session. A rebuilt context is stored.
    Brief,
}

/// Inputs for gathering a context.
struct ContextInputs {
    cwd: PathBuf,
    root: PathBuf,
    scope: Scope,
    /// Commits, newest first, or the reason why they cannot be listed.
    commits: Result<Vec<Commit>, String>,
    /// Maximum size of all documents together, in bytes.
    max_document_bytes: usize,
}

impl BriefPlanner {
    /// Returns the current project context of a session: the cached one, unless its sources have changed or
    /// `force_rebuild` requests a rebuild. Stores nothing.
    pub async fn current_context(
        &self,
        session: &Session,
        force_rebuild: bool,
    ) -> Result<GatheredContext, StoreError> {
        let previous = self.context.store.saved_context(&session.id).await?;
        let cwd = PathBuf::from(&session.project.cwd);
        let root = project_root(&cwd);
        let settings = &self.context.settings;
        let budget_bytes = settings.budget.saturating_mul(BYTES_PER_TOKEN);
        let max_bytes = budget_bytes.saturating_mul(DOCUMENT_BUDGET_PERCENT) / 100;
        let max_bytes = max_bytes.min(MAX_DOCUMENT_BYTES);
        let inputs = ContextInputs {
            commits: commits::list_newest_commits(settings.git.as_deref(), &root).await,
            scope: session
                .purpose
                .as_ref()
                .map_or(Scope::Project, |purpose| purpose.scope.clone()),
            cwd,
            root,
            max_document_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        };
        let cached_sources = previous.as_ref().map(|cached| cached.sources.clone());
        let gather_task = tokio::task::spawn_blocking(move || {
            let sources = collect_sources(&inputs);
            let is_current = !force_rebuild && cached_sources.is_some_and(|old| old == sources);
            (!is_current).then(|| {
                let context = build_context(&inputs);
                let tokens = segue_tokens::count(&context.render());
                (context, sources, tokens)
            })
        });
        // Reading files does not panic. If it did, the cached context would be used.
        let new_context = gather_task.await.unwrap_or_default();
        let (context, sources, tokens) = match (new_context, &previous) {
            (Some(new), _) => new,
            (None, None) => Default::default(),
            (None, Some(cached)) => {
                return Ok(GatheredContext {
                    cached: cached.clone(),
                    rebuild: ContextRebuild::NotNeeded,
                });
            }
        };
        let changed = previous.map(|previous| changed_sources(&previous.sources, &sources));
        let rebuild = match changed {
            None => ContextRebuild::First,
            Some(changed) if force_rebuild && changed.is_empty() => ContextRebuild::Requested,
            Some(changed) => ContextRebuild::SourcesChanged(changed),
        };
        let cached = CachedContext {
            tokens,
            context,
            sources,
            at: self.context.now(),
        };
        Ok(GatheredContext { cached, rebuild })
    }

    /// Returns the current project context of a session, as [`Self::current_context`] does, and stores it if it was
    /// rebuilt.
    pub async fn refresh_context(
        &self,
        session: &Session,
        force_rebuild: bool,
    ) -> Result<GatheredContext, StoreError> {
        let gathered = self.current_context(session, force_rebuild).await?;
        if gathered.rebuild != ContextRebuild::NotNeeded {
            let cached = gathered.cached.clone();
            self.context.store.save_context(&session.id, cached).await?;
        }
        Ok(gathered)
    }

    /// Estimates the tokens in role and cached context; 0 if the session has no role or one without a description.
    pub(crate) async fn preamble_tokens(&self, session: &Session) -> Result<u64, StoreError> {
        let Ok(Some(role)) = self.context.session_role(session) else {
            return Ok(0);
        };
        let stored = self.context.store.saved_context(&session.id).await?;
        let preamble = Preamble {
            role: role.render(),
            context: stored.map_or_else(String::new, |cached| cached.context.render()),
        };
        Ok(run_blocking(move || preamble.estimate_tokens(&segue_tokens::count)).await)
    }

    /// Gathers the preamble for a new native session, with the decisions to report about it. `None` if the session has
    /// no role.
    pub(crate) async fn gather_preamble(
        &self,
        session: &Session,
        context_use: ContextUse,
    ) -> Result<Option<(Preamble, Vec<Decision>)>, AccessError> {
        let Some(role) = self.context.session_role(session)? else {
            return Ok(None);
        };
        let gathered = match context_use {
            ContextUse::Brief => self.refresh_context(session, false).await?,
            ContextUse::Preview => self.current_context(session, false).await?,
        };
        let preamble = Preamble {
            role: role.render(),
            context: gathered.cached.context.render(),
        };
        let decisions = context_decision(&gathered).into_iter().collect();
        Ok(Some((preamble, decisions)))
    }
}

/// Returns the decision that reports which sources of a context changed and what is missing from it. `None` if the
/// context is the cached one, or if it is new and complete.
fn context_decision(gathered: &GatheredContext) -> Option<Decision> {
    let context = &gathered.cached.context;
    let spec = context
        .feature
        .as_ref()
        .and_then(|feature| feature.spec.as_ref());
    let documents = context.documents.iter().chain(spec);
    let truncated: Vec<TruncatedDocument> = documents
        .filter(|document| document.is_truncated())
        .map(|document| TruncatedDocument {
            name: document.name.clone(),
            included_bytes: document.text.len() as u64,
            total_bytes: document.size,
        })
        .collect();
    let notes = context.notes.clone();
    match &gathered.rebuild {
        ContextRebuild::NotNeeded => None,
        ContextRebuild::First | ContextRebuild::Requested => {
            let is_complete = truncated.is_empty() && notes.is_empty();
            (!is_complete).then_some(Decision::ContextIncomplete { truncated, notes })
        }
        ContextRebuild::SourcesChanged(changed) => Some(Decision::ContextRebuilt {
            changed: changed.clone(),
            truncated,
            notes,
        }),
    }
}

/// Returns the root of the repository that contains a directory, or the directory itself if no repository does.
fn project_root(cwd: &Path) -> PathBuf {
    segue_catalog::work_tree_root(cwd).unwrap_or(cwd).to_owned()
}

/// Returns the sources of a context, each with a stamp that changes when the source does.
fn collect_sources(inputs: &ContextInputs) -> Vec<ContextSource> {
    let source = |name: &str, stamp: String| ContextSource {
        name: name.to_owned(),
        stamp,
    };
    let head = match &inputs.commits {
        Ok(commits) => commits.first().map(|commit| commit.hash.clone()),
        Err(reason) => Some(reason.clone()),
    };
    let mut sources = vec![
        source("HEAD", head.unwrap_or_default()),
        source("the budget", inputs.max_document_bytes.to_string()),
        source("the files of the project", modification_stamp(&inputs.root)),
    ];
    let files = documents::list_document_paths(inputs).into_iter();
    let files = files.chain(dagent::list_source_files(inputs));
    sources.extend(files.map(|(name, path)| source(&name, modification_stamp(&path))));
    sources
}

/// Returns a stamp that changes when a file or a directory does, made from its modification time and its size.
fn modification_stamp(path: &Path) -> String {
    let Ok(metadata) = path.metadata() else {
        return "none".to_owned();
    };
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!(
        "{}:{}",
        since.map_or(0, |since| since.as_nanos()),
        metadata.len()
    )
}

fn build_context(inputs: &ContextInputs) -> ProjectContext {
    let mut notes = Vec::new();
    let (structure, is_complete) = structure::read_structure(&inputs.root);
    if !is_complete {
        notes.push("the project has more files than segue reads".to_owned());
    }
    let commits = inputs.commits.clone().unwrap_or_else(|reason| {
        notes.push(reason);
        Vec::new()
    });
    let mut document_budget = documents::DocumentBudget::new(inputs.max_document_bytes);
    let (feature, task) = dagent::read_feature_and_task(inputs, &mut document_budget, &mut notes);
    ProjectContext {
        structure,
        documents: documents::read_documents(inputs, &mut document_budget, &mut notes),
        commits,
        feature,
        task,
        notes,
    }
}

#[cfg(test)]
mod tests;
