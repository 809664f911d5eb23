//! Holding a session: a lease that is kept alive, and taken over from the dead.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use segue_agents::{end_group, is_alive};
use segue_core::{Decision, DecisionKind, ProcessMark, SessionId};
use segue_store::{Lease, LeaseRequest, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Engine, EngineError, World};

/// How often a holder shows that it is alive.
const BEAT: Duration = Duration::from_secs(5);

/// How long a silent holder is believed in.
const EXPIRES_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// A session that is ours.
pub(crate) struct Hold {
    pub(crate) lease: Lease,
    store: Arc<dyn Store>,
    world: World,
    agent: watch::Sender<Option<ProcessMark>>,
    beating: JoinHandle<()>,
}

impl Engine {
    /// Claims a session. A claim of a dead process is taken over; what its agent left running is ended first.
    pub(crate) async fn hold(
        &self,
        id: &SessionId,
    ) -> Result<(Hold, Option<Decision>), EngineError> {
        let mut request = LeaseRequest {
            session: id.clone(),
            owner: self.world.me.clone(),
            at: (self.world.now)(),
            expires_after: EXPIRES_AFTER,
            dead_epoch: None,
        };
        let granted = match self.store.acquire(request.clone()).await {
            Err(StoreError::Held { by, .. }) if !is_alive(&by.owner) => {
                request.dead_epoch = Some(by.epoch);
                self.store.acquire(request).await?
            }
            outcome => outcome?,
        };
        let decision = granted.taken_from.map(|from| {
            if let Some(agent) = &from.agent {
                end_group(agent);
            }
            let text = format!(
                "took the session over from process {}, which ended without giving it back",
                from.owner.pid
            );
            Decision::new(DecisionKind::TakenOver, text)
        });
        let (agent, _) = watch::channel(None);
        let beating = tokio::spawn(beat(
            Arc::clone(&self.store),
            granted.lease.clone(),
            self.world.clone(),
            agent.subscribe(),
        ));
        let hold = Hold {
            lease: granted.lease,
            store: Arc::clone(&self.store),
            world: self.world.clone(),
            agent,
            beating,
        };
        Ok((hold, decision))
    }
}

async fn beat(
    store: Arc<dyn Store>,
    lease: Lease,
    world: World,
    agent: watch::Receiver<Option<ProcessMark>>,
) {
    loop {
        tokio::time::sleep(BEAT).await;
        let mark = agent.borrow().clone();
        // Whoever writes next is told that the lease is lost. Anything else, such as a busy store, may be
        // better at the next beat.
        let beat = store.heartbeat(&lease, mark, (world.now)()).await;
        if matches!(beat, Err(StoreError::LeaseLost(_))) {
            return;
        }
    }
}

impl Hold {
    /// Notes which process group runs on our behalf, for whoever may have to end it.
    pub(crate) async fn runs(&self, agent: Option<ProcessMark>) -> Result<(), StoreError> {
        self.agent.send_replace(agent.clone());
        self.store
            .heartbeat(&self.lease, agent, (self.world.now)())
            .await
    }

    /// Gives the session back.
    pub(crate) async fn release(self) -> Result<(), StoreError> {
        self.beating.abort();
        self.store.release(&self.lease).await
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.beating.abort();
    }
}
