//! Leases on sessions, which a heartbeat extends and which are taken over from dead processes.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use segue_core::agent::ProcessIdentity;
use segue_core::id::SessionId;
use segue_core::session::{Decision, Session, SessionStatus, TakeoverCause, TurnState};
use segue_providers::{ProcessStatus, end_agent, process_status, wait_until_ended};
use segue_store::{Lease, LeaseHolder, LeaseRequest, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::Instrument;
use tracing::field::Empty;

use crate::leg::agent_pool::AgentPool;
use crate::{AccessError, Environment};

/// Interval between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which an owner without heartbeats loses its lease, if nothing else shows whether its process is alive.
pub(crate) const LEASE_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// Maximum time to wait for a released agent to exit.
const AGENT_EXIT_TIMEOUT: Duration = Duration::from_secs(8);

/// A lease on a session, for the duration of a call.
pub(crate) struct LeaseGuard(Arc<SharedLease>);

/// A lease on a session that a call, an agent that waits for the next prompt, or both share. It is released when
/// neither needs it.
pub(crate) struct SharedLease {
    pub(crate) lease: Lease,
    /// Process group that runs for the owner of the lease, so that a process that takes the lease over can end it.
    pub(crate) agent: watch::Sender<Option<ProcessIdentity>>,
    store: Arc<dyn Store>,
    heartbeat: JoinHandle<()>,
    state: Arc<Mutex<LeaseState>>,
}

/// Current user of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// A call uses the lease.
    InUse,
    /// No call uses the lease, but an agent waits for the next prompt.
    Waiting,
    /// The lease is released.
    Released,
}

/// Access to the leases on sessions.
pub(crate) struct Leases {
    store: Arc<dyn Store>,
    environment: Environment,
    agent_pool: Arc<AgentPool>,
}

