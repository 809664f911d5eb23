//! `segue session import`: import of dagent folders.

use std::process::ExitCode;

use jiff::Timestamp;
use segue_formats::ParsedSession;
use segue_formats::dagent::parse_folder;

use super::dagent_dirs::{find_dagent_folders, folder_project, read_folder, resolve_existing_path};
use super::report::{import_session, print_report};
use crate::app::App;
use crate::cli::ImportArgs;
use crate::commands::session::check_provider;
use crate::error::CliError;

pub(in super::super) async fn run(app: &App, args: &ImportArgs) -> Result<ExitCode, CliError> {
    let options = &args.import;
    check_provider(app, options.provider.as_ref())?;
    let root = resolve_existing_path(&args.path)?;
    if !root.is_dir() {
        return Err(
            CliError::usage(format!("{} is not a directory", args.path.display())).with_hint(
                "give a directory; use `segue session migrate` for an old chat.json or session.json",
            ),
        );
    }
    let (mut entries, mut remarks) = (Vec::new(), Vec::new());
    for path in find_dagent_folders(&root) {
        let contents = parse_folder(&read_folder(&path), Timestamp::now());
        let full_path = |relative_path: &str| path.join(relative_path).display().to_string();
        let project = folder_project(&path, &app.project);
        remarks.extend(contents.remarks.iter().map(|remark| full_path(remark)));
        for session in contents.sessions {
            let session = ParsedSession {
                path: full_path(&session.path),
                ..session
            };
            let origin = (&project, "dagent");
            entries.push(import_session(app, options, session, origin, || Ok(None)).await?);
        }
    }
    let expected = "`.dagent` directory with sessions";
    Ok(print_report(options, &root, expected, &entries, &remarks))
}
