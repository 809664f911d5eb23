//! Output of commands about the help, the session and its token counts.

use segue_core::id::{NativeId, SessionId};
use segue_core::number_format::figure;
use segue_core::session::{Opened, Session, Usage};

use super::command::COMMANDS;
use crate::terminal::{Style, one_line, print};

/// Returns the end of an id, which distinguishes the sessions of one day.
pub(super) fn short(id: &SessionId) -> &str {
    let id = id.as_str();
    id.rsplit_once('_').map_or(id, |(_, end)| end)
}

/// Describes a session in one line.
pub(super) fn told(session: &Session) -> String {
    let (id, turns, provider) = (&session.id, session.turns, &session.provider);
    let title = one_line(session.title.as_str());
    format!("{id} ({title}), {turns} turn(s), with {provider}")
}

pub(super) fn help() {
    let style = Style::stdout();
    for entry in &COMMANDS {
        let what = format!("{} {}", entry.name, entry.takes);
        print(&format!(
            "{}  {}",
            style.bold(&format!("{what:<20}")),
            entry.does
        ));
    }
    print("");
    print("Anything else is said to the agent; begin with // to say what begins with a slash.");
    print("A \\ at the end of a line, or an open ``` fence, goes on on the next line.");
}

pub(super) fn session(session: &Session, opened: Option<&(Opened, String)>) {
    let native = session.native_id.as_ref().map_or("-", NativeId::as_str);
    let opened = opened.map_or_else(
        || "not yet; the next prompt opens it".to_owned(),
        |(opened, why)| format!("{}: {why}", opened.as_str()),
    );
    let mut fields = vec![
        ("id", session.id.to_string()),
        ("title", session.title.as_str().to_owned()),
        ("agent", session.provider.to_string()),
        ("native id", native.to_owned()),
        ("turns", session.turns.to_string()),
        ("tokens", known(session.total_tokens)),
        ("opened", opened),
    ];
    if let Some(purpose) = &session.purpose {
        fields.insert(2, ("for", purpose.to_string()));
    }
    print_fields(&fields);
}

pub(super) fn usage(last: Option<&Usage>, session: &Session) {
    let mut fields = Vec::new();
    if let Some(last) = last {
        fields.push(("last turn", in_words(last)));
        fields.push(("context", context(last)));
    }
    let turns = session.turns;
    let total = known(session.total_tokens);
    fields.push(("session", format!("{total} in {turns} turn(s)")));
    print_fields(&fields);
}

fn print_fields(fields: &[(&str, String)]) {
    let style = Style::stdout();
    for (name, value) in fields {
        let name = style.dim(&format!("{name:<9}"));
        print(&format!("{name} {}", one_line(value)));
    }
}

fn known(tokens: Option<u64>) -> String {
    tokens.map_or_else(|| "unknown".to_owned(), figure)
}

fn in_words(usage: &Usage) -> String {
    let cached = match usage.cached_tokens {
        Some(cached) => format!(" ({} of them from a cache)", figure(cached)),
        None => String::new(),
    };
    format!(
        "{} in{cached}, {} out, {} in all",
        known(usage.input_tokens),
        known(usage.output_tokens),
        known(usage.total_tokens)
    )
}

/// Formats the usage of the model's context.
fn context(usage: &Usage) -> String {
    match (usage.context_tokens, usage.context_window) {
        (Some(used), Some(window @ 1..)) => {
            let percent = used.saturating_mul(100) / window;
            let (used, window) = (figure(used), figure(window));
            format!("{used} of {window} ({percent} %)")
        }
        (used, _) => known(used),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let unknown = Usage::default();
        assert_eq!(context(&unknown), "unknown");
        assert_eq!(
            in_words(&unknown),
            "unknown in, unknown out, unknown in all"
        );
        let cached = Usage {
            input_tokens: Some(5),
            cached_tokens: Some(3),
            ..unknown
        };
        assert_eq!(
            in_words(&cached),
            "5 in (3 of them from a cache), unknown out, unknown in all"
        );
        let known = Usage {
            context_tokens: Some(50),
            context_window: Some(200),
            ..unknown
        };
        assert_eq!(context(&known), "50 of 200 (25 %)");
        let odd = Usage {
            context_window: Some(0),
            ..known
        };
        assert_eq!(context(&odd), "50");
    }

    #[test]
    fn a_session_is_called_by_the_end_of_its_id() {
        let id = SessionId::parse("20251207_143022_ab12").unwrap();
        assert_eq!(short(&id), "ab12");
    }
}
