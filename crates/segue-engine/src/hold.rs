//! Holding a session: a lease that is kept alive, and taken over from the dead.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
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

/// A session that is ours for a call.
pub(crate) struct Hold(Arc<Claim>);

/// The claim on a session: a call has it, an agent that waits for the next prompt has it, or both, while the call is at
/// work. It is given back when neither does.
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    /// The process group that runs on our behalf, for whoever may have to end it.
    pub(crate) agent: watch::Sender<Option<ProcessMark>>,
    store: Arc<dyn Store>,
    beating: JoinHandle<()>,
    standing: Arc<Mutex<Standing>>,
}

/// Who is at work with a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A call.
    InUse,
    /// Nobody: an agent waits.
    Waiting,
    /// It was given back.
    Over,
}

impl Engine {
    /// Claims a session. Where an agent of ours waits in it, it is ours already. Whoever lives keeps it; from the dead it
    /// is taken over, and what their agent left running is ended first.
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
                // Only its silence can tell; the store knows how long that has lasted.
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

    /// Keeps a lease alive.
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

/// Somebody else has the session. An agent of theirs that has ended does not wait for anything.
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

/// What shows that we are alive.
struct Beating {
    store: Arc<dyn Store>,
    lease: Lease,
    world: World,
    agent: watch::Receiver<Option<ProcessMark>>,
    standing: Arc<Mutex<Standing>>,
}

impl Beating {
    /// Shows it every few seconds and whenever another agent runs for us, until the claim is lost, or the agent that
    /// waited with it has died.
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
            // Whoever writes next is told that the lease is lost. Anything else, such as a busy store, may be
            // better at the next beat.
            let now = (self.world.now)();
            let beat = self.store.heartbeat(&self.lease, mark, now).await;
            if matches!(beat, Err(StoreError::LeaseLost(_))) {
                return;
            }
        }
    }
}

/// Whether it was as said, and so is now as wanted.
fn changed(standing: &Mutex<Standing>, from: Standing, to: Standing) -> bool {
    let mut standing = standing.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = *standing == from;
    if fits {
        *standing = to;
    }
    fits
}

impl Claim {
    /// Waits until the agent that was let go of is gone, so that nobody meets it in its native session.
    pub(crate) async fn agent_is_gone(&self) {
        let mark = self.agent.borrow().clone();
        if let Some(mark) = mark {
            wait_until_gone(&mark, FAREWELL).await;
        }
    }

    /// This agent runs for us. What is known already is not written down again.
    pub(crate) fn runs(&self, agent: ProcessMark) {
        self.agent.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&agent);
            *known = Some(agent);
            changed
        });
    }

    /// Whether an agent waits with it, and no call is at work.
    pub(crate) fn waits(&self) -> bool {
        let standing = self.standing.lock();
        let standing = *standing.unwrap_or_else(PoisonError::into_inner);
        standing == Standing::Waiting && !self.beating.is_finished()
    }

    /// The agent that waited is let go of. A call that is at work gives the session back by itself.
    pub(crate) async fn let_go(self: Arc<Self>) {
        self.give_back(Standing::Waiting).await;
    }

    /// If that fails, whoever comes next finds us dead or silent; what was done is done.
    async fn give_back(&self, from: Standing) {
        if changed(&self.standing, from, Standing::Over) {
            self.beating.abort();
            let _ = self.store.release(&self.lease).await;
        }
    }
}

impl Hold {
    /// A claim with which an agent waits, for the next call.
    fn again(claim: Arc<Claim>) -> Option<Self> {
        let lost = claim.beating.is_finished();
        (!lost && changed(&claim.standing, Standing::Waiting, Standing::InUse)).then(|| Self(claim))
    }

    /// The claim, for the agent that waits from now on: its program runs, so that nobody else may meet it in its native
    /// session. One that is started for each prompt is in nobody's way.
    pub(crate) fn for_agent(&self, process: Option<&ProcessMark>) -> Option<Arc<Claim>> {
        let runs = process.is_some_and(|mark| life(mark) != Life::Dead);
        runs.then(|| Arc::clone(&self.0))
    }

    /// Gives the session back, once, unless an agent waits in it.
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
    /// Whoever lets go of a call on the way lives on, so that nobody could take the session over: it is given back once
    /// the agent is gone, in the background.
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
