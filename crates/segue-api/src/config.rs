//! Configuration and trust.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedSetting {
    /// Key of the setting.
    pub key: String,
    /// Value of the setting. A secret is masked.
    pub value: SettingValue,
    /// Origin of the value.
    pub origin: SettingOrigin,
}

/// Value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingValue {
    /// A switch.
    Bool(bool),
    /// A count, or a time in seconds.
    Count(u64),
    /// A time in seconds, or an amount in US dollars.
    Number(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SettingOrigin {
    /// The default of segue.
    Default,
    /// A configuration file.
    File {
        /// Path of the file.
        path: String,
        /// Number of the line.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Name of the variable.
        name: String,
    },
    /// A flag on the command line.
    Flag {
        /// Name of the flag.
        name: String,
    },
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedConfigFile {
    /// Owner of the file.
    pub owner: ConfigFileOwner,
    /// Path of the file.
    pub path: String,
    /// State of the file.
    pub state: ConfigFileState,
}

/// Owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigFileOwner {
    /// The user.
    User,
    /// The project.
    Project,
}

/// State of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigFileState {
    /// The file does not exist.
    Absent,
    /// The file is not valid.
    Broken,
    /// The file is in use.
    Read,
    /// The file of the project is in use, including the settings that need trust.
    Trusted,
    /// The file of the project is in use, without the settings that need trust.
    Untrusted,
}

/// A problem in the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedProblem {
    /// Path of the file; null if the problem is in an environment variable.
    pub path: Option<String>,
    /// Number of the line; null if the problem has no position.
    pub line: Option<usize>,
    /// Number of the column; null if the problem has no position.
    pub column: Option<usize>,
    /// Name of the environment variable; null if the problem is in a file.
    pub variable: Option<String>,
    /// Message for people.
    pub message: String,
    /// Possible action of the user; null if there is none.
    pub hint: Option<String>,
}

/// Trust in the file of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrustResult {
    /// Path of the file.
    pub path: String,
    /// Checksum of the content.
    pub sha256: String,
    /// Whether the user trusts this content.
    pub trusted: bool,
    /// Settings that need trust.
    pub settings: Vec<ListedSetting>,
}

/// Result of revoking the trust in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrustRevocation {
    /// Path of the file.
    pub path: String,
    /// Whether the file was trusted before.
    pub revoked: bool,
}

/// A trusted file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedTrust {
    /// Path of the file.
    pub path: String,
    /// Checksum of the trusted content.
    pub sha256: String,
    /// Time at which the user trusted the file.
    pub trusted_at: String,
    /// State of the file.
    pub state: TrustedFileState,
}

/// State of a trusted file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustedFileState {
    /// The file has the trusted content.
    Trusted,
    /// The file has another content, which is not trusted.
    Changed,
    /// The file no longer exists.
    Gone,
}
