//! `segue schema`: the JSON Schemas of the output for other programs.

use std::process::ExitCode;

use segue_api::schema::{ListedSchema, NamedSchema, SCHEMAS};

use crate::cli::SchemaArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, print_line};

pub(crate) fn run(args: &SchemaArgs) -> Result<ExitCode, CliError> {
    match (args.schema.map(NamedSchema::schema), args.json) {
        (Some(schema), true) => print_json(&schema),
        (Some(schema), false) => {
            let text = serde_json::to_string_pretty(&schema);
            print_line(
                &text.map_err(|error| {
                    CliError::failed("cannot write the schema").with_cause(&error)
                })?,
            );
        }
        (None, true) => print_json(&SCHEMAS.iter().map(ListedSchema::from).collect::<Vec<_>>()),
        (None, false) => {
            let mut table = Table::new(&["NAME", "OUTPUT"]);
            for schema in SCHEMAS {
                table.add_row(&[schema.name.to_owned(), schema.description.to_owned()]);
            }
            table.print();
        }
    }
    Ok(ExitCode::SUCCESS)
}
