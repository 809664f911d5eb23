//! Native sessions of an agent: new, resume, load and list; their mode, model and MCP servers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema as acp;
use jiff::Timestamp;
use segue_core::agent::{Capabilities, CapabilitySource, McpEndpoint, McpServer};
use segue_core::id::NativeId;
use serde_json::json;

use crate::{AcpError, Client};

/// Maximum number of pages that are read of a list; an agent with more repeats pages.
const MAX_LIST_PAGES: usize = 10_000;

/// Options of a session that is opened.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions<'a> {
    /// Working directory.
    pub cwd: &'a Path,
    /// MCP servers for the agent; those to which it cannot connect are omitted.
    pub mcp_servers: &'a [McpServer],
}

/// A native session as the agent lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    /// Id that the agent gave to the session.
    pub id: NativeId,
    /// Directory in which the session was created.
    pub cwd: PathBuf,
    /// Title; `None` if the agent reports none.
    pub title: Option<String>,
    /// Time of the last use; `None` if the agent reports none.
    pub updated_at: Option<Timestamp>,
}

/// Modes and models of an open session.
#[derive(Debug, Default)]
pub(crate) struct SessionChoices {
    mode: Option<SessionChoice>,
    model: Option<SessionChoice>,
}

#[derive(Debug)]
struct SessionChoice {
    current_value: String,
    values: Vec<String>,
    setter: ChoiceSetter,
}

/// Request that sets a choice.
#[derive(Debug, Clone)]
enum ChoiceSetter {
    /// A separate method of the protocol.
    Method,
    /// A configuration option of the session.
    ConfigOption(acp::SessionConfigId),
}

impl SessionChoices {
    fn new(modes: Option<acp::SessionModeState>, options: &[acp::SessionConfigOption]) -> Self {
        let find_choice = |category: &acp::SessionConfigOptionCategory| {
            options.iter().find_map(|option| match &option.kind {
                acp::SessionConfigKind::Select(select)
                    if option.category.as_ref() == Some(category) =>
                {
                    Some(SessionChoice {
                        current_value: select.current_value.0.to_string(),
                        values: list_values(&select.options),
                        setter: ChoiceSetter::ConfigOption(option.id.clone()),
                    })
                }
                _ => None,
            })
        };
        let mode = modes.map(|modes| SessionChoice {
            current_value: modes.current_mode_id.0.to_string(),
            values: modes
                .available_modes
                .iter()
                .map(|mode| mode.id.0.to_string())
                .collect(),
            setter: ChoiceSetter::Method,
        });
        Self {
            mode: mode.or_else(|| find_choice(&acp::SessionConfigOptionCategory::Mode)),
            model: find_choice(&acp::SessionConfigOptionCategory::Model),
        }
    }
}

fn list_values(options: &acp::SessionConfigSelectOptions) -> Vec<String> {
    let option_value = |option: &acp::SessionConfigSelectOption| option.value.0.to_string();
    match options {
        acp::SessionConfigSelectOptions::Ungrouped(options) => {
            options.iter().map(option_value).collect()
        }
        acp::SessionConfigSelectOptions::Grouped(groups) => {
            let options = groups.iter().flat_map(|group| &group.options);
            options.map(option_value).collect()
        }
        _ => Vec::new(),
    }
}

impl Client {
    /// Starts a new native session.
    pub async fn new_session(&mut self, options: SessionOptions<'_>) -> Result<NativeId, AcpError> {
        let request = acp::NewSessionRequest::new(options.cwd)
            .mcp_servers(self.reachable_servers(options.mcp_servers));
        let response = self.request(request).await?;
        let id = NativeId::parse(&response.session_id.0)?;
        self.set_open_session(response.session_id, response.modes, response.config_options);
        Ok(id)
    }

    /// Resumes a native session without a replay.
    pub async fn resume_session(
        &mut self,
        id: &NativeId,
        options: SessionOptions<'_>,
    ) -> Result<(), AcpError> {
        let request = acp::ResumeSessionRequest::new(id.to_string(), options.cwd)
            .mcp_servers(self.reachable_servers(options.mcp_servers));
        let response = self.request(request).await;
        if matches!(response, Err(AcpError::NotOffered { .. })) {
            self.capabilities.resume = None;
        }
        let response = response?;
        let session = acp::SessionId::new(id.to_string());
        self.set_open_session(session, response.modes, response.config_options);
        Ok(())
    }

    /// Resumes a native session with a replay, which is discarded because its messages are already on record.
    pub async fn load_session(
        &mut self,
        id: &NativeId,
        options: SessionOptions<'_>,
    ) -> Result<(), AcpError> {
        let request = acp::LoadSessionRequest::new(id.to_string(), options.cwd)
            .mcp_servers(self.reachable_servers(options.mcp_servers));
        let response = self.request(request).await;
        if matches!(response, Err(AcpError::NotOffered { .. })) {
            self.capabilities.load = None;
        }
        let response = response?;
        let session = acp::SessionId::new(id.to_string());
        self.set_open_session(session, response.modes, response.config_options);
        self.discard_replay().await;
        Ok(())
    }

