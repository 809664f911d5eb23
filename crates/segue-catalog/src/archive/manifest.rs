//! Manifest of a copy: `manifest.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Tag, Title, TitleSource};
use serde::{Deserialize, Serialize};

use super::KeepError;
use crate::belongings::stays_inside;
use crate::{Belongings, Head, Kind, NativeSession, Piece, Role};

pub(super) const NAME: &str = "manifest.json";

/// Version of the manifest's format. No other version exists so far.
const VERSION: u32 = 1;

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
    pub head: Head,
    /// Number of turns. `None` if they could not be counted.
    pub turns: Option<u32>,
    /// Files of the copy.
    pub files: Vec<Packed>,
    /// Session of segue that was deleted together with this native session.
    pub went_with: Option<WentWith>,
}

/// A deleted session of segue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WentWith {
    /// Id of the session.
    pub id: SessionId,
    /// Title and tags of the session. Only the copy of the native session that it used last contains them.
    pub called: Option<Called>,
}

/// Title and tags of a session of segue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Title of the session.
    pub title: Title,
    /// Tags of the session.
    pub tags: Vec<Tag>,
}

/// A file of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Artifact that the file contains.
    pub piece: Piece,
    /// Hash of the uncompressed content, which is also the name of the compressed file.
    pub sha256: String,
    /// Compressed size in bytes.
    pub packed: u64,
}

impl Manifest {
    /// Creates the manifest of a copy that has no files yet.
    pub(crate) fn of(
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
            went_with: None,
        }
    }

    /// Returns `true` if the copy is up to date, that is, if names, roles, times and sizes of the artifacts are
    /// unchanged.
    #[must_use]
    pub fn is_of(&self, belongings: &Belongings) -> bool {
        let same = |(packed, piece): (&Packed, &Piece)| {
            let rows = matches!(piece.role, Role::Rows(_));
            packed.piece.name == piece.name
                && packed.piece.role == piece.role
                && packed.piece.modified == piece.modified
                && (rows || packed.piece.size == piece.size)
        };
        self.files.len() == belongings.pieces.len()
            && self.files.iter().zip(&belongings.pieces).all(same)
    }

    /// Returns `true` if the session was stored in a database, so that only its agent can import it.
    #[must_use]
    pub fn are_rows(&self) -> bool {
        let mut roles = self.files.iter().map(|file| &file.piece.role);
        roles.any(|role| matches!(role, Role::Rows(_)))
    }

    /// Returns the total uncompressed size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.piece.size).sum()
    }

    /// Returns the time of the last write to the conversation itself.
    #[must_use]
    pub fn modified(&self) -> Timestamp {
        let main = self.files.first();
        main.map_or(self.head.updated_at, |file| file.piece.modified)
    }

    /// Reads the manifest in a directory. `None` if there is none.
    pub(super) fn read(place: &Path) -> Result<Option<Self>, KeepError> {
        let path = place.join(NAME);
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
            Err(error) => return Err(KeepError::io("read", &path, error)),
        };
        let told: Told = serde_json::from_slice(&bytes)
            .map_err(|error| KeepError::broken(&path, error.to_string()))?;
        told.understood()
            .map(Some)
            .map_err(|why| KeepError::broken(&path, why))
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(&Told::from(self)).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// Manifest in its JSON format.
#[derive(Serialize, Deserialize)]
struct Told {
    version: u32,
    provider: String,
    id: String,
    archived_at: String,
    home: PathBuf,
    session: ToldHead,
    files: Vec<ToldFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    went_with: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    called: Option<ToldName>,
}

