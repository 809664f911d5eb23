//! Lookup of the session for a task, a feature or a project: the most specific scope that was requested, and no other.
//!
//! A task has a separate session in each of its states. The lookup never falls back from a task to its feature, or from
//! a feature to the project, because an agent with the conversation of another scope would have the wrong history.

use std::fmt::Write as _;
use std::path::Path;

use segue_core::id::ProviderId;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{DecisionKind, Project, Session, StepKind};
use segue_store::Filter;

use super::{Trail, named};
use crate::{ChatRequest, Engine, EngineError};

impl Engine {
    /// Finds the session for a purpose: the newest in the store, else a native session from the catalog. `None` if
    /// there is none.
    pub(super) async fn scoped(
        &self,
        request: &ChatRequest,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        trail: &mut Trail,
    ) -> Result<Option<Session>, EngineError> {
        let kind = pass(&purpose.scope, trail);
        let filter = having(purpose, &request.project, provider);
        let with = provider.map_or(String::new(), |provider| format!(" with {provider}"));
        if let Some(session) = self.newest(filter).await? {
            let text = format!(
                "the newest session for {purpose}{with} is {}, last used {}",
                named(&session),
                session.updated_at.strftime("%F %T UTC")
            );
            trail.step(kind, text);
            if !Path::new(&session.project.cwd).is_dir() {
                return Err(EngineError::NoDirectoryOf(session.id, session.project.cwd));
            }
            let text = format!("continuing session {} for {purpose}", named(&session));
            trail.decide(DecisionKind::Continued, text);
            return Ok(Some(session));
        }
        trail.step(
            kind,
            format!("the store has no session for {purpose}{with}"),
        );
        if let Some(session) = self.known_again(request, purpose, provider, trail).await? {
            return Ok(Some(session));
        }
        let mut text = format!("there is no session for {purpose}{with} yet; starting one");
        if let Some(provider) = provider {
            let anybody = having(purpose, &request.project, None);
            if let Some(other) = self.newest_said(&anybody).await? {
                let _ = write!(
                    text,
                    ". To go on with {}, which {} has for it: segue session handoff {} -p {provider}",
                    named(&other),
                    other.provider,
                    other.id
                );
            }
        }
        trail.decide(DecisionKind::Session, text);
        Ok(None)
    }
}

/// Returns the filter for the sessions with a purpose, of one agent or of any. It serves for the lookup, and for the
/// condition that no session is created while one matches.
pub(crate) fn having(
    purpose: &Purpose,
    project: &Project,
    provider: Option<&ProviderId>,
) -> Filter {
    Filter {
        project: Some(project.key.clone()),
        purpose: Some(purpose.clone()),
        provider: provider.cloned(),
        ..Filter::default()
    }
}

/// Adds the steps that precede a scope as not requested. Returns the kind of step for the scope.
fn pass(scope: &Scope, trail: &mut Trail) -> StepKind {
    let kind = kind_of(scope);
    for before in [StepKind::Id, StepKind::Task, StepKind::Feature] {
        if before == kind {
            break;
        }
        trail.step(before, "not asked for");
    }
    kind
}

fn kind_of(scope: &Scope) -> StepKind {
    match scope {
        Scope::Project => StepKind::Project,
        Scope::Feature(_) => StepKind::Feature,
        Scope::Task { .. } => StepKind::Task,
    }
}
