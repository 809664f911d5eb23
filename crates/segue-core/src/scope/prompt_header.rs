//! Tags at the start of a native session's first prompt: `[Feature: F] [Task: T/S] [Role: R]`.
//!
//! segue identifies a session by them if the store is lost. Tags count only at the very start of the user's first
//! prompt: tags in later text, or in text of an agent, are ordinary text.

use super::{Purpose, RoleName, Scope, TaskId, TaskState};
use crate::id::FeatureId;

/// Separator between the heading and the prompt.
const GAP: &str = "\n\n";

/// Renders the tags of a scope; `None` for a project, which needs none.
pub(super) fn of_scope(scope: &Scope) -> Option<String> {
    let feature = scope
        .feature()
        .map(|feature| format!("[Feature: {feature}]"));
    let task = scope.task();
    let task = task.map(|(task, state)| format!("[Task: {task}/{state}]"));
    match (feature, task) {
        (Some(feature), Some(task)) => Some(format!("{feature} {task}")),
        (feature, task) => feature.or(task),
    }
}

/// Renders the tag of a role; `None` if there is no role.
pub(super) fn of_role(role: Option<&RoleName>) -> Option<String> {
    role.map(|role| format!("[Role: {role}]"))
}

/// A prompt, split into its tags and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged<'a> {
    /// Purpose in the tags.
    pub purpose: Purpose,
    /// Text after the tags.
    pub rest: &'a str,
}

impl<'a> Tagged<'a> {
    /// Parses the tags at the start of a prompt; `None` if the prompt begins with anything else.
    #[must_use]
    pub fn read(prompt: &'a str) -> Option<Self> {
        let mut rest = prompt.trim_start();
        let feature = tag(&mut rest, "Feature", |name| FeatureId::parse(name).ok());
        let task = tag(&mut rest, "Task", |name| {
            let (task, state) = name.split_once('/')?;
            Some((TaskId::parse(task).ok()?, TaskState::parse(state).ok()?))
        });
        let scope = match (feature, task) {
            (feature, Some((task, state))) => Scope::Task {
                feature,
                task,
                state,
            },
            (Some(feature), None) => Scope::Feature(feature),
            (None, None) => return None,
        };
        let role = tag(&mut rest, "Role", |name| RoleName::parse(name).ok());
        Some(Self {
            purpose: Purpose { scope, role },
            // The separator that segue wrote is removed exactly; a user may have typed any whitespace.
            rest: rest.strip_prefix(GAP).unwrap_or_else(|| rest.trim_start()),
        })
    }

    /// Removes the tags at the start of a prompt, unless the prompt contains no other text.
    #[must_use]
    pub fn strip(prompt: &'a str) -> &'a str {
        let rest = Self::read(prompt).map(|tagged| tagged.rest);
        rest.filter(|rest| !rest.is_empty()).unwrap_or(prompt)
    }
}

/// Parses a tag with a valid name, and removes it and the spaces after it from `rest`. All tags are on one line, so
/// that the first line of a prompt is never parsed as part of its heading.
fn tag<T>(rest: &mut &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let inside = rest.strip_prefix('[')?.strip_prefix(what)?;
    let (name, after) = inside.strip_prefix(": ")?.split_once(']')?;
    let name = parse(name)?;
    *rest = after.trim_start_matches(' ');
    Some(name)
}

impl Purpose {
    /// Returns the heading for the first prompt of a new native session; `None` for a project.
    #[must_use]
    pub fn heading(&self) -> Option<String> {
        let scope = of_scope(&self.scope)?;
        Some(match of_role(self.role.as_ref()) {
            Some(role) => format!("{scope} {role}"),
            None => scope,
        })
    }

    /// Returns the heading for a first prompt without a brief; `None` for a project, or if the prompt already begins
    /// with the same tags.
    #[must_use]
    pub fn heading_over(&self, prompt: &str) -> Option<String> {
        let same = |tagged: Tagged<'_>| tagged.purpose == *self;
        self.heading()
            .filter(|_| !Tagged::read(prompt).is_some_and(same))
    }
}
