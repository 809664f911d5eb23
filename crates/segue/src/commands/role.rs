//! `segue role`: the roles of agents.

use std::process::ExitCode;

use segue_core::agent::RoleDescription;
use segue_core::scope::RoleName;
use segue_engine::EngineError;
use serde_json::{Value, json};

use crate::app;
use crate::cli::{RoleArgs, RoleCommand, RoleListArgs, RoleShowArgs};
use crate::config::{Flags, Key, Loaded, Origin};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, clean, one_line, print};

pub(crate) fn run(args: RoleArgs) -> Result<ExitCode, CliError> {
    let loaded = app::configuration(&Flags::default())?;
    app::tell_problems(&loaded);
    app::tell_withheld(&loaded);
    match args.command {
        RoleCommand::List(args) => list(&loaded, &args),
        RoleCommand::Show(args) => show(&loaded, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(loaded: &Loaded, args: &RoleListArgs) {
    let roles = loaded.config.roles.iter();
    if args.json {
        let roles: Vec<Value> = roles.map(|role| shape(loaded, role)).collect();
        print_json(&roles);
        return;
    }
    let mut table = Table::new(&["ROLE", "TOOLS", "WHAT IT IS", "FROM"]).shedding(&["FROM"]);
    for role in roles {
        table.row(&[
            role.name.to_string(),
            tools(role),
            first_words(&role.role),
            origins(loaded, &role.name).join(", "),
        ]);
    }
    table.print();
}

fn show(loaded: &Loaded, args: &RoleShowArgs) -> Result<(), CliError> {
    let Some(role) = loaded.config.roles.get(&args.name) else {
        let known = loaded.config.roles.iter().map(|role| role.name.clone());
        return Err(EngineError::UnknownRole {
            role: args.name.clone(),
            known: known.collect(),
        }
        .into());
    };
    if args.json {
        print_json(&shape(loaded, role));
        return Ok(());
    }
    print(clean(&role.written()).trim_end());
    print("");
    print(&format!("from: {}", origins(loaded, &role.name).join(", ")));
    Ok(())
}

fn shape(loaded: &Loaded, role: &RoleDescription) -> Value {
    json!({
        "name": role.name.as_str(),
        "role": role.role,
        "instructions": role.instructions,
        "allowed_tools": role.allowed_tools,
        "tool_instructions": role.tool_instructions,
        "from": origins(loaded, &role.name),
    })
}

fn tools(role: &RoleDescription) -> String {
    match role.allowed_tools.as_deref() {
        None => "all".to_owned(),
        Some([]) => "none".to_owned(),
        Some(tools) => one_line(&tools.join(" ")),
    }
}

/// Returns the text before the first punctuation mark, at most 60 characters. In most cases it names the role.
fn first_words(role: &str) -> String {
    let first = role.split([':', '.', ',']).next().unwrap_or_default();
    one_line(first).chars().take(60).collect()
}

/// Returns the sources of a role: segue, and the files that change it.
fn origins(loaded: &Loaded, name: &RoleName) -> Vec<String> {
    let built_in = RoleDescription::built_in(name).is_some();
    let mut origins: Vec<String> = built_in.then(|| "segue".to_owned()).into_iter().collect();
    for (key, entry) in &loaded.settings {
        if let (Key::Role(of, _), Origin::File { path, .. }) = (key, &entry.origin) {
            let path = one_line(&path.display().to_string());
            if of == name && !origins.contains(&path) {
                origins.push(path);
            }
        }
    }
    origins
}
