//! Search queries: words, "phrases", pref*, -without, and filters such as `provider:codex`.

use jiff::Timestamp;
use segue_core::session::Role;

use super::turn_text::to_fts_text;

/// An error in a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is empty.
    #[error("a search needs at least one word or filter")]
    Empty,
    /// The query is too long.
    #[error("a query can have at most {limit} characters; this one has {length}")]
    TooLong {
        /// Length of the query in characters.
        length: usize,
        /// Maximum length in characters.
        limit: usize,
    },
    /// The role does not exist.
    #[error("unknown role {0:?}: expected user, assistant or tool")]
    UnknownRole(String),
    /// A time can't be parsed.
    #[error("{filter}: {reason}")]
    InvalidTime {
        /// Name of the filter.
        filter: &'static str,
        /// Reason of the failure.
        reason: String,
    },
    /// A filter has no value.
    #[error("`{0}:` needs a value, for example `{0}:NAME`")]
    MissingValue(String),
    /// The agent does not exist.
    #[error("unknown agent `{name}`; available agents: {available}")]
    UnknownProvider {
        /// Name in the query.
        name: String,
        /// Names of the available agents.
        available: String,
    },
    /// A filter is negated.
    #[error("`-{0}:` is not supported: only words can be excluded")]
    NegatedFilter(String),
    /// All words are negated.
    #[error("a search needs at least one word that is not excluded")]
    OnlyExcludedWords,
}

/// Order of the hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HitOrder {
    /// The newest sessions first.
    #[default]
    Newest,
    /// The best matches first.
    Best,
}

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// Words, all of which must occur in a turn.
    pub words: QueryWords,
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
pub struct QueryWords {
    terms: Vec<Term>,
    /// Roles that are searched. All roles if empty.
    roles: Vec<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    text: String,
    is_prefix: bool,
    is_excluded: bool,
}

const MAX_QUERY_CHARS: usize = 500;

const FILTER_NAMES: [&str; 10] = [
    "provider", "agent", "project", "dir", "role", "after", "since", "before", "tag", "feature",
];

