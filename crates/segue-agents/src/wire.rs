//! Exchange of JSON lines and prompts with a program.

pub(crate) mod json_lines;
pub(crate) mod json_scan;
pub(crate) mod prompt_text;
pub(crate) mod uuid;
