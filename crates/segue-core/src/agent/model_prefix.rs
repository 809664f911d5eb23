//! Settings of models, looked up by prefixes of their names.

use std::collections::BTreeMap;

/// Returns the entry with the longest key that is a prefix of the model's name. For `maker/model`, the complete name is
/// tried first and `model` second.
pub(crate) fn of_model<'a, T>(said: &'a BTreeMap<String, T>, model: &str) -> Option<&'a T> {
    let short = model.rsplit_once('/').map(|(_, name)| name);
    let longest = |name: &str| {
        // Of two matching prefixes, the longer sorts later.
        let mut fits = said.iter().rev();
        let fitting = fits.find(|(known, _)| name.starts_with(known.as_str()));
        fitting.map(|(_, said)| said)
    };
    longest(model).or_else(|| longest(short?))
}
