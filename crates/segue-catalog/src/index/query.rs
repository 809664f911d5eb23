//! Search queries: words, "phrases", pref*, -without, and filters such as `provider:codex`.

use jiff::Timestamp;
use segue_core::session::Role;

use super::texts::spaced;

/// An error in a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is empty.
    #[error("a search needs at least one word or filter")]
    Empty,
    /// The query is too long.
    #[error("a search takes at most {limit} characters, not {length}")]
    TooLong {
        /// Length of the query in characters.
        length: usize,
        /// Maximum length in characters.
        limit: usize,
    },
    /// The role does not exist.
    #[error("{0:?} says nothing in a session; role: takes user, assistant or tool")]
    Role(String),
    /// A time can't be parsed.
    #[error("{filter}: {why}")]
    When {
        /// Name of the filter.
        filter: &'static str,
        /// Reason of the failure.
        why: String,
    },
    /// A filter has no value.
    #[error("{0}: needs a value, as in {0}:NAME")]
    NoValue(String),
    /// The agent does not exist.
    #[error("nobody here is called {name}; there are: {known}")]
    Provider {
        /// Name in the query.
        name: String,
        /// Names of the available agents.
        known: String,
    },
    /// A filter is negated.
    #[error("-{0}: a filter can't be turned round; only words can be unwanted")]
    Without(String),
    /// All words are negated.
    #[error("a search needs a word that is there, not only words that are not")]
    OnlyWithout,
}

/// Order of the hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest sessions first.
    #[default]
    Newest,
    /// The best matches first.
    Best,
}

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Words, all of which must occur in a turn.
    pub words: Words,
    /// Agents to which the search is restricted. All agents if empty.
    pub providers: Vec<String>,
    /// Text that must occur in the path of the project.
    pub project: Option<String>,
    /// Time at or after which the turns must have ended.
    pub after: Option<Timestamp>,
    /// Time before which the turns must have ended.
    pub before: Option<Timestamp>,
    /// Tags, all of which the session must have.
    pub tags: Vec<String>,
    /// Feature of the session.
    pub feature: Option<String>,
}

/// Words of a query, and the roles whose messages must contain them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    terms: Vec<Term>,
    /// Roles that are searched. All roles if empty.
    roles: Vec<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    text: String,
    prefix: bool,
    without: bool,
}

const LIMIT: usize = 500;

const FILTERS: [&str; 10] = [
    "provider", "agent", "project", "dir", "role", "after", "since", "before", "tag", "feature",
];

