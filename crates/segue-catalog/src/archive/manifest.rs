//! Manifest of a copy: `manifest.json`.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Tag, Title, TitleSource};
use serde::{Deserialize, Serialize};

use crate::ArchiveError;
use crate::{
    Artifact, ArtifactRole, NativeSession, NativeSessionKind, SessionArtifacts, SessionHead,
};

pub(super) const MANIFEST_FILE_NAME: &str = "manifest.json";

/// Version of the manifest's format. No other version exists so far.
const MANIFEST_VERSION: u32 = 1;

/// Manifest of a copy, which describes the copied session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Id that the agent gave the session.
    pub id: NativeId,
    /// Time of the copy.
    pub at: Timestamp,
    /// Home directory of the agent at that time.
    pub home: PathBuf,
    /// Head of the session.
    pub head: SessionHead,
    /// Number of turns. `None` if they could not be counted.
    pub turns: Option<u32>,
    /// Files of the copy.
    pub files: Vec<PackedFile>,
    /// Session of segue that was deleted together with this native session.
    pub deleted_with: Option<DeletedWith>,
}

/// A deleted session of segue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedWith {
    /// Id of the session.
    pub id: SessionId,
    /// Title and tags of the session. Only the copy of the native session that it used last contains them.
    pub labels: Option<SessionLabels>,
}

/// Title and tags of a session of segue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLabels {
    /// Title of the session.
    pub title: Title,
    /// Tags of the session.
    pub tags: Vec<Tag>,
}

/// A file of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedFile {
    /// Artifact that the file contains.
    pub artifact: Artifact,
    /// Hash of the uncompressed content, which is also the name of the compressed file.
    pub sha256: String,
    /// Compressed size in bytes.
    pub packed_size: u64,
}

impl Manifest {
    /// Creates the manifest of a copy that has no files yet.
    pub(crate) fn for_session(
        session: &NativeSession,
        home: &Path,
        turns: Option<u32>,
        at: Timestamp,
    ) -> Self {
        Self {
            provider: session.provider.clone(),
            id: session.head.id.clone(),
            at,
            home: home.to_owned(),
            head: session.head.clone(),
            turns,
            files: Vec::new(),
            deleted_with: None,
        }
    }

    /// Returns `true` if the copy is up to date, that is, if names, roles, times and sizes of the artifacts are
    /// unchanged.
    #[must_use]
    pub fn is_up_to_date(&self, artifacts: &SessionArtifacts) -> bool {
        let is_same = |(packed, artifact): (&PackedFile, &Artifact)| {
            let is_rows = matches!(artifact.role, ArtifactRole::Rows(_));
            packed.artifact.relative_path == artifact.relative_path
                && packed.artifact.role == artifact.role
                && packed.artifact.modified == artifact.modified
                && (is_rows || packed.artifact.size == artifact.size)
        };
        self.files.len() == artifacts.artifacts.len()
            && self.files.iter().zip(&artifacts.artifacts).all(is_same)
    }

    /// Returns `true` if the session was stored in a database, so that only its agent can import it.
    #[must_use]
    pub fn is_stored_in_database(&self) -> bool {
        let mut roles = self.files.iter().map(|file| &file.artifact.role);
        roles.any(|role| matches!(role, ArtifactRole::Rows(_)))
    }

    /// Returns the total uncompressed size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.artifact.size).sum()
    }

    /// Returns the time of the last write to the conversation itself.
    #[must_use]
    pub fn modified(&self) -> Timestamp {
        let main = self.files.first();
        main.map_or(self.head.updated_at, |file| file.artifact.modified)
    }

    /// Reads the manifest in a directory. `None` if there is none.
    pub(super) fn read(copy_dir: &Path) -> Result<Option<Self>, ArchiveError> {
        let path = copy_dir.join(MANIFEST_FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(ArchiveError::io("read", &path, error)),
        };
        let file: ManifestFile = serde_json::from_slice(&bytes)
            .map_err(|error| ArchiveError::damaged(&path, error.to_string()))?;
        file.into_manifest()
            .map(Some)
            .map_err(|reason| ArchiveError::damaged(&path, reason))
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(&ManifestFile::from(self)).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// Manifest in its JSON format.
#[derive(Serialize, Deserialize)]
struct ManifestFile {
    version: u32,
    provider: String,
    id: String,
    archived_at: String,
    home: PathBuf,
    session: ManifestHead,
    files: Vec<ManifestEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "went_with")]
    deleted_with: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "called")]
    labels: Option<ManifestLabels>,
}

