//! What is said of models by how their names begin.

use std::collections::BTreeMap;

/// What is said of a model: what the longest name says that it begins with. `maker/model` also goes by `model`.
pub(crate) fn of_model<'a, T>(said: &'a BTreeMap<String, T>, model: &str) -> Option<&'a T> {
    let short = model.rsplit_once('/').map(|(_, name)| name);
    let longest = |name: &str| {
        // Of two names that it begins with, the later one in their order is the longer one.
        let mut fits = said.iter().rev();
        let fitting = fits.find(|(known, _)| name.starts_with(known.as_str()));
        fitting.map(|(_, said)| said)
    };
    longest(model).or_else(|| longest(short?))
}
