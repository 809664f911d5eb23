//! Parser of a configuration file: from TOML to settings, or to all its problems.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::definition::{SETTING_PLACES, SettingPlace, is_placeholder};
use crate::key::ConfigKey;
use crate::layer::{ConfigEntry, ConfigLayer, ConfigOrigin, format_toml_key, format_toml_path};
use crate::problem::{ConfigProblem, ProblemLocation, ValueError};
use crate::suggest::suggest_name;
use crate::table_check::TableContent;
use crate::validate::{PathBase, UncheckedValue, check_name, validate_value};

type TableItem<'a, 'i> = (&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

/// Parses the text of the file at `path`.
pub(crate) fn parse_file(
    text: &str,
    path: &Path,
    home: Option<&Path>,
) -> Result<ConfigLayer, Vec<ConfigProblem>> {
    let mut parser = ConfigParser {
        text,
        path,
        base: PathBase {
            directory: path.parent().map(Path::to_owned).unwrap_or_default(),
            home: home.map(Path::to_owned),
        },
        layer: ConfigLayer::new(),
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    // Only the first syntax error is reported, because later ones often follow from it.
    let first_error = errors
        .iter()
        .min_by_key(|error| error.span().map(|span| span.start));
    match first_error {
        None => {
            let places: Vec<_> = SETTING_PLACES.iter().collect();
            parser.parse_table(&[], &places, table.get_ref());
        }
        Some(error) => {
            let span = error.span().unwrap_or_default();
            let value_error = ValueError::new(parser.message_with_excerpt(error.message(), &span));
            parser.report_problem(&span, value_error);
        }
    }
    if parser.problems.is_empty() {
        return Ok(parser.layer);
    }
    parser.problems.sort_by(|a, b| a.location.cmp(&b.location));
    Err(parser.problems)
}

/// State of the parser for one file.
struct ConfigParser<'a> {
    text: &'a str,
    path: &'a Path,
    base: PathBase,
    layer: ConfigLayer,
    problems: Vec<ConfigProblem>,
}

impl ConfigParser<'_> {
    /// Parses the table at `path`, which contains the settings at `places`.
    fn parse_table(
        &mut self,
        path: &[&str],
        places: &[&'static SettingPlace],
        table: &DeTable<'_>,
    ) {
        for item @ (name, value) in table {
            let matches_name = |place: &&&SettingPlace| {
                let word = place.path.get(path.len());
                word.is_some_and(|word| is_placeholder(word) || *word == name.get_ref())
            };
            let places_below: Vec<_> = places.iter().filter(matches_name).copied().collect();
            let Some(&place) = places_below.first() else {
                self.report_unknown_key(path, item, places);
                continue;
            };
            if let Err(error) = check_name(place, path.len(), name.get_ref()) {
                self.report_problem(&name.span(), error);
                continue;
            }
            let path = [path, &[name.get_ref().as_ref()]].concat();
            if place.path.len() == path.len() {
                self.add_setting(ConfigKey::new(place, &path), item);
            } else if let Some(table) = self.expect_table(&path, value) {
                let problems_before = self.problems.len();
                self.parse_table(&path, &places_below, table);
                if place.table_depth == path.len() && self.problems.len() == problems_before {
                    self.check_content(place, &path, &name.span());
                }
            }
        }
    }

    /// Adds a setting to the layer, or records the problem with its value.
    fn add_setting(&mut self, key: ConfigKey, (name, value): TableItem<'_, '_>) {
        match validate_value(
            key.setting_place(),
            to_unchecked_value(value.get_ref()),
            &self.base,
        ) {
            Ok(value) => {
                let (line, column) = line_and_column(self.text, name.span().start);
                let path = self.path.to_owned();
                let origin = ConfigOrigin::File { path, line, column };
                self.layer.insert(key, ConfigEntry { value, origin });
            }
            Err(error) => {
                let message = format!("{key}: {}", error.message);
                self.report_problem(&value.span(), ValueError { message, ..error });
            }
        }
    }

    /// Checks the settings of a table together.
    fn check_content(&mut self, place: &SettingPlace, path: &[&str], span: &Range<usize>) {
        let layer = &self.layer;
        let Err(problem) = (place.table.check_content)(&TableContent { layer, path }) else {
            return;
        };
        let entry = problem.key.and_then(|key| self.layer.get(&key));
        match entry.and_then(|entry| entry.origin.location()) {
            Some(location) => self.problems.push(problem.error.into_problem(location)),
            None => self.report_problem(span, problem.error),
        }
    }

    fn expect_table<'t, 'i>(
        &mut self,
        path: &[&str],
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let (section, actual) = (
                format_toml_path(path),
                to_unchecked_value(value.get_ref()).type_name(),
            );
            let error = ValueError::new(format!("{section} must be a table, not {actual}"));
            self.report_problem(
                &value.span(),
                error.with_hint(format!("write it as [{section}]")),
            );
        }
        table
    }

    fn report_unknown_key(
        &mut self,
        path: &[&str],
        (name, value): TableItem<'_, '_>,
        places: &[&SettingPlace],
    ) {
        let mut allowed: Vec<&str> = places
            .iter()
            .filter_map(|place| place.path.get(path.len()).copied())
            .collect();
        // The places below one name follow each other.
        allowed.dedup();
        let typed = name.get_ref();
        let is_agent_key = SETTING_PLACES.iter().any(|place| {
            place.provider.is_some() && place.path.get(place.table_depth) == Some(&typed.as_ref())
        });
        let toml_key = format_toml_key(typed);
        let hint = match suggest_name(typed, &allowed) {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None if path.is_empty() && value.get_ref().is_table() => format!(
                "configure an ACP agent as [acp.{toml_key}]; available settings: {}",
                allowed.join(", ")
            ),
            None if path.is_empty() && is_agent_key => {
                "set it for one agent, under [claude], [codex], [gemini] or [acp.NAME]".into()
            }
            None => format!("available settings: {}", allowed.join(", ")),
        };
        let section = match path {
            [] => String::new(),
            path => format!(" in [{}]", format_toml_path(path)),
        };
        let error = ValueError::new(format!("unknown setting `{toml_key}`{section}"));
        self.report_problem(&name.span(), error.with_hint(hint));
    }

    fn report_problem(&mut self, span: &Range<usize>, error: ValueError) {
        let (line, column) = line_and_column(self.text, span.start);
        let path = self.path.to_owned();
        let location = ProblemLocation::Position { path, line, column };
        self.problems.push(error.into_problem(location));
    }

    /// Adds the line of the error to the parser's message, cut before the first quote, because a quoted value may be a
    /// secret.
    fn message_with_excerpt(&self, message: &str, span: &Range<usize>) -> String {
        let (line, _) = line_and_column(self.text, span.start);
        let line = self.text.lines().nth(line - 1).unwrap_or_default();
        let before_quote = line.split(['"', '\'']).next().unwrap_or_default();
        let excerpt: String = before_quote.chars().take(60).collect();
        let message = message.lines().collect::<Vec<_>>().join(", ");
        match excerpt.trim() {
            "" => message,
            excerpt if excerpt.len() == line.trim().len() => format!("{message}, in `{excerpt}`"),
            excerpt => format!("{message}, in `{excerpt} …`"),
        }
    }
}

