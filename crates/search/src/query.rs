//! The query of a person, parsed leniently: every text is valid within [`MAX_BYTES`] and
//! [`MAX_TERMS`], because a search costs time and memory for each term.
//!
//! ```text
//! kestrel migration          either word; both rank higher
//! "rate limit"               these words in this order, required
//! +kestrel -draft            required, excluded
//! role:user agent:risks      the author, in upper or lower case (author: as well)
//! agent:"Maria Kowalski"     an author whose name has spaces
//! since:2026-03-01 until:7d  a date, an instant, or an age (after:, before: as well)
//! session:0192ab             the session
//! 2026-03-02  March 2026     these words, or any message of that day or month
//! on Friday  am 3. Mai       messages of that day, or that speak of it, come first
//! Lieferung Kosten           the words, also joined: Lieferkosten, Lieferungskosten
//! ```
//!
//! An invalid filter is ignored and explained in [`Query::notes`].

#[cfg(feature = "index")]
use jiff::civil::Date;
use unisono_context::{AgentId, Role, Timestamp};

#[cfg(feature = "index")]
use crate::named::{Days, Mention, day_of, lowercase_words, mentions};
use crate::times::{Bound, Period, instant, period};
use crate::words::words;
#[cfg(feature = "index")]
use crate::words::{Word, is_without_spaces};

/// Maximum number of bytes in a query.
pub const MAX_BYTES: usize = 4_096;
/// Maximum number of terms in a query: words, single characters in scripts without spaces, and
/// filters by role or agent.
pub const MAX_TERMS: usize = 128;

/// A query beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Its text is too long.
    #[error("the query has {0} bytes, but the limit is {MAX_BYTES}: search for fewer words")]
    Bytes(usize),
    /// It has too many terms.
    #[error("the query has {0} terms, but the limit is {MAX_TERMS}: search for fewer words")]
    Terms(usize),
}

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The clauses on the text. Without clauses the newest messages match.
    pub clauses: Vec<Clause>,
    /// The filter of messages.
    pub filters: Filters,
    /// The session filter as written; the caller resolves it.
    pub session: Option<String>,
    /// The ignored parts of the query, with reasons.
    pub notes: Vec<String>,
    /// The days and periods that its words name.
    #[cfg(feature = "index")]
    pub(crate) mentions: Vec<Mention>,
    /// The day that they are relative to.
    #[cfg(feature = "index")]
    pub(crate) reference: Option<Date>,
}

/// A word or a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The original text.
    pub text: String,
    /// Whether it must match.
    pub need: Occurrence,
    /// Its words in the form of the index; never empty.
    pub(crate) stems: Vec<String>,
    /// The day or month that it names, with the words before it: messages of that time match, too.
    pub(crate) period: Option<Period>,
    /// Whether its words are part of a day or period that the query names.
    pub(crate) is_day: bool,
    /// The words of the index that join it with another clause.
    pub(crate) joined: Vec<String>,
    /// Whether its only word is in the name of an author.
    pub(crate) is_author: bool,
}

#[cfg(feature = "index")]
impl Clause {
    /// The clause; a wanted one in a script without spaces as its pairs of characters, because it may
    /// be a whole sentence.
    pub(crate) fn into_parts(self) -> Vec<Clause> {
        let has_open = || self.stems.iter().any(|s| s.starts_with(is_without_spaces));
        if self.need != Occurrence::Wanted || self.stems.len() < 3 || !has_open() {
            return vec![self];
        }
        let words = words(&self.text);
        let is_open = |word: &Word| word.stem.starts_with(is_without_spaces);
        let runs = words.chunk_by(|one, next| is_open(one) == is_open(next));
        let parts = runs.flat_map(|run| match run {
            [first, _, ..] if is_open(first) => run.windows(2).collect(),
            _ => vec![run],
        });
        let clause = |part: &[Word]| {
            let (first, last) = (part.first()?, part.last()?);
            Some(Clause {
                text: self.text.get(first.at.start..last.at.end)?.to_owned(),
                stems: part.iter().map(|word| word.stem.clone()).collect(),
                period: None,
                joined: Vec::new(),
                ..self
            })
        };
        parts.filter_map(clause).collect()
    }

