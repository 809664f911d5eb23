//! The table of all settings. Parsing, sources, trust, the reference and the example file follow from it.

use crate::definition::ProjectAccess::{Trusted, TrustedIfMoreTools, TrustedUnless};
use crate::definition::ValueKind::{
    Agent, Agents, Bool, Count, PositiveSeconds, Price, Program, Seconds, Text, TextList,
    Transports,
};
use crate::definition::{AGENT_TABLE, Setting, SettingTable};
use crate::table_check::{accept_content, check_price, check_server, check_session};
use crate::validate::{
    accept_text, check_agent_name, check_argument, check_description, check_header,
    check_model_prefix, check_policy, check_role_name, check_server_name, check_session_ref,
    check_tool, check_url,
};

const PERMISSION_POLICY: Setting = Setting::new("permissions", Text(check_policy))
    .with_help("[Answer](agents.md#permissions) to permission requests of an agent: `ask`, `allow-reads`, `allow-edits`, `allow-all` or `deny`.")
    .with_default("\"ask\"")
    .with_variable("SEGUE_PERMISSIONS")
    .with_flag("--permissions")
    .with_access(TrustedUnless("\"deny\"", "what an agent may do without asking"));

const CONTEXT_LIMIT: Setting = Setting::new("context_limit", TOKEN_COUNT)
    .with_help(
        "Number of tokens above which a native session [ends](policy.md#limits); 0 for no limit.",
    )
    .with_default("350000");

const TIMEOUT_START: Setting = Setting::new("timeouts.start", PositiveSeconds)
    .with_help("Time for each step of starting an agent.")
    .with_default("60")
    .with_variable("SEGUE_OPEN_TIMEOUT")
    .with_flag("--open-timeout");

const TIMEOUT_FIRST: Setting = Setting::new("timeouts.first", Seconds)
    .with_help("Time for the first output after a prompt; 0 for no limit.")
    .with_default("600");

const TIMEOUT_SILENCE: Setting = Setting::new("timeouts.silence", Seconds)
    .with_help("Time for the next output while no tool runs; 0 for no limit.")
    .with_default("900");

const TIMEOUT_TURN: Setting = Setting::new("timeouts.turn", Seconds)
    .with_help("Time for a complete turn; 0 for no limit.")
    .with_default("0");

const TOKEN_COUNT: crate::definition::ValueKind = Count("a number of tokens", 0, 1_000_000_000_000);

const PLAIN_TABLE: SettingTable = SettingTable {
    path: "",
    title: "",
    help: "",
    example: "",
    settings: &[],
    check_name: accept_text,
    check_content: accept_content,
    unit: None,
    trust_reason: None,
};

