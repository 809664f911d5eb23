//! `segue session preview`: the brief for a new native session.

use std::ops::ControlFlow;

use segue_core::number_format::figure;
use segue_engine::{Conversation, EngineError, Preview};
use serde_json::json;

use super::stats::{bar, writes_unicode};
use crate::app::App;
use crate::cli::PreviewArgs;
use crate::commands::chat::prompt;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Style, clean, print, say, try_print};

/// Width of the bar for the complete budget.
const BAR: usize = 40;

pub(super) async fn run(app: &App, args: &PreviewArgs) -> Result<(), CliError> {
    let prompt = match args.prompt.as_deref() {
        None => String::new(),
        Some(text) => prompt(Some(text))?,
    };
    if let Some(provider) = &args.provider
        && !app.engine.knows(provider)
    {
        let known = app.engine.drivable().into_iter().cloned().collect();
        let provider = provider.clone();
        return Err(EngineError::UnknownProvider { provider, known }.into());
    }
    let conversation = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, status) => {
            let session = app.up_to_date(*session).await;
            Conversation::Session(Box::new(session), status)
        }
        native @ Conversation::Native(_) => native,
    };
    let provider = args.provider.as_ref();
    let preview = app.engine.preview(&conversation, provider, &prompt).await?;
    if args.one.json {
        print_json(&shape(&preview, &prompt));
    } else {
        show(&preview, &prompt);
    }
    Ok(())
}

fn shape(preview: &Preview, prompt: &str) -> serde_json::Value {
    let brief = &preview.brief;
    let section = |(name, tokens): &(segue_core::brief::Section, u64)| json!({ "name": name.as_str(), "tokens": tokens });
    json!({
        "provider": preview.provider.as_str(),
        "system_prompt": brief.text,
        "user_prompt": prompt,
        "total_tokens": brief.total_tokens(),
        "reported_tokens": preview.reported_tokens,
        "budget": preview.budget,
        "over_budget": over(preview).is_some(),
        "turns_left_out": brief.left_out,
        "messages_left_out": brief.missing.messages,
        "messages_shortened": brief.missing.shortened,
        "bytes_shortened": brief.missing.bytes,
        "sections": brief.sections.iter().map(section).collect::<Vec<_>>(),
    })
}

fn show(preview: &Preview, prompt: &str) {
    let brief = &preview.brief;
    if brief.text.is_empty() {
        say("nothing was said yet, so there is nothing to tell");
    }
    for line in clean(&brief.with(prompt)).lines() {
        if let ControlFlow::Break(()) = try_print(line) {
            return;
        }
    }
    let style = Style::stdout();
    let unicode = writes_unicode(|name| std::env::var(name).ok());
    print("");
    let total = brief.total_tokens();
    let sections = brief.sections.iter();
    let rows = sections
        .map(|(name, tokens)| (name.as_str(), *tokens))
        .chain([("all", total)]);
    for (name, tokens) in rows {
        let bar = bar(tokens, preview.budget.max(tokens), BAR, unicode);
        let name = style.dim(&format!("{name:<10}"));
        let line = format!("{name} {:>9}  {bar}", figure(tokens));
        print(line.trim_end());
    }
    let name = style.dim(&format!("{:<10}", "budget"));
    let whole = bar(1, 1, BAR, unicode);
    print(&format!(
        "{name} {:>9}  {}",
        figure(preview.budget),
        style.dim(&whole)
    ));
    let provider = &preview.provider;
    let ours = figure(total);
    print(&match preview.reported_tokens {
        Some(tokens) => format!(
            "about {} tokens for {provider} ({ours} by the tokenizer)",
            figure(tokens)
        ),
        None => format!("{ours} tokens by the tokenizer; how {provider} counts is not known yet"),
    });
    for line in left_out(preview) {
        print(&line);
    }
}

/// Returns the number of tokens above the budget. `None` if the brief fits.
fn over(preview: &Preview) -> Option<u64> {
    let more = preview.brief.total_tokens().checked_sub(preview.budget);
    more.filter(|more| *more > 0)
}

/// Lists what the brief omits, with the reasons.
fn left_out(preview: &Preview) -> Vec<String> {
    let (left_out, missing) = (preview.brief.left_out, preview.brief.missing);
    let mut lines = Vec::new();
    if let Some(more) = over(preview) {
        let more = figure(more);
        lines.push(format!(
            "over the budget by {more} tokens: a prompt is sent whole, however long it is"
        ));
    }
    match left_out {
        0 => {}
        1 => lines.push("turn 1 is left out: it is older than what fits".to_owned()),
        n => lines.push(format!(
            "turns 1 to {n} are left out: they are older than what fits"
        )),
    }
    if missing.messages > 0 {
        let count = figure(missing.messages.into());
        lines.push(format!(
            "{count} message(s) are left out in a turn that is too long as a whole"
        ));
    }
    if missing.shortened > 0 {
        let (count, bytes) = (figure(missing.shortened.into()), figure(missing.bytes));
        lines.push(format!(
            "{count} message(s) are shortened by {bytes} bytes: tools in older turns, and what is more than its share"
        ));
    }
    lines
}
