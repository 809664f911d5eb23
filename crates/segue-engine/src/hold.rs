//! Leases on sessions, which a heartbeat extends and which are taken over from dead processes.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use segue_agents::{Life, end_agent, life, wait_until_gone};
use segue_core::agent::ProcessMark;
use segue_core::id::SessionId;
use segue_core::session::{Decision, DecisionKind};
use segue_store::{Holder, Lease, LeaseRequest, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Engine, EngineError, World};

/// Interval between two heartbeats.
const BEAT: Duration = Duration::from_secs(5);

/// Time after which an owner without heartbeats loses its lease, if nothing else shows whether its process is alive.
pub(crate) const EXPIRES_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// Maximum time to wait for a released agent to exit.
const FAREWELL: Duration = Duration::from_secs(8);

/// A lease on a session, for the duration of a call.
pub(crate) struct Hold(Arc<Claim>);

/// A lease on a session that a call, an agent that waits for the next prompt, or both share. It is released when
/// neither needs it.
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    /// Process group that runs for the owner of the lease, so that a process that takes the lease over can end it.
    pub(crate) agent: watch::Sender<Option<ProcessMark>>,
    store: Arc<dyn Store>,
    beating: JoinHandle<()>,
    standing: Arc<Mutex<Standing>>,
}

/// Current user of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A call uses the lease.
    InUse,
    /// No call uses the lease, but an agent waits for the next prompt.
    Waiting,
    /// The lease is released.
    Over,
}

impl Engine {
    /// Acquires the lease on a session. If an agent of this engine waits in the session, its lease is reused. Fails if
    /// the owner of the lease is alive. If the owner is dead, ends the agent that it left running, and takes the lease
    /// over, which the decision reports.
    pub(crate) async fn hold(
        &self,
        id: &SessionId,
    ) -> Result<(Hold, Option<Decision>), EngineError> {
        if let Some(hold) = self.warm.claim_of(id).await.and_then(Hold::again) {
            return Ok((hold, None));
        }
        let mut request = LeaseRequest {
            session: id.clone(),
            owner: self.world.me.clone(),
            at: (self.world.now)(),
            expires_after: EXPIRES_AFTER,
            dead_epoch: None,
        };
        if let Some(by) = self.store.holder(id).await? {
            match life(&by.owner) {
                Life::Alive => return Err(held(id, by)),
                Life::Dead => {
                    if let Some(agent) = &by.agent {
                        end_agent(agent).await;
                    }
                    request.dead_epoch = Some(by.epoch);
                }
                // Only missing heartbeats can show that the owner is dead, and the store has the time of the last one.
                Life::Unknown => {}
            }
        }
        let granted = match self.store.acquire(request).await {
            Err(StoreError::Held { by, .. }) => return Err(held(id, *by)),
            granted => granted?,
        };
        let decision = granted.taken_from.as_ref().map(taken_over);
        Ok((self.keep(granted.lease), decision))
    }

    /// Starts the heartbeat of a lease.
    pub(crate) fn keep(&self, lease: Lease) -> Hold {
        let (agent, watched) = watch::channel(None);
        let standing = Arc::new(Mutex::new(Standing::InUse));
        let beating = Beating {
            store: Arc::clone(&self.store),
            lease: lease.clone(),
            world: self.world.clone(),
            agent: watched,
            standing: Arc::clone(&standing),
        };
        Hold(Arc::new(Claim {
            lease,
            agent,
            store: Arc::clone(&self.store),
            beating: tokio::spawn(beating.go_on()),
            standing,
        }))
    }
}

