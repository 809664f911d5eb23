//! Arguments of `segue schema`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use segue_api::schema::{NamedSchema, SCHEMAS, find_schema};

/// Print the JSON Schema of the output of a command
///
/// The schemas (draft 2020-12) describe what other programs can rely on. Later versions may add fields to an output, but
/// no field is removed or changes its meaning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue schema                                 list the names
  segue schema chat                            print the schema of `segue chat --json`
  segue schema chat-event > chat-event.json    save the schema of `segue chat --events`")]
pub(crate) struct SchemaArgs {
    /// Name of the schema; without it, list all names
    #[arg(value_name = "NAME", value_parser = name_parser(), hide_possible_values = true)]
    pub(crate) schema: Option<&'static NamedSchema>,

    /// Print the list as a JSON array, or the schema on one line
    #[arg(long)]
    pub(crate) json: bool,
}

fn name_parser() -> impl TypedValueParser<Value = &'static NamedSchema> {
    let names = SCHEMAS.iter();
    let names = names.map(|schema| PossibleValue::new(schema.name).help(schema.description));
    PossibleValuesParser::new(names)
        .try_map(|name| find_schema(&name).ok_or_else(|| format!("unknown schema `{name}`")))
}
