//! Holding a session: a lease that is kept alive, and taken over from the dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use segue_agents::{Life, end_agent, life, wait_until_gone};
use segue_core::{Decision, DecisionKind, ProcessMark, SessionId};
use segue_store::{Holder, Lease, LeaseRequest, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Engine, EngineError, World};

/// How often a holder shows that it is alive.
const BEAT: Duration = Duration::from_secs(5);

/// How long a silent holder is believed in, where nothing else can tell whether it lives.
pub(crate) const EXPIRES_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// How long an agent that was let go of may take to be gone.
const FAREWELL: Duration = Duration::from_secs(8);

/// A session that is ours.
pub(crate) struct Hold {
    pub(crate) lease: Lease,
    /// The process group that runs on our behalf, for whoever may have to end it.
    pub(crate) agent: watch::Sender<Option<ProcessMark>>,
    store: Arc<dyn Store>,
    beating: JoinHandle<()>,
    given_back: AtomicBool,
}

impl Engine {
    /// Claims a session. Whoever lives keeps it; from the dead it is taken over, and what their agent left
    /// running is ended first.
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
        if let Some(by) = self.store.holder(id).await? {
            match life(&by.owner) {
                Life::Alive => {
                    let (session, by) = (id.clone(), Box::new(by));
                    return Err(StoreError::Held { session, by }.into());
                }
                Life::Dead => {
                    if let Some(agent) = &by.agent {
                        end_agent(agent).await;
                    }
                    request.dead_epoch = Some(by.epoch);
                }
                // Only its silence can tell; the store knows how long that has lasted.
                Life::Unknown => {}
            }
        }
        let granted = self.store.acquire(request).await?;
        let decision = granted.taken_from.as_ref().map(taken_over);
        Ok((self.keep(granted.lease), decision))
    }

    /// Keeps a lease alive.
    pub(crate) fn keep(&self, lease: Lease) -> Hold {
        let (agent, watched) = watch::channel(None);
        let store = Arc::clone(&self.store);
        let beating = beat(
            Arc::clone(&store),
            lease.clone(),
            self.world.clone(),
            watched,
        );
        Hold {
            lease,
            agent,
            store,
            beating: tokio::spawn(beating),
            given_back: AtomicBool::new(false),
        }
    }
}

fn taken_over(from: &Holder) -> Decision {
    let why = match life(&from.owner) {
        Life::Dead => "which ended without giving it back",
        Life::Alive | Life::Unknown => "which has been silent for too long",
    };
    let text = format!(
        "took the session over from process {}, {why}",
        from.owner.pid
    );
    Decision::new(DecisionKind::TakenOver, text)
}

/// Shows that we are alive, every few seconds and whenever another agent runs for us.
async fn beat(
    store: Arc<dyn Store>,
    lease: Lease,
    world: World,
    mut agent: watch::Receiver<Option<ProcessMark>>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            changed = agent.changed() => if changed.is_err() { return },
        }
        let mark = agent.borrow_and_update().clone();
        // Whoever writes next is told that the lease is lost. Anything else, such as a busy store, may be
        // better at the next beat.
        let beat = store.heartbeat(&lease, mark, (world.now)()).await;
        if matches!(beat, Err(StoreError::LeaseLost(_))) {
            return;
        }
    }
}

impl Hold {
    /// Waits until the agent that was let go of is gone, so that nobody meets it in its native session.
    pub(crate) async fn agent_is_gone(&self) {
        let mark = self.agent.borrow().clone();
        if let Some(mark) = mark {
            wait_until_gone(&mark, FAREWELL).await;
        }
    }

    /// Gives the session back, once. If that fails, whoever comes next finds us dead or silent; what was done is
    /// done.
    pub(crate) async fn release(&self) {
        if self.given_back.swap(true, Ordering::Relaxed) {
            return;
        }
        self.beating.abort();
        let _ = self.store.release(&self.lease).await;
    }
}

impl Drop for Hold {
    /// Whoever lets go of a call on the way lives on, so that nobody could take the session over: it is given back once
    /// the agent is gone, in the background.
    fn drop(&mut self) {
        self.beating.abort();
        if self.given_back.swap(true, Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
        let agent = self.agent.borrow().clone();
        runtime.spawn(async move {
            if let Some(agent) = agent {
                wait_until_gone(&agent, FAREWELL).await;
            }
            let _ = store.release(&lease).await;
        });
    }
}