/// Creates the error for a session that another process uses. Removes an agent that has ended, because it does not wait
/// for a prompt.
pub(crate) fn held(id: &SessionId, mut by: Holder) -> EngineError {
    by.agent = by.agent.filter(|agent| life(agent) != Life::Dead);
    let (session, by) = (id.clone(), Box::new(by));
    StoreError::Held { session, by }.into()
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

/// Heartbeat of a lease.
struct Beating {
    store: Arc<dyn Store>,
    lease: Lease,
    world: World,
    agent: watch::Receiver<Option<ProcessMark>>,
    standing: Arc<Mutex<Standing>>,
}

impl Beating {
    /// Sends a heartbeat every few seconds, and whenever another agent runs for the lease. Ends if the lease is lost.
    /// If the agent that waited has died, releases the lease and ends.
    async fn go_on(mut self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                changed = self.agent.changed() => if changed.is_err() { return },
            }
            let mark = self.agent.borrow_and_update().clone();
            let died = mark.as_ref().is_some_and(|mark| life(mark) == Life::Dead);
            if died && changed(&self.standing, Standing::Waiting, Standing::Over) {
                let _ = self.store.release(&self.lease).await;
                return;
            }
            // The next write reports a lost lease. Any other error, such as a busy store, may not occur at the next
            // heartbeat.
            let now = (self.world.now)();
            let beat = self.store.heartbeat(&self.lease, mark, now).await;
            if matches!(beat, Err(StoreError::LeaseLost(_))) {
                return;
            }
        }
    }
}

/// Changes the user of a lease from `from` to `to`. Returns `true` if it was `from`.
fn changed(standing: &Mutex<Standing>, from: Standing, to: Standing) -> bool {
    let mut standing = standing.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = *standing == from;
    if fits {
        *standing = to;
    }
    fits
}

impl Claim {
    /// Waits until the released agent has exited, so that no other process uses its native session at the same time.
    pub(crate) async fn agent_is_gone(&self) {
        let mark = self.agent.borrow().clone();
        if let Some(mark) = mark {
            wait_until_gone(&mark, FAREWELL).await;
        }
    }

    /// Sets the agent that runs for the lease. Sends no heartbeat if that agent was set before.
    pub(crate) fn runs(&self, agent: ProcessMark) {
        self.agent.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&agent);
            *known = Some(agent);
            changed
        });
    }

    /// Returns `true` if an agent waits with the lease and no call uses it.
    pub(crate) fn waits(&self) -> bool {
        let standing = self.standing.lock();
        let standing = *standing.unwrap_or_else(PoisonError::into_inner);
        standing == Standing::Waiting && !self.beating.is_finished()
    }

    /// Releases the lease after the waiting agent has ended. If a call uses the lease, that call releases it.
    pub(crate) async fn let_go(self: Arc<Self>) {
        self.give_back(Standing::Waiting).await;
    }

    /// Releases the lease if its current user is `from`. An error is ignored, because the next process takes the lease
    /// over from a dead or silent owner, and recorded turns are safe.
    async fn give_back(&self, from: Standing) {
        if changed(&self.standing, from, Standing::Over) {
            self.beating.abort();
            let _ = self.store.release(&self.lease).await;
        }
    }
}

impl Hold {
    /// Reuses the lease of a waiting agent for the next call. `None` if the lease is lost or in use.
    fn again(claim: Arc<Claim>) -> Option<Self> {
        let lost = claim.beating.is_finished();
        (!lost && changed(&claim.standing, Standing::Waiting, Standing::InUse)).then(|| Self(claim))
    }

    /// Returns the lease for an agent that waits from now on. Its process runs, so no other process may use its native
    /// session. `None` for an agent that starts a process for each prompt, because it blocks no other process between
    /// prompts.
    pub(crate) fn for_agent(&self, process: Option<&ProcessMark>) -> Option<Arc<Claim>> {
        let runs = process.is_some_and(|mark| life(mark) != Life::Dead);
        runs.then(|| Arc::clone(&self.0))
    }

    /// Releases the lease, unless an agent waits with it. Further calls do nothing.
    pub(crate) async fn release(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.give_back(Standing::InUse).await;
        }
    }
}

impl Deref for Hold {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        changed(&self.standing, Standing::InUse, Standing::Waiting);
    }
}

impl Drop for Claim {
    /// Releases the lease in the background, once the agent has exited. If the caller drops a call, its process stays
    /// alive, so no other process could take the lease over.
    fn drop(&mut self) {
        self.beating.abort();
        if !changed(&self.standing, Standing::Waiting, Standing::Over) {
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