impl SearchQuery {
    /// Parses a query. `parse_time` parses a time.
    pub fn parse(
        text: &str,
        parse_time: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Result<Self, QueryError> {
        let length = text.chars().count();
        if length > MAX_QUERY_CHARS {
            return Err(QueryError::TooLong {
                length,
                limit: MAX_QUERY_CHARS,
            });
        }
        let (query, errors, open_filter) = Self::apply_tokens(text, parse_time);
        if let Some(error) = errors.into_iter().flatten().next() {
            return Err(error);
        }
        if let Some(filter) = open_filter {
            return Err(QueryError::MissingValue(filter.to_owned()));
        }
        let terms = &query.words.terms;
        if !terms.is_empty() && terms.iter().all(|term| term.is_excluded) {
            return Err(QueryError::OnlyExcludedWords);
        }
        if query == Self::default() {
            return Err(QueryError::Empty);
        }
        Ok(query)
    }

    /// Parses a query that is still being typed. The last word matches as a prefix, and errors are ignored.
    #[must_use]
    pub fn parse_partial(
        text: &str,
        parse_time: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Self {
        let (mut query, ..) = Self::apply_tokens(text, parse_time);
        let is_complete = is_last_word_complete(text);
        let terms = &mut query.words.terms;
        if let Some(last) = terms
            .last_mut()
            .filter(|term| !is_complete && !term.is_excluded)
        {
            last.is_prefix = true;
        }
        if terms.iter().all(|term| term.is_excluded) {
            terms.clear();
        }
        query
    }

    /// Returns the first error in a query that is still being typed. Ignores the last word, because it may be
    /// incomplete.
    #[must_use]
    pub fn find_partial_error(
        text: &str,
        parse_time: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Option<QueryError> {
        let (_, mut errors, open_filter) = Self::apply_tokens(text, parse_time);
        if !is_last_word_complete(text) && open_filter.is_none() {
            errors.pop();
        }
        errors.into_iter().flatten().next()
    }

    /// Applies the tokens of a text. Returns the query, the error of each token that can't be applied, and the filter at
    /// the end that has no value.
    fn apply_tokens(
        text: &str,
        parse_time: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> (Self, Vec<Option<QueryError>>, Option<&'static str>) {
        let (mut query, mut errors, mut open_filter) = (Self::default(), Vec::new(), None);
        for token in split_tokens(text) {
            match token.resolve_filter(open_filter.take()) {
                Ok(token) => errors.push(query.apply_token(token, parse_time).err()),
                Err(filter) => open_filter = Some(filter),
            }
        }
        (query, errors, open_filter)
    }

    fn apply_token(
        &mut self,
        token: Token<'_>,
        parse_time: &dyn Fn(&str) -> Result<Timestamp, String>,
    ) -> Result<(), QueryError> {
        let time = |filter, text: &str| {
            parse_time(text).map_err(|reason| QueryError::InvalidTime { filter, reason })
        };
        let filter = token.filter.filter(|_| !token.text.is_empty());
        let value = token.text;
        if let Some(filter) = filter.filter(|_| token.is_excluded) {
            return Err(QueryError::NegatedFilter(filter.to_owned()));
        }
        match filter {
            Some("provider" | "agent") => self
                .providers
                .extend(value.split(',').map(str::to_lowercase)),
            Some("project" | "dir") => self.project = Some(value.to_owned()),
            Some("role") => self.words.roles.extend(parse_roles(value)?),
            Some("after" | "since") => self.after = Some(time("after", value)?),
            Some("before") => self.before = Some(time("before", value)?),
            Some("tag") => self.tags.push(value.to_lowercase()),
            Some("feature") => self.feature = Some(value.to_owned()),
            _ => self.words.add_token(&token),
        }
        Ok(())
    }
}

/// Returns `true` if the last word is complete.
fn is_last_word_complete(text: &str) -> bool {
    text.ends_with(char::is_whitespace) || text.ends_with('"')
}

/// Parses role names that are separated by commas. Ignores empty names, because the user may still be typing them.
fn parse_roles(text: &str) -> Result<Vec<Role>, QueryError> {
    let names = text.split(',').filter(|name| !name.is_empty());
    let roles: Vec<Role> = names.map(parse_role).collect::<Result<_, _>>()?;
    if roles.is_empty() {
        return Err(QueryError::UnknownRole(text.to_owned()));
    }
    Ok(roles)
}

fn parse_role(text: &str) -> Result<Role, QueryError> {
    match text.to_lowercase().as_str() {
        "user" | "me" | "prompt" => Ok(Role::User),
        "assistant" | "agent" | "answer" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        _ => Err(QueryError::UnknownRole(text.to_owned())),
    }
}

impl QueryWords {
    /// Returns `true` if there are no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns `true` if messages of this role are searched.
    #[must_use]
    pub fn should_search_role(&self, role: Role) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }

    /// Returns the columns of the full-text index that are searched. `None` if all are.
    fn searched_columns(&self) -> Option<String> {
        let columns_by_role = [
            (Role::User, "prompt"),
            (Role::Assistant, "answer"),
            (Role::Tool, "call output"),
        ];
        let searched = columns_by_role
            .iter()
            .filter(|(role, _)| self.roles.contains(role));
        let names: Vec<&str> = searched.map(|(_, columns)| *columns).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    fn add_token(&mut self, token: &Token<'_>) {
        // A token that only looks like a filter, such as `http://…`, consists of words.
        let full_text = token.full_text;
        let (text, is_prefix) = match full_text.strip_suffix('*') {
            Some(text) if !token.is_quoted => (text, true),
            _ => (full_text, false),
        };
        if text.chars().any(char::is_alphanumeric) {
            self.terms.push(Term {
                text: text.to_owned(),
                is_prefix,
                is_excluded: token.is_excluded,
            });
        }
    }

    /// Returns the texts that must occur, as typed, each with `true` if it is a prefix.
    pub(super) fn required_terms(&self) -> impl Iterator<Item = (&str, bool)> {
        let wanted = self.terms.iter().filter(|term| !term.is_excluded);
        wanted.map(|term| (term.text.as_str(), term.is_prefix))
    }

    /// Returns the words as an expression of the full-text index.
    pub(super) fn to_fts_expression(&self) -> String {
        let quote = |term: &Term| {
            let text = to_fts_text(&term.text).replace('"', "\"\"");
            format!("\"{text}\"{}", if term.is_prefix { "*" } else { "" })
        };
        let quoted_terms = |excluded: bool| {
            let terms = self
                .terms
                .iter()
                .filter(move |term| term.is_excluded == excluded);
            terms.map(quote).collect::<Vec<_>>()
        };
        let wanted = quoted_terms(false).join(" AND ");
        let mut all = match quoted_terms(true).join(" OR ") {
            unwanted if unwanted.is_empty() => wanted,
            unwanted => format!("({wanted}) NOT ({unwanted})"),
        };
        if let Some(columns) = self.searched_columns() {
            all = format!("{{{columns}}} : ({all})");
        }
        all
    }
}

/// A token of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    is_excluded: bool,
    filter: Option<&'static str>,
    /// Text after the filter, without its quotes.
    text: &'a str,
    /// Complete token, without the quotes around it.
    full_text: &'a str,
    is_quoted: bool,
}

impl Token<'_> {
    /// Returns the token with the filter to which it belongs: a token after a filter without a value is its value.
    /// Fails with the filter if the token itself is a filter without a value.
    fn resolve_filter(self, open_filter: Option<&'static str>) -> Result<Self, &'static str> {
        match (open_filter, self.filter) {
            (Some(filter), _) => Ok(Self {
                filter: Some(filter),
                text: self.full_text,
                ..self
            }),
            (None, Some(filter)) if self.text.is_empty() => Err(filter),
            (None, _) => Ok(self),
        }
    }
}

fn split_tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut remaining = text;
    std::iter::from_fn(move || {
        remaining = remaining.trim_start();
        if remaining.is_empty() {
            return None;
        }
        let is_excluded =
            remaining.len() > 1 && remaining.starts_with('-') && !remaining.starts_with("--");
        let begin = remaining
            .get(usize::from(is_excluded)..)
            .unwrap_or_default();
        let mut in_quotes = false;
        let end = begin.find(|c: char| {
            in_quotes ^= c == '"';
            c.is_whitespace() && !in_quotes
        });
        let (token, after) = begin.split_at_checked(end.unwrap_or(begin.len()))?;
        remaining = after;
        let filter_and_value = token.split_once(':');
        let filter_and_value =
            filter_and_value.and_then(|(name, value)| Some((find_filter(name)?, value)));
        let (filter, value) =
            filter_and_value.map_or((None, token), |(filter, value)| (Some(filter), value));
        Some(Token {
            is_excluded,
            filter,
            text: strip_quotes(value),
            full_text: strip_quotes(token),
            is_quoted: token.starts_with('"'),
        })
    })
}

/// Returns the filter with this name, which may be in upper case.
fn find_filter(name: &str) -> Option<&'static str> {
    let mut all = FILTER_NAMES.into_iter();
    all.find(|filter| filter.eq_ignore_ascii_case(name))
}

fn strip_quotes(text: &str) -> &str {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.strip_suffix('"').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_query(text: &str) -> Result<SearchQuery, QueryError> {
        SearchQuery::parse(text, &|text| {
            text.parse().map_err(|_| "invalid time".to_owned())
        })
    }

    #[test]
    fn words_become_an_expression_that_no_input_can_break() {
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
            let query = parse_query(typed).unwrap();
            assert_eq!(query.words.to_fts_expression(), expected, "{typed}");
        }
    }

