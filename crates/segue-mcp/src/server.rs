//! The server: the handshake, the list of tools, and their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{QuitReason, RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lenient_transport::LenientTransport;
use crate::{LazyToolContext, tools};

/// Reason why the server ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The handshake failed.
    #[error("MCP handshake failed: {0}")]
    Handshake(String),
    /// A task of the server failed.
    #[error("the MCP server failed")]
    TaskFailed(#[source] tokio::task::JoinError),
}

/// Description of the server that a client passes to its model.
const SERVER_INSTRUCTIONS: &str = "segue records this conversation and the earlier conversations of this \
project, including those with other agents. Use session_history and session_search to look up earlier messages, and \
session_describe to set a short title for this session.";

struct McpToolServer {
    version: &'static str,
    context: LazyToolContext,
}

impl McpToolServer {
    async fn run_tool(
        &self,
        tool: tools::McpTool,
        call: CallToolRequestParams,
    ) -> Result<String, String> {
        let arguments = call.arguments.unwrap_or_default();
        let request = tools::ToolRequest::parse(tool, serde_json::Value::Object(arguments))?;
        request.run(self.context.get_or_open().await?).await
    }
}

impl ServerHandler for McpToolServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("segue", self.version))
            .with_instructions(SERVER_INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::McpTool::ALL.map(tools::McpTool::definition);
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    /// Calls a tool. An error that the model can correct is a tool result; only an unknown tool is a protocol error.
    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::McpTool::from_name(&call.name) else {
            let names = tools::McpTool::ALL.map(tools::McpTool::name).join(", ");
            let message = format!("unknown tool {:?}; available tools: {names}", call.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let result = match self.run_tool(tool, call).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        };
        Ok(result.into())
    }

    /// Rejects a request that `rmcp` cannot parse: an unknown method, or a known method with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(match method.as_str() {
            "tools/call" | "tools/list" => {
                let message = format!("invalid parameters for {method}");
                ErrorData::invalid_params(message, None)
            }
            _ => {
                let message = format!("unknown method {method:?}");
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
            }
        })
    }
}

/// Serves until the input ends.
pub async fn serve(
    context: LazyToolContext,
    version: &'static str,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let server = McpToolServer { version, context };
    let is_initialized = Arc::new(AtomicBool::new(false));
    let transport = LenientTransport::new(input, output, Arc::clone(&is_initialized));
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // The client closed the connection before the handshake: it ended, or it only checked that the server starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    is_initialized.store(true, Ordering::Relaxed);
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::TaskFailed(error)),
        Ok(_) => Ok(()),
    }
}