#[derive(Serialize, Deserialize)]
struct ManifestLabels {
    title: String,
    title_from: String,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ManifestHead {
    title: Option<String>,
    title_from: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    created_at: Option<String>,
    updated_at: String,
    first_prompt: Option<String>,
    forked_from: Option<String>,
    agent_version: Option<String>,
    turns: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct ManifestEntry {
    path: PathBuf,
    role: String,
    size: u64,
    modified_at: String,
    mode: u32,
    sha256: String,
    packed_size: u64,
}

impl From<&Manifest> for ManifestFile {
    fn from(manifest: &Manifest) -> Self {
        let head = &manifest.head;
        let deleted_with = manifest.deleted_with.as_ref();
        let to_entry = |file: &PackedFile| ManifestEntry {
            path: file.artifact.relative_path.clone(),
            role: match &file.artifact.role {
                ArtifactRole::Main => "main".to_owned(),
                ArtifactRole::Attachment => "side".to_owned(),
                ArtifactRole::Shared => "shared".to_owned(),
                ArtifactRole::Rows(session) => format!("rows:{session}"),
            },
            size: file.artifact.size,
            modified_at: file.artifact.modified.to_string(),
            mode: file.artifact.mode,
            sha256: file.sha256.clone(),
            packed_size: file.packed_size,
        };
        Self {
            version: MANIFEST_VERSION,
            provider: manifest.provider.to_string(),
            id: manifest.id.to_string(),
            archived_at: manifest.at.to_string(),
            home: manifest.home.clone(),
            session: ManifestHead {
                title: head.title.as_ref().map(|title| title.as_str().to_owned()),
                title_from: head
                    .title
                    .as_ref()
                    .map(|title| title.source().as_str().to_owned()),
                cwd: head.cwd.clone(),
                branch: head.branch.clone(),
                created_at: head.created_at.map(|at| at.to_string()),
                updated_at: head.updated_at.to_string(),
                first_prompt: head.first_prompt.clone(),
                forked_from: head.forked_from.clone(),
                agent_version: head.agent_version.clone(),
                turns: manifest.turns,
            },
            files: manifest.files.iter().map(to_entry).collect(),
            deleted_with: deleted_with.map(|deleted| deleted.id.to_string()),
            labels: deleted_with
                .and_then(|deleted| deleted.labels.as_ref())
                .map(ManifestLabels::from),
        }
    }
}

impl From<&SessionLabels> for ManifestLabels {
    fn from(labels: &SessionLabels) -> Self {
        Self {
            title: labels.title.as_str().to_owned(),
            title_from: labels.title.source().as_str().to_owned(),
            tags: labels.tags.iter().map(ToString::to_string).collect(),
        }
    }
}

impl ManifestLabels {
    fn into_labels(self) -> SessionLabels {
        SessionLabels {
            title: build_title(&self.title, Some(&self.title_from)),
            tags: self
                .tags
                .iter()
                .filter_map(|tag| Tag::parse(tag).ok())
                .collect(),
        }
    }
}

/// Creates a title from its text and the name of its source.
fn build_title(text: &str, from: Option<&str>) -> Title {
    let source = from.and_then(TitleSource::from_name);
    let explicit_source = source.filter(|source| *source != TitleSource::Prompt);
    let explicit_title = explicit_source.and_then(|source| Title::new(text, source).ok());
    explicit_title.unwrap_or_else(|| Title::from_prompt(text))
}

impl ManifestFile {
    fn into_manifest(self) -> Result<Manifest, String> {
        if self.version != MANIFEST_VERSION {
            return Err(format!(
                "manifest version {} is not supported",
                self.version
            ));
        }
        let parse_time = |text: &str| text.parse().map_err(|_| format!("invalid time {text:?}"));
        let id = NativeId::parse(&self.id).map_err(|error| error.to_string())?;
        let provider = ProviderId::parse(&self.provider).map_err(|error| error.to_string())?;
        let session = self.session;
        let title_from = session.title_from;
        let title = session
            .title
            .map(|text| build_title(&text, title_from.as_deref()));
        let deleted_id = self.deleted_with.and_then(|id| SessionId::parse(&id).ok());
        let labels = self.labels.map(ManifestLabels::into_labels);
        let files: Result<Vec<PackedFile>, String> = self
            .files
            .into_iter()
            .map(ManifestEntry::into_packed_file)
            .collect();
        Ok(Manifest {
            provider,
            at: parse_time(&self.archived_at)?,
            home: self.home,
            head: SessionHead {
                kind: NativeSessionKind::Conversation,
                cwd: session.cwd,
                branch: session.branch,
                created_at: session.created_at.as_deref().map(parse_time).transpose()?,
                title,
                first_prompt: session.first_prompt,
                forked_from: session.forked_from,
                agent_version: session.agent_version,
                ..SessionHead::new(id.clone(), parse_time(&session.updated_at)?)
            },
            turns: session.turns,
            files: files?,
            // An invalid id is ignored, because the copy is complete without it.
            deleted_with: deleted_id.map(|id| DeletedWith { id, labels }),
            id,
        })
    }
}

impl ManifestEntry {
    fn into_packed_file(self) -> Result<PackedFile, String> {
        if !is_contained_path(&self.path) {
            return Err(format!(
                "path {} leads out of the agent's home",
                self.path.display()
            ));
        }
        if self.sha256.len() != 64 || !self.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid hash {:?}", self.sha256));
        }
        let role = match (self.role.as_str(), self.role.strip_prefix("rows:")) {
            ("main", _) => ArtifactRole::Main,
            ("side", _) => ArtifactRole::Attachment,
            ("shared", _) => ArtifactRole::Shared,
            (_, Some(session)) if NativeId::parse(session).is_ok() => {
                ArtifactRole::Rows(session.to_owned())
            }
            (other, _) => return Err(format!("unknown role {other:?}")),
        };
        let modified = self.modified_at.parse();
        Ok(PackedFile {
            artifact: Artifact {
                relative_path: self.path,
                role,
                size: self.size,
                modified: modified.map_err(|_| format!("invalid time {:?}", self.modified_at))?,
                mode: self.mode & 0o777,
            },
            sha256: self.sha256,
            packed_size: self.packed_size,
        })
    }
}

/// Returns `true` if a path, joined to a directory, leads to a path inside that directory.
pub(super) fn is_contained_path(path: &Path) -> bool {
    let is_empty = path.components().next().is_none();
    let is_normal = |component| matches!(component, Component::Normal(_));
    !is_empty && path.components().all(is_normal)
}