impl Leases {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Environment,
        agent_pool: Arc<AgentPool>,
    ) -> Self {
        Self {
            store,
            environment,
            agent_pool,
        }
    }

    /// Returns the status of a session. A turn that is marked as running without a live process was interrupted.
    pub(crate) async fn session_status(
        &self,
        session: &Session,
    ) -> Result<SessionStatus, AccessError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(SessionStatus::Idle);
        }
        if self.live_lease_holder(&session.id).await?.is_some() {
            return Ok(SessionStatus::Running);
        }
        // The turn and its lease may have ended since the session was read.
        let current = self.store.session(&session.id).await?;
        let is_unchanged = current.is_some_and(|current| {
            (current.head, current.head_state) == (session.head, session.head_state)
        });
        Ok(if is_unchanged {
            SessionStatus::Interrupted
        } else {
            SessionStatus::Idle
        })
    }

    /// Returns the owner of a session's lease if it is alive, as far as segue can determine. An agent that this process
    /// keeps running for the next prompt does not count.
    pub(crate) async fn live_lease_holder(
        &self,
        id: &SessionId,
    ) -> Result<Option<LeaseHolder>, AccessError> {
        if let Some(claim) = self.agent_pool.shared_lease(id).await
            && claim.is_waiting()
        {
            return Ok(None);
        }
        let holder = self.store.lease_holder(id).await?;
        Ok(holder.filter(|holder| match process_status(&holder.owner) {
            ProcessStatus::Alive => true,
            ProcessStatus::Dead => false,
            ProcessStatus::Unknown => holder.silent_for < LEASE_TIMEOUT,
        }))
    }

    /// Acquires the lease on a session. If an agent of this engine waits in the session, its lease is reused. Fails if
    /// the owner of the lease is alive. If the owner is dead, ends the agent that it left running, and takes the lease
    /// over, which the decision reports.
    pub(crate) async fn acquire_lease(
        &self,
        id: &SessionId,
    ) -> Result<(LeaseGuard, Option<Decision>), AccessError> {
        let span = tracing::debug_span!("lease", session = %id, epoch = Empty);
        let acquired = self.reuse_or_acquire(id).instrument(span.clone()).await;
        if let Ok((guard, _)) = &acquired {
            span.record("epoch", guard.lease.epoch);
        }
        acquired
    }

    async fn reuse_or_acquire(
        &self,
        id: &SessionId,
    ) -> Result<(LeaseGuard, Option<Decision>), AccessError> {
        let shared = self.agent_pool.shared_lease(id).await;
        if let Some(guard) = shared.and_then(LeaseGuard::reuse) {
            return Ok((guard, None));
        }
        let mut request = LeaseRequest {
            session: id.clone(),
            owner: self.environment.process.clone(),
            expires_after: LEASE_TIMEOUT,
            dead_epoch: None,
        };
        if let Some(holder) = self.store.lease_holder(id).await? {
            match process_status(&holder.owner) {
                ProcessStatus::Alive => return Err(leased_error(id, holder)),
                ProcessStatus::Dead => {
                    if let Some(agent) = &holder.agent {
                        end_agent(agent).await;
                    }
                    request.dead_epoch = Some(holder.epoch);
                }
                // Only missing heartbeats can show that the owner is dead, and the store has the time of the last one.
                ProcessStatus::Unknown => {}
            }
        }
        let grant = match self.store.acquire_lease(request).await {
            Err(StoreError::Leased { holder, .. }) => return Err(leased_error(id, *holder)),
            grant => grant?,
        };
        let decision = grant.previous_holder.as_ref().map(takeover_decision);
        Ok((self.guard_lease(grant.lease), decision))
    }

    /// Starts the heartbeat of a lease.
    pub(crate) fn guard_lease(&self, lease: Lease) -> LeaseGuard {
        let (agent, agent_changes) = watch::channel(None);
        let state = Arc::new(Mutex::new(LeaseState::InUse));
        let heartbeat = send_heartbeats(
            Arc::clone(&self.store),
            lease.clone(),
            agent_changes,
            Arc::clone(&state),
        );
        LeaseGuard(Arc::new(SharedLease {
            lease,
            agent,
            store: Arc::clone(&self.store),
            heartbeat: tokio::spawn(heartbeat),
            state,
        }))
    }
}

/// Creates the error for a session that another process uses. Removes an agent that has ended, because it does not wait
/// for a prompt.
pub(crate) fn leased_error(id: &SessionId, mut holder: LeaseHolder) -> AccessError {
    holder.agent = holder
        .agent
        .filter(|agent| process_status(agent) != ProcessStatus::Dead);
    let (session, holder) = (id.clone(), Box::new(holder));
    StoreError::Leased { session, holder }.into()
}

fn takeover_decision(from: &LeaseHolder) -> Decision {
    Decision::LeaseTakenOver {
        pid: from.owner.pid,
        cause: match process_status(&from.owner) {
            ProcessStatus::Dead => TakeoverCause::Died,
            ProcessStatus::Alive | ProcessStatus::Unknown => TakeoverCause::Silent,
        },
    }
}

/// Sends a heartbeat every few seconds, and whenever another agent runs for the lease. Ends if the lease is lost. If the
/// agent that waited has died, releases the lease and ends.
async fn send_heartbeats(
    store: Arc<dyn Store>,
    lease: Lease,
    mut agent: watch::Receiver<Option<ProcessIdentity>>,
    state: Arc<Mutex<LeaseState>>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            changed = agent.changed() => if changed.is_err() { return },
        }
        let process = agent.borrow_and_update().clone();
        let died = process
            .as_ref()
            .is_some_and(|process| process_status(process) == ProcessStatus::Dead);
        if died && try_transition(&state, LeaseState::Waiting, LeaseState::Released) {
            let _ = store.release_lease(&lease).await;
            return;
        }
        // The next write reports a lost lease. Any other error, such as a busy store, may not occur at the next
        // heartbeat.
        let outcome = store.record_heartbeat(&lease, process).await;
        if matches!(outcome, Err(StoreError::LeaseLost(_))) {
            return;
        }
    }
}

