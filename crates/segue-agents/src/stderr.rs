//! The agent's error output: read all the time so that it never blocks, and kept at its end.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of it is kept.
const KEPT: usize = 8 * 1024;

/// The last words of a program.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Reads `stderr` to its end in a task of its own.
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
