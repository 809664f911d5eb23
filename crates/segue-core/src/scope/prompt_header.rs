//! Tags at the start of a native session's first prompt: `[Feature: F] [Task: T/S] [Role: R]`.
//!
//! segue identifies a session by them if the store is lost. Tags count only at the very start of the user's first
//! prompt: tags in later text, or in text of an agent, are ordinary text.

use super::{Purpose, RoleName, Scope, TaskId, TaskState};
use crate::id::FeatureId;

/// Separator between the heading and the prompt.
const HEADING_SEPARATOR: &str = "\n\n";

/// Renders the tags of a scope; `None` for a project, which needs none.
pub(super) fn render_scope_tags(scope: &Scope) -> Option<String> {
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

/// A prompt, split into its tags and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedPrompt<'a> {
    /// Purpose in the tags.
    pub purpose: Purpose,
    /// Text after the tags.
    pub text: &'a str,
}

impl<'a> TaggedPrompt<'a> {
    /// Parses the tags at the start of a prompt; `None` if the prompt begins with anything else.
    #[must_use]
    pub fn parse(prompt: &'a str) -> Option<Self> {
        let mut remaining = prompt.trim_start();
        let feature = parse_tag(&mut remaining, "Feature", |name| {
            FeatureId::parse(name).ok()
        });
        let task = parse_tag(&mut remaining, "Task", |name| {
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
        let role = parse_tag(&mut remaining, "Role", |name| RoleName::parse(name).ok());
        Some(Self {
            purpose: Purpose { scope, role },
            // The separator that segue wrote is removed exactly; a user may have typed any whitespace.
            text: remaining
                .strip_prefix(HEADING_SEPARATOR)
                .unwrap_or_else(|| remaining.trim_start()),
        })
    }

    /// Removes the tags at the start of a prompt, unless the prompt contains no other text.
    #[must_use]
    pub fn strip_tags(prompt: &'a str) -> &'a str {
        let text = Self::parse(prompt).map(|tagged| tagged.text);
        text.filter(|text| !text.is_empty()).unwrap_or(prompt)
    }
}

/// Parses a tag with a valid name, and removes it and the spaces after it from `remaining`. All tags are on one line,
/// so that the first line of a prompt is never parsed as part of its heading.
fn parse_tag<T>(remaining: &mut &str, label: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let inside = remaining.strip_prefix('[')?.strip_prefix(label)?;
    let (name, after) = inside.strip_prefix(": ")?.split_once(']')?;
    let name = parse(name)?;
    *remaining = after.trim_start_matches(' ');
    Some(name)
}

impl Purpose {
    /// Returns the heading for the first prompt of a new native session; `None` for a project.
    #[must_use]
    pub fn heading(&self) -> Option<String> {
        render_scope_tags(&self.scope).map(|tags| self.append_role_tag(tags))
    }

    /// Appends the tag of the role, if there is one, to the tags of the scope.
    pub(super) fn append_role_tag(&self, scope_tags: String) -> String {
        match &self.role {
            Some(role) => format!("{scope_tags} [Role: {role}]"),
            None => scope_tags,
        }
    }

    /// Returns the heading for a first prompt without a brief; `None` for a project, or if the prompt already begins
    /// with the same tags.
    #[must_use]
    pub fn heading_for_prompt(&self, prompt: &str) -> Option<String> {
        let is_same_purpose = |tagged: TaggedPrompt<'_>| tagged.purpose == *self;
        self.heading()
            .filter(|_| !TaggedPrompt::parse(prompt).is_some_and(is_same_purpose))
    }
}
