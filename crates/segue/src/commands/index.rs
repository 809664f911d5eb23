//! `segue index`: the file that answers lists and searches.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use segue_catalog::Index;
use segue_catalog::index::{IndexError, Which, Work};
use segue_engine::{Caught, EngineError};
use serde_json::json;

use crate::app::App;
use crate::cli::{IndexArgs, IndexCommand, IndexOutput};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Style, bytes, one_line, print, say};

/// Maximum wait for another process that writes the index. A command on the index itself waits long enough for the
/// first complete build.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn run(args: IndexArgs) -> Result<ExitCode, CliError> {
    let app = App::open_to_look()?;
    let Some(index) = app.engine.index() else {
        return Err(CliError::failed("there is no index here"));
    };
    match args.command {
        IndexCommand::Path => print(&index.path().display().to_string()),
        IndexCommand::Status(output) => status(index, &output)?,
        IndexCommand::Refresh(output) => refresh(&app, index, &output).await?,
        IndexCommand::Rebuild(output) => {
            if !index.start_over(PATIENCE).map_err(EngineError::from)? {
                return Err(busy());
            }
            refresh(&app, index, &output).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn busy() -> CliError {
    CliError::failed("another process is bringing the index up to date")
        .hint("try again in a moment")
}

fn status(index: &Index, output: &IndexOutput) -> Result<(), CliError> {
    let all = Which {
        gone: true,
        ..Which::default()
    };
    let counted = index.count(&all).and_then(|all| {
        let there = index.count(&Which::default())?;
        Ok((all, there, index.failures()?.len()))
    });
    let (all, there, failed) = match counted {
        Ok(counted) => counted,
        Err(IndexError::Missing) if output.json => {
            print_json(&json!({"path": index.path(), "sessions": null}));
            return Ok(());
        }
        Err(IndexError::Missing) => {
            print("there is no index yet; `segue index refresh` builds it");
            return Ok(());
        }
        Err(error) => return Err(EngineError::from(error).into()),
    };
    if output.json {
        print_json(&json!({
            "path": index.path(),
            "bytes": index.size(),
            "sessions": there,
            "gone": all - there,
            "unreadable": failed,
        }));
        return Ok(());
    }
    print(&format!(
        "{} ({})",
        index.path().display(),
        bytes(index.size())
    ));
    print(&format!(
        "{there} native session(s), {} more that are not there any more",
        all - there
    ));
    if failed > 0 {
        print(&format!("{failed} file(s) could not be read:"));
        for failure in index.failures().map_err(EngineError::from)? {
            print(&format!(
                "  {}: {}",
                failure.provider,
                one_line(&failure.why)
            ));
        }
    }
    Ok(())
}

async fn refresh(app: &App, index: &Index, output: &IndexOutput) -> Result<(), CliError> {
    let began = Instant::now();
    let Some(Caught::Up(work)) = app.caught_up(PATIENCE).await? else {
        return Err(busy());
    };
    let Work {
        places,
        read,
        bytes: size,
        rows,
        gone,
        unreadable,
    } = &work;
    if output.json {
        print_json(&json!({
            "places": places,
            "read": read,
            "bytes_read": size,
            "rows_written": rows,
            "gone": gone,
            "unreadable": unreadable.iter().map(|(provider, error)| json!({
                "provider": provider.as_str(), "why": error.in_full(),
            })).collect::<Vec<_>>(),
            "index_bytes": index.size(),
        }));
        return Ok(());
    }
    let took = began.elapsed().as_secs_f64();
    print(&match read {
        0 if *gone == 0 => format!("nothing has changed in {places} session file(s)"),
        _ => format!(
            "read {read} of {places} session file(s), {} in {took:.1} s; {gone} gone; the index takes {}",
            bytes(*size),
            bytes(index.size())
        ),
    });
    let mark = Style::stderr().yellow("segue:");
    for (provider, error) in unreadable {
        say(&format!(
            "{mark} {provider}: {}",
            one_line(&error.in_full())
        ));
    }
    Ok(())
}