/// Changes the user of a lease from `from` to `to`. Returns `true` if it was `from`.
fn try_transition(state: &Mutex<LeaseState>, from: LeaseState, to: LeaseState) -> bool {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let matches = *state == from;
    if matches {
        *state = to;
    }
    matches
}

impl SharedLease {
    /// Waits until the released agent has exited, so that no other process uses its native session at the same time.
    pub(crate) async fn wait_for_agent_exit(&self) {
        let process = self.agent.borrow().clone();
        if let Some(process) = process {
            wait_until_ended(&process, AGENT_EXIT_TIMEOUT).await;
        }
    }

    /// Sets the agent that runs for the lease. Sends no heartbeat if that agent was set before.
    pub(crate) fn set_agent(&self, agent: ProcessIdentity) {
        self.agent.send_if_modified(|current| {
            let changed = current.as_ref() != Some(&agent);
            *current = Some(agent);
            changed
        });
    }

    /// Returns `true` if an agent waits with the lease and no call uses it.
    pub(crate) fn is_waiting(&self) -> bool {
        let state = self.state.lock();
        let state = *state.unwrap_or_else(PoisonError::into_inner);
        state == LeaseState::Waiting && !self.heartbeat.is_finished()
    }

    /// Releases the lease after the waiting agent has ended. If a call uses the lease, that call releases it.
    pub(crate) async fn release_after_agent(self: Arc<Self>) {
        self.release_if(LeaseState::Waiting).await;
    }

    /// Releases the lease if its current user is `from`. An error is ignored, because the next process takes the lease
    /// over from a dead or silent owner, and recorded turns are safe.
    async fn release_if(&self, from: LeaseState) {
        if try_transition(&self.state, from, LeaseState::Released) {
            self.heartbeat.abort();
            let _ = self.store.release_lease(&self.lease).await;
        }
    }
}

impl LeaseGuard {
    /// Reuses the lease of a waiting agent for the next call. `None` if the lease is lost or in use.
    fn reuse(shared: Arc<SharedLease>) -> Option<Self> {
        let is_lost = shared.heartbeat.is_finished();
        (!is_lost && try_transition(&shared.state, LeaseState::Waiting, LeaseState::InUse))
            .then(|| Self(shared))
    }

    /// Returns the lease for an agent that waits from now on. Its process runs, so no other process may use its native
    /// session. `None` for an agent that starts a process for each prompt, because it blocks no other process between
    /// prompts.
    pub(crate) fn share_with_agent(
        &self,
        process: Option<&ProcessIdentity>,
    ) -> Option<Arc<SharedLease>> {
        let is_running =
            process.is_some_and(|identity| process_status(identity) != ProcessStatus::Dead);
        is_running.then(|| Arc::clone(&self.0))
    }

    /// Releases the lease, unless an agent waits with it. Further calls do nothing.
    pub(crate) async fn release(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.release_if(LeaseState::InUse).await;
        }
    }
}

impl Deref for LeaseGuard {
    type Target = SharedLease;

    fn deref(&self) -> &SharedLease {
        &self.0
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        try_transition(&self.state, LeaseState::InUse, LeaseState::Waiting);
    }
}

impl Drop for SharedLease {
    /// Releases the lease in the background, once the agent has exited. If the caller drops a call, its process stays
    /// alive, so no other process could take the lease over.
    fn drop(&mut self) {
        self.heartbeat.abort();
        if !try_transition(&self.state, LeaseState::Waiting, LeaseState::Released) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
        let agent = self.agent.borrow().clone();
        runtime.spawn(async move {
            if let Some(agent) = agent {
                wait_until_ended(&agent, AGENT_EXIT_TIMEOUT).await;
            }
            let _ = store.release_lease(&lease).await;
        });
    }
}
