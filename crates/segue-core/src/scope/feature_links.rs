//! Links between sessions and what they are for: a feature has an active session, and a task has sessions for each of
//! its states.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::id::FeatureId;
use crate::scope::{Purpose, Scope, TaskId, TaskState};

/// Properties of a session that is linked to a feature or a task.
pub trait HasPurpose {
    /// Returns the purpose of the session. `None` if it has no specific purpose.
    fn purpose(&self) -> Option<&Purpose>;
    /// Returns the time at which the session was created.
    fn created_at(&self) -> Timestamp;
    /// Returns the time of the last activity in the session.
    fn updated_at(&self) -> Timestamp;
}

/// Sessions that are linked to a feature, or to no feature.
#[derive(Debug, PartialEq, Eq)]
pub struct FeatureLinks<'a, S> {
    /// Feature. `None` for sessions without a feature.
    pub feature: Option<&'a FeatureId>,
    /// Sessions of the feature without a task, oldest first. The session with the latest activity is the active
    /// session.
    pub sessions: Vec<&'a S>,
    /// Tasks of the feature by name.
    pub tasks: BTreeMap<&'a TaskId, TaskLinks<'a, S>>,
}

impl<'a, S: HasPurpose> FeatureLinks<'a, S> {
    /// Returns the session that is resumed for a prompt about the feature. `None` if the feature has no session.
    #[must_use]
    pub fn active_session(&self) -> Option<&'a S> {
        find_most_recent(self.sessions.iter().copied())
    }
}

/// Sessions that are linked to a task.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskLinks<'a, S> {
    /// Name of the task.
    pub task: &'a TaskId,
    /// Sessions of each state by its name, oldest first.
    pub states: BTreeMap<&'a TaskState, Vec<&'a S>>,
}

impl<'a, S: HasPurpose> TaskLinks<'a, S> {
    /// Returns the current state of the task, which is the state of the session with the latest activity.
    #[must_use]
    pub fn current_state(&self) -> Option<&'a TaskState> {
        let all = self.states.values().flatten();
        let (_, state) = find_most_recent(all.copied())?.purpose()?.scope.task()?;
        Some(state)
    }
}

/// Returns the session with the latest activity. Of several with the same time, returns the last in the order.
fn find_most_recent<'a, S: HasPurpose>(sessions: impl Iterator<Item = &'a S>) -> Option<&'a S> {
    sessions.max_by_key(|session| session.updated_at())
}

/// Groups sessions by feature, task and state. Sessions without a feature come first.
#[must_use]
pub fn group_by_feature<S: HasPurpose>(sessions: &[S]) -> Vec<FeatureLinks<'_, S>> {
    let mut sorted: Vec<&S> = sessions.iter().collect();
    sorted.sort_by_key(|session| session.created_at());
    let mut features: BTreeMap<Option<&FeatureId>, FeatureLinks<'_, S>> = BTreeMap::new();
    for session in sorted {
        let scope = session.purpose().map(|purpose| &purpose.scope);
        let feature = scope.and_then(Scope::feature);
        let links = features.entry(feature).or_insert_with(|| FeatureLinks {
            feature,
            sessions: Vec::new(),
            tasks: BTreeMap::new(),
        });
        let Some((task, state)) = scope.and_then(Scope::task) else {
            links.sessions.push(session);
            continue;
        };
        let task_links = links.tasks.entry(task).or_insert_with(|| TaskLinks {
            task,
            states: BTreeMap::new(),
        });
        task_links.states.entry(state).or_default().push(session);
    }
    features.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct TestSession(Option<Purpose>, i64, i64);

    impl HasPurpose for TestSession {
        fn purpose(&self) -> Option<&Purpose> {
            self.0.as_ref()
        }

        fn created_at(&self) -> Timestamp {
            Timestamp::from_second(self.1).unwrap()
        }

        fn updated_at(&self) -> Timestamp {
            Timestamp::from_second(self.2).unwrap()
        }
    }

    fn purpose_for(feature: Option<&str>, task: Option<(&str, &str)>) -> Option<Purpose> {
        let feature = feature.map(|name| FeatureId::parse(name).unwrap());
        let scope = match (feature, task) {
            (feature, Some((task, state))) => Scope::Task {
                feature,
                task: TaskId::parse(task).unwrap(),
                state: TaskState::parse(state).unwrap(),
            },
            (Some(feature), None) => Scope::Feature(feature),
            (None, None) => return None,
        };
        Some(Purpose::for_scope(scope))
    }

    #[test]
    fn sessions_are_grouped_by_feature_task_and_state() {
        let sessions = [
            TestSession(purpose_for(Some("pay"), Some(("t1", "in_qa"))), 5, 6),
            TestSession(purpose_for(Some("pay"), None), 2, 9),
            TestSession(purpose_for(Some("pay"), None), 1, 3),
            TestSession(None, 1, 1),
            TestSession(purpose_for(Some("pay"), Some(("t1", "in_dev"))), 4, 8),
            TestSession(purpose_for(Some("pay"), Some(("t1", "in_dev"))), 3, 7),
            TestSession(purpose_for(Some("auth"), None), 1, 1),
            TestSession(purpose_for(None, Some(("t1", "in_dev"))), 1, 1),
        ];
        let groups = group_by_feature(&sessions);
        let features: Vec<_> = groups.iter().map(|group| group.feature).collect();
        let names: Vec<_> = features
            .iter()
            .map(|id| id.map(FeatureId::as_str))
            .collect();
        assert_eq!(names, [None, Some("auth"), Some("pay")]);
        let [no_feature, _, pay] = groups.as_slice() else {
            panic!("{groups:?}")
        };
        assert_eq!(no_feature.sessions, [&sessions[3]]);
        assert_eq!(no_feature.tasks.len(), 1);
        assert_eq!(pay.sessions, [&sessions[2], &sessions[1]]);
        assert_eq!(pay.active_session(), Some(&sessions[1]));
        assert_eq!(pay.tasks.len(), 1);
        let (_, task) = pay.tasks.first_key_value().unwrap();
        let states: Vec<_> = task.states.keys().map(|state| state.as_str()).collect();
        assert_eq!(states, ["in_dev", "in_qa"]);
        let (_, in_dev) = task.states.first_key_value().unwrap();
        assert_eq!(*in_dev, [&sessions[5], &sessions[4]]);
        assert_eq!(task.current_state().map(TaskState::as_str), Some("in_dev"));
    }
}
