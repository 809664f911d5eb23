//! End of an agent's error output. segue reads all of the output, so that the agent never blocks on it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes that are stored.
const KEPT: usize = 8 * 1024;

/// End of a program's error output.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Reads `stderr` to its end in a separate task.
    pub(crate) fn follow(mut stderr: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let tail = Self::default();
        let kept = tail.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
                kept.push(&buffer[..length]);
            }
        });
        tail
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}
