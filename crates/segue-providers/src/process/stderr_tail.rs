//! End of an agent's error output. segue reads all of the output, so that the agent never blocks on it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes that are stored.
const STDERR_TAIL_BYTES: usize = 8 * 1024;

/// End of a program's error output.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Reads `stderr` to its end in a separate task.
    pub(crate) fn follow(mut stderr: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let tail = Self::default();
        let task_tail = tail.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
                task_tail.append(&buffer[..length]);
            }
        });
        tail
    }

    fn append(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.drain(..excess);
    }

    pub(crate) fn text(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}
