//! State of a stub: its script, the requests, and the number of failures of each step.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::reply::{Chosen, Step};
use super::request::ModelRequest;
use super::script::{Failure, Script};

/// State that the server shares with the [`Model`](super::Model).
pub(crate) struct Record {
    script: Script,
    requests: Mutex<Vec<ModelRequest>>,
    arrived: Condvar,
    failed: Mutex<BTreeMap<Step, u32>>,
    numbers: AtomicU64,
    log: Option<Mutex<File>>,
}

impl Record {
    pub(crate) fn new(script: Script, log: Option<File>) -> Self {
        Self {
            script,
            requests: Mutex::default(),
            arrived: Condvar::new(),
            failed: Mutex::default(),
            numbers: AtomicU64::new(1),
            log: log.map(Mutex::new),
        }
    }

    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// Returns a number that was not returned before.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the failure to send instead of this reply, and counts it. `None` if the reply is to be sent.
    pub(crate) fn failure(&self, chosen: &Chosen) -> Option<Failure> {
        let failure = chosen.reply.fail?;
        let (Some(step), Some(times)) = (chosen.step, chosen.reply.times) else {
            return Some(failure);
        };
        let mut failed = locked(&self.failed);
        let so_far = failed.entry(step).or_default();
        if *so_far >= times {
            return None;
        }
        *so_far += 1;
        Some(failure)
    }

    /// Records a request. The server calls this before it answers.
    pub(crate) fn add(&self, mut request: ModelRequest, status: u16) {
        request.status = status;
        if let (Some(log), Ok(line)) = (&self.log, serde_json::to_string(&request)) {
            // The stub answers even if the log cannot be written.
            let _ = writeln!(locked(log), "{line}");
        }
        locked(&self.requests).push(request);
        self.arrived.notify_all();
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        locked(&self.requests).clone()
    }

    /// Waits until `wanted` accepts the requests so far. Returns `false` if it has not accepted them in time.
    pub(crate) fn wait(&self, time: Duration, wanted: impl Fn(&[ModelRequest]) -> bool) -> bool {
        let end = Instant::now() + time;
        let mut requests = locked(&self.requests);
        while !wanted(&requests) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.arrived.wait_timeout(requests, left);
            requests = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
