//! Settings of models, looked up by prefixes of their names.

use std::collections::BTreeMap;

/// Returns the entry with the longest key that is a prefix of the model's name. For `maker/model`, the complete name is
/// tried first and `model` second.
pub(crate) fn find_by_model_prefix<'a, T>(
    settings: &'a BTreeMap<String, T>,
    model: &str,
) -> Option<&'a T> {
    let short_name = model.rsplit_once('/').map(|(_, name)| name);
    let find_longest_prefix = |name: &str| {
        // Of two matching prefixes, the longer sorts later.
        let mut entries = settings.iter().rev();
        let entry = entries.find(|(prefix, _)| name.starts_with(prefix.as_str()));
        entry.map(|(_, setting)| setting)
    };
    find_longest_prefix(model).or_else(|| find_longest_prefix(short_name?))
}
