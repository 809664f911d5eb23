//! Tests of the problems that an invalid file reports.

use super::*;

/// Returns the problems as `line:column: message | hint`.
fn problem_lines(text: &str) -> Vec<String> {
    let problems = parse_text(text).err().unwrap_or_default();
    let lines = problems.iter().map(|problem| {
        let problem_text = problem.to_string();
        let located_message = problem_text
            .strip_prefix("/etc/c.toml:")
            .unwrap_or(&problem_text);
        match &problem.hint {
            Some(hint) => format!("{located_message} | {hint}"),
            None => located_message.to_owned(),
        }
    });
    lines.collect()
}

/// Files and their problems.
const INVALID_FILES: &[(&str, &[&str])] = &[
    (
        "[prices.gpt-5]\ninput = 1\noutptu = 2",
        &["3:1: unknown setting `outptu` in [prices.gpt-5] | did you mean `output`?"],
    ),
    (
        "[prices.\"gpt-5.5\"]\ninput = 1",
        &[
            "1:9: prices.\"gpt-5.5\" needs both `input` and `output` | set them in dollars per million tokens; `cached` defaults to `input`",
        ],
    ),
    (
        "prices.gpt = { input = \"1\", output = -1, cached = 1e9 }",
        &[
            "1:24: prices.gpt.input: must be dollars per million tokens, such as 1.25, not a string",
            "1:38: prices.gpt.output: must be dollars per million tokens, from 0 to 100000, not -1",
            "1:51: prices.gpt.cached: must be dollars per million tokens, from 0 to 100000, not 1000000000",
        ],
    ),
    (
        "prices = 1\n",
        &["1:10: prices must be a table, not a number | write it as [prices]"],
    ),
    (
        "prices.\"\" = 1",
        &["1:8: \"\" is not a valid prefix of a model name"],
    ),
    (
        "fallback = [\"cluade\"]\nerror_limit = -1\nbackoff_seconds = \"ten\"\ncontext_limit = 1.5",
        &[
            "1:12: fallback: \"cluade\" is not one of claude, codex, gemini, rehearsal, acp:NAME | did you mean \"claude\"?",
            "2:15: error_limit: must be a number of failures, an integer from 0 to 1000, not -1",
            "3:19: backoff_seconds: must be a number of seconds, not a string",
            "4:17: context_limit: must be a number of tokens, an integer from 0 to 1000000000000, not 1.5",
        ],
    ),
    (
        "context_limits.\"\" = 1\n[codex]\ncontext_limit = true",
        &[
            "1:16: \"\" is not a valid prefix of a model name",
            "3:17: codex.context_limit: must be a number of tokens, not a boolean",
        ],
    ),
    (
        "prefr = []",
        &["1:1: unknown setting `prefr` | did you mean `prefer`?"],
    ),
    (
        "[claude]\n\npathh = 1",
        &["3:1: unknown setting `pathh` in [claude] | did you mean `path`?"],
    ),
    (
        "model = \"m\"",
        &[
            "1:1: unknown setting `model` | set it for one agent, under [claude], [codex], [gemini] or [acp.NAME]",
        ],
    ),
    (
        "[opencode]\npath = \"x\"",
        &[
            "1:2: unknown setting `opencode` | configure an ACP agent as [acp.opencode]; available settings: prefer, fallback, permissions, budget, error_limit, backoff_seconds, context_limit, compaction, timeouts, claude, codex, gemini, acp, mcp, prices, context_limits, roles",
        ],
    ),
    (
        "[gemini]\nacp_path = \"x\"",
        &[
            "2:1: unknown setting `acp_path` in [gemini] | available settings: path, transports, model, mode, args, permissions, context_limit, timeouts, session, env",
        ],
    ),
    (
        "[claude.session]\nresume = \"\"",
        &["2:1: unknown setting `resume` in [claude.session] | did you mean `resume_id`?"],
    ),
    (
        "[claude.timeouts]\nstrat = 1",
        &["2:1: unknown setting `strat` in [claude.timeouts] | did you mean `start`?"],
    ),
    (
        "permissions = \"allow\"",
        &[
            "1:15: permissions: \"allow\" is not one of ask, allow-reads, allow-edits, allow-all, deny",
        ],
    ),
    (
        "permissions = \"alow-all\"",
        &[
            "1:15: permissions: \"alow-all\" is not one of ask, allow-reads, allow-edits, allow-all, deny | did you mean \"allow-all\"?",
        ],
    ),
    (
        "permissions = true",
        &["1:15: permissions: must be a string in quotes, not a boolean"],
    ),
    (
        "[compaction]\nsummariser = \"cluade\"\nsummarizer = \"claude\"",
        &[
            "2:14: compaction.summariser: \"cluade\" is not one of claude, codex, gemini, rehearsal, acp:NAME, none | did you mean \"claude\"?",
            "3:1: unknown setting `summarizer` in [compaction] | did you mean `summariser`?",
        ],
    ),
    (
        "prefer = [\"claud\"]",
        &[
            "1:10: prefer: \"claud\" is not one of claude, codex, gemini, rehearsal, acp:NAME | did you mean \"claude\"?",
        ],
    ),
    (
        "prefer = [\"acp:A\"]",
        &["1:10: prefer: \"acp:A\" is not one of claude, codex, gemini, rehearsal, acp:NAME"],
    ),
    (
        "prefer = \"claude\"",
        &["1:10: prefer: must be an array of strings, such as [\"one\", \"two\"], not a string"],
    ),
    (
        "prefer = [1]",
        &[
            "1:10: prefer: must be an array of strings, such as [\"one\", \"two\"], not an array of other values",
        ],
    ),
    (
        "[codex]\ntransports = [\"stream-json\"]",
        &["2:14: codex.transports: \"stream-json\" is not one of app-server, exec, acp"],
    ),
    (
        "[codex]\ntransports = []",
        &[
            "2:14: codex.transports: must not be empty; name one of app-server, exec, acp, or omit it",
        ],
    ),
    (
        "[claude]\nmodel = \"--yes\"",
        &["2:9: claude.model: \"--yes\" must not start with `-` or contain control characters"],
    ),
    (
        "[claude]\nmodel = \"\"",
        &["2:9: claude.model: must not be empty; omit it to let the agent choose"],
    ),
    (
        "[claude]\npath = \"\"",
        &["2:8: claude.path: must not be empty; omit it to search PATH"],
    ),
    (
        "[claude]\nargs = [\"a\\u0000\"]",
        &["2:8: claude.args: must not contain a NUL character"],
    ),
    (
        "[claude]\nenv = [\"A=1\"]",
        &["2:7: claude.env must be a table, not an array | write it as [claude.env]"],
    ),
    (
        "[claude]\nenv = { \"A=B\" = \"1\" }",
        &["2:9: \"A=B\" is not a valid variable name"],
    ),
    (
        "[claude]\nenv = { A = 1 }",
        &["2:13: claude.env.A: must be a string in quotes, not a number"],
    ),
    (
        "claude = 3",
        &["1:10: claude must be a table, not a number | write it as [claude]"],
    ),
    (
        "[claude.session]\nresume_id = \"7\"",
        &[
            "2:13: claude.session.resume_id: \"7\" is a list number, which may refer to another session later | use the session ID",
        ],
    ),
    (
        "[claude.session]\nresume_id = \"a/b\"",
        &["2:13: claude.session.resume_id: a session id may not contain '/'"],
    ),
    (
        "[claude.session]\ncontinue_last = \"yes\"",
        &[
            "2:17: claude.session.continue_last: must be true or false, without quotes, not a string",
        ],
    ),
    (
        "[claude.session]\nresume_id = \"abcd\"\ncontinue_last = true",
        &[
            "3:1: claude.session.continue_last: cannot be combined with `resume_id` | remove `continue_last` to resume the named session, or `resume_id` to resume the newest one",
        ],
    ),
    (
        "[timeouts]\nstart = 0",
        &["2:9: timeouts.start: must be greater than 0"],
    ),
    (
        "[timeouts]\nturn = -1",
        &["2:8: timeouts.turn: must be a number of seconds from 0 to 31536000, not -1"],
    ),
    (
        "[timeouts]\nturn = nan",
        &["2:8: timeouts.turn: must be a number of seconds from 0 to 31536000, not NaN"],
    ),
    (
        "[timeouts]\nturn = 99999999999999999999",
        &["2:8: timeouts.turn: must be a number of seconds, not an integer out of range"],
    ),
    (
        "[acp.Big]\npath = \"x\"",
        &[
            "1:6: \"Big\" is not a valid agent name: use at most 60 lowercase letters, digits, `-`, `_` and `.`",
        ],
    ),
    (
        "[mcp.segue]\ncommand = \"x\"",
        &["1:6: `segue` is reserved for segue's own MCP server"],
    ),
    (
        "[mcp.a]",
        &[
            "1:6: mcp.a has neither a `command` nor a `url` | set `command` for a program that the agent starts, or `url` for a running server",
        ],
    ),
    (
        "[mcp.a]\nurl = \"ftp://x\"",
        &["2:7: mcp.a.url: must be a URL that starts with https:// or http://"],
    ),
    (
        "[mcp.a]\nurl = \"https://x\"\nargs = []",
        &["3:1: mcp.a.args: a server with a `url` takes no `args` or `env` | remove this setting"],
    ),
    (
        "[mcp.a]\ncommand = \"x\"\nheaders = { A = \"1\" }",
        &[
            "3:13: mcp.a.headers.A: a server with a `command` takes no `headers` | remove this setting",
        ],
    ),
    (
        "[mcp.a]\nurl = \"https://x\"\nheaders = { A = \"1\\r\\nB: 2\" }",
        &["3:17: mcp.a.headers.A: must not contain control characters"],
    ),
    (
        "x = 1\npermissions = 1",
        &[
            "1:1: unknown setting `x` | available settings: prefer, fallback, permissions, budget, error_limit, backoff_seconds, context_limit, compaction, timeouts, claude, codex, gemini, acp, mcp, prices, context_limits, roles",
            "2:15: permissions: must be a string in quotes, not a number",
        ],
    ),
    (
        "# ü\n\"ü\" = 1",
        &[
            "2:1: unknown setting `\"ü\"` | available settings: prefer, fallback, permissions, budget, error_limit, backoff_seconds, context_limit, compaction, timeouts, claude, codex, gemini, acp, mcp, prices, context_limits, roles",
        ],
    ),
    (
        "permissions = ask",
        &["1:15: string values must be quoted, expected literal string, in `permissions = ask`"],
    ),
    ("a = 1\na = 2", &["2:1: duplicate key, in `a = 2`"]),
];

