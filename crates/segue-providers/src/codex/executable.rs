//! Location and version of the real Codex program.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A version, with the precision that decides which Codex may write a thread. A prerelease counts as its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodexVersion(u32, u32, u32);

impl fmt::Display for CodexVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl CodexVersion {
    /// Returns the first version in a text such as `codex-cli 0.166.0` or `segue/0.166.0 (Debian 12.0.0; x86_64)`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find_map(|word| {
                let mut numbers = word.split('.').map(str::parse);
                let mut next = || numbers.next()?.ok();
                Some(Self(next()?, next()?, next()?))
            })
    }

    /// Returns the first number of the version.
    pub(crate) fn major(self) -> u32 {
        self.0
    }

    /// Returns the version in a `package.json`.
    fn from_package_json(json: &[u8]) -> Option<Self> {
        let package: Value = serde_json::from_slice(json).ok()?;
        Self::find(package["version"].as_str()?)
    }
}

/// Operating system and processor by Rust's names, with the suffix of their npm package and their target triple.
const NPM_PLATFORMS: &[(&str, &str, &str, &str)] = &[
    ("linux", "x86_64", "linux-x64", "x86_64-unknown-linux-musl"),
    (
        "linux",
        "aarch64",
        "linux-arm64",
        "aarch64-unknown-linux-musl",
    ),
    ("macos", "x86_64", "darwin-x64", "x86_64-apple-darwin"),
    ("macos", "aarch64", "darwin-arm64", "aarch64-apple-darwin"),
];

/// Returns the program to run for `program`. npm installs a launcher. With an older Node, the launcher starts the real
/// program as a child, which outlives a launcher that is killed (with codex-acp 0.16, even a launcher that receives
/// SIGTERM).
pub(crate) fn resolve_program(program: &Path) -> PathBuf {
    let Ok(launcher) = program.canonicalize() else {
        return program.to_owned();
    };
    program_candidates(&launcher, std::env::consts::OS, std::env::consts::ARCH)
        .into_iter()
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| program.to_owned())
}

/// Returns the possible paths of a launcher's real program.
fn program_candidates(launcher: &Path, system: &str, processor: &str) -> Vec<PathBuf> {
    let Some((_, _, platform, triple)) = NPM_PLATFORMS
        .iter()
        .find(|(os, arch, ..)| (*os, *arch) == (system, processor))
    else {
        return Vec::new();
    };
    let name = launcher.file_name().and_then(|name| name.to_str());
    let root = launcher.parent().and_then(Path::parent);
    let (Some(name), Some(root)) = (name, root) else {
        return Vec::new();
    };
    let (package_name, path) = match name {
        "codex.js" => ("codex", format!("vendor/{triple}/bin/codex")),
        "codex-acp.js" => ("codex-acp", "bin/codex-acp".to_owned()),
        _ => return Vec::new(),
    };
    let scope = root.parent();
    let sibling = scope.map(|scope| scope.join(format!("{package_name}-{platform}")));
    let nested = scope
        .and_then(Path::file_name)
        .map(|scope| root.join("node_modules").join(scope))
        .map(|scope| scope.join(format!("{package_name}-{platform}")));
    nested
        .into_iter()
        .chain(sibling)
        .chain([root.to_owned()])
        .map(|package| package.join(&path))
        .collect()
}

/// Returns the version of the Codex that an adapter bundles: the package that Node finds from the adapter's directory.
pub(crate) fn find_bundled_version(adapter: &Path) -> Option<CodexVersion> {
    let adapter = adapter.canonicalize().ok()?;
    adapter.ancestors().skip(1).find_map(|directory| {
        let package = directory.join("node_modules/@openai/codex/package.json");
        CodexVersion::from_package_json(&std::fs::read(package).ok()?)
    })
}

/// Returns `true` if an adapter is known to contain a Codex inside its own executable.
pub(crate) fn has_embedded_codex(adapter: &Path) -> bool {
    let adapter = adapter.canonicalize();
    adapter.is_ok_and(|path| path.iter().any(|part| part == "@zed-industries"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_program_output() {
        let cases = [
            ("codex-cli 0.166.0", Some(CodexVersion(0, 166, 0))),
            (
                "segue/0.166.0 (Debian 12.0.0; x86_64) xterm",
                Some(CodexVersion(0, 166, 0)),
            ),
            ("0.167.0-alpha.3", Some(CodexVersion(0, 167, 0))),
            ("0.166.0-linux-x64", Some(CodexVersion(0, 166, 0))),
            ("2.0 and then 1.2.3", Some(CodexVersion(1, 2, 3))),
            ("no version", None),
            ("99999999999.1.1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(CodexVersion::find(text), expected, "{text}");
        }
        assert!(CodexVersion(0, 99, 9) < CodexVersion(0, 137, 0));
    }

    #[test]
    fn a_launcher_resolves_to_the_program_that_it_starts() {
        let cases: &[(&str, &str, &[&str])] = &[
            (
                "/n/node_modules/@openai/codex/bin/codex.js",
                "x86_64",
                &[
                    "/n/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
                    "/n/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
                    "/n/node_modules/@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex",
                ],
            ),
            (
                "/n/node_modules/@zed-industries/codex-acp/bin/codex-acp.js",
                "aarch64",
                &[
                    "/n/node_modules/@zed-industries/codex-acp/node_modules/@zed-industries/codex-acp-linux-arm64/bin/codex-acp",
                    "/n/node_modules/@zed-industries/codex-acp-linux-arm64/bin/codex-acp",
                    "/n/node_modules/@zed-industries/codex-acp/bin/codex-acp",
                ],
            ),
            ("/usr/bin/codex", "x86_64", &[]),
            ("/n/@openai/codex/bin/codex.js", "riscv64", &[]),
            ("/codex.js", "x86_64", &[]),
        ];
        for (launcher, processor, expected) in cases {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            let candidates = program_candidates(Path::new(launcher), "linux", processor);
            assert_eq!(candidates, expected, "{launcher}");
        }
    }

    #[test]
    fn a_program_that_is_no_launcher_stays_unchanged() {
        for program in ["/bin/sh", "/nonexistent/codex"] {
            assert_eq!(resolve_program(Path::new(program)), Path::new(program));
        }
    }
}
