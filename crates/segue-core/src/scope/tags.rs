//! The tags at the head of a native session's first prompt: `[Feature: F] [Task: T/S] [Role: R]`.
//!
//! They are how a session is known again when the store is lost. They count only at the very start of the first prompt
//! of a person: what follows, or what an agent wrote, is text.

use super::{Purpose, RoleName, Scope, TaskId, TaskState};
use crate::FeatureId;

/// What is between a heading and the prompt.
const GAP: &str = "\n\n";

/// The tags of a scope; none for a project, which needs none.
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

/// The tag of a role.
pub(super) fn of_role(role: Option<&RoleName>) -> Option<String> {
    role.map(|role| format!("[Role: {role}]"))
}

/// A prompt, apart from the tags it begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged<'a> {
    /// What the tags say.
    pub purpose: Purpose,
    /// What follows them.
    pub rest: &'a str,
}

impl<'a> Tagged<'a> {
    /// Reads the tags that a prompt begins with; none if it begins with anything else.
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
            // What we wrote comes off exactly; a person may have left any blanks.
            rest: rest.strip_prefix(GAP).unwrap_or_else(|| rest.trim_start()),
        })
    }

    /// A prompt without the tags it begins with, unless there is nothing else in it.
    #[must_use]
    pub fn strip(prompt: &'a str) -> &'a str {
        let rest = Self::read(prompt).map(|tagged| tagged.rest);
        rest.filter(|rest| !rest.is_empty()).unwrap_or(prompt)
    }
}

/// Takes one tag with a name that can be one, and the blanks after it. All tags are on one line, so that what a prompt
/// begins with is never taken for a part of its heading.
fn tag<T>(rest: &mut &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let inside = rest.strip_prefix('[')?.strip_prefix(what)?;
    let (name, after) = inside.strip_prefix(": ")?.split_once(']')?;
    let name = parse(name)?;
    *rest = after.trim_start_matches(' ');
    Some(name)
}

impl Purpose {
    /// The line that the first prompt of a new native session is headed with; none for a project.
    #[must_use]
    pub fn heading(&self) -> Option<String> {
        let scope = of_scope(&self.scope)?;
        Some(match of_role(self.role.as_ref()) {
            Some(role) => format!("{scope} {role}"),
            None => scope,
        })
    }

    /// The same for a first prompt that nothing else comes before: one that begins with these tags needs no others.
    #[must_use]
    pub fn heading_over(&self, prompt: &str) -> Option<String> {
        let same = |tagged: Tagged<'_>| tagged.purpose == *self;
        self.heading()
            .filter(|_| !Tagged::read(prompt).is_some_and(same))
    }
}
