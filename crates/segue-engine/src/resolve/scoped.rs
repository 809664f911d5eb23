//! The session of a task, a feature or the project: the most specific that was asked for, and no other.
//!
//! A task has a session of its own in each of its states. It never falls back to that of its feature, and no feature to
//! that of the project: whoever is handed another's conversation has the wrong past.

use std::fmt::Write as _;
use std::path::Path;

use segue_core::{DecisionKind, Project, ProviderId, Purpose, Scope, Session, StepKind};
use segue_store::Filter;

use super::{Trail, named};
use crate::{ChatRequest, Engine, EngineError};

impl Engine {
    /// The session that has a purpose: the newest in the store, else one that the catalog knows.
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

/// Which sessions have a purpose, with this agent or with any: by this they are looked up, and none is begun while one
/// fits.
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

/// Passes what comes before a scope and was not asked for; tells what the scope is looked up as.
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
