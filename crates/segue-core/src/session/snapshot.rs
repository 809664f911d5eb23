//! Snapshot of a session, from which plans are made.

use crate::id::ProviderId;
use crate::policy::{Cooldown, ProviderHealth};
use crate::session::{Leg, Session, Turn};

/// The state of a session at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSnapshot {
    /// The session.
    pub session: Session,
    /// The end of the chain that leads to the head, oldest first: from the last turn that an agent finished for segue, or
    /// all turns if there is none. It contains the last turn that was sent, if any was.
    pub recent_turns: Vec<Turn>,
    /// Legs of the session, oldest first.
    pub legs: Vec<Leg>,
    /// Failures and cooldowns of providers.
    pub providers: ProviderRecords,
}

/// Failures and cooldowns of providers, as recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderRecords {
    /// Health of each provider that has failures on record in the session.
    pub health: Vec<(ProviderId, ProviderHealth)>,
    /// Cooldowns of providers, including those that are over.
    pub cooldowns: Vec<Cooldown>,
}

impl ProviderRecords {
    /// Returns the health of a provider in the session.
    #[must_use]
    pub fn health_of(&self, provider: &ProviderId) -> ProviderHealth {
        let mut health = self.health.iter();
        let found = health.find(|(recorded, _)| recorded == provider);
        found.map_or_else(ProviderHealth::default, |(_, health)| *health)
    }

    /// Returns the cooldown of a provider, even an expired one. `None` if none is recorded.
    #[must_use]
    pub fn cooldown_of(&self, provider: &ProviderId) -> Option<&Cooldown> {
        let mut cooldowns = self.cooldowns.iter();
        cooldowns.find(|cooldown| cooldown.provider == *provider)
    }
}

impl SessionSnapshot {
    /// Returns the newest leg, open or ended.
    #[must_use]
    pub fn newest_leg(&self) -> Option<&Leg> {
        self.legs.last()
    }

    /// Returns the leg that has not ended. `None` if the newest one has.
    #[must_use]
    pub fn open_leg(&self) -> Option<&Leg> {
        self.newest_leg().filter(|leg| leg.ended.is_none())
    }
}