    #[test]
    fn filters_are_distinguished_from_words() {
        let query = parse_query(
            "provider:Codex,claude project:\"my app\" after:2025-01-02T00:00:00Z tag:X x:y",
        );
        let query = query.unwrap();
        assert_eq!(query.providers, ["codex", "claude"]);
        assert_eq!(query.project.as_deref(), Some("my app"));
        assert_eq!(query.after, "2025-01-02T00:00:00Z".parse().ok());
        assert_eq!(query.tags, ["x"]);
        assert_eq!(query.words.to_fts_expression(), r#""x:y""#);
        // A space after the colon is allowed.
        let blank = parse_query("after: 2025-01-02T00:00:00Z provider: codex login").unwrap();
        assert_eq!(
            (blank.after, &blank.providers),
            (query.after, &vec!["codex".to_owned()])
        );
        assert_eq!(blank.words.to_fts_expression(), r#""login""#);
        // A filter in upper case is still a filter.
        let upper_case = parse_query("PROVIDER:CLAUDE Tag:x Agent: codex login").unwrap();
        assert_eq!(upper_case.providers, ["claude", "codex"]);
        assert_eq!(upper_case.tags, ["x"]);
        assert_eq!(upper_case.words.to_fts_expression(), r#""login""#);
    }

    #[test]
    fn invalid_queries_are_rejected() {
        let long = "x".repeat(501);
        for (typed, expected) in [
            ("", "a search needs at least one word or filter"),
            ("  -  ", "a search needs at least one word or filter"),
            (
                "-a",
                "a search needs at least one word that is not excluded",
            ),
            (
                "role:king a",
                "unknown role \"king\": expected user, assistant or tool",
            ),
            (
                "role:user,king a",
                "unknown role \"king\": expected user, assistant or tool",
            ),
            (
                "role:, a",
                "unknown role \",\": expected user, assistant or tool",
            ),
            ("after:soon a", "after: invalid time"),
            ("a tag:", "`tag:` needs a value, for example `tag:NAME`"),
            (
                "-provider:codex a",
                "`-provider:` is not supported: only words can be excluded",
            ),
            (
                &long,
                "a query can have at most 500 characters; this one has 501",
            ),
        ] {
            let error = parse_query(typed).map_err(|error| error.to_string());
            assert_eq!(error, Err(expected.to_owned()), "{typed:?}");
        }
    }

    #[test]
    fn the_last_word_of_a_partial_query_is_a_prefix() {
        let expression = |text: &str| {
            let query = SearchQuery::parse_partial(text, &|_| Err("invalid".into()));
            query.words.to_fts_expression()
        };
        assert_eq!(expression("fix log"), r#""fix" AND "log"*"#);
        assert_eq!(expression("fix log "), r#""fix" AND "log""#);
        assert_eq!(expression("fix after:19"), r#""fix"*"#);
        assert_eq!(expression("-x"), "");
    }

    #[test]
    fn a_partial_query_reports_errors_in_complete_words_only() {
        for (typed, expected) in [
            ("fix role:ki", None),
            ("fix role:", None),
            (
                "fix role:king ",
                Some("unknown role \"king\": expected user, assistant or tool"),
            ),
            ("after:soon x", Some("after: invalid")),
            ("after: soon", None),
            ("after: soon ", Some("after: invalid")),
            ("fix -x", None),
        ] {
            let partial_error = SearchQuery::find_partial_error(typed, &|_| Err("invalid".into()));
            assert_eq!(
                partial_error.map(|error| error.to_string()).as_deref(),
                expected,
                "{typed}"
            );
        }
    }
}
