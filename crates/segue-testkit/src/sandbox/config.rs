//! Configuration files and environment variables of the CLIs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

/// Returns the environment variables of all CLIs, except those that depend on the path of the sandbox.
pub(crate) fn environment_variables(url: &str) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ("HTTP_PROXY", url.to_owned()),
        ("HTTPS_PROXY", url.to_owned()),
        ("http_proxy", url.to_owned()),
        ("https_proxy", url.to_owned()),
    ];
    let fixed = [
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm-256color"),
        ("TZ", "UTC"),
        ("USER", "stub"),
        ("LOGNAME", "stub"),
        ("SHELL", "/bin/sh"),
        ("NO_PROXY", "127.0.0.1,localhost"),
        ("no_proxy", "127.0.0.1,localhost"),
        ("NO_BROWSER", "1"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GEMINI_API_KEY", "dummy"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        // Makes Gemini CLI run in one process instead of two, which saves 1.5 s.
        ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ("ANTHROPIC_API_KEY", "sk-ant-dummy"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ("API_TIMEOUT_MS", "20000"),
        ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("STUB_KEY", "dummy"),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_SHARE", "1"),
        // Each start of opencode takes seconds of CPU time; these features account for a third of it.
        ("OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER", "1"),
        ("OPENCODE_DISABLE_FFF", "1"),
        ("OPENCODE_DISABLE_EMBEDDED_WEB_UI", "1"),
        ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
        // Claude Code and opencode run on Bun, which compiles functions and collects garbage in additional threads. In
        // a process that runs for seconds this costs more than it saves: a quarter of opencode's time.
        ("BUN_JSC_numberOfGCMarkers", "1"),
        ("BUN_JSC_useConcurrentGC", "0"),
        ("BUN_JSC_useDFGJIT", "0"),
        ("BUN_JSC_thresholdForJITAfterWarmUp", "5000"),
    ];
    variables.extend(fixed.map(|(name, value)| (name, value.to_owned())));
    variables
}

/// Writes the configuration files of all CLIs.
pub(crate) fn write_config_files(home: &Path, project: &Path, url: &str) {
    write_file(
        &home.join(".gitconfig"),
        "[user]\n\tname = Stub\n\temail = stub@localhost\n",
    );
    write_file(&home.join(".gemini/settings.json"), &gemini_settings());
    write_file(
        &home.join(".codex/config.toml"),
        &codex_config(project, url),
    );
    write_file(
        &home.join(".config/opencode/opencode.json"),
        &opencode_config(url),
    );
    write_file(&models_path(home), "{}");
}

/// Returns the file from which opencode reads its list of models. It is empty, because the configuration defines the
/// stub's model.
pub(crate) fn models_path(home: &Path) -> PathBuf {
    home.join(".config/opencode/models.json")
}

fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the settings of Gemini CLI. They name a model, because `auto` queries another model first, and disable
/// session retention, because it deletes resumed sessions (PROVIDERS.md §2).
fn gemini_settings() -> String {
    json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "model": {"name": "gemini-2.5-flash"},
        "general": {
            "sessionRetention": {"enabled": false},
            "maxAttempts": 1,
            "enableAutoUpdate": false,
            "enableAutoUpdateNotification": false,
        },
    })
    .to_string()
}

/// Returns the configuration of Codex. It disables Codex's own sandbox, because that needs privileges that a container
/// may lack, and the home is already isolated.
fn codex_config(project: &Path, url: &str) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

# These features send requests to GitHub and chatgpt.com at every start.
[features]
plugins = false
apps = false
plugin_discovery_prefetch = false
in_app_updates = false
daemon_auto_start = false

[model_providers.stub]
name = "Stub"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 5000

[projects."{project}"]
trust_level = "trusted"
"#,
        project = project.display()
    )
}

/// Returns the configuration of opencode. It uses the Anthropic provider, which is part of the program, because
/// opencode would download any other.
fn opencode_config(url: &str) -> String {
    let model = json!({
        "name": "Stub",
        "tool_call": true,
        "reasoning": true,
        "limit": {"context": 200_000, "output": 8192},
    });
    json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "provider": {"stub": {
            "npm": "@ai-sdk/anthropic",
            "name": "Stub",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "dummy"},
            "models": {"stub-model": model},
        }},
    })
    .to_string()
}
