//! Native sessions of an agent: new, resume, load and list; their mode, model and MCP servers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema as acp;
use jiff::Timestamp;
use segue_core::agent::{Capabilities, How, McpReach, McpServer};
use segue_core::id::NativeId;
use serde_json::json;

use crate::{AcpError, Client};

/// Maximum number of pages that are read of a list; an agent with more repeats pages.
const PAGES: usize = 10_000;

/// Options of a session that is opened.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Working directory.
    pub cwd: &'a Path,
    /// MCP servers for the agent; those to which it cannot connect are omitted.
    pub mcp: &'a [McpServer],
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
pub(crate) struct Choices {
    mode: Option<Choice>,
    model: Option<Choice>,
}

#[derive(Debug)]
struct Choice {
    current: String,
    values: Vec<String>,
    by: By,
}

/// Request that sets a choice.
#[derive(Debug, Clone)]
enum By {
    /// A separate method of the protocol.
    Method,
    /// A configuration option of the session.
    Option(acp::SessionConfigId),
}

impl Choices {
    fn new(
        modes: Option<acp::SessionModeState>,
        options: Option<&Vec<acp::SessionConfigOption>>,
    ) -> Self {
        let of = |category: &acp::SessionConfigOptionCategory| {
            let mut options = options.into_iter().flatten();
            options.find_map(|option| match &option.kind {
                acp::SessionConfigKind::Select(select)
                    if option.category.as_ref() == Some(category) =>
                {
                    Some(Choice {
                        current: select.current_value.0.to_string(),
                        values: values(&select.options),
                        by: By::Option(option.id.clone()),
                    })
                }
                _ => None,
            })
        };
        let mode = modes.map(|modes| Choice {
            current: modes.current_mode_id.0.to_string(),
            values: modes
                .available_modes
                .iter()
                .map(|mode| mode.id.0.to_string())
                .collect(),
            by: By::Method,
        });
        Self {
            mode: mode.or_else(|| of(&acp::SessionConfigOptionCategory::Mode)),
            model: of(&acp::SessionConfigOptionCategory::Model),
        }
    }
}

fn values(options: &acp::SessionConfigSelectOptions) -> Vec<String> {
    let name = |option: &acp::SessionConfigSelectOption| option.value.0.to_string();
    match options {
        acp::SessionConfigSelectOptions::Ungrouped(options) => options.iter().map(name).collect(),
        acp::SessionConfigSelectOptions::Grouped(groups) => {
            let options = groups.iter().flat_map(|group| &group.options);
            options.map(name).collect()
        }
        _ => Vec::new(),
    }
}

impl Client {
    /// Starts a new native session.
    pub async fn new_session(&mut self, terms: Terms<'_>) -> Result<NativeId, AcpError> {
        let request = acp::NewSessionRequest::new(terms.cwd).mcp_servers(self.reachable(terms.mcp));
        let made = self.request(request).await?;
        let id = NativeId::parse(&made.session_id.0)?;
        let choices = Choices::new(made.modes, made.config_options.as_ref());
        self.opened(made.session_id, choices);
        Ok(id)
    }

    /// Resumes a native session without a replay.
    pub async fn resume_session(
        &mut self,
        id: &NativeId,
        terms: Terms<'_>,
    ) -> Result<(), AcpError> {
        let request = acp::ResumeSessionRequest::new(id.to_string(), terms.cwd)
            .mcp_servers(self.reachable(terms.mcp));
        let resumed = self.request(request).await;
        if matches!(resumed, Err(AcpError::NotOffered { .. })) {
            self.capabilities.resume = None;
        }
        let resumed = resumed?;
        let choices = Choices::new(resumed.modes, resumed.config_options.as_ref());
        self.opened(acp::SessionId::new(id.to_string()), choices);
        Ok(())
    }

