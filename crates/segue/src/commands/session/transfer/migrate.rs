//! `segue session migrate`: import of old files of dagent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use jiff::Timestamp;
use segue_core::scope::Purpose;
use segue_formats::ParsedSession;
use segue_formats::legacy::{LegacyFile, parse_legacy_file};
use sha2::{Digest, Sha256};

use super::dagent_dirs::{
    feature_from_path, find_dagent_folders, folder_project, list_subdirectories, read_text,
    resolve_existing_path,
};
use super::report::{import_session, print_report};
use crate::app::App;
use crate::cli::MigrateArgs;
use crate::commands::session::check_provider;
use crate::error::CliError;

/// An old file with the details that its path provides.
struct LegacySource {
    kind: LegacyFile,
    path: PathBuf,
    folder: PathBuf,
    task: Option<String>,
}

pub(in super::super) async fn run(app: &App, args: &MigrateArgs) -> Result<ExitCode, CliError> {
    let options = &args.import;
    check_provider(app, options.provider.as_ref())?;
    let root = resolve_existing_path(&args.path)?;
    let sources = if root.is_dir() {
        let folders = find_dagent_folders(&root);
        folders
            .iter()
            .flat_map(|folder| list_folder_sources(folder))
            .collect()
    } else {
        vec![source_at_path(&root)?]
    };
    let mut entries = Vec::new();
    for source in sources {
        let Some(content) = read_text(&source.path) else {
            continue;
        };
        let path = source.path.display().to_string();
        let session = match &content {
            Ok(content) => parse_legacy_file(
                source.kind,
                &path,
                content,
                session_purpose(&source),
                modification_time(&source.path),
            ),
            Err(reason) => ParsedSession {
                name: path.clone(),
                path,
                session: Err(reason.clone()),
                remarks: Vec::new(),
            },
        };
        let project = folder_project(&source.folder, &app.project);
        let make_backup = || {
            let content = content.as_deref().unwrap_or_default();
            let copy = back_up_file(&app.home, &source.path, content)?;
            Ok(Some(copy.display().to_string()))
        };
        let origin = (&project, source.kind.name());
        entries.push(import_session(app, options, session, origin, make_backup).await?);
    }
    let expected = "`.dagent` directory with chat.json or session.json";
    Ok(print_report(options, &root, expected, &entries, &[]))
}

/// Determines the purpose of the session in an old file.
fn session_purpose(source: &LegacySource) -> Option<Purpose> {
    let json_text = read_text(&source.folder.join("feature.json")).and_then(Result::ok);
    let json = json_text.and_then(|text| {
        serde_json::from_str::<serde_json::Value>(text.trim_start_matches('\u{feff}')).ok()
    });
    let declared_id = json.and_then(|feature| Some(feature.get("id")?.as_str()?.to_owned()));
    let feature = declared_id.or_else(|| feature_from_path(&source.folder));
    let task = source.task.as_deref();
    source.kind.purpose(feature.as_deref(), task)
}

/// Returns the old files of a folder: its own file, and the files of its tasks.
fn list_folder_sources(folder: &Path) -> Vec<LegacySource> {
    let mut sources = vec![LegacySource {
        kind: LegacyFile::Chat,
        path: folder.join(LegacyFile::Chat.name()),
        folder: folder.to_owned(),
        task: None,
    }];
    for node in list_subdirectories(&folder.join("nodes")) {
        let task = node.file_name().and_then(|name| name.to_str());
        sources.extend(LegacyFile::ALL.map(|kind| LegacySource {
            kind,
            path: node.join(kind.name()),
            folder: folder.to_owned(),
            task: task.map(str::to_owned),
        }));
    }
    sources
}

/// Returns the old file at a path. Fails if the file name is not supported.
fn source_at_path(path: &Path) -> Result<LegacySource, CliError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let mut kinds = LegacyFile::ALL.into_iter();
    let kind = kinds.find(|kind| Some(kind.name()) == name);
    let kind = kind.ok_or_else(|| {
        let path = path.display();
        CliError::usage(format!("cannot migrate {path}: unsupported file name")).with_hint(
            "give a chat.json or session.json file, or a directory that contains such files",
        )
    })?;
    let parent_dir = path.parent().unwrap_or(path);
    let nodes = parent_dir
        .parent()
        .filter(|nodes| nodes.file_name().is_some_and(|name| name == "nodes"));
    let task = parent_dir.file_name().filter(|_| nodes.is_some());
    Ok(LegacySource {
        kind,
        path: path.to_owned(),
        folder: nodes
            .and_then(Path::parent)
            .unwrap_or(parent_dir)
            .to_owned(),
        task: task.and_then(|task| task.to_str()).map(str::to_owned),
    })
}

/// Returns the modification time of a file, or the current time if it is unknown.
fn modification_time(path: &Path) -> Timestamp {
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    let modified = modified.unwrap_or_else(|_| SystemTime::now());
    Timestamp::try_from(modified).unwrap_or_else(|_| Timestamp::now())
}

/// Copies a file to segue's home under a name that is derived from its path and content, so that identical content is
/// stored once, even if several processes run concurrently.
fn back_up_file(home: &Path, path: &Path, content: &str) -> Result<PathBuf, CliError> {
    let digest = Sha256::new()
        .chain_update(path.as_os_str().as_encoded_bytes())
        .chain_update([0])
        .chain_update(content)
        .finalize();
    let hex_bytes = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
    let name: String = hex_bytes.collect();
    let directory = home.join("backups").join(name);
    let copy = directory.join(path.file_name().unwrap_or_default());
    if !fs::read(&copy).is_ok_and(|existing| existing == content.as_bytes()) {
        super::write_atomically(&copy, content).map_err(|error| {
            CliError::failed(format!("cannot back up {}", path.display()))
                .with_cause(&error)
                .with_hint("this file was not imported or changed")
        })?;
    }
    Ok(copy)
}
