//! Policy for failures, cooldowns and context limits of agents, from the configuration.

use std::time::Duration;

use jiff::SignedDuration;
use segue_core::id::ProviderId;
use segue_core::policy::{AutoCompaction, ContextLimits, Policy};

use super::View;
use crate::config::key::{AgentKey, Key};
use crate::config::value::{Origin, Value};

/// Returns the default settings.
pub(super) fn defaults() -> Vec<(Key, Value)> {
    let policy = Policy::default();
    let names = policy.fallback.iter().map(ToString::to_string);
    vec![
        (Key::Fallback, Value::Texts(names.collect())),
        (Key::ErrorLimit, Value::Count(policy.error_limit.into())),
        (Key::Backoff, Value::Seconds(policy.backoff.unsigned_abs())),
        (Key::ContextLimit, Value::Count(policy.context.usual)),
    ]
}

impl View<'_> {
    pub(super) fn policy(&self) -> Policy {
        let usual = Policy::default();
        let limit = self.count(&Key::ErrorLimit);
        let limit = limit.and_then(|limit| u32::try_from(limit).ok());
        let names = self.texts(&Key::Fallback);
        let mut context = ContextLimits {
            usual: self.count(&Key::ContextLimit).unwrap_or_default(),
            ..ContextLimits::default()
        };
        for key in self.0.keys() {
            let limit = self.count(key);
            match (key, limit) {
                (Key::Agent(who, AgentKey::ContextLimit), Some(limit)) => {
                    let limit = who.provider().map(|provider| (provider, limit));
                    context.providers.extend(limit);
                }
                (Key::ModelLimit(model), Some(limit)) => {
                    context.models.insert(model.clone(), limit);
                }
                _ => {}
            }
        }
        Policy {
            error_limit: limit.unwrap_or(usual.error_limit),
            backoff: self.backoff().unwrap_or(usual.backoff),
            context,
            fallback: names
                .iter()
                .filter_map(|name| ProviderId::parse(name).ok())
                .collect(),
            compaction: self.compaction(),
        }
    }

    /// Returns which sessions are compacted automatically. Without the switch, these are all sessions if a source sets
    /// a budget, and only sessions with a role if the budget is the default.
    fn compaction(&self) -> AutoCompaction {
        let switch = match self.value(&Key::CompactionAuto) {
            Some(Value::Switch(on)) => Some(*on),
            _ => None,
        };
        let budget = self.0.get(&Key::Budget);
        AutoCompaction::of(
            switch,
            budget.is_some_and(|set| set.origin != Origin::Default),
        )
    }

    pub(super) fn count(&self, key: &Key) -> Option<u64> {
        match self.value(key) {
            Some(Value::Count(count)) => Some(*count),
            _ => None,
        }
    }

    fn backoff(&self) -> Option<SignedDuration> {
        let time: Duration = match self.value(&Key::Backoff) {
            Some(Value::Seconds(time)) => *time,
            _ => return None,
        };
        SignedDuration::try_from(time).ok()
    }
}