    /// Resumes a native session with a replay, which is discarded because its messages are already on record.
    pub async fn load_session(&mut self, id: &NativeId, terms: Terms<'_>) -> Result<(), AcpError> {
        let request = acp::LoadSessionRequest::new(id.to_string(), terms.cwd)
            .mcp_servers(self.reachable(terms.mcp));
        let loaded = self.request(request).await;
        if matches!(loaded, Err(AcpError::NotOffered { .. })) {
            self.capabilities.load = None;
        }
        let loaded = loaded?;
        let choices = Choices::new(loaded.modes, loaded.config_options.as_ref());
        self.opened(acp::SessionId::new(id.to_string()), choices);
        self.pass_over_replay().await;
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
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
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
            found.extend(page.sessions.into_iter().filter_map(entry));
            match page.next_cursor {
                Some(next) if seen.insert(next.clone()) => cursor = Some(next),
                // The last page, or a cursor that an earlier page already had.
                Some(_) | None => break,
            }
        }
        Ok(Some(found))
    }

    /// Sets the mode of the open session, unless it is already set.
    pub async fn choose_mode(&mut self, mode: &str) -> Result<(), AcpError> {
        let session = self.session.clone().ok_or(AcpError::Closed)?;
        match pick(self.choices.mode.as_ref(), "mode", mode)? {
            None => return Ok(()),
            Some(By::Option(option)) => self.set_option(session, option, mode).await?,
            Some(By::Method) => {
                let request = acp::SetSessionModeRequest::new(session, mode.to_owned());
                self.request(request).await?;
            }
        }
        if let Some(choice) = &mut self.choices.mode {
            mode.clone_into(&mut choice.current);
        }
        Ok(())
    }

    /// Sets the model of the open session, unless it is already set.
    pub async fn choose_model(&mut self, model: &str) -> Result<(), AcpError> {
        let session = self.session.clone().ok_or(AcpError::Closed)?;
        if self.choices.model.is_none() {
            // Older agents have a method for the model that the protocol no longer contains.
            let params = json!({ "sessionId": session, "modelId": model });
            self.request(UntypedMessage::new("session/set_model", params)?)
                .await?;
            return Ok(());
        }
        match pick(self.choices.model.as_ref(), "model", model)? {
            Some(By::Option(option)) => self.set_option(session, option, model).await,
            Some(By::Method) | None => Ok(()),
        }
    }

    async fn set_option(
        &mut self,
        session: acp::SessionId,
        option: acp::SessionConfigId,
        value: &str,
    ) -> Result<(), AcpError> {
        let value = acp::SessionConfigValueId::new(value);
        let request = acp::SetSessionConfigOptionRequest::new(session, option, value);
        self.request(request).await?;
        Ok(())
    }

    fn opened(&mut self, session: acp::SessionId, choices: Choices) {
        self.session = Some(session);
        let protocol = |choice: &Option<Choice>| choice.as_ref().map(|_| How::Protocol);
        self.capabilities = Capabilities {
            modes: protocol(&choices.mode),
            models: protocol(&choices.model),
            ..self.capabilities
        };
        self.choices = choices;
    }

    /// Converts the servers to which the agent can connect to the protocol's type.
    fn reachable(&self, servers: &[McpServer]) -> Vec<acp::McpServer> {
        servers
            .iter()
            .filter_map(|server| match &server.reach {
                McpReach::Program { command, args, env } => {
                    let env = env.iter();
                    let env = env.map(|(name, value)| acp::EnvVariable::new(name, value));
                    Some(acp::McpServer::Stdio(
                        acp::McpServerStdio::new(&server.name, command)
                            .args(args.clone())
                            .env(env.collect::<Vec<_>>()),
                    ))
                }
                McpReach::Http { url, headers } if self.takes_http => {
                    let headers = headers.iter();
                    let headers = headers.map(|(name, value)| acp::HttpHeader::new(name, value));
                    Some(acp::McpServer::Http(
                        acp::McpServerHttp::new(&server.name, url)
                            .headers(headers.collect::<Vec<_>>()),
                    ))
                }
                McpReach::Http { .. } => None,
            })
            .collect()
    }
}

/// Returns the request that sets `wanted`; `None` if it is already set. [`AcpError::NotOffered`] if it is not
/// available.
fn pick(choice: Option<&Choice>, what: &str, wanted: &str) -> Result<Option<By>, AcpError> {
    let not_offered = |message| Err(AcpError::NotOffered { message });
    let Some(choice) = choice else {
        return not_offered(format!("there is no {what} to choose"));
    };
    if choice.current == wanted {
        return Ok(None);
    }
    if choice.values.iter().any(|value| value == wanted) {
        return Ok(Some(choice.by.clone()));
    }
    not_offered(format!(
        "there is no {what} {wanted:?}, only {}",
        choice.values.join(", ")
    ))
}

/// Converts a listed session; `None` if its id is invalid.
fn entry(info: acp::SessionInfo) -> Option<SessionEntry> {
    Some(SessionEntry {
        id: NativeId::parse(&info.session_id.0).ok()?,
        cwd: info.cwd,
        title: info.title.filter(|title| !title.is_empty()),
        updated_at: info.updated_at.and_then(|at| at.parse().ok()),
    })
}
