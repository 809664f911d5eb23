//! Output of commands about the help, the session and its token counts.

use segue_api::text::format_open_reason;
use segue_core::id::{NativeId, SessionId};
use segue_core::number_format::format_count;
use segue_core::session::{OpenMode, OpenReason, Session, Usage};

use super::command::REPL_COMMANDS;
use crate::terminal::{Style, format_plural, print_line, to_single_line};

/// Returns the end of an id, which distinguishes the sessions of one day.
pub(super) fn short_id(id: &SessionId) -> &str {
    let id = id.as_str();
    id.rsplit_once('_').map_or(id, |(_, end)| end)
}

/// Describes a session in one line.
pub(super) fn describe_session(session: &Session) -> String {
    let (id, provider) = (&session.id, &session.provider);
    let turns = format_plural(session.turns, "turn");
    let title = to_single_line(session.title.as_str());
    format!("{id} ({title}), {turns}, with {provider}")
}

pub(super) fn print_help() {
    let style = Style::stdout();
    for (syntax, description) in REPL_COMMANDS {
        let syntax = style.bold(&format!("{syntax:<20}"));
        print_line(&format!("{syntax}  {description}"));
    }
    print_line("");
    print_line(
        "Any other text is sent to the agent. Type // to send a prompt that begins with a slash.",
    );
    print_line(
        "A \\ at the end of a line or an open ``` fence continues the prompt on the next line.",
    );
}

pub(super) fn print_session(session: &Session, open_mode: Option<&(OpenMode, OpenReason)>) {
    let native = session.native_id.as_ref().map_or("-", NativeId::as_str);
    let opened_text = open_mode.map_or_else(
        || "not yet; the next prompt opens it".to_owned(),
        |(mode, reason)| format!("{}: {}", mode.as_str(), format_open_reason(reason)),
    );
    let mut fields = vec![
        ("id", session.id.to_string()),
        ("title", session.title.as_str().to_owned()),
        ("agent", session.provider.to_string()),
        ("native id", native.to_owned()),
        ("turns", session.turns.to_string()),
        ("tokens", format_tokens(session.total_tokens)),
        ("opened", opened_text),
    ];
    if let Some(purpose) = &session.purpose {
        fields.insert(2, ("purpose", purpose.to_string()));
    }
    print_fields(&fields);
}

pub(super) fn print_usage(last_usage: Option<&Usage>, session: &Session) {
    let mut fields = Vec::new();
    if let Some(last_usage) = last_usage {
        fields.push(("last turn", format_usage(last_usage)));
        fields.push(("context", format_context_usage(last_usage)));
    }
    let turns = format_plural(session.turns, "turn");
    let total = format_tokens(session.total_tokens);
    fields.push(("session", format!("{total} tokens in {turns}")));
    print_fields(&fields);
}

fn print_fields(fields: &[(&str, String)]) {
    let style = Style::stdout();
    for (name, value) in fields {
        let name = style.dim(&format!("{name:<9}"));
        print_line(&format!("{name} {}", to_single_line(value)));
    }
}

fn format_tokens(tokens: Option<u64>) -> String {
    tokens.map_or_else(|| "unknown".to_owned(), format_count)
}

fn format_usage(usage: &Usage) -> String {
    let cached = match usage.cached_tokens {
        Some(cached) => format!(" ({} cached)", format_count(cached)),
        None => String::new(),
    };
    format!(
        "{} input{cached}, {} output, {} total tokens",
        format_tokens(usage.input_tokens),
        format_tokens(usage.output_tokens),
        format_tokens(usage.total_tokens)
    )
}

/// Formats the usage of the model's context.
fn format_context_usage(usage: &Usage) -> String {
    match (usage.context_tokens, usage.context_window) {
        (Some(used), Some(window @ 1..)) => {
            let percent = used.saturating_mul(100) / window;
            let (used, window) = (format_count(used), format_count(window));
            format!("{used} of {window} tokens ({percent} %)")
        }
        (Some(used), _) => format!("{} tokens", format_count(used)),
        (None, _) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_token_counts_are_shown_as_unknown() {
        let unknown = Usage::default();
        assert_eq!(format_context_usage(&unknown), "unknown");
        assert_eq!(
            format_usage(&unknown),
            "unknown input, unknown output, unknown total tokens"
        );
        let cached = Usage {
            input_tokens: Some(5),
            cached_tokens: Some(3),
            ..unknown
        };
        assert_eq!(
            format_usage(&cached),
            "5 input (3 cached), unknown output, unknown total tokens"
        );
        let measured = Usage {
            context_tokens: Some(50),
            context_window: Some(200),
            ..unknown
        };
        assert_eq!(format_context_usage(&measured), "50 of 200 tokens (25 %)");
        let zero_window = Usage {
            context_window: Some(0),
            ..measured
        };
        assert_eq!(format_context_usage(&zero_window), "50 tokens");
    }

    #[test]
    fn the_short_id_is_the_end_of_the_session_id() {
        let id = SessionId::parse("20251207_143022_ab12").unwrap();
        assert_eq!(short_id(&id), "ab12");
    }
}
