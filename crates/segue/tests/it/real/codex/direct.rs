//! Codex without the rest of segue: conversations of several turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_agents::{
    Agent, AgentError, AgentConnection, AgentHost, LeashCommand, OpenRequest, OpenedConnection, Provider, ProviderSettings, ConnectionEvent,
};
use segue_core::agent::{McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, TurnEnd, Usage};
use segue_testkit::model::Script;
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// How long a turn may take.
const LIMIT: Duration = Duration::from_secs(90);

/// Codex on a machine of its own.
pub(crate) struct Direct {
    pub(crate) sandbox: Sandbox,
    provider: Provider,
    runtime: Runtime,
}

/// What a conversation is opened with.
pub(crate) struct Wanted {
    pub(crate) cwd: PathBuf,
    pub(crate) native_id: Option<String>,
    pub(crate) strict: bool,
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) mcp: Vec<McpServer>,
}

/// What came of a turn.
pub(crate) struct Turned {
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) asked: Vec<PermissionRequest>,
    pub(crate) end: Result<TurnEnd, AgentError>,
}

impl Turned {
    pub(crate) fn text(&self) -> String {
        let events = self.events.iter();
        events
            .filter_map(|event| match event {
                AgentEvent::Text(words) => Some(words.as_str()),
                _ => None,
            })
            .collect()
    }

    /// What the turn used; it must have ended well.
    pub(crate) fn usage(&self) -> Usage {
        match &self.end {
            Ok(end) => end.usage,
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl Direct {
    pub(crate) fn new(transport: &str, script: Script) -> Self {
        Self::with(transport, script, |_| {})
    }

    pub(crate) fn with(
        transport: &str,
        script: Script,
        change: impl FnOnce(&mut ProviderSettings),
    ) -> Self {
        let sandbox = Sandbox::new(script);
        let command = sandbox.cli_command(SandboxCli::Codex);
        let env = command.get_envs().filter_map(|(name, value)| {
            let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
            Some((text(name), text(value?)))
        });
        let mut settings = ProviderSettings {
            program: Some(command.get_program().into()),
            adapter: Some(sandbox.cli_command(SandboxCli::CodexAcp).get_program().into()),
            transports: vec![transport.to_owned()],
            env: env.collect(),
            home: sandbox.home().join(".codex"),
            ..ProviderSettings::default()
        };
        change(&mut settings);
        let host = AgentHost {
            leash: LeashCommand {
                program: env!("CARGO_BIN_EXE_segue").into(),
                args: vec!["leash".into()],
            },
            version: "0",
            agent_files_dir: sandbox.path().join("kept"),
            search_path: std::ffi::OsString::new(),
            system: crate::real::stage::OUTSIDE,
        };
        let provider = segue_agents::codex_provider(&settings, &host);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            sandbox,
            provider,
            runtime,
        }
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            cwd: self.sandbox.project(),
            native_id: None,
            strict: false,
            permissions: PermissionPolicy::Ask,
            model: None,
            mcp: Vec::new(),
        }
    }

    pub(crate) fn open(&self, wanted: Wanted) -> Result<OpenedConnection, AgentError> {
        let request = OpenRequest {
            cwd: wanted.cwd,
            native_id: wanted.native_id.map(|id| NativeId::parse(&id).unwrap()),
            branch_point: None,
            strict: wanted.strict,
            permissions: wanted.permissions,
            role: None,
            model: wanted.model,
            mcp: wanted.mcp,
            timeout: LIMIT,
            process_sender: watch::channel(None).0,
        };
        self.runtime.block_on(self.provider.open(&request))
    }

    /// A new conversation in the project.
    pub(crate) fn begin(&self) -> Box<dyn AgentConnection> {
        self.open(self.wanted()).unwrap().connection
    }

    pub(crate) fn resume(&self, id: &str) -> OpenedConnection {
        let wanted = Wanted {
            native_id: Some(id.to_owned()),
            ..self.wanted()
        };
        self.open(wanted).unwrap()
    }

    /// One turn; `answer` answers what is asked.
    pub(crate) fn turn(
        &self,
        conversation: &mut dyn AgentConnection,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
    ) -> Turned {
        self.turn_then_cancel(conversation, prompt, answer, |_| false)
    }

    /// Likewise, cancelled at the first event that `when` takes.
    pub(crate) fn turn_then_cancel(
        &self,
        conversation: &mut dyn AgentConnection,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
        when: impl Fn(&AgentEvent) -> bool,
    ) -> Turned {
        let (mut events, mut asked) = (Vec::new(), Vec::new());
        let turn = async {
            conversation.send_prompt(prompt).await?;
            loop {
                match conversation.next_event().await {
                    ConnectionEvent::NativeIdReported(_) => {}
                    ConnectionEvent::Event(event) => {
                        if when(&event) {
                            conversation.cancel();
                        }
                        events.push(event);
                    }
                    ConnectionEvent::PermissionRequested(request, reply) => {
                        reply(answer(&request));
                        asked.push(request);
                    }
                    ConnectionEvent::TurnEnded(end) => return end,
                }
            }
        };
        let end = self
            .runtime
            .block_on(async { tokio::time::timeout(LIMIT, turn).await });
        Turned {
            end: end.unwrap(),
            events,
            asked,
        }
    }

    pub(crate) fn close(&self, conversation: Box<dyn AgentConnection>) {
        self.runtime.block_on(conversation.close());
    }

    /// The files of all threads.
    pub(crate) fn rollouts(&self) -> Vec<PathBuf> {
        rollouts(&self.sandbox)
    }

    /// Changes what is in Codex's configuration.
    pub(crate) fn configure(&self, from: &str, to: &str) {
        let before = self.config();
        assert!(before.contains(from), "{before}");
        let after = before.replacen(from, to, 1);
        fs::write(self.sandbox.home().join(".codex/config.toml"), after).unwrap();
    }

    pub(crate) fn config(&self) -> String {
        fs::read_to_string(self.sandbox.home().join(".codex/config.toml")).unwrap()
    }
}

/// The files of all threads in a sandbox.
pub(crate) fn rollouts(sandbox: &Sandbox) -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&sandbox.home().join(".codex/sessions"), &mut found);
    found
}