#[test]
fn problems_are_reported_with_their_position() {
    for (text, expected) in INVALID_FILES {
        assert_eq!(problem_lines(text), *expected, "{text}");
    }
}

#[test]
fn a_syntax_error_next_to_a_secret_does_not_reveal_it() {
    for text in [
        "[claude]\nenv = { API_KEY = \"sk-1",
        "[claude]\nenv = { API_KEY = \"sk-1\" x }",
    ] {
        let report = problem_lines(text).join("\n");
        assert!(
            report.contains("2:") && !report.contains("sk-1"),
            "{report}"
        );
    }
}

#[test]
fn deep_nesting_is_rejected() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("{}a = 1", "a.".repeat(50_000)),
    ] {
        assert_eq!(problem_lines(&text).len(), 1);
    }
}

#[test]
fn unreadable_files_have_distinct_problems() {
    let directory = tempfile::tempdir().unwrap();
    let file_path = |name: &str| directory.path().join(name);
    fs::create_dir(file_path("directory")).unwrap();
    fs::write(file_path("latin"), b"# 1\n# \xc3\xbc\xe9\n").unwrap();
    fs::write(file_path("large"), "#".repeat(10 << 20)).unwrap();
    fs::write(file_path("full"), "#".repeat(1 << 20)).unwrap();
    std::os::unix::fs::symlink(file_path("loop"), file_path("loop")).unwrap();
    let cases = [
        (file_path("directory"), Err(": not a regular file")),
        (file_path("latin"), Err(":2:4: invalid UTF-8")),
        (
            file_path("large"),
            Err(": the file is larger than 1024 KiB"),
        ),
        (file_path("full"), Ok(true)),
        (
            file_path("loop"),
            Err(": cannot read the file: Too many levels of symbolic links (os error 40)"),
        ),
        (file_path("absent"), Ok(false)),
        (file_path("full/beneath"), Ok(false)),
        ("/dev/zero".into(), Err(": not a regular file")),
        ("/dev/null".into(), Ok(true)),
    ];
    for (path, expected) in cases {
        let source = ConfigSource {
            owner: ConfigOwner::User,
            path: path.clone(),
            is_required: false,
        };
        let outcome = read_source(&source, None).map(|content| content.is_some());
        let outcome = outcome.map_err(|problems| problems.first().unwrap().to_string());
        let expected = expected.map_err(|message| format!("{}{message}", path.display()));
        assert_eq!(outcome, expected);
    }
    let source = ConfigSource {
        owner: ConfigOwner::User,
        path: file_path("absent"),
        is_required: true,
    };
    assert!(
        read_source(&source, None).is_err(),
        "a required file must exist"
    );
}
