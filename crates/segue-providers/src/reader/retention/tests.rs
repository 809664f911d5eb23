//! Tests of agents' settings.

use super::*;

/// Returns the retention of an agent with these settings in `home`, `project` and `root`.
fn retention_with_settings(provider: &str, files: &[(&str, &str)]) -> Retention {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let subdirectory = |name: &str| directory.path().join(name);
    let dirs = SettingsDirs {
        home: subdirectory("home"),
        project: subdirectory("project"),
        root: subdirectory("root"),
    };
    match provider_retention(provider, &dirs).unwrap() {
        Retention::Limited(limits) => Retention::Limited(RetentionLimits {
            path: limits
                .path
                .map(|path| path.strip_prefix(directory.path()).unwrap().to_owned()),
            ..limits
        }),
        other => other,
    }
}

/// Returns the period in days, the maximum number, and the path of the settings.
fn limits_with_settings(
    provider: &str,
    files: &[(&str, &str)],
) -> Option<(Option<i64>, Option<usize>, String)> {
    match retention_with_settings(provider, files) {
        Retention::Limited(limits) => Some((
            limits.period.map(|period| period.as_hours() / 24),
            limits.max_sessions,
            limits
                .path
                .map_or(String::new(), |path| path.display().to_string()),
        )),
        Retention::Unlimited | Retention::Paused { .. } => None,
    }
}

#[test]
fn claude_code_uses_the_period_of_the_first_settings_file() {
    let days = |days: i64, path: &str| Some((Some(days), None, path.to_owned()));
    let user = ("home/settings.json", "{\"cleanupPeriodDays\": 90} // long");
    let project = (
        "project/.claude/settings.json",
        "{\"cleanupPeriodDays\": 7}",
    );
    let local = (
        "project/.claude/settings.local.json",
        "/* mine */ {\"cleanupPeriodDays\": 8}",
    );
    let managed = (
        "root/etc/claude-code/managed-settings.json",
        "{\"cleanupPeriodDays\": 365}",
    );
    let drop_in = (
        "root/etc/claude-code/managed-settings.d/10.json",
        "{\"cleanupPeriodDays\": 1}",
    );
    let unrelated = (
        "home/settings.json",
        "{\"model\": \"//\", \"x\": \"\\\"/*\"}",
    );
    for (files, expected) in [
        (&[][..], days(30, "")),
        (&[unrelated], days(30, "")),
        (&[("home/settings.json", "not json")], days(30, "")),
        (&[user], days(90, "home/settings.json")),
        (&[user, project], days(7, project.0)),
        (&[user, project, local], days(8, local.0)),
        (&[user, project, local, managed], days(365, managed.0)),
        (&[managed, drop_in], days(1, drop_in.0)),
    ] {
        assert_eq!(limits_with_settings("claude", files), expected, "{files:?}");
    }
    for bad in ["0", "-1", "1.5", "\"30\"", "null"] {
        let text = format!("{{\"cleanupPeriodDays\": {bad}}}");
        let retention = retention_with_settings("claude", &[("home/settings.json", &text)]);
        assert!(matches!(retention, Retention::Paused { .. }), "{bad}");
    }
}

#[test]
fn gemini_cli_retains_sessions_for_thirty_days_by_default() {
    let set = |text: &str| format!("{{\"general\":{{\"sessionRetention\":{text}}}}}");
    let from = "home/settings.json";
    for (setting, expected) in [
        ("{}", Some((Some(30), None, ""))),
        ("{\"enabled\":true}", Some((Some(30), None, ""))),
        ("{\"enabled\":false,\"maxAge\":\"7d\"}", None),
        ("{\"maxAge\":\"7d\"}", Some((Some(7), None, from))),
        (
            "{\"maxAge\":\"2w\",\"maxCount\":5}",
            Some((Some(14), Some(5), from)),
        ),
        ("{\"maxAge\":\"1m\"}", Some((Some(30), None, from))),
        (
            "{\"maxAge\":\"\",\"maxCount\":5}",
            Some((None, Some(5), from)),
        ),
        // Gemini CLI deletes nothing if it can't interpret its settings.
        ("{\"maxAge\":\"12h\"}", None),
        (
            "{\"maxAge\":\"12h\",\"minRetention\":\"6h\"}",
            Some((Some(0), None, from)),
        ),
        ("{\"maxAge\":\"soon\"}", None),
        ("{\"maxAge\":\"0d\"}", None),
        ("{\"maxCount\":0}", None),
    ] {
        let expected =
            expected.map(|(days, max_sessions, path)| (days, max_sessions, path.to_owned()));
        assert_eq!(
            limits_with_settings("gemini", &[(from, &set(setting))]),
            expected,
            "{setting}"
        );
    }
    let project = set("{\"maxAge\":\"9d\"}");
    let user = set("{\"maxAge\":\"8d\",\"maxCount\":3}");
    let both = [
        ("project/.gemini/settings.json", project.as_str()),
        (from, &user),
    ];
    assert_eq!(
        limits_with_settings("gemini", &both),
        Some((Some(9), Some(3), from.to_owned()))
    );
    assert_eq!(
        limits_with_settings("gemini", &[]),
        Some((Some(30), None, String::new()))
    );
}

#[test]
fn other_agents_delete_no_sessions() {
    assert_eq!(retention_with_settings("codex", &[]), Retention::Unlimited);
    assert_eq!(
        retention_with_settings("opencode", &[]),
        Retention::Unlimited
    );
    let dirs = SettingsDirs {
        home: "/".into(),
        project: "/".into(),
        root: "/".into(),
    };
    assert_eq!(provider_retention("unknown", &dirs), None);
}
