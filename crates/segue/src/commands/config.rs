//! `segue config`: effective settings, their origin, and validation of the files.

use std::path::Path;
use std::process::ExitCode;

use segue_api::config::{
    ConfigFileOwner, ConfigFileState, ListedConfigFile, ListedProblem, ListedSetting,
    SettingOrigin, SettingValue,
};
use segue_core::agent::PermissionPolicy;

use crate::app;
use crate::cli::{ConfigArgs, ConfigCheckArgs, ConfigCommand, ConfigPathArgs, ConfigShowArgs};
use crate::config::{
    self, ConfigEntry, ConfigFile, ConfigFileStatus, ConfigFlags, ConfigKey, ConfigLayer,
    ConfigOrigin, ConfigOwner, ConfigProblem, ConfigSource, ConfigValue, ProblemLocation,
    format_toml_key,
};
use crate::error::{CliError, ExitKind};
use crate::frontend::Frontend;
use crate::json_output::{path_json, print_json};
use crate::terminal::{Style, Table, eprint_line, print_line, strip_control_chars, to_single_line};

/// Text that replaces a secret.
const SECRET_MASK: &str = "********";

pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        ConfigCommand::Show(args) => show_settings(args),
        ConfigCommand::Path(args) => list_files(args),
        ConfigCommand::Check(args) => check_config(args),
    }
}

