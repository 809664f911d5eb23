//! Policy for failures, cooldowns and context limits of agents, from the configuration.

use std::time::Duration;

use jiff::SignedDuration;
use segue_core::id::ProviderId;
use segue_core::policy::{AutoCompaction, ContextLimits, Policy};

use super::SettingsView;
use crate::key::{AgentKey, ConfigKey};
use crate::setting::{ConfigOrigin, ConfigValue};

/// Returns the default settings.
pub(crate) fn default_settings() -> Vec<(ConfigKey, ConfigValue)> {
    let policy = Policy::default();
    let names = policy.fallback.iter().map(ToString::to_string);
    vec![
        (ConfigKey::Fallback, ConfigValue::TextList(names.collect())),
        (
            ConfigKey::ErrorLimit,
            ConfigValue::Count(policy.error_limit.into()),
        ),
        (
            ConfigKey::Backoff,
            ConfigValue::Seconds(policy.backoff.unsigned_abs()),
        ),
        (
            ConfigKey::ContextLimit,
            ConfigValue::Count(policy.context.default_limit),
        ),
    ]
}

impl SettingsView<'_> {
    pub(crate) fn policy(&self) -> Policy {
        let default_policy = Policy::default();
        let error_limit = self.count(&ConfigKey::ErrorLimit);
        let error_limit = error_limit.and_then(|limit| u32::try_from(limit).ok());
        let names = self.text_list(&ConfigKey::Fallback);
        let mut context = ContextLimits {
            default_limit: self.count(&ConfigKey::ContextLimit).unwrap_or_default(),
            ..ContextLimits::default()
        };
        for key in self.0.keys() {
            let limit = self.count(key);
            match (key, limit) {
                (ConfigKey::Agent(agent, AgentKey::ContextLimit), Some(limit)) => {
                    let limit = agent.provider_id().map(|provider| (provider, limit));
                    context.providers.extend(limit);
                }
                (ConfigKey::ModelLimit(model), Some(limit)) => {
                    context.models.insert(model.clone(), limit);
                }
                _ => {}
            }
        }
        Policy {
            error_limit: error_limit.unwrap_or(default_policy.error_limit),
            backoff: self.backoff().unwrap_or(default_policy.backoff),
            context,
            fallback: names
                .iter()
                .filter_map(|name| ProviderId::parse(name).ok())
                .collect(),
            compaction: self.auto_compaction(),
        }
    }

    /// Returns which sessions are compacted automatically. Without the switch, these are all sessions if a source sets
    /// a budget, and only sessions with a role if the budget is the default.
    fn auto_compaction(&self) -> AutoCompaction {
        let switch = match self.value(&ConfigKey::CompactionAuto) {
            Some(ConfigValue::Bool(on)) => Some(*on),
            _ => None,
        };
        let budget = self.0.get(&ConfigKey::Budget);
        AutoCompaction::from_config(
            switch,
            budget.is_some_and(|entry| entry.origin != ConfigOrigin::Default),
        )
    }

    pub(crate) fn count(&self, key: &ConfigKey) -> Option<u64> {
        match self.value(key) {
            Some(ConfigValue::Count(count)) => Some(*count),
            _ => None,
        }
    }

    fn backoff(&self) -> Option<SignedDuration> {
        let duration: Duration = match self.value(&ConfigKey::Backoff) {
            Some(ConfigValue::Seconds(duration)) => *duration,
            _ => return None,
        };
        SignedDuration::try_from(duration).ok()
    }
}
