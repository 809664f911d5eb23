//! `segue role`: the roles of agents.

use std::process::ExitCode;

use segue_api::role::ListedRole;
use segue_core::agent::RoleDescription;
use segue_core::scope::RoleName;
use segue_engine::AccessError;

use crate::app;
use crate::cli::{RoleArgs, RoleCommand, RoleListArgs, RoleShowArgs};
use crate::config::{ConfigFlags, ConfigOrigin, LoadedConfig};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, print_line, strip_control_chars, to_single_line};

pub(crate) fn run(args: RoleArgs) -> Result<ExitCode, CliError> {
    let loaded = app::load_config(&ConfigFlags::default())?;
    app::report_config_problem(&loaded);
    app::report_withheld_settings(&loaded);
    match args.command {
        RoleCommand::List(args) => list_roles(&loaded, &args),
        RoleCommand::Show(args) => show_role(&loaded, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list_roles(loaded: &LoadedConfig, args: &RoleListArgs) {
    let roles = loaded.config.roles.iter();
    if args.json {
        let roles: Vec<ListedRole> = roles.map(|role| role_json(loaded, role)).collect();
        print_json(&roles);
        return;
    }
    let mut table =
        Table::new(&["ROLE", "TOOLS", "DESCRIPTION", "ORIGIN"]).with_droppable_columns(&["ORIGIN"]);
    for role in roles {
        table.add_row(&[
            role.name.to_string(),
            format_tools(role),
            first_phrase(&role.description),
            role_origins(loaded, &role.name).join(", "),
        ]);
    }
    table.print();
}

fn show_role(loaded: &LoadedConfig, args: &RoleShowArgs) -> Result<(), CliError> {
    let Some(role) = loaded.config.roles.get(&args.name) else {
        let available = loaded.config.roles.iter().map(|role| role.name.clone());
        return Err(AccessError::UnknownRole {
            role: args.name.clone(),
            available: available.collect(),
        }
        .into());
    };
    if args.json {
        print_json(&role_json(loaded, role));
        return Ok(());
    }
    print_line(strip_control_chars(&role.render()).trim_end());
    print_line("");
    print_line(&format!(
        "origin: {}",
        role_origins(loaded, &role.name).join(", ")
    ));
    Ok(())
}

fn role_json(loaded: &LoadedConfig, role: &RoleDescription) -> ListedRole {
    ListedRole {
        role: role.clone(),
        from: role_origins(loaded, &role.name),
    }
}

fn format_tools(role: &RoleDescription) -> String {
    match role.allowed_tools.as_deref() {
        None => "all".to_owned(),
        Some([]) => "none".to_owned(),
        Some(tools) => to_single_line(&tools.join(" ")),
    }
}

/// Returns the text before the first punctuation mark, at most 60 characters. In most cases it names the role.
fn first_phrase(role: &str) -> String {
    let first = role.split([':', '.', ',']).next().unwrap_or_default();
    to_single_line(first).chars().take(60).collect()
}

/// Returns the sources of a role: segue, and the files that change it.
fn role_origins(loaded: &LoadedConfig, name: &RoleName) -> Vec<String> {
    let is_built_in = RoleDescription::find_built_in(name).is_some();
    let mut origins: Vec<String> = is_built_in
        .then(|| "segue".to_owned())
        .into_iter()
        .collect();
    for (key, entry) in &loaded.settings {
        if let (["roles", role, ..], ConfigOrigin::File { path, .. }) =
            (&key.toml_path()[..], &entry.origin)
        {
            let path = to_single_line(&path.display().to_string());
            if *role == name.as_str() && !origins.contains(&path) {
                origins.push(path);
            }
        }
    }
    origins
}
