//! Codex, driven over `codex app-server`, by `codex exec` or through an ACP adapter.

mod acp;
mod app_server;
mod artifacts;
mod config_overrides;
mod driver;
mod exec;
mod executable;
mod failure;
mod folder_trust;
mod history;
mod home;
mod items;
mod line_format;
mod line_frame;
mod read_only_command;
mod reader;
mod rollout;
mod schema;
mod session_meta;
mod startup_retry;
mod tool_failure;
mod usage;

use std::sync::Arc;

use segue_core::session::FailureClass;

use crate::descriptor::{NativeHome, ProviderDescriptor, ProviderDriver, SessionCommands};
use crate::reader::retention::Retention;

pub use driver::codex_provider;
pub use reader::CodexReader;

/// Codex.
pub(crate) static CODEX_PROVIDER: ProviderDescriptor = ProviderDescriptor {
    name: "codex",
    program: "codex",
    driver: Some(ProviderDriver {
        transports: &["app-server", "exec", "acp"],
        acp_adapters: &["codex-acp"],
        build: codex_provider,
    }),
    home: NativeHome::Variable("CODEX_HOME", ".codex"),
    new_reader: |home, _| Arc::new(CodexReader::new(home)),
    read_retention: |_| Retention::Unlimited,
    session_commands: SessionCommands {
        resume: &["resume"],
        delete: Some(&["delete", "--force"]),
        import: None,
        unarchive: Some(&["unarchive"]),
    },
    has_file_open_while_in_use: true,
    injected_prefixes: &[
        "<environment_context>",
        "<user_instructions>",
        "<skills_instructions>",
        "<permissions instructions>",
        "<collaboration_mode>",
        "<turn_aborted>",
        "<subagent_notification>",
        "# AGENTS.md instructions",
        "<user_shell_command>",
        "<user_action>",
        "<skill>",
        "<hook_prompt",
        "<goal_context>",
        "<codex_internal_context",
        "<recommended_plugins>",
        "<external_",
        "<model_switch>",
        "<multi_agent_mode>",
        "<apps_instructions>",
        "<plugins_instructions>",
        "<environments_instructions>",
        "<realtime_conversation>",
        "<realtime_delegation>",
        "<personality_spec>",
        "<token_budget>",
        "<context_window",
        "<current_time_reminder>",
        "<image_resize_notice>",
        "Warning: The maximum number of unified exec processes",
        "Warning: apply_patch was requested via",
    ],
    failure_patterns: &[
        (
            FailureClass::UntrustedFolder,
            &["not inside a trusted directory"],
        ),
        (
            FailureClass::ContextTooLong,
            &["ran out of room", "context"],
        ),
        (FailureClass::Quota, &["usage_limit_reached"]),
        (FailureClass::Quota, &["out of credits"]),
        (FailureClass::SessionUnknown, &["no rollout found"]),
        (FailureClass::SessionUnknown, &["thread not found"]),
    ],
};