/// All tables with their settings, in the order of the output.
pub(crate) static SETTING_TABLES: [SettingTable; 7] = [
    SettingTable {
        title: "General",
        help: "These settings are at the top of a file.",
        settings: &[
            Setting::new("prefer", Agents)
                .with_help("Order in which segue chooses an agent if you name none and the project has not used one before (otherwise segue uses the last one): `claude`, `codex`, `gemini`, `acp:NAME` and `rehearsal`. Agents that are not listed follow in the default order, `rehearsal` last.")
                .with_default("[\"claude\", \"codex\", \"gemini\"]"),
            Setting::new("fallback", Agents)
                .with_help("Agents that continue a session while its agent is in [cooldown](policy.md#cooldowns), in this order. They receive the conversation.")
                .with_default("[]")
                .with_access(TrustedUnless("[]", "agents that receive the session during a cooldown")),
            PERMISSION_POLICY,
            // A smaller budget has room only for the frame of a brief, and no model accepts a larger one.
            Setting::new("budget", Count("a number of tokens", 2_000, 1_000_000))
                .with_help("Maximum number of tokens of a brief and its prompt. It is smaller if the context of the model is smaller; `segue session preview` shows it. If you set it, segue compacts all sessions automatically, unless `compaction.auto` is `false`.")
                .with_default("100000"),
            Setting::new("error_limit", Count("a number of failures", 0, 1000))
                .with_help("Number of consecutive [failures](policy.md#failures) that end a native session; 0 for no limit.")
                .with_default("3"),
            Setting::new("backoff_seconds", Seconds)
                .with_help("Time to wait after a failure, multiplied by the number of consecutive failures; 0 for no wait.")
                .with_default("10"),
            CONTEXT_LIMIT,
            Setting::new("compaction.auto", Bool)
                .with_help("`true` to [compact](checkpoints.md#automatic-compaction) all sessions automatically when a native session contains 0.9 of the budget, `false` to compact none. If it is not set, segue compacts sessions with a role, or all sessions if `budget` is set.")
                .with_example("compaction.auto = false"),
            Setting::new("compaction.summariser", Agent)
                .with_help("Agent that [refines](checkpoints.md#summariser) each checkpoint, or `none`, as if it is not set. The agent receives the conversation.")
                .with_example("compaction.summariser = \"claude\"")
                .with_access(TrustedUnless("\"none\"", "an agent that receives the session to summarise it")),
            TIMEOUT_START,
            TIMEOUT_FIRST,
            TIMEOUT_SILENCE,
            TIMEOUT_TURN,
        ],
        ..PLAIN_TABLE
    },
    SettingTable {
        path: AGENT_TABLE,
        title: "Agents",
        help: "The tables `[claude]`, `[codex]`, `[gemini]` and `[acp.NAME]` contain the settings of one agent. `[acp.NAME]` adds any other agent that speaks the [Agent Client Protocol](https://agentclientprotocol.com) over its standard input and output. Its name in segue is `acp:NAME`. If a configured program does not exist, segue reports an error when you use the agent. segue omits an agent without a configured program that is not installed.",
        example: "claude",
        check_name: check_agent_name,
        check_content: check_session,
        unit: Some("session"),
        settings: &[
            Setting::new("path", Program)
                .with_help("Program: a name that segue looks up on `PATH`, or a path. `~/` is your home directory. A relative path is relative to the directory of the file. `[acp.NAME]` requires it.")
                .with_example("path = \"/opt/claude/bin/claude\"")
                .with_variable("SEGUE_AGENT_PATH")
                .with_access(Trusted("a program to start")),
            Setting::new("acp_path", Program)
                .with_help("Program that provides ACP for the agent (`claude` and `codex` only).")
                .with_example("acp_path = \"claude-agent-acp\"")
                .with_variable("SEGUE_AGENT_ACP_PATH")
                .with_access(Trusted("a program to start")),
            // Some transports cannot ask for permission.
            Setting::new("transports", Transports)
                .with_help("[Transports](agents.md#transports), in the order in which segue tries them.")
                .with_example("transports = [\"stream-json\", \"acp\"]")
                .with_variable("SEGUE_AGENT_TRANSPORTS")
                .with_access(Trusted("how segue communicates with the agent")),
            Setting::new("model", Text(check_argument))
                .with_help("Model, by the agent's name for it.")
                .with_example("model = \"opus\"")
                .with_variable("SEGUE_AGENT_MODEL"),
            Setting::new("mode", Text(check_argument))
                .with_help("Mode of the agent, by the agent's name for it. It replaces the mode in which the agent asks for permission.")
                .with_example("mode = \"plan\"")
                .with_access(Trusted("what an agent may do without asking")),
            Setting::new("args", TextList(accept_text))
                .with_help("Additional arguments.")
                .with_example("args = [\"--add-dir\", \"../shared\"]")
                .with_access(Trusted("arguments of a program")),
            PERMISSION_POLICY.for_agent("permissions = \"allow-reads\""),
            CONTEXT_LIMIT.for_agent("context_limit = 150_000"),
            TIMEOUT_START.for_agent("timeouts.start = 120"),
            TIMEOUT_FIRST.for_agent("timeouts.first = 300"),
            TIMEOUT_SILENCE.for_agent("timeouts.silence = 300"),
            TIMEOUT_TURN.for_agent("timeouts.turn = 3600"),
            Setting::new("session.resume_id", Text(check_session_ref))
                .with_help("Session for a prompt that names no session: an ID, `latest` or `feature:NAME`, as for `--resume`. Empty for none.")
                .with_example("session.resume_id = \"20251207_143022_k3f9\"")
                .with_access(Trusted("the session that prompts go to")),
            Setting::new("session.continue_last", Bool)
                .with_help("`true` to use the newest session in the directory instead. It cannot be combined with `resume_id`.")
                .with_example("session.continue_last = false"),
            Setting::new("env.VARIABLE", Text(accept_text))
                .with_help("Additional environment variable.")
                .with_example("env.ANTHROPIC_BASE_URL = \"https://models.example.org\"")
                .with_access(Trusted("the environment of a program")),
        ],
        ..PLAIN_TABLE
    },
    SettingTable {
        path: "mcp.NAME",
        title: "MCP servers that are programs",
        help: "MCP server that segue gives to every agent that accepts MCP servers. The agent starts the program. The name `segue` is reserved for [segue's own server](mcp.md).",
        example: "mcp.docs",
        settings: &[
            Setting::new("command", Program)
                .with_help("Program, as for the `path` of an agent.")
                .with_example("command = \"docs-mcp\""),
            Setting::new("args", TextList(accept_text))
                .with_help("Arguments of the program.")
                .with_example("args = [\"--stdio\"]"),
            Setting::new("env.VARIABLE", Text(accept_text))
                .with_help("Additional environment variable.")
                .with_example("env.DOCS_ROOT = \"/srv/docs\""),
        ],
        ..MCP_TABLE
    },
    SettingTable {
        path: "mcp.NAME",
        title: "MCP servers at a URL",
        help: "MCP server that already runs. segue gives it to every agent that accepts MCP servers.",
        example: "mcp.web",
        settings: &[
            Setting::new("url", Text(check_url))
                .with_help("URL of the server.")
                .with_example("url = \"https://mcp.example.org/mcp\""),
            Setting::new("headers.HEADER", Text(check_header))
                .with_help("Additional header of each request.")
                .with_example("headers.X-Team = \"pay\""),
        ],
        ..MCP_TABLE
    },
    SettingTable {
        path: "prices.NAME",
        title: "Prices",
        help: "Price of the models whose name begins with `NAME`, in dollars per million tokens. The longest match applies. For a model `maker/name`, segue also looks up `name`. [`segue session stats`](stats.md) uses the price if an agent does not report the cost. segue has no built-in prices, because prices change and yours may differ.",
        example: "prices.\"claude-opus-4\"",
        settings: &[
            Setting::new("input", Price)
                .with_help("Price of input tokens.").with_example("input = 15.0"),
            Setting::new("output", Price)
                .with_help("Price of output tokens.").with_example("output = 75.0"),
            Setting::new("cached", Price)
                .with_help("Price of input tokens from a cache. If it is not set, the price of `input` applies.")
                .with_example("cached = 1.5"),
        ],
        check_name: check_model_prefix,
        check_content: check_price,
        unit: Some(""),
        ..PLAIN_TABLE
    },
    SettingTable {
        path: "context_limits",
        title: "Context limits of models",
        help: "The `context_limit` of models takes precedence over the limit of the agent.",
        example: "context_limits",
        settings: &[Setting::new("NAME", TOKEN_COUNT)
            .with_help("`context_limit` of the models whose name begins with `NAME`. The longest match applies.")
            .with_example("gpt-5 = 250_000")
            .with_replacement(CONTEXT_LIMIT.key)],
        check_name: check_model_prefix,
        ..PLAIN_TABLE
    },
    SettingTable {
        path: "roles.NAME",
        title: "Roles",
        help: "The table changes a built-in [role](roles.md) or adds one, for `--role NAME`.",
        example: "roles.reviewer",
        settings: &[
            Setting::new("role", Text(check_description))
                .with_help("Description of the role. A new role requires it.")
                .with_example("role = \"You review code changes. You report each defect and suggest a fix.\""),
            Setting::new("instructions", TextList(accept_text))
                .with_help("Rules that the agent follows.")
                .with_example("instructions = [\"Read the tests first.\"]"),
            Setting::new("allowed_tools", TextList(check_tool))
                .with_help("Tools that the agent may use; `[\"*\"]` for all tools.")
                .with_example("allowed_tools = [\"Read\", \"Glob\", \"Grep\"]")
                .with_access(TrustedIfMoreTools),
            Setting::new("tool_instructions", Text(accept_text))
                .with_help("Instructions for using the tools.")
                .with_example(
                    "tool_instructions = \"Read the functions that a change calls before you judge it.\"",
                ),
        ],
        check_name: check_role_name,
        ..PLAIN_TABLE
    },
];

const MCP_TABLE: SettingTable = SettingTable {
    check_name: check_server_name,
    check_content: check_server,
    unit: Some(""),
    trust_reason: Some("an MCP server for the agents"),
    ..PLAIN_TABLE
};
