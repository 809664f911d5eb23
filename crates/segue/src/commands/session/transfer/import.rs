//! `segue session import`: import of dagent folders.

use std::process::ExitCode;

use jiff::Timestamp;
use segue_formats::Read;
use segue_formats::dagent::read;

use super::dagent_dirs::{existing, folder, folders, project_of};
use super::report::{Terms, check, take, tell};
use crate::app::App;
use crate::cli::ImportArgs;
use crate::error::CliError;

pub(in super::super) async fn run(app: &App, args: &ImportArgs) -> Result<ExitCode, CliError> {
    check(app, args.coming.provider.as_ref())?;
    let place = existing(&args.path)?;
    if !place.is_dir() {
        return Err(
            CliError::usage(format!("{} is not a directory", args.path.display())).hint(
                "name the directory that the files are in; `segue session migrate` takes an old chat.json or session.json",
            ),
        );
    }
    let terms = Terms {
        format: "dagent",
        provider: args.coming.provider.as_ref(),
        dry_run: args.coming.dry_run,
        json: args.coming.json,
    };
    let (mut entries, mut remarks) = (Vec::new(), Vec::new());
    for path in folders(&place) {
        let reading = read(&folder(&path), Timestamp::now());
        let at = |inside: &str| path.join(inside).display().to_string();
        let project = project_of(&path, &app.project);
        remarks.extend(reading.remarks.iter().map(|remark| at(remark)));
        for session in reading.sessions {
            let session = Read {
                path: at(&session.path),
                ..session
            };
            entries.push(take(app, &terms, session, &project, || Ok(None)).await?);
        }
    }
    Ok(tell(&terms, &place, &entries, &remarks))
}