impl Query {
    /// Parses a query. `when` parses a time.
    pub fn parse(
        text: &str,
        when: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Result<Self, QueryError> {
        let length = text.chars().count();
        if length > LIMIT {
            return Err(QueryError::TooLong {
                length,
                limit: LIMIT,
            });
        }
        let mut query = Self::default();
        let mut open = None;
        for token in tokens(text) {
            match token.after(open.take()) {
                Ok(token) => query.take(token, when)?,
                Err(filter) => open = Some(filter),
            }
        }
        if let Some(filter) = open {
            return Err(QueryError::NoValue(filter.to_owned()));
        }
        let terms = &query.words.terms;
        if !terms.is_empty() && terms.iter().all(|term| term.without) {
            return Err(QueryError::OnlyWithout);
        }
        if query == Self::default() {
            return Err(QueryError::Empty);
        }
        Ok(query)
    }

    /// Parses a query that is still being typed. The last word matches as a prefix, and errors are ignored.
    #[must_use]
    pub fn typed(text: &str, when: &dyn Fn(&str) -> Result<Timestamp, String>) -> Self {
        let mut query = Self::default();
        let mut open = None;
        for token in tokens(text) {
            match token.after(open.take()) {
                // An incomplete filter is ignored.
                Ok(token) => drop(query.take(token, when)),
                Err(filter) => open = Some(filter),
            }
        }
        let finished = is_finished(text);
        let terms = &mut query.words.terms;
        if let Some(last) = terms.last_mut().filter(|term| !finished && !term.without) {
            last.prefix = true;
        }
        if terms.iter().all(|term| term.without) {
            terms.clear();
        }
        query
    }

    /// Returns the first error in a query that is still being typed. Ignores the last word, because it may be
    /// incomplete.
    #[must_use]
    pub fn mistake(
        text: &str,
        when: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Option<QueryError> {
        let mut query = Self::default();
        let mut open = None;
        let mut mistakes = Vec::new();
        for token in tokens(text) {
            match token.after(open.take()) {
                Ok(token) => mistakes.push(query.take(token, when).err()),
                Err(filter) => open = Some(filter),
            }
        }
        if !is_finished(text) && open.is_none() {
            mistakes.pop();
        }
        mistakes.into_iter().flatten().next()
    }

    fn take(
        &mut self,
        token: Token<'_>,
        when: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Result<(), QueryError> {
        let time = |filter, text: &str| when(text).map_err(|why| QueryError::When { filter, why });
        let filter = token.filter.filter(|_| !token.text.is_empty());
        let value = token.text;
        if let Some(filter) = filter.filter(|_| token.without) {
            return Err(QueryError::Without(filter.to_owned()));
        }
        match filter {
            Some("provider" | "agent") => self
                .providers
                .extend(value.split(',').map(str::to_lowercase)),
            Some("project" | "dir") => self.project = Some(value.to_owned()),
            Some("role") => self.words.roles.extend(roles(value)?),
            Some("after" | "since") => self.after = Some(time("after", value)?),
            Some("before") => self.before = Some(time("before", value)?),
            Some("tag") => self.tags.push(value.to_lowercase()),
            Some("feature") => self.feature = Some(value.to_owned()),
            _ => self.words.add(&token),
        }
        Ok(())
    }
}

/// Returns `true` if the last word is complete.
fn is_finished(text: &str) -> bool {
    text.ends_with(char::is_whitespace) || text.ends_with('"')
}

/// Parses role names that are separated by commas. Ignores empty names, because the user may still be typing them.
fn roles(text: &str) -> Result<Vec<Role>, QueryError> {
    let names = text.split(',').filter(|name| !name.is_empty());
    let roles: Vec<Role> = names.map(role).collect::<Result<_, _>>()?;
    if roles.is_empty() {
        return Err(QueryError::Role(text.to_owned()));
    }
    Ok(roles)
}

fn role(text: &str) -> Result<Role, QueryError> {
    match text.to_lowercase().as_str() {
        "user" | "me" | "prompt" => Ok(Role::User),
        "assistant" | "agent" | "answer" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        _ => Err(QueryError::Role(text.to_owned())),
    }
}

impl Words {
    /// Returns `true` if there are no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns `true` if messages of this role are searched.
    #[must_use]
    pub fn may_be_said_by(&self, role: Role) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }

    /// Returns the columns of the full-text index that are searched. `None` if all are.
    fn columns(&self) -> Option<String> {
        let spoken = [
            (Role::User, "prompt"),
            (Role::Assistant, "answer"),
            (Role::Tool, "call output"),
        ];
        let asked = spoken.iter().filter(|(role, _)| self.roles.contains(role));
        let names: Vec<&str> = asked.map(|(_, columns)| *columns).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    fn add(&mut self, token: &Token<'_>) {
        // A token that only looks like a filter, such as `http://…`, consists of words.
        let whole = token.whole;
        let (text, prefix) = match whole.strip_suffix('*') {
            Some(text) if !token.quoted => (text, true),
            _ => (whole, false),
        };
        if text.chars().any(char::is_alphanumeric) {
            self.terms.push(Term {
                text: text.to_owned(),
                prefix,
                without: token.without,
            });
        }
    }

    /// Returns the texts that must occur, as typed, each with `true` if it is a prefix.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (&str, bool)> {
        let wanted = self.terms.iter().filter(|term| !term.without);
        wanted.map(|term| (term.text.as_str(), term.prefix))
    }

    /// Returns the words as an expression of the full-text index.
    pub(super) fn expression(&self) -> String {
        let quote = |term: &Term| {
            let text = spaced(&term.text).replace('"', "\"\"");
            format!("\"{text}\"{}", if term.prefix { "*" } else { "" })
        };
        let some = |without: bool| {
            let terms = self
                .terms
                .iter()
                .filter(move |term| term.without == without);
            terms.map(quote).collect::<Vec<_>>()
        };
        let wanted = some(false).join(" AND ");
        let mut all = match some(true).join(" OR ") {
            unwanted if unwanted.is_empty() => wanted,
            unwanted => format!("({wanted}) NOT ({unwanted})"),
        };
        if let Some(columns) = self.columns() {
            all = format!("{{{columns}}} : ({all})");
        }
        all
    }
}

/// A token of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    without: bool,
    filter: Option<&'static str>,
    /// Text after the filter, without its quotes.
    text: &'a str,
    /// Complete token, without the quotes around it.
    whole: &'a str,
    quoted: bool,
}

impl Token<'_> {
    /// Returns the token with the filter to which it belongs: a token after a filter without a value is its value.
    /// Fails with the filter if the token itself is a filter without a value.
    fn after(self, open: Option<&'static str>) -> Result<Self, &'static str> {
        match (open, self.filter) {
            (Some(filter), _) => Ok(Self {
                filter: Some(filter),
                text: self.whole,
                ..self
            }),
            (None, Some(filter)) if self.text.is_empty() => Err(filter),
            (None, _) => Ok(self),
        }
    }
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let without = rest.len() > 1 && rest.starts_with('-') && !rest.starts_with("--");
        let begin = rest.get(usize::from(without)..).unwrap_or_default();
        let mut open = false;
        let end = begin.find(|c: char| {
            open ^= c == '"';
            c.is_whitespace() && !open
        });
        let (piece, after) = begin.split_at_checked(end.unwrap_or(begin.len()))?;
        rest = after;
        let named = piece.split_once(':');
        let named = named.and_then(|(name, value)| Some((filter(name)?, value)));
        let (filter, value) = named.map_or((None, piece), |(filter, value)| (Some(filter), value));
        Some(Token {
            without,
            filter,
            text: unquoted(value),
            whole: unquoted(piece),
            quoted: piece.starts_with('"'),
        })
    })
}

