//! State of a stub: its script, the requests, and the number of failures of each step.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::reply::{ScriptStepIndex, SelectedReply};
use super::request::ModelRequest;
use super::script::{Script, StubFailure};

/// State that the server shares with the [`ModelStub`](super::ModelStub).
pub(crate) struct StubState {
    script: Script,
    requests: Mutex<Vec<ModelRequest>>,
    request_arrived: Condvar,
    failure_counts: Mutex<BTreeMap<ScriptStepIndex, u32>>,
    next_number: AtomicU64,
    log: Option<Mutex<File>>,
}

impl StubState {
    pub(crate) fn new(script: Script, log: Option<File>) -> Self {
        Self {
            script,
            requests: Mutex::default(),
            request_arrived: Condvar::new(),
            failure_counts: Mutex::default(),
            next_number: AtomicU64::new(1),
            log: log.map(Mutex::new),
        }
    }

    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// Returns a number that was not returned before.
    pub(crate) fn take_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the failure to send instead of this reply, and counts it. `None` if the reply is to be sent.
    pub(crate) fn take_failure(&self, selected: &SelectedReply) -> Option<StubFailure> {
        let failure = selected.reply.failure?;
        let (Some(step), Some(times)) = (selected.step, selected.reply.failure_count) else {
            return Some(failure);
        };
        let mut counts = lock_ignoring_poison(&self.failure_counts);
        let count = counts.entry(step).or_default();
        if *count >= times {
            return None;
        }
        *count += 1;
        Some(failure)
    }

    /// Records a request. The server calls this before it answers.
    pub(crate) fn record_request(&self, mut request: ModelRequest, status: u16) {
        request.status = status;
        if let (Some(log), Ok(line)) = (&self.log, serde_json::to_string(&request)) {
            // The stub answers even if the log cannot be written.
            let _ = writeln!(lock_ignoring_poison(log), "{line}");
        }
        lock_ignoring_poison(&self.requests).push(request);
        self.request_arrived.notify_all();
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        lock_ignoring_poison(&self.requests).clone()
    }

    /// Waits until `condition` accepts the requests so far. Returns `false` if it has not accepted them in time.
    pub(crate) fn wait_until(
        &self,
        timeout: Duration,
        condition: impl Fn(&[ModelRequest]) -> bool,
    ) -> bool {
        let deadline = Instant::now() + timeout;
        let mut requests = lock_ignoring_poison(&self.requests);
        while !condition(&requests) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let wait_result = self.request_arrived.wait_timeout(requests, remaining);
            requests = wait_result.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
