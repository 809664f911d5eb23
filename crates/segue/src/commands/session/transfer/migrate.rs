//! `segue session migrate`: import of old files of dagent.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use jiff::Timestamp;
use segue_formats::Read;
use segue_formats::legacy::{OldFile, read};
use sha2::{Digest, Sha256};

use super::dagent_dirs::{directories, existing, feature_at, folders, project_of, text};
use super::report::{Terms, check, take, tell};
use crate::app::App;
use crate::cli::MigrateArgs;
use crate::error::CliError;

/// An old file with the details that its path provides.
struct Found {
    file: OldFile,
    path: PathBuf,
    folder: PathBuf,
    task: Option<String>,
}

pub(in super::super) async fn run(app: &App, args: &MigrateArgs) -> Result<ExitCode, CliError> {
    check(app, args.coming.provider.as_ref())?;
    let place = existing(&args.path)?;
    let found = if place.is_dir() {
        let folders = folders(&place);
        folders
            .iter()
            .flat_map(|folder| in_folder(folder))
            .collect()
    } else {
        vec![named(&place)?]
    };
    let mut entries = Vec::new();
    for old in found {
        let Some(content) = text(&old.path) else {
            continue;
        };
        let terms = Terms {
            format: old.file.name(),
            provider: args.coming.provider.as_ref(),
            dry_run: args.coming.dry_run,
            json: args.coming.json,
        };
        let path = old.path.display().to_string();
        let session = match &content {
            Ok(content) => read(
                old.file,
                &path,
                content,
                purpose(&old),
                written_at(&old.path),
            ),
            Err(why) => Read {
                name: path.clone(),
                path,
                session: Err(why.clone()),
                remarks: Vec::new(),
            },
        };
        let project = project_of(&old.folder, &app.project);
        let keep = || {
            let content = content.as_deref().unwrap_or_default();
            let copy = back_up(&app.home, &old.path, content)?;
            Ok(Some(copy.display().to_string()))
        };
        entries.push(take(app, &terms, session, &project, keep).await?);
    }
    let terms = Terms {
        format: "",
        provider: None,
        dry_run: args.coming.dry_run,
        json: args.coming.json,
    };
    Ok(tell(&terms, &place, &entries, &[]))
}

/// Determines the purpose of the session in an old file.
fn purpose(old: &Found) -> Option<segue_core::scope::Purpose> {
    let stated = text(&old.folder.join("feature.json")).and_then(Result::ok);
    let stated = stated.and_then(|text| {
        serde_json::from_str::<serde_json::Value>(text.trim_start_matches('\u{feff}')).ok()
    });
    let stated = stated.and_then(|feature| Some(feature.get("id")?.as_str()?.to_owned()));
    let feature = stated.or_else(|| feature_at(&old.folder));
    old.file.purpose(feature.as_deref(), old.task.as_deref())
}

/// Returns the old files of a folder: its own file, and the files of its tasks.
fn in_folder(folder: &Path) -> Vec<Found> {
    let mut found = vec![Found {
        file: OldFile::Chat,
        path: folder.join(OldFile::Chat.name()),
        folder: folder.to_owned(),
        task: None,
    }];
    for node in directories(&folder.join("nodes")) {
        let task = node.file_name().and_then(|name| name.to_str());
        found.extend(OldFile::ALL.map(|file| Found {
            file,
            path: node.join(file.name()),
            folder: folder.to_owned(),
            task: task.map(str::to_owned),
        }));
    }
    found
}

/// Returns the old file at a path. Fails if the file name is not supported.
fn named(path: &Path) -> Result<Found, CliError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let file = OldFile::ALL
        .into_iter()
        .find(|file| Some(file.name()) == name);
    let file = file.ok_or_else(|| {
        CliError::usage(format!("{} is none of the old files", path.display()))
            .hint("they are called chat.json and session.json; a directory that has some will do")
    })?;
    let above = path.parent().unwrap_or(path);
    let nodes = above
        .parent()
        .filter(|nodes| nodes.file_name().is_some_and(|name| name == "nodes"));
    let task = above.file_name().filter(|_| nodes.is_some());
    Ok(Found {
        file,
        path: path.to_owned(),
        folder: nodes.and_then(Path::parent).unwrap_or(above).to_owned(),
        task: task.and_then(|task| task.to_str()).map(str::to_owned),
    })
}

/// Returns the modification time of a file, or the current time if it is unknown.
fn written_at(path: &Path) -> Timestamp {
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    let modified = modified.unwrap_or_else(|_| SystemTime::now());
    Timestamp::try_from(modified).unwrap_or_else(|_| Timestamp::now())
}

/// Copies a file to segue's home under a name that is derived from its path and content, so that identical content is
/// stored once, even if several processes run concurrently.
fn back_up(home: &Path, path: &Path, content: &str) -> Result<PathBuf, CliError> {
    let digest = Sha256::new()
        .chain_update(path.as_os_str().as_encoded_bytes())
        .chain_update([0])
        .chain_update(content)
        .finalize();
    let mut name = String::new();
    for byte in digest.iter().take(8) {
        let _ = write!(name, "{byte:02x}");
    }
    let directory = home.join("backups").join(name);
    let copy = directory.join(path.file_name().unwrap_or_default());
    let written = || -> std::io::Result<()> {
        if fs::read(&copy).is_ok_and(|there| there == content.as_bytes()) {
            return Ok(());
        }
        fs::create_dir_all(&directory)?;
        let draft = directory.join(format!(".{}", std::process::id()));
        fs::write(&draft, content)?;
        fs::rename(&draft, &copy)
    };
    written().map_err(|error| {
        CliError::failed(format!("cannot keep a copy of {}", path.display()))
            .because(&error)
            .hint("nothing was taken in; the file is as it was")
    })?;
    Ok(copy)
}