/// Returns the filter with this name, which may be in upper case.
fn filter(name: &str) -> Option<&'static str> {
    let mut all = FILTERS.into_iter();
    all.find(|filter| filter.eq_ignore_ascii_case(name))
}

fn unquoted(text: &str) -> &str {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.strip_suffix('"').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Query, QueryError> {
        Query::parse(text, &|text| text.parse().map_err(|_| "no time".to_owned()))
    }

    #[test]
    fn words_become_an_expression_that_nothing_can_break_out_of() {
        let cases = [
            ("login", r#""login""#),
            ("fix login", r#""fix" AND "login""#),
            (r#""fix the login" now"#, r#""fix the login" AND "now""#),
            ("auth*", r#""auth"*"#),
            (r#""auth*""#, r#""auth*""#),
            ("login -test -mock", r#"("login") NOT ("test" OR "mock")"#),
            ("role:user login", r#"{prompt} : ("login")"#),
            ("role:tool a b", r#"{call output} : ("a" AND "b")"#),
            ("role:user,assistant a", r#"{prompt answer} : ("a")"#),
            ("role:tool role:user a", r#"{prompt call output} : ("a")"#),
            ("role:me,user, a", r#"{prompt} : ("a")"#),
            ("ROLE:Tool a -b", r#"{call output} : (("a") NOT ("b"))"#),
            ("https://x.y/z", r#""https://x.y/z""#),
            (
                "fix_login() OR NEAR",
                r#""fix_login()" AND "OR" AND "NEAR""#,
            ),
            (r#"a"b"#, r#""a""b""#),
            ("函数", "\" 函  数 \""),
            ("- * a", r#""a""#),
            (r#"say "half a phrase"#, r#""say" AND "half a phrase""#),
        ];
        for (typed, expected) in cases {
            let query = parse(typed).unwrap();
            assert_eq!(query.words.expression(), expected, "{typed}");
        }
    }

    #[test]
    fn filters_are_told_from_words() {
        let query =
            parse("provider:Codex,claude project:\"my app\" after:2025-01-02T00:00:00Z tag:X x:y");
        let query = query.unwrap();
        assert_eq!(query.providers, ["codex", "claude"]);
        assert_eq!(query.project.as_deref(), Some("my app"));
        assert_eq!(query.after, "2025-01-02T00:00:00Z".parse().ok());
        assert_eq!(query.tags, ["x"]);
        assert_eq!(query.words.expression(), r#""x:y""#);
        // A space after the colon is allowed.
        let blank = parse("after: 2025-01-02T00:00:00Z provider: codex login").unwrap();
        assert_eq!(
            (blank.after, &blank.providers),
            (query.after, &vec!["codex".to_owned()])
        );
        assert_eq!(blank.words.expression(), r#""login""#);
        // A filter in upper case is still a filter.
        let loud = parse("PROVIDER:CLAUDE Tag:x Agent: codex login").unwrap();
        assert_eq!(loud.providers, ["claude", "codex"]);
        assert_eq!(loud.tags, ["x"]);
        assert_eq!(loud.words.expression(), r#""login""#);
    }

    #[test]
    fn what_can_not_be_searched_for_is_refused() {
        let long = "x".repeat(501);
        for (typed, expected) in [
            ("", "a search needs at least one word or filter"),
            ("  -  ", "a search needs at least one word or filter"),
            (
                "-a",
                "a search needs a word that is there, not only words that are not",
            ),
            (
                "role:king a",
                "\"king\" says nothing in a session; role: takes user, assistant or tool",
            ),
            (
                "role:user,king a",
                "\"king\" says nothing in a session; role: takes user, assistant or tool",
            ),
            (
                "role:, a",
                "\",\" says nothing in a session; role: takes user, assistant or tool",
            ),
            ("after:soon a", "after: no time"),
            ("a tag:", "tag: needs a value, as in tag:NAME"),
            (
                "-provider:codex a",
                "-provider: a filter can't be turned round; only words can be unwanted",
            ),
            (&long, "a search takes at most 500 characters, not 501"),
        ] {
            let error = parse(typed).map_err(|error| error.to_string());
            assert_eq!(error, Err(expected.to_owned()), "{typed:?}");
        }
    }

    #[test]
    fn while_it_is_typed_the_last_word_may_go_on() {
        let typed = |text: &str| {
            let query = Query::typed(text, &|_| Err("no".into()));
            query.words.expression()
        };
        assert_eq!(typed("fix log"), r#""fix" AND "log"*"#);
        assert_eq!(typed("fix log "), r#""fix" AND "log""#);
        assert_eq!(typed("fix after:19"), r#""fix"*"#);
        assert_eq!(typed("-x"), "");
    }

    #[test]
    fn while_it_is_typed_only_what_is_whole_can_be_wrong() {
        for (typed, expected) in [
            ("fix role:ki", None),
            ("fix role:", None),
            (
                "fix role:king ",
                Some("\"king\" says nothing in a session; role: takes user, assistant or tool"),
            ),
            ("after:soon x", Some("after: no")),
            ("after: soon", None),
            ("after: soon ", Some("after: no")),
            ("fix -x", None),
        ] {
            let mistake = Query::mistake(typed, &|_| Err("no".into()));
            assert_eq!(
                mistake.map(|error| error.to_string()).as_deref(),
                expected,
                "{typed}"
            );
        }
    }
}
