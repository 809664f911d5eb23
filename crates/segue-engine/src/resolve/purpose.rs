//! Lookup of the session for a task, a feature or a project: the most specific scope that was requested, and no other.
//!
//! A task has a separate session in each of its states. The lookup never falls back from a task to its feature, or from
//! a feature to the project, because an agent with the conversation of another scope would have the wrong history.

use std::fmt::Write as _;
use std::path::Path;

use segue_core::id::ProviderId;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{DecisionKind, Project, ResolutionStepKind, Session};
use segue_store::SessionFilter;

use super::{ResolutionTrace, format_session};
use crate::resolve::Resolver;
use crate::{ChatRequest, ResolveError};

impl Resolver {
    /// Finds the session for a purpose: the newest in the store, else a native session from the catalog. `None` if
    /// there is none.
    pub(super) async fn find_for_purpose(
        &self,
        request: &ChatRequest,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, ResolveError> {
        let kind = add_skipped_steps(&purpose.scope, trace);
        let filter = purpose_filter(purpose, &request.project, provider);
        let with_provider = provider.map_or(String::new(), |provider| format!(" with {provider}"));
        if let Some(session) = self.context.newest_session(filter).await? {
            let text = format!(
                "the newest session for {purpose}{with_provider} is {}, last used {}",
                format_session(&session),
                session.updated_at.strftime("%F %T UTC")
            );
            trace.add_step(kind, text);
            if !Path::new(&session.project.cwd).is_dir() {
                return Err(ResolveError::SessionDirectoryMissing(
                    session.id,
                    session.project.cwd,
                ));
            }
            let text = format!(
                "continuing session {} for {purpose}",
                format_session(&session)
            );
            trace.add_decision(DecisionKind::Continued, text);
            return Ok(Some(session));
        }
        trace.add_step(
            kind,
            format!("the store has no session for {purpose}{with_provider}"),
        );
        if let Some(session) = self
            .adopt_matching_native(request, purpose, provider, trace)
            .await?
        {
            return Ok(Some(session));
        }
        let mut text = format!("no session exists for {purpose}{with_provider} yet; starting one");
        if let Some(provider) = provider {
            let any_provider_filter = purpose_filter(purpose, &request.project, None);
            if let Some(other_session) = self.newest_with_turns(&any_provider_filter).await? {
                let _ = write!(
                    text,
                    ". To continue {} of {} instead, run `segue session handoff {} -p {provider}`",
                    format_session(&other_session),
                    other_session.provider,
                    other_session.id
                );
            }
        }
        trace.add_decision(DecisionKind::Session, text);
        Ok(None)
    }
}

/// Returns the filter for the sessions with a purpose, of one agent or of any. The lookup uses it, and so does the
/// condition that no session is created while one matches.
pub(crate) fn purpose_filter(
    purpose: &Purpose,
    project: &Project,
    provider: Option<&ProviderId>,
) -> SessionFilter {
    SessionFilter {
        project: Some(project.key.clone()),
        purpose: Some(purpose.clone()),
        provider: provider.cloned(),
        ..SessionFilter::default()
    }
}

/// Adds the steps that precede a scope as not requested. Returns the kind of step for the scope.
fn add_skipped_steps(scope: &Scope, trace: &mut ResolutionTrace) -> ResolutionStepKind {
    let kind = scope_step_kind(scope);
    for before in [
        ResolutionStepKind::Id,
        ResolutionStepKind::Task,
        ResolutionStepKind::Feature,
    ] {
        if before == kind {
            break;
        }
        trace.add_step(before, "not requested");
    }
    kind
}

fn scope_step_kind(scope: &Scope) -> ResolutionStepKind {
    match scope {
        Scope::Project => ResolutionStepKind::Project,
        Scope::Feature(_) => ResolutionStepKind::Feature,
        Scope::Task { .. } => ResolutionStepKind::Task,
    }
}
