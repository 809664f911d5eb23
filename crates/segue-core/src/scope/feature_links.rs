//! Links between sessions and what they are for: a feature has an active session, and a task has sessions for each of
//! its states.

use jiff::Timestamp;

use crate::id::FeatureId;
use crate::scope::{Purpose, Scope, TaskId, TaskState};
use crate::session::Session;

/// Properties of a session that is linked to a feature or a task.
pub trait Linked {
    /// Returns the purpose of the session. `None` if it has no specific purpose.
    fn purpose(&self) -> Option<&Purpose>;
    /// Returns the time at which the session was created.
    fn made_at(&self) -> Timestamp;
    /// Returns the time of the last activity in the session.
    fn touched_at(&self) -> Timestamp;
}

impl Linked for Session {
    fn purpose(&self) -> Option<&Purpose> {
        self.purpose.as_ref()
    }

    fn made_at(&self) -> Timestamp {
        self.created_at
    }

    fn touched_at(&self) -> Timestamp {
        self.updated_at
    }
}

/// Sessions that are linked to a feature, or to no feature.
#[derive(Debug, PartialEq, Eq)]
pub struct FeatureLinks<'a, S> {
    /// Feature. `None` for sessions without a feature.
    pub feature: Option<&'a FeatureId>,
    /// Sessions of the feature without a task, oldest first. The session with the latest activity is the active
    /// session.
    pub sessions: Vec<&'a S>,
    /// Tasks of the feature, sorted by name.
    pub tasks: Vec<TaskLinks<'a, S>>,
}

impl<'a, S: Linked> FeatureLinks<'a, S> {
    /// Returns the session that is resumed for a prompt about the feature. `None` if the feature has no session.
    #[must_use]
    pub fn active(&self) -> Option<&'a S> {
        newest(self.sessions.iter().copied())
    }
}

/// Sessions that are linked to a task.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskLinks<'a, S> {
    /// Name of the task.
    pub task: &'a TaskId,
    /// States sorted by name, each with its sessions, oldest first.
    pub states: Vec<(&'a TaskState, Vec<&'a S>)>,
}

impl<'a, S: Linked> TaskLinks<'a, S> {
    /// Returns the current state of the task, which is the state of the session with the latest activity.
    #[must_use]
    pub fn current(&self) -> Option<&'a TaskState> {
        let all = self.states.iter().flat_map(|(_, sessions)| sessions);
        let (_, state) = newest(all.copied())?.purpose()?.scope.task()?;
        Some(state)
    }
}

/// Returns the session with the latest activity. Of several with the same time, returns the last in the order.
fn newest<'a, S: Linked>(sessions: impl Iterator<Item = &'a S>) -> Option<&'a S> {
    sessions.max_by_key(|session| session.touched_at())
}

/// Groups sessions by feature, task and state. Sessions without a feature come first.
#[must_use]
pub fn links<S: Linked>(all: &[S]) -> Vec<FeatureLinks<'_, S>> {
    let mut sorted: Vec<&S> = all.iter().collect();
    sorted.sort_by_key(|session| session.made_at());
    let mut features: Vec<FeatureLinks<'_, S>> = Vec::new();
    for session in sorted {
        let scope = session.purpose().map(|purpose| &purpose.scope);
        let feature = scope.and_then(Scope::feature);
        let at = index_of(
            &mut features,
            |known| known.feature == feature,
            || FeatureLinks {
                feature,
                sessions: Vec::new(),
                tasks: Vec::new(),
            },
        );
        let Some(links) = features.get_mut(at) else {
            continue;
        };
        match scope.and_then(Scope::task) {
            None => links.sessions.push(session),
            Some((task, state)) => put(&mut links.tasks, task, state, session),
        }
    }
    features.sort_by_key(|links| links.feature);
    for links in &mut features {
        links.tasks.sort_by_key(|links| links.task);
        for task in &mut links.tasks {
            task.states.sort_by_key(|(state, _)| *state);
        }
    }
    features
}

fn put<'a, S>(
    tasks: &mut Vec<TaskLinks<'a, S>>,
    task: &'a TaskId,
    state: &'a TaskState,
    session: &'a S,
) {
    let at = index_of(
        tasks,
        |known| known.task == task,
        || TaskLinks {
            task,
            states: Vec::new(),
        },
    );
    let Some(links) = tasks.get_mut(at) else {
        return;
    };
    let states = &mut links.states;
    let at = index_of(states, |(known, _)| *known == state, || (state, Vec::new()));
    if let Some((_, sessions)) = states.get_mut(at) {
        sessions.push(session);
    }
}

/// Returns the index of the first entry that `is` accepts. Adds `new` if no entry matches.
fn index_of<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    let found = all.iter().position(is);
    found.unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct About(Option<Purpose>, i64, i64);

    impl Linked for About {
        fn purpose(&self) -> Option<&Purpose> {
            self.0.as_ref()
        }

        fn made_at(&self) -> Timestamp {
            Timestamp::from_second(self.1).unwrap()
        }

        fn touched_at(&self) -> Timestamp {
            Timestamp::from_second(self.2).unwrap()
        }
    }

    fn of(feature: Option<&str>, task: Option<(&str, &str)>) -> Option<Purpose> {
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
        Some(Purpose::of(scope))
    }

    #[test]
    fn sessions_are_put_together_by_what_they_are_about() {
        let all = [
            About(of(Some("pay"), Some(("t1", "in_qa"))), 5, 6),
            About(of(Some("pay"), None), 2, 9),
            About(of(Some("pay"), None), 1, 3),
            About(None, 1, 1),
            About(of(Some("pay"), Some(("t1", "in_dev"))), 4, 8),
            About(of(Some("pay"), Some(("t1", "in_dev"))), 3, 7),
            About(of(Some("auth"), None), 1, 1),
            About(of(None, Some(("t1", "in_dev"))), 1, 1),
        ];
        let links = links(&all);
        let features: Vec<_> = links.iter().map(|links| links.feature).collect();
        let names: Vec<_> = features
            .iter()
            .map(|id| id.map(FeatureId::as_str))
            .collect();
        assert_eq!(names, [None, Some("auth"), Some("pay")]);
        let [none, _, pay] = links.as_slice() else {
            panic!("{links:?}")
        };
        assert_eq!(none.sessions, [&all[3]]);
        assert_eq!(none.tasks.len(), 1);
        assert_eq!(pay.sessions, [&all[2], &all[1]]);
        assert_eq!(pay.active(), Some(&all[1]));
        let [task] = pay.tasks.as_slice() else {
            panic!("{pay:?}")
        };
        let states: Vec<_> = task
            .states
            .iter()
            .map(|(state, _)| state.as_str())
            .collect();
        assert_eq!(states, ["in_dev", "in_qa"]);
        assert_eq!(task.states[0].1, [&all[5], &all[4]]);
        assert_eq!(task.current().map(TaskState::as_str), Some("in_dev"));
    }
}
