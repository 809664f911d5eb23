//! Files for people that follow from the table of settings: the reference and the commented example file.

use std::fmt::Write;

use crate::definition::{
    AGENT_TABLE, ProjectAccess, SETTING_PLACES, Setting, SettingTable, ValueKind,
};
use crate::providers::CONFIGURABLE_PROVIDERS;
use crate::settings::SETTING_TABLES;

/// Beginning of the example file.
const EXAMPLE_HEADER: &str = "\
# All settings of segue. Copy the settings that you need into your user configuration (`segue config path` prints its
# path) or into segue.toml in the root directory of a project. `segue config check FILE` reports the errors in a file,
# and `segue config show --origin` prints each setting with its source. docs/configuration.md describes all settings.
#
# A line that begins with # and no space is a setting that is disabled.
";

/// Table of an agent in `[acp.NAME]`.
const ACP_EXAMPLE: &str = "[acp.opencode]\npath = \"opencode\"\nargs = [\"acp\"]\n";

/// Maximum number of characters in a line.
const MAX_LINE_CHARS: usize = 120;

/// Renders the reference of all settings, in Markdown.
#[must_use]
pub fn render_reference() -> String {
    let mut text = String::new();
    for table in &SETTING_TABLES {
        let path = match table.path {
            "" | AGENT_TABLE => String::new(),
            path => format!("`[{path}]`: "),
        };
        let help = wrap_text(&format!("{path}{}", table.help), MAX_LINE_CHARS).join("\n");
        let _ = write!(text, "\n### {}\n\n{help}\n\n", table.title);
        text.push_str("| setting | value | description |\n| --- | --- | --- |\n");
        for setting in table.settings {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} |",
                setting.key,
                kind_name(setting.kind),
                describe(table, setting)
            );
        }
        let example = match table.path {
            "" => continue,
            AGENT_TABLE => ACP_EXAMPLE.to_owned(),
            _ => {
                let lines = table
                    .settings
                    .iter()
                    .map(|setting| example_line(setting) + "\n");
                format!("[{}]\n{}", table.example, lines.collect::<String>())
            }
        };
        let _ = write!(text, "\n```toml\n{example}```\n");
    }
    text
}

/// Renders the example file, in which every setting occurs.
#[must_use]
pub fn render_example() -> String {
    let mut text = EXAMPLE_HEADER.to_owned();
    let mut last_help = "";
    for table in &SETTING_TABLES {
        let marker = if table.path == AGENT_TABLE { "" } else { "#" };
        if !table.path.is_empty() {
            let help = format_comment(table.help);
            let _ = write!(text, "\n{help}{marker}[{}]\n", table.example);
        }
        for setting in table.settings {
            let marker = if setting.default.is_some() { "" } else { "#" };
            if setting.help != last_help {
                let _ = write!(text, "\n{}", format_comment(setting.help));
                last_help = setting.help;
            }
            let _ = writeln!(text, "{marker}{}", example_line(setting));
        }
        if table.path == AGENT_TABLE {
            let others = CONFIGURABLE_PROVIDERS
                .iter()
                .skip(1)
                .filter(|other| other.is_built_in());
            for other in others {
                let (name, transports) = (other.name, other.transports);
                let _ = write!(text, "\n[{name}]\n#transports = {transports:?}\n");
            }
            text.push('\n');
            text.extend(ACP_EXAMPLE.lines().map(|line| format!("#{line}\n")));
        }
    }
    text
}

/// Returns the line that sets a setting in the example file.
pub(crate) fn example_line(setting: &Setting) -> String {
    let default = || format!("{} = {}", setting.key, setting.default.unwrap_or_default());
    setting.example.map_or_else(default, str::to_owned)
}

/// Describes a setting with its default, its other sources and the trust that it needs.
fn describe(table: &SettingTable, setting: &Setting) -> String {
    let mut text = setting.help.to_owned();
    if let ValueKind::Transports = setting.kind {
        let transports = CONFIGURABLE_PROVIDERS
            .iter()
            .map(|provider| format!("{}: `{}`", provider.table, provider.transports.join("`, `")));
        let _ = write!(text, " {}.", transports.collect::<Vec<_>>().join("; "));
    }
    if let Some(default) = setting.default {
        let _ = write!(text, " Default: `{default}`.");
    }
    let places = SETTING_PLACES
        .iter()
        .filter(|place| std::ptr::eq(place.setting, setting));
    let variables = places.filter_map(|place| Some(format!("`{}`", place.variable()?)));
    let flag = setting.flag.map(|flag| format!("`{flag}`"));
    let sources: Vec<String> = variables.chain(flag).collect();
    if !sources.is_empty() {
        let _ = write!(text, " Also set by {}.", sources.join(", "));
    }
    match setting.project_access {
        ProjectAccess::Free if table.trust_reason.is_none() => {}
        ProjectAccess::Free | ProjectAccess::Trusted(_) => text.push_str(" Needs [trust](#trust)."),
        ProjectAccess::TrustedUnless(harmless, _) => {
            let _ = write!(text, " Needs [trust](#trust), except `{harmless}`.");
        }
        ProjectAccess::TrustedIfMoreTools => {
            text.push_str(" Needs [trust](#trust) to give an existing role more tools.");
        }
    }
    text
}

fn kind_name(kind: ValueKind) -> String {
    match kind {
        ValueKind::Bool => "`true` or `false`".into(),
        ValueKind::Count(_, min, max) => format!("integer from {min} to {max}"),
        ValueKind::Seconds => "seconds".into(),
        ValueKind::PositiveSeconds => "seconds, greater than 0".into(),
        ValueKind::Price => "dollars".into(),
        ValueKind::Text(_) => "text".into(),
        ValueKind::TextList(_) => "list of texts".into(),
        ValueKind::Agent => "agent".into(),
        ValueKind::Agents => "list of agents".into(),
        ValueKind::Program => "program".into(),
        ValueKind::Transports => "list of transports".into(),
    }
}

/// Removes the targets of links from Markdown.
fn strip_links(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, target)) = rest.split_once("](") {
        let (before, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.extend([before, label]);
        rest = target.split_once(')').map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// Formats a text as a comment of the example file.
fn format_comment(markdown: &str) -> String {
    let lines = wrap_text(&strip_links(markdown), MAX_LINE_CHARS - 2);
    format!("# {}\n", lines.join("\n# "))
}

/// Splits a text into lines at its spaces.
fn wrap_text(text: &str, max_chars: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= max_chars => {
                line.extend([" ", word]);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
