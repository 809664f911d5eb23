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
pub(crate) struct Patient<R: AsyncRead, W: AsyncWrite> {
    lines: AsyncRwTransport<RoleServer, R, W>,
    shaken: Arc<AtomicBool>,
}

impl<R, W> Patient<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates the transport. The caller sets `shaken` to `true` when the handshake has ended.
    pub(crate) fn new(input: R, output: W, shaken: Arc<AtomicBool>) -> Self {
        Self {
            lines: AsyncRwTransport::new_server(input, output),
            shaken,
        }
    }
}

impl<R, W> Transport<RoleServer> for Patient<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.lines.receive().await?;
            let asks = matches!(message, JsonRpcMessage::Request(_));
            if asks || self.shaken.load(Ordering::Relaxed) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
