//! Agents that the engine drives.

use std::sync::Arc;

use segue_core::id::ProviderId;
use segue_core::session::DroppedSetting;
use segue_providers::{Agent, find_provider};

use crate::native::acp_provider;
use crate::{AccessError, ChatRequest};

/// The agents that an engine drives, in order of preference.
#[derive(Clone)]
pub struct AgentRegistry(Vec<Arc<dyn Agent>>);

impl AgentRegistry {
    pub(crate) fn new(agents: Vec<Arc<dyn Agent>>) -> Self {
        Self(agents)
    }

    /// Returns the agent of a provider, for example to query its capabilities ([`Agent::probe`]) and its configuration
    /// ([`Agent::defaults`]). Fails if the engine has no such agent.
    pub fn get(&self, provider: &ProviderId) -> Result<&Arc<dyn Agent>, AccessError> {
        self.0
            .iter()
            .find(|agent| agent.provider() == provider)
            .ok_or_else(|| AccessError::UnknownProvider {
                provider: provider.clone(),
                available: self.providers().cloned().collect(),
            })
    }

    /// Returns the providers of all agents, in order of preference.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderId> {
        self.0.iter().map(|agent| agent.provider())
    }

    /// Returns the provider that can resume the native sessions of `native_provider`; `None` if the engine has no such
    /// agent.
    pub(crate) fn find_driver(&self, native_provider: &ProviderId) -> Option<ProviderId> {
        let candidates = [Some(native_provider.clone()), acp_provider(native_provider)];
        let mut drivers = candidates.into_iter().flatten();
        drivers.find(|provider| self.get(provider).is_ok())
    }

    /// Returns the provider that drives the native sessions of `native_provider`, or that will once it is configured.
    pub(crate) fn driver_or_default(&self, native_provider: &ProviderId) -> ProviderId {
        self.find_driver(native_provider)
            .unwrap_or_else(|| default_driver(native_provider))
    }

    /// Returns the settings of `from` that do not exist or differ in `to`, except those that the request sets.
    pub(crate) fn dropped_settings(
        &self,
        from: &ProviderId,
        to: &ProviderId,
        request: Option<&ChatRequest>,
    ) -> Vec<DroppedSetting> {
        let (Ok(old), Ok(new)) = (self.get(from), self.get(to)) else {
            return Vec::new();
        };
        if from == to {
            return Vec::new();
        }
        let (old, new) = (old.defaults(), new.defaults());
        let permissions_requested = request.is_some_and(|request| request.permissions.is_some());
        let is_policy_changed = old.permissions != new.permissions && !permissions_requested;
        let permissions = is_policy_changed.then_some(DroppedSetting::Permissions {
            old: old.permissions,
            new: new.permissions,
        });
        let mode = old
            .mode
            .map(|old| DroppedSetting::Mode { old, new: new.mode });
        let requested_model = request.and_then(|request| request.model.clone());
        let model = old.model.map(|old| DroppedSetting::Model {
            old,
            new: requested_model.or(new.model),
        });
        permissions.into_iter().chain(mode).chain(model).collect()
    }
}

/// Returns the provider that will drive the sessions of an agent that segue cannot drive now: the agent itself if segue
/// has built-in support for it, or else `acp:NAME`, which the user has to configure.
fn default_driver(native_provider: &ProviderId) -> ProviderId {
    let has_built_in_support = find_provider(native_provider.as_str())
        .is_some_and(|descriptor| descriptor.driver.is_some());
    acp_provider(native_provider)
        .filter(|_| !has_built_in_support)
        .unwrap_or_else(|| native_provider.clone())
}
