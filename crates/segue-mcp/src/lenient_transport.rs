//! Transport of JSON lines over a pair of byte streams, which tolerates messages before the handshake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

/// A transport that drops notifications and responses until the handshake has ended, because `rmcp` would close the
/// connection on them.
pub(crate) struct LenientTransport<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    is_initialized: Arc<AtomicBool>,
}

impl<R, W> LenientTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates the transport. The caller sets `is_initialized` to `true` when the handshake has ended.
    pub(crate) fn new(input: R, output: W, is_initialized: Arc<AtomicBool>) -> Self {
        Self {
            inner: AsyncRwTransport::new_server(input, output),
            is_initialized,
        }
    }
}

impl<R, W> Transport<RoleServer> for LenientTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            let is_request = matches!(message, JsonRpcMessage::Request(_));
            if is_request || self.is_initialized.load(Ordering::Relaxed) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