fn show_settings(args: &ConfigShowArgs) -> Result<ExitCode, CliError> {
    let policy = args.permissions.map(PermissionPolicy::from);
    let policy = policy.map(|policy| ("--permissions", policy.as_str().to_owned()));
    let timeout = args.open_timeout;
    let timeout = timeout.map(|seconds| ("--open-timeout", seconds.to_string()));
    let flags = ConfigFlags(policy.into_iter().chain(timeout).collect());
    let loaded = app::load_config(&flags)?;
    app::report_config_problem(&loaded);
    app::report_withheld_settings(&loaded);
    if args.json {
        let settings = loaded.settings.iter().map(setting_json);
        print_json(&settings.collect::<Vec<_>>());
    } else {
        for line in format_toml(&loaded.settings, args.origin) {
            print_line(&strip_control_chars(&line));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the settings as lines of a TOML file.
fn format_toml(settings: &ConfigLayer, with_origin: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut section = Vec::new();
    for (key, entry) in settings {
        let mut path = key.toml_path();
        let name = path.pop().unwrap_or_default();
        if path != section {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let header: Vec<String> = path.iter().map(|name| format_toml_key(name)).collect();
            lines.push(format!("[{}]", header.join(".")));
            section = path;
        }
        let origin = if with_origin {
            format!("  # {}", to_single_line(&entry.origin.to_string()))
        } else {
            String::new()
        };
        lines.push(format!(
            "{} = {}{origin}",
            format_toml_key(name),
            masked_value(key, entry).to_toml()
        ));
    }
    lines
}

/// Returns the value of a setting, masked if it is a secret.
pub(super) fn masked_value(key: &ConfigKey, entry: &ConfigEntry) -> ConfigValue {
    if key.is_secret() {
        ConfigValue::Text(SECRET_MASK.into())
    } else {
        entry.value.clone()
    }
}

pub(super) fn setting_json((key, entry): (&ConfigKey, &ConfigEntry)) -> ListedSetting {
    let origin = match &entry.origin {
        ConfigOrigin::Default => SettingOrigin::Default,
        ConfigOrigin::File { path, line, .. } => SettingOrigin::File {
            path: path_json(path),
            line: *line,
        },
        ConfigOrigin::Environment(name) => SettingOrigin::Environment { name: name.clone() },
        ConfigOrigin::Flag(name) => SettingOrigin::Flag {
            name: (*name).to_owned(),
        },
    };
    ListedSetting {
        key: key.to_string(),
        value: value_json(masked_value(key, entry)),
        origin,
    }
}

fn value_json(value: ConfigValue) -> SettingValue {
    match value {
        ConfigValue::Bool(on) => SettingValue::Bool(on),
        ConfigValue::Count(count) => SettingValue::Count(count),
        ConfigValue::Number(number) => SettingValue::Number(number),
        ConfigValue::Text(text) => SettingValue::Text(text),
        ConfigValue::TextList(texts) => SettingValue::List(texts),
    }
}

fn list_files(args: &ConfigPathArgs) -> Result<ExitCode, CliError> {
    let loaded = app::load_config(&ConfigFlags::default())?;
    if args.json {
        print_json(&loaded.files.iter().map(file_json).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["OWNER", "STATE", "FILE"]);
    for ConfigFile {
        source,
        status: state,
    } in &loaded.files
    {
        table.add_row(&[
            owner_name(source.owner).into(),
            state_name(*state).into(),
            source.path.display().to_string(),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

fn owner_name(owner: ConfigOwner) -> &'static str {
    match owner {
        ConfigOwner::User => "user",
        ConfigOwner::Project => "project",
    }
}

fn state_name(state: ConfigFileStatus) -> &'static str {
    match state {
        ConfigFileStatus::Absent => "absent",
        ConfigFileStatus::Broken => "broken",
        ConfigFileStatus::Read => "read",
        ConfigFileStatus::Trusted => "trusted",
        ConfigFileStatus::Untrusted => "untrusted",
    }
}

fn file_json(file: &ConfigFile) -> ListedConfigFile {
    ListedConfigFile {
        owner: match file.source.owner {
            ConfigOwner::User => ConfigFileOwner::User,
            ConfigOwner::Project => ConfigFileOwner::Project,
        },
        path: path_json(&file.source.path),
        state: match file.status {
            ConfigFileStatus::Absent => ConfigFileState::Absent,
            ConfigFileStatus::Broken => ConfigFileState::Broken,
            ConfigFileStatus::Read => ConfigFileState::Read,
            ConfigFileStatus::Trusted => ConfigFileState::Trusted,
            ConfigFileStatus::Untrusted => ConfigFileState::Untrusted,
        },
    }
}

fn check_config(args: &ConfigCheckArgs) -> Result<ExitCode, CliError> {
    let (sources, problems) = if let Some(file) = &args.file {
        check_file(file)?
    } else {
        let loaded = app::load_config(&ConfigFlags::default())?;
        let config_files = loaded.files.into_iter();
        let present_files =
            config_files.filter(|config_file| config_file.status != ConfigFileStatus::Absent);
        (
            present_files
                .map(|config_file| config_file.source)
                .collect(),
            loaded.problems,
        )
    };
    if args.json {
        print_json(&problems.iter().map(problem_json).collect::<Vec<_>>());
    } else {
        report_checked_files(&sources, &problems);
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitKind::Usage.exit_code()
    })
}

/// Validates one file, independent of its owner.
fn check_file(file: &Path) -> Result<(Vec<ConfigSource>, Vec<ConfigProblem>), CliError> {
    let environment = app::config_environment()?;
    let source = ConfigSource {
        owner: ConfigOwner::User,
        path: environment.cwd.join(file),
        is_required: true,
    };
    let problems = config::read_source(&source, environment.user_home.as_deref()).err();
    Ok((vec![source], problems.unwrap_or_default()))
}

fn report_checked_files(sources: &[ConfigSource], problems: &[ConfigProblem]) {
    for problem in problems {
        CliError::from(problem).report(Frontend::Shell);
    }
    for source in sources {
        let is_in_source =
            |problem: &&ConfigProblem| problem.location.file_path() == Some(source.path.as_path());
        if problems.iter().find(is_in_source).is_none() {
            print_line(&strip_control_chars(&format!(
                "{} is valid",
                source.path.display()
            )));
        }
    }
    if sources.is_empty() && problems.is_empty() {
        eprint_line(
            &Style::stderr().dim(
                "no configuration file found; run `segue config path` to show where segue looks for one",
            ),
        );
    }
}

fn problem_json(problem: &ConfigProblem) -> ListedProblem {
    let (line, column) = match problem.location {
        ProblemLocation::Position { line, column, .. } => (Some(line), Some(column)),
        ProblemLocation::File(_) | ProblemLocation::Environment(_) | ProblemLocation::Flag(_) => {
            (None, None)
        }
    };
    let variable = match &problem.location {
        ProblemLocation::Environment(name) => Some(name.clone()),
        ProblemLocation::Position { .. } | ProblemLocation::File(_) | ProblemLocation::Flag(_) => {
            None
        }
    };
    ListedProblem {
        path: problem.location.file_path().map(path_json),
        line,
        column,
        variable,
        message: problem.message.clone(),
        hint: problem.hint.clone(),
    }
}
