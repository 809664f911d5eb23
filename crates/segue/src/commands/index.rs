//! `segue index`: the file that lists and searches read.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use segue_api::index::{IndexSummary, RefreshedIndex, UnreadableFiles};
use segue_catalog::Index;
use segue_catalog::index::{IndexError, IndexFilter, RefreshOutcome};
use segue_core::number_format::format_count;
use segue_engine::LibraryError;

use crate::app::App;
use crate::cli::{IndexArgs, IndexCommand, IndexOutputArgs};
use crate::error::CliError;
use crate::index_refresh::with_progress_line;
use crate::json_output::{path_json, print_json};
use crate::terminal::{eprint_note, format_bytes, format_plural, print_line, to_single_line};

/// Maximum wait for another process that writes the index. A command on the index itself waits long enough for the
/// first complete build.
const INDEX_COMMAND_LOCK_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) async fn run(args: IndexArgs) -> Result<ExitCode, CliError> {
    let app = App::open_lenient()?;
    let Some(index) = app.engine.library().index() else {
        return Err(CliError::failed("no session index is configured"));
    };
    match args.command {
        IndexCommand::Path => print_line(&index.path().display().to_string()),
        IndexCommand::Status(output) => print_status(index, &output)?,
        IndexCommand::Refresh(output) => refresh_index(&app, index, &output).await?,
        IndexCommand::Rebuild(output) => {
            if !index
                .reset(INDEX_COMMAND_LOCK_TIMEOUT)
                .map_err(LibraryError::from)?
            {
                return Err(index_busy_error());
            }
            refresh_index(&app, index, &output).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn index_busy_error() -> CliError {
    CliError::failed("another process is updating the index").with_hint("retry in a moment")
}

fn print_status(index: &Index, output: &IndexOutputArgs) -> Result<(), CliError> {
    let all_filter = IndexFilter {
        include_missing: true,
        ..IndexFilter::default()
    };
    let counts = index.count_sessions(&all_filter).and_then(|total| {
        let present = index.count_sessions(&IndexFilter::default())?;
        Ok((total, present, index.unreadable_sources()?.len()))
    });
    let counts = match counts {
        Ok(counts) => Some(counts),
        Err(IndexError::Missing) => None,
        Err(error) => return Err(LibraryError::from(error).into()),
    };
    if output.json {
        print_json(&IndexSummary {
            path: path_json(index.path()),
            bytes: counts.map(|_| index.size()),
            sessions: counts.map(|(_, present, _)| present),
            gone: counts.map(|(total, present, _)| total - present),
            unreadable: counts.map(|(_, _, unreadable)| unreadable),
        });
        return Ok(());
    }
    let Some((total, present, unreadable_count)) = counts else {
        print_line("no index yet; run `segue index refresh` to build it");
        return Ok(());
    };
    print_line(&format!(
        "{} ({})",
        index.path().display(),
        format_bytes(index.size())
    ));
    print_line(&format!(
        "{}, {} deleted",
        format_plural(present, "native session"),
        format_count(total - present)
    ));
    if unreadable_count > 0 {
        print_line(&format!(
            "cannot read {}:",
            format_plural(unreadable_count as u64, "file")
        ));
        for unreadable_source in index.unreadable_sources().map_err(LibraryError::from)? {
            let reason = to_single_line(&unreadable_source.reason);
            print_line(&format!("  {}: {reason}", unreadable_source.provider));
        }
    }
    Ok(())
}

async fn refresh_index(app: &App, index: &Index, output: &IndexOutputArgs) -> Result<(), CliError> {
    let started = Instant::now();
    let library = app.engine.library();
    let refreshing = |on_progress| library.refresh_index(INDEX_COMMAND_LOCK_TIMEOUT, on_progress);
    let Some(RefreshOutcome::Completed(stats)) = with_progress_line(refreshing).await? else {
        return Err(index_busy_error());
    };
    if output.json {
        let unreadable = stats.unreadable.iter();
        let unreadable = unreadable.map(|(provider, error)| UnreadableFiles {
            provider: provider.clone(),
            why: error.format_error_chain(),
        });
        print_json(&RefreshedIndex {
            places: stats.sources,
            read: stats.sources_read,
            bytes_read: stats.bytes_read,
            rows_written: stats.rows_changed,
            gone: stats.sources_missing,
            unreadable: unreadable.collect(),
            index_bytes: index.size(),
        });
        return Ok(());
    }
    let files = format_plural(stats.sources as u64, "session file");
    print_line(&match stats.sources_read {
        0 if stats.sources_missing == 0 => format!("no changes in {files}"),
        read => format!(
            "read {read} of {files} ({}) in {:.1} s, {} deleted; index size: {}",
            format_bytes(stats.bytes_read),
            started.elapsed().as_secs_f64(),
            stats.sources_missing,
            format_bytes(index.size())
        ),
    });
    for (provider, error) in &stats.unreadable {
        let reason = to_single_line(&error.format_error_chain());
        eprint_note(&format!("{provider}: {reason}"));
    }
    Ok(())
}