    /// Its text in lower case if it is neither required nor excluded; else another word, so that the
    /// words around it do not name a period together.
    fn plain_words(&self) -> String {
        match self.need {
            Occurrence::Wanted => self.text.to_lowercase(),
            _ => "other".to_owned(),
        }
    }
}

/// Whether a clause must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// Matches rank higher.
    Wanted,
    /// Only messages with it match.
    Required,
    /// Only messages without it match.
    Excluded,
}

/// The filter of messages. Empty and absent fields match all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The allowed roles.
    pub roles: Vec<Role>,
    /// The allowed agents.
    pub agents: Vec<AgentId>,
    /// The earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// The latest time, exclusive.
    pub until: Option<Timestamp>,
}

impl Query {
    /// Parses the text of a person.
    ///
    /// # Errors
    /// The text has more than [`MAX_BYTES`] or more than [`MAX_TERMS`].
    pub fn parse(text: &str, now: Timestamp) -> Result<Query, TooLarge> {
        if text.len() > MAX_BYTES {
            return Err(TooLarge::Bytes(text.len()));
        }
        let mut query = Query::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            rest = query.take(rest, now).trim_start();
        }
        query.read_periods();
        #[cfg(feature = "index")]
        query.read_mentions(now);
        match query.terms() {
            terms if terms > MAX_TERMS => Err(TooLarge::Terms(terms)),
            _ => Ok(query),
        }
    }

    /// Removes repeated clauses, which match nothing more, and common words.
    #[cfg(feature = "index")]
    pub(crate) fn merged(mut self) -> Query {
        let mut clauses: Vec<Clause> = Vec::with_capacity(self.clauses.len());
        for clause in self.clauses.into_iter().flat_map(Clause::into_parts) {
            let key = |clause: &Clause| (clause.need, clause.period);
            let is_known =
                |known: &Clause| key(known) == key(&clause) && known.stems == clause.stems;
            if !clauses.iter().any(is_known) {
                clauses.push(clause);
            }
        }
        // A weekday or "today" alone is a word.
        if clauses.len() == 1 {
            self.mentions.retain(Mention::is_date);
        }
        drop_common(&mut clauses);
        self.clauses = clauses;
        self
    }

    pub(crate) fn terms(&self) -> usize {
        let words: usize = self.clauses.iter().map(|clause| clause.stems.len()).sum();
        words + self.filters.roles.len() + self.filters.agents.len()
    }

    /// Whether the query has no word and no filter of messages.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.filters == Filters::default()
    }

    /// The searched words in the form of the index, for [`crate::excerpt()`].
    pub fn stems(&self) -> Vec<String> {
        let clauses = self.clauses.iter();
        let looked_for = clauses.filter(|clause| clause.need != Occurrence::Excluded);
        looked_for.flat_map(|clause| clause.stems.clone()).collect()
    }

    /// Takes one piece off the front of the text and gives the rest.
    fn take<'t>(&mut self, text: &'t str, now: Timestamp) -> &'t str {
        let (need, text) = match text.as_bytes() {
            [b'+', next, ..] if !next.is_ascii_whitespace() => {
                (Some(Occurrence::Required), &text[1..])
            }
            [b'-', next, ..] if !next.is_ascii_whitespace() && *next != b'-' => {
                (Some(Occurrence::Excluded), &text[1..])
            }
            _ => (None, text),
        };
        if need.is_none()
            && let Some((name, value)) = text.split_once(':')
            && let Some(key) = Key::from_name(name)
        {
            let (value, _, rest) = piece(value);
            if let Err(why) = self.filter(key, value, now) {
                let name = name.to_lowercase();
                self.notes
                    .push(format!("{name}:{value} is left out: {why}"));
            }
            return rest;
        }
        let (clause, quoted, rest) = piece(text);
        let default = if quoted {
            Occurrence::Required
        } else {
            Occurrence::Wanted
        };
        self.clause(clause, need.unwrap_or(default));
        rest
    }

    fn clause(&mut self, text: &str, need: Occurrence) {
        let text = match need {
            Occurrence::Wanted => without_possessive(text),
            _ => text,
        };
        let stems: Vec<String> = words(text).into_iter().map(|word| word.stem).collect();
        if stems.is_empty() {
            if !text.is_empty() {
                let why = "has no letter or digit to search for; it is left out";
                self.notes.push(format!("`{text}` {why}"));
            }
            return;
        }
        self.clauses.push(Clause {
            text: text.to_owned(),
            need,
            stems,
            period: period(text),
            is_day: false,
            joined: Vec::new(),
            is_author: false,
        });
    }

    /// Reads days and months of several words. The last word of each has its period.
    fn read_periods(&mut self) {
        for end in 2..=self.clauses.len() {
            let found = [3, 2].into_iter().find_map(|length| {
                let words = self.clauses.get(end.checked_sub(length)?..end)?;
                let single = |one: &Clause| one.need == Occurrence::Wanted && one.stems.len() == 1;
                let texts: Vec<&str> = words.iter().map(|one| &*one.text).collect();
                period(&texts.join(" ")).filter(|_| words.iter().all(single))
            });
            if let (Some(found), Some(last)) = (found, self.clauses.get_mut(end - 1)) {
                last.period = Some(found);
            }
        }
    }

    /// Reads the days and periods that the words name.
    #[cfg(feature = "index")]
    fn read_mentions(&mut self, now: Timestamp) {
        self.reference = day_of(now);
        let lower: Vec<String> = self.clauses.iter().map(Clause::plain_words).collect();
        let parts = lower.iter().enumerate();
        let parts = parts.flat_map(|(at, text)| {
            let words = lowercase_words(text).into_iter();
            words.map(move |word| (at, word))
        });
        let (clauses, words): (Vec<usize>, Vec<&str>) = parts.unzip();
        self.mentions = mentions(&words);
        for mention in &self.mentions {
            for at in clauses.get(mention.words.clone()).unwrap_or_default() {
                if let Some(clause) = self.clauses.get_mut(*at) {
                    clause.is_day = true;
                }
            }
        }
    }

    /// The days of the periods that the words name; a date without a year is of several.
    #[cfg(feature = "index")]
    pub(crate) fn days(&self) -> Vec<Days> {
        let mut days: Vec<Days> = Vec::new();
        for mention in &self.mentions {
            if let Some(reference) = self.reference {
                days.extend(mention.resolve(reference));
                days.extend(mention.in_earlier_years(reference));
            }
        }
        days.dedup();
        days
    }

    fn filter(&mut self, key: Key, value: &str, now: Timestamp) -> Result<(), String> {
        let filters = &mut self.filters;
        match key {
            Key::Role => role(value).map(|role| filters.roles.push(role)),
            Key::Agent if value.is_empty() => Err("an agent is named, as in agent:risks".into()),
            Key::Agent => {
                filters.agents.push(AgentId::from(value));
                Ok(())
            }
            Key::Since => instant(value, now, Bound::Since).map(|at| filters.since = Some(at)),
            Key::Until => instant(value, now, Bound::Until).map(|at| filters.until = Some(at)),
            Key::Session if value.is_empty() => Err("a session is named by its id".into()),
            Key::Session => {
                self.session = Some(value.to_owned());
                Ok(())
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Role,
    Agent,
    Since,
    Until,
    Session,
}

impl Key {
    /// As people write them: some have the names that other programs give them, too.
    const NAMES: [(&'static str, Key); 8] = [
        ("role", Key::Role),
        ("agent", Key::Agent),
        ("author", Key::Agent),
        ("since", Key::Since),
        ("after", Key::Since),
        ("until", Key::Until),
        ("before", Key::Until),
        ("session", Key::Session),
    ];

    fn from_name(name: &str) -> Option<Key> {
        let mut names = Key::NAMES.into_iter();
        names.find_map(|(own, key)| own.eq_ignore_ascii_case(name).then_some(key))
    }
}

/// A word without `'s` at its end: a question about Tom's address is about Tom.
fn without_possessive(text: &str) -> &str {
    let word = text.trim_end_matches(|c: char| !c.is_alphanumeric());
    let owner = ["'s", "’s"].iter().find_map(|end| word.strip_suffix(end));
    owner.unwrap_or(text)
}

/// The first token of a text, whether it is quoted, and the rest. An open quote ends with the text.
fn piece(text: &str) -> (&str, bool, &str) {
    match text.strip_prefix('"') {
        Some(quoted) => {
            let (inner, rest) = quoted.split_once('"').unwrap_or((quoted, ""));
            (inner, true, rest)
        }
        None => {
            let end = text
                .find(|c: char| c.is_whitespace() || c == '"')
                .unwrap_or(text.len());
            (&text[..end], false, &text[end..])
        }
    }
}

/// Parses a role.
///
/// # Errors
/// The name is unknown; the error lists the roles.
pub fn role(name: &str) -> Result<Role, String> {
    let known = Role::from_name(&name.to_lowercase());
    known.ok_or_else(|| "a role is system, user, assistant or tool".to_owned())
}

/// Removes common words that are not required, if other words are searched for.
#[cfg(feature = "index")]
pub(crate) fn drop_common(clauses: &mut Vec<Clause>) {
    let is_sought = |clause: &Clause| clause.need != Occurrence::Excluded;
    let common = |clause: &Clause| {
        let word = clause.text.trim_matches(|c: char| !c.is_alphanumeric());
        let single = clause.need == Occurrence::Wanted && clause.stems.len() == 1;
        single && clause.period.is_none() && crate::words::is_common(&word.to_lowercase())
    };
    if clauses
        .iter()
        .any(|clause| is_sought(clause) && !common(clause))
    {
        clauses.retain(|clause| !common(clause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_772_445_600_000); // 2026-03-02T10:00:00Z

    fn parse(text: &str) -> Query {
        Query::parse(text, NOW).unwrap()
    }

    fn clauses(text: &str) -> Vec<(String, Occurrence)> {
        let clauses = parse(text).clauses.into_iter();
        clauses.map(|clause| (clause.text, clause.need)).collect()
    }

    #[test]
    #[cfg(feature = "index")]
    fn common_words_are_searched_for_only_if_there_are_no_others() {
        let searched = |text: &str| -> Vec<String> {
            let clauses = parse(text).merged().clauses.into_iter();
            clauses.map(|clause| clause.text).collect()
        };
        assert_eq!(searched("what is the capital"), ["capital"]);
        assert_eq!(searched("+the capital"), ["the", "capital"]);
        assert_eq!(searched("what is -capital"), ["what", "is", "capital"]);
        assert_eq!(searched("to be or not"), ["to", "be", "or", "not"]);
    }

    #[test]
    #[cfg(feature = "index")]
    fn a_date_without_a_year_is_of_several() {
        let years = |text: &str| -> Vec<i16> {
            let days = parse(text).days().into_iter();
            days.map(|days| days.first.year()).collect()
        };
        let of_several = [2025, 2026, 2024, 2023, 2022, 2021, 2020, 2019, 2018, 2017];
        assert_eq!(years("3 May"), of_several);
        assert_eq!(years("3 May 2024"), [2024]);
        assert_eq!(years("the boat yesterday"), [2026]);
    }

    #[test]
    fn words_phrases_and_signs() {
        use Occurrence::{Excluded, Required, Wanted};
        let of = |list: &[(&str, Occurrence)]| -> Vec<(String, Occurrence)> {
            list.iter().map(|(t, n)| ((*t).to_owned(), *n)).collect()
        };
        for (text, expected) in [
            (
                "kestrel  plan",
                of(&[("kestrel", Wanted), ("plan", Wanted)]),
            ),
            ("\"rate limit\"", of(&[("rate limit", Required)])),
            (
                "a -\"b c\" +d",
                of(&[("a", Wanted), ("b c", Excluded), ("d", Required)]),
            ),
            ("\"never closed", of(&[("never closed", Required)])),
            ("x\"y z\"", of(&[("x", Wanted), ("y z", Required)])),
            ("--json - +", of(&[("--json", Wanted)])),
            ("http://a.b/c", of(&[("http://a.b/c", Wanted)])),
            ("std::fmt", of(&[("std::fmt", Wanted)])),
            (
                "(a AND b",
                of(&[("(a", Wanted), ("AND", Wanted), ("b", Wanted)]),
            ),
            ("", of(&[])),
        ] {
            assert_eq!(clauses(text), expected, "{text}");
        }
    }

    #[cfg(feature = "index")]
    #[test]
    fn equal_clauses_are_asked_for_once() {
        let merged = |text: &str| -> Vec<String> {
            let clauses = parse(text).merged().clauses.into_iter();
            clauses.map(|clause| clause.text).collect()
        };
        assert_eq!(merged(&"orders ".repeat(MAX_TERMS)), ["orders"]);
        assert_eq!(merged("orders Order +orders -orders"), ["orders"; 3]);
        assert_eq!(merged("\"a b\" \"b a\" \"a b\""), ["a b", "b a"]);
        assert_eq!(merged("\"a a\""), ["a a"], "a phrase stays as it is");
    }

    #[test]
    fn filters() {
        let query = parse(
            "plan role:user Role:TOOL agent:risks since:2026-03-01 until:2026-03-01 session:0192",
        );
        assert_eq!(query.filters.roles, [Role::User, Role::Tool]);
        assert_eq!(query.filters.agents, [AgentId::from("risks")]);
        let day = 86_400_000;
        assert_eq!(query.filters.since, Some(Timestamp(NOW.0 - 34 * 3_600_000)));
        assert_eq!(
            query.filters.until,
            query.filters.since.map(|at| at.plus_ms(day))
        );
        assert_eq!(query.session.as_deref(), Some("0192"));
        assert_eq!((query.clauses.len(), query.notes.len()), (1, 0));
        let ago = parse("since:7d until:\"90m\"").filters;
        assert_eq!(ago.since, Some(Timestamp(NOW.0 - 7 * day)));
        assert_eq!(ago.until, Some(Timestamp(NOW.0 - 90 * 60_000)));
        let exact = parse("since:2026-03-02T09:59:59.5Z").filters.since;
        assert_eq!(exact, Some(Timestamp(NOW.0 - 500)));
    }

    #[test]
    fn a_wrong_filter_is_explained_and_left_out() {
        for (text, says) in [
            ("role:bot", "role:bot is left out: a role is system, user"),
            (
                "since:yesterday",
                "since:yesterday is left out: a time is a date",
            ),
            ("until:2026-13-40", "until:2026-13-40 is left out"),
            ("since:99999999999999999999d", "is left out"),
            ("agent:", "agent: is left out"),
            ("???", "`???` has no letter or digit"),
        ] {
            let query = parse(text);
            assert!(query.is_empty(), "{text}");
            assert!(query.notes[0].contains(says), "{:?}", query.notes);
        }
    }

    #[cfg(feature = "index")]
    #[test]
    fn a_query_is_bounded_in_bytes_and_in_terms() {
        let read = |text: &str| Query::parse(text, NOW).map(|query| query.terms());
        assert_eq!(
            read(&"x".repeat(MAX_BYTES)),
            Ok(0),
            "that is data, not a word"
        );
        assert_eq!(
            read(&"x".repeat(MAX_BYTES + 1)),
            Err(TooLarge::Bytes(MAX_BYTES + 1))
        );
        assert_eq!(read(&"ab ".repeat(MAX_TERMS)), Ok(MAX_TERMS));
        for (piece, terms) in [("ab ", 1), ("検索", 2), ("role:user ", 1), ("a_b ", 2)] {
            let text = piece.repeat(MAX_TERMS / terms + 1);
            let over = MAX_TERMS + terms;
            assert_eq!(read(&text), Err(TooLarge::Terms(over)), "{piece}");
        }
        let phrase = format!("\"{}\"", "ab ".repeat(MAX_TERMS + 1));
        assert_eq!(read(&phrase), Err(TooLarge::Terms(MAX_TERMS + 1)));
        let said = TooLarge::Bytes(1_000_000).to_string();
        assert!(
            said.contains("1000000 bytes, but the limit is 4096"),
            "{said}"
        );
    }

    proptest::proptest! {
        #[test]
        fn nothing_a_person_writes_is_too_much(text in "\\PC{0,40}|[-+\":a-z 0-9é検]{0,60}") {
            let query = parse(&text);
            proptest::prop_assert!(query.clauses.iter().all(|clause| !clause.stems.is_empty()));
        }
    }
}