    /// Lists the native sessions of a directory, from all pages; `None` if the agent cannot list sessions. A session
    /// whose id is invalid is omitted.
    pub async fn list_sessions(
        &mut self,
        cwd: &Path,
    ) -> Result<Option<Vec<SessionEntry>>, AcpError> {
        if self.capabilities.list.is_none() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen_cursors = HashSet::new();
        for _ in 0..MAX_LIST_PAGES {
            let request = acp::ListSessionsRequest::new()
                .cwd(cwd.to_owned())
                .cursor(cursor.clone());
            let page = match self.request(request).await {
                Err(AcpError::NotOffered { .. }) => {
                    self.capabilities.list = None;
                    self.capabilities.continue_last = None;
                    return Ok(None);
                }
                page => page?,
            };
            entries.extend(page.sessions.into_iter().filter_map(to_session_entry));
            match page.next_cursor {
                Some(next) if seen_cursors.insert(next.clone()) => cursor = Some(next),
                // The last page, or a cursor that an earlier page already had.
                Some(_) | None => break,
            }
        }
        Ok(Some(entries))
    }

    /// Sets the mode of the open session, unless it is already set.
    pub async fn set_mode(&mut self, mode: &str) -> Result<(), AcpError> {
        if let Some(setter) = choose_setter(self.choices.mode.as_ref(), "mode", mode)? {
            self.request_choice(setter, mode).await?;
        }
        if let Some(choice) = &mut self.choices.mode {
            mode.clone_into(&mut choice.current_value);
        }
        Ok(())
    }

    /// Sets the model of the open session, unless it is already set.
    pub async fn set_model(&mut self, model: &str) -> Result<(), AcpError> {
        if self.choices.model.is_none() {
            // Older agents have a method for the model that the protocol no longer contains.
            let session = self.session.as_ref().ok_or(AcpError::Closed)?;
            let params = json!({ "sessionId": session, "modelId": model });
            let request = UntypedMessage::new("session/set_model", params)?;
            return self.request(request).await.map(drop);
        }
        match choose_setter(self.choices.model.as_ref(), "model", model)? {
            Some(setter) => self.request_choice(setter, model).await,
            None => Ok(()),
        }
    }

    async fn request_choice(&mut self, setter: ChoiceSetter, value: &str) -> Result<(), AcpError> {
        let session = self.session.clone().ok_or(AcpError::Closed)?;
        match setter {
            ChoiceSetter::Method => {
                let request = acp::SetSessionModeRequest::new(session, value.to_owned());
                self.request(request).await.map(drop)
            }
            ChoiceSetter::ConfigOption(option) => {
                let value = acp::SessionConfigValueId::new(value);
                let request = acp::SetSessionConfigOptionRequest::new(session, option, value);
                self.request(request).await.map(drop)
            }
        }
    }

    fn set_open_session(
        &mut self,
        session: acp::SessionId,
        modes: Option<acp::SessionModeState>,
        options: Option<Vec<acp::SessionConfigOption>>,
    ) {
        let choices = SessionChoices::new(modes, &options.unwrap_or_default());
        self.session = Some(session);
        let via_protocol =
            |choice: &Option<SessionChoice>| choice.as_ref().map(|_| CapabilitySource::Protocol);
        self.capabilities = Capabilities {
            modes: via_protocol(&choices.mode),
            models: via_protocol(&choices.model),
            ..self.capabilities
        };
        self.choices = choices;
    }

    /// Converts the servers to which the agent can connect to the protocol's type.
    fn reachable_servers(&self, servers: &[McpServer]) -> Vec<acp::McpServer> {
        servers
            .iter()
            .filter_map(|server| match &server.endpoint {
                McpEndpoint::Program { command, args, env } => {
                    let env = env.iter();
                    let env = env.map(|(name, value)| acp::EnvVariable::new(name, value));
                    Some(acp::McpServer::Stdio(
                        acp::McpServerStdio::new(&server.name, command)
                            .args(args.clone())
                            .env(env.collect::<Vec<_>>()),
                    ))
                }
                McpEndpoint::Http { url, headers } if self.accepts_http_servers => {
                    let headers = headers.iter();
                    let headers = headers.map(|(name, value)| acp::HttpHeader::new(name, value));
                    Some(acp::McpServer::Http(
                        acp::McpServerHttp::new(&server.name, url)
                            .headers(headers.collect::<Vec<_>>()),
                    ))
                }
                McpEndpoint::Http { .. } => None,
            })
            .collect()
    }
}

/// Returns the request that sets `wanted`; `None` if it is already set. [`AcpError::NotOffered`] if it is not
/// available.
fn choose_setter(
    choice: Option<&SessionChoice>,
    setting: &str,
    wanted: &str,
) -> Result<Option<ChoiceSetter>, AcpError> {
    let not_offered = |message| Err(AcpError::NotOffered { message });
    let Some(choice) = choice else {
        return not_offered(format!("the agent does not offer a choice of {setting}"));
    };
    if choice.current_value == wanted {
        return Ok(None);
    }
    if choice.values.iter().any(|value| value == wanted) {
        return Ok(Some(choice.setter.clone()));
    }
    not_offered(format!(
        "unknown {setting} `{wanted}`; available: {}",
        choice.values.join(", ")
    ))
}

/// Converts a listed session; `None` if its id is invalid.
fn to_session_entry(info: acp::SessionInfo) -> Option<SessionEntry> {
    Some(SessionEntry {
        id: NativeId::parse(&info.session_id.0).ok()?,
        cwd: info.cwd,
        title: info.title.filter(|title| !title.is_empty()),
        updated_at: info.updated_at.and_then(|at| at.parse().ok()),
    })
}
