//! Output of `gemini --list-sessions`, which is the last resort if its files can't be read.

use jiff::{SignedDuration, Timestamp};
use segue_core::id::NativeId;

/// Parsed output of `gemini --list-sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeminiListing {
    /// Sessions in the order of the output: the oldest first.
    pub sessions: Vec<GeminiListedSession>,
    /// Number of lines that could not be parsed.
    pub skipped: u64,
}

/// A session of the current directory's project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeminiListedSession {
    /// Id of the session.
    pub id: NativeId,
    /// Title of the session: a summary, or the beginning of its first prompt.
    pub title: String,
    /// Number by which the session can be resumed until another session is added or deleted.
    pub index: u32,
    /// Time of the last activity, to the minute, hour or day. `None` if the line does not contain it.
    pub updated_at: Option<Timestamp>,
    /// Whether Gemini CLI marks the session as the current one.
    pub current: bool,
}

/// Parses the output of `gemini --list-sessions`, which was printed at the time `now`.
#[must_use]
pub fn parse_listing(text: &str, now: Timestamp) -> GeminiListing {
    let mut listing = GeminiListing::default();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || is_header_line(line) {
            continue;
        }
        match parse_session_line(line, now) {
            Some(session) => listing.sessions.push(session),
            None => listing.skipped += 1,
        }
    }
    listing
}

fn is_header_line(line: &str) -> bool {
    line.starts_with("No previous sessions found")
        || (line.starts_with("Available sessions for this project") && line.ends_with(':'))
}

/// Parses a line such as `3. TITLE (5 minutes ago, current) [ID]`. The title is the remainder, because it may contain
/// all of these elements.
fn parse_session_line(line: &str, now: Timestamp) -> Option<GeminiListedSession> {
    let (index, remainder) = line.split_once('.')?;
    let (remainder, id) = remainder.strip_suffix(']')?.rsplit_once('[')?;
    let (title, time) = remainder.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let (time, current) = match time.strip_suffix(", current") {
        Some(time) => (time, true),
        None => (time, false),
    };
    Some(GeminiListedSession {
        id: NativeId::parse(id).ok()?,
        title: title.trim().to_owned(),
        index: index.parse().ok()?,
        updated_at: parse_relative_time(now, time),
        current,
    })
}

fn parse_relative_time(now: Timestamp, time: &str) -> Option<Timestamp> {
    let time = time.trim();
    if time.eq_ignore_ascii_case("just now") {
        return Some(now);
    }
    let (count, unit) = time.strip_suffix(" ago")?.split_once(' ')?;
    let seconds: i64 = match unit.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => 24 * 60 * 60,
        _ => return None,
    };
    let seconds = count.parse::<i64>().ok()?.checked_mul(seconds)?;
    now.checked_sub(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn format_sessions(listing: &GeminiListing) -> Vec<String> {
        let line = |session: &GeminiListedSession| {
            let at = session
                .updated_at
                .map_or("-".to_owned(), |at| at.to_string());
            let current = if session.current { " *" } else { "" };
            format!(
                "{} {:?} {} {at}{current}",
                session.index, session.title, session.id
            )
        };
        listing.sessions.iter().map(line).collect()
    }

    #[test]
    fn a_printed_listing_is_parsed() {
        let text = "\nAvailable sessions for this project (6):
  1. hello one (Just now) [bb01ad6b-942f-41f0-9479-4ce6fbb50c89]
  2. fix (a) [b] 3. (2 hours ago) [x] (1 minute ago, current) [8e4c43f5-556e-4df3-a3f2-a42875f5a732]
  3. a title of ninety-seven characters... (3 minutes ago) [abc]
  4.  (1 day ago) [my-id_1]
  5. odd time (vor 3 Tagen) [odd]
 12. far (99999999999999999 days ago) [far]
";
        let listing = parse_listing(text, now());
        assert_eq!(
            format_sessions(&listing),
            [
                r#"1 "hello one" bb01ad6b-942f-41f0-9479-4ce6fbb50c89 2026-11-16T12:00:00Z"#,
                r#"2 "fix (a) [b] 3. (2 hours ago) [x]" 8e4c43f5-556e-4df3-a3f2-a42875f5a732 2026-11-16T11:59:00Z *"#,
                r#"3 "a title of ninety-seven characters..." abc 2026-11-16T11:57:00Z"#,
                r#"4 "" my-id_1 2026-11-15T12:00:00Z"#,
                r#"5 "odd time" odd -"#,
                r#"12 "far" far -"#,
            ]
        );
        assert_eq!(listing.skipped, 0);
    }

    #[test]
    fn a_listing_may_be_empty_and_noise_is_counted() {
        let listing = parse_listing("No previous sessions found for this project.", now());
        assert_eq!(listing, GeminiListing::default());
        let noise = "Loaded cached credentials.\n  1. no id (Just now)\n  x. bad (Just now) [id]\n  1. bad id (Just now) [../etc]";
        let noise = parse_listing(noise, now());
        assert_eq!((noise.sessions.len(), noise.skipped), (0, 4));
    }

    proptest! {
        #[test]
        fn any_title_is_parsed_unchanged(title in "[ -~]{0,100}", index in 1u32..999, minutes in 1i64..59, current in any::<bool>()) {
            let mark = if current { ", current" } else { "" };
            let text = format!("  {index}. {title} ({minutes} minutes ago{mark}) [8e4c43f5]\n");
            let listing = parse_listing(&text, now());
            prop_assert_eq!(listing.skipped, 0);
            let session = &listing.sessions[0];
            prop_assert_eq!(&session.title, title.trim());
            prop_assert_eq!((session.index, session.current), (index, current));
            prop_assert_eq!(session.updated_at, now().checked_sub(SignedDuration::from_mins(minutes)).ok());
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in any::<String>()) {
            let listing = parse_listing(&text, now());
            prop_assert!(listing.sessions.len() as u64 + listing.skipped <= text.lines().count() as u64);
        }
    }
}