#[derive(Serialize, Deserialize)]
struct ToldName {
    title: String,
    title_from: String,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ToldHead {
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
struct ToldFile {
    path: PathBuf,
    role: String,
    size: u64,
    modified_at: String,
    mode: u32,
    sha256: String,
    packed_size: u64,
}

impl From<&Manifest> for Told {
    fn from(manifest: &Manifest) -> Self {
        let head = &manifest.head;
        let went_with = manifest.went_with.as_ref();
        let file = |file: &Packed| ToldFile {
            path: file.piece.name.clone(),
            role: match &file.piece.role {
                Role::Main => "main".to_owned(),
                Role::Side => "side".to_owned(),
                Role::Shared => "shared".to_owned(),
                Role::Rows(session) => format!("rows:{session}"),
            },
            size: file.piece.size,
            modified_at: file.piece.modified.to_string(),
            mode: file.piece.mode,
            sha256: file.sha256.clone(),
            packed_size: file.packed,
        };
        Self {
            version: VERSION,
            provider: manifest.provider.to_string(),
            id: manifest.id.to_string(),
            archived_at: manifest.at.to_string(),
            home: manifest.home.clone(),
            session: ToldHead {
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
                agent_version: head.version.clone(),
                turns: manifest.turns,
            },
            files: manifest.files.iter().map(file).collect(),
            went_with: went_with.map(|gone| gone.id.to_string()),
            called: went_with
                .and_then(|gone| gone.called.as_ref())
                .map(ToldName::from),
        }
    }
}

impl From<&Called> for ToldName {
    fn from(called: &Called) -> Self {
        Self {
            title: called.title.as_str().to_owned(),
            title_from: called.title.source().as_str().to_owned(),
            tags: called.tags.iter().map(ToString::to_string).collect(),
        }
    }
}

impl ToldName {
    fn understood(self) -> Called {
        Called {
            title: title(&self.title, Some(&self.title_from)),
            tags: self
                .tags
                .iter()
                .filter_map(|tag| Tag::parse(tag).ok())
                .collect(),
        }
    }
}

/// Creates a title from its text and the name of its source.
fn title(text: &str, from: Option<&str>) -> Title {
    let source = from.and_then(TitleSource::from_name);
    let given = source.filter(|source| *source != TitleSource::Prompt);
    let given = given.and_then(|source| Title::given(text, source).ok());
    given.unwrap_or_else(|| Title::from_prompt(text))
}

impl Told {
    fn understood(self) -> Result<Manifest, String> {
        if self.version != VERSION {
            return Err(format!(
                "it has the form {}, which this segue does not know",
                self.version
            ));
        }
        let moment = |text: &str| text.parse().map_err(|_| format!("{text:?} is no time"));
        let id = NativeId::parse(&self.id).map_err(|error| error.to_string())?;
        let provider = ProviderId::parse(&self.provider).map_err(|error| error.to_string())?;
        let session = self.session;
        let title_from = session.title_from;
        let title = session
            .title
            .map(|text| title(&text, title_from.as_deref()));
        let went_with = self.went_with.and_then(|id| SessionId::parse(&id).ok());
        let called = self.called.map(ToldName::understood);
        let files: Result<Vec<Packed>, String> =
            self.files.into_iter().map(ToldFile::understood).collect();
        Ok(Manifest {
            provider,
            at: moment(&self.archived_at)?,
            home: self.home,
            head: Head {
                kind: Kind::Conversation,
                cwd: session.cwd,
                branch: session.branch,
                created_at: session.created_at.as_deref().map(moment).transpose()?,
                title,
                first_prompt: session.first_prompt,
                forked_from: session.forked_from,
                version: session.agent_version,
                ..Head::new(id.clone(), moment(&session.updated_at)?)
            },
            turns: session.turns,
            files: files?,
            // An invalid id is ignored, because the copy is complete without it.
            went_with: went_with.map(|id| WentWith { id, called }),
            id,
        })
    }
}

impl ToldFile {
    fn understood(self) -> Result<Packed, String> {
        if !stays_inside(&self.path) {
            return Err(format!(
                "{} leads out of the agent's home",
                self.path.display()
            ));
        }
        if self.sha256.len() != 64 || !self.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("{:?} is no hash", self.sha256));
        }
        let role = match (self.role.as_str(), self.role.strip_prefix("rows:")) {
            ("main", _) => Role::Main,
            ("side", _) => Role::Side,
            ("shared", _) => Role::Shared,
            (_, Some(session)) if NativeId::parse(session).is_ok() => {
                Role::Rows(session.to_owned())
            }
            (other, _) => return Err(format!("{other:?} is no role")),
        };
        let modified = self.modified_at.parse();
        Ok(Packed {
            piece: Piece {
                name: self.path,
                role,
                size: self.size,
                modified: modified.map_err(|_| format!("{:?} is no time", self.modified_at))?,
                mode: self.mode & 0o777,
            },
            sha256: self.sha256,
            packed: self.packed_size,
        })
    }
}