fn to_unchecked_value(value: &DeValue<'_>) -> UncheckedValue {
    match value {
        DeValue::String(text) => UncheckedValue::Text(text.to_string()),
        DeValue::Boolean(on) => UncheckedValue::Bool(*on),
        DeValue::Integer(number) => {
            // Numbers are far below the size at which a float loses digits.
            #[expect(
                clippy::cast_precision_loss,
                reason = "the maximum of every setting is small"
            )]
            let number =
                i64::from_str_radix(number.as_str(), number.radix()).map(|number| number as f64);
            number.map_or(
                UncheckedValue::Unsupported("an integer out of range"),
                UncheckedValue::Number,
            )
        }
        DeValue::Float(number) => number.as_str().parse().map_or(
            UncheckedValue::Unsupported("an invalid number"),
            UncheckedValue::Number,
        ),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str());
            let texts: Option<Vec<String>> = texts.map(|text| text.map(str::to_owned)).collect();
            texts.map_or(
                UncheckedValue::Unsupported("an array of other values"),
                UncheckedValue::TextList,
            )
        }
        DeValue::Datetime(_) => UncheckedValue::Unsupported("a date"),
        DeValue::Table(_) => UncheckedValue::Unsupported("a table"),
    }
}

/// Returns line and column of a byte offset, counted from 1, columns in characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
