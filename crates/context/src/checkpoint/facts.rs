//! Key facts, which are copied verbatim from checkpoint to checkpoint.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::ids::Ordinal;
use crate::tokens::Tokens;

/// Maximum facts of a checkpoint.
pub const FACTS_MAX: usize = 50;
/// Maximum tokens of all its facts.
pub const FACT_TOKENS_MAX: Tokens = Tokens(1_000);

/// Two facts are about one subject if the shorter one shares this part of its words with the other
/// one …
const SAME_SUBJECT_PERCENT: usize = 80;
/// … or this part, if the newer one states a change.
const CHANGED_SUBJECT_PERCENT: usize = 60;
/// With fewer common words, the subjects are not compared.
const SUBJECT_WORDS_MIN: usize = 3;
/// Shorter words are mostly grammar.
const WORD_CHARS_MIN: usize = 4;
/// More words before a colon are not the name of a speaker.
const NAME_WORDS_MAX: usize = 3;
/// Words before a colon that announce a statement.
const ANNOUNCEMENTS: [&str; 11] = [
    "achtung",
    "edit",
    "fyi",
    "hinweis",
    "important",
    "nachtrag",
    "new",
    "note",
    "reminder",
    "update",
    "wichtig",
];
/// Words with which a statement replaces an earlier one.
const CHANGES: [&str; 14] = [
    "actually",
    "anymore",
    "becomes",
    "changed",
    "correction",
    "instead",
    "korrektur",
    "moved",
    "postponed",
    "replaced",
    "replaces",
    "reversed",
    "supersedes",
    "updated",
];
/// Phrases that do the same.
const CHANGE_PHRASES: [&str; 6] = [
    "no longer",
    "scratch that",
    "that's wrong",
    "that’s wrong",
    "that is wrong",
    "i was wrong",
];

/// A fact that is copied verbatim from checkpoint to checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyFact {
    /// The fact, quoted.
    pub text: Arc<str>,
    /// The quoted message.
    pub ordinal: Ordinal,
}

/// Its line in the context: `- the fact (#12)`.
impl fmt::Display for KeyFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "- {} ({})", self.text, self.ordinal)
    }
}

impl KeyFact {
    /// The facts of a new checkpoint: the earlier and the new ones, by position. Of two facts with
    /// the same statement, or with different values for one subject, the newer stays, unless two
    /// people said them; a fact that is part of a newer one is dropped. If they are too many, or have
    /// more tokens by `count` than [`FACT_TOKENS_MAX`], the newest stay.
    pub fn carried(
        old: &[KeyFact],
        new: &[KeyFact],
        count: impl Fn(&str) -> Tokens,
    ) -> Vec<KeyFact> {
        Self::carried_within(old, new, FACT_TOKENS_MAX, count)
    }

    /// [`KeyFact::carried`] with less room: the lines of all facts in the context have at most
    /// `room` tokens.
    pub fn carried_within(
        old: &[KeyFact],
        new: &[KeyFact],
        room: Tokens,
        count: impl Fn(&str) -> Tokens,
    ) -> Vec<KeyFact> {
        let room = room.min(FACT_TOKENS_MAX);
        let mut facts: Vec<&KeyFact> = old.iter().chain(new).collect();
        facts.sort_by_key(|fact| fact.ordinal);
        let mut seen: Vec<Statement> = Vec::new();
        let mut kept: Vec<&KeyFact> = Vec::new();
        let mut tokens = Tokens::ZERO;
        for fact in facts.into_iter().rev() {
            let statement = Statement::from_fact(fact);
            let said = statement.plain.is_empty() || seen.iter().any(|s| s.replaces(&statement));
            if said {
                continue;
            }
            seen.push(statement);
            let with_it = tokens + count(&format!("{fact}\n"));
            if kept.len() < FACTS_MAX && with_it <= room {
                tokens = with_it;
                kept.push(fact);
            }
        }
        kept.into_iter().rev().cloned().collect()
    }
}

/// A fact in a form for comparison.
struct Statement {
    ordinal: Ordinal,
    /// Hashes of the words of its speaker's name, `Marta: We meet on Friday.`; empty if it has none.
    speaker: Vec<u64>,
    /// Lower case, single spaces, no full stop, framed by spaces, so that only whole words are
    /// found in a longer one.
    plain: String,
    /// Hashes of its longer words without digits, sorted.
    subject: Vec<u64>,
    /// Hashes of its words with digits, sorted.
    values: Vec<u64>,
    /// Whether it states a change.
    changes: bool,
}

impl Statement {
    fn from_fact(fact: &KeyFact) -> Statement {
        let lower = without_day(&fact.text).to_lowercase();
        let trimmed = lower.trim_end_matches(['.', ' ', '\n']);
        let spaced: Vec<&str> = trimmed.split_whitespace().collect();
        let plain = match &spaced[..] {
            [] => String::new(),
            words => format!(" {} ", words.join(" ")),
        };
        let mut changes = has_change_phrase(&plain);
        let (mut subject, mut values) = (Vec::new(), Vec::new());
        for word in spaced {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            if word.bytes().any(|byte| byte.is_ascii_digit()) {
                values.push(hash(word));
            } else if CHANGES.contains(&word) {
                changes = true;
            } else if word.chars().nth(WORD_CHARS_MIN - 1).is_some() {
                subject.push(hash(word));
            }
        }
        for words in [&mut subject, &mut values] {
            words.sort_unstable();
            words.dedup();
        }
        Statement {
            ordinal: fact.ordinal,
            speaker: speaker(&lower),
            plain,
            subject,
            values,
            changes,
        }
    }

    /// Whether this newer statement makes an older one superfluous.
    fn replaces(&self, old: &Statement) -> bool {
        let known = |word: &&u64| self.subject.binary_search(word).is_ok();
        let shared = old.subject.iter().filter(known).count();
        let may_contain = shared == old.subject.len() && self.plain.len() >= old.plain.len();
        if may_contain && self.plain.contains(&old.plain) {
            return true;
        }
        // Statements of one message complete each other, and each person speaks of other things.
        if self.ordinal == old.ordinal || self.is_of_another(old) {
            return false;
        }
        if shared < SUBJECT_WORDS_MIN {
            return false;
        }
        let at_least = |percent: usize, of: usize| shared * 100 >= of * percent;
        if self.values == old.values {
            return at_least(SAME_SUBJECT_PERCENT, old.subject.len());
        }
        let needed = if self.changes {
            CHANGED_SUBJECT_PERCENT
        } else {
            SAME_SUBJECT_PERCENT
        };
        let both_say_how_much = !self.values.is_empty() && !old.values.is_empty();
        both_say_how_much && at_least(needed, self.subject.len().min(old.subject.len()))
    }

    /// Whether another person said the old statement. Ben may be Ben Ott, but Anna Weber is not Anna
    /// Schmidt.
    fn is_of_another(&self, old: &Statement) -> bool {
        let (own, other) = (&self.speaker, &old.speaker);
        let is_part = |one: &[u64], whole: &[u64]| one.iter().all(|word| whole.contains(word));
        let is_named = !own.is_empty() && !other.is_empty();
        is_named && !is_part(own, other) && !is_part(other, own)
    }
}

/// Hashes of the words before the first colon of a text in small letters, if they may be a name.
fn speaker(lower: &str) -> Vec<u64> {
    let head = lower.split_once(": ").map_or("", |(head, _)| head);
    let words = head.split_whitespace();
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_no_name = |word: &&str| CHANGES.contains(word) || ANNOUNCEMENTS.contains(word);
    if words.len() > NAME_WORDS_MAX || has_change_phrase(head) || words.iter().any(is_no_name) {
        return Vec::new();
    }
    words.into_iter().map(hash).collect()
}

/// Whether a text in small letters has such a phrase, and not as a part of other words (`a piano longer than`).
fn has_change_phrase(lower: &str) -> bool {
    let is_whole = |(at, phrase): (usize, &str)| {
        let after = &lower[at + phrase.len()..];
        !lower[..at].ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    };
    let mut phrases = CHANGE_PHRASES.iter();
    phrases.any(|phrase| lower.match_indices(phrase).any(is_whole))
}

/// A text without the day of its message before it, `[4 March 2024] We meet on Friday.`: the same fact
/// of another day is the same.
fn without_day(text: &str) -> &str {
    let found = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    let is_digit = |c: char| c.is_ascii_digit();
    let is_day = |day: &str| {
        day.split(' ').count() == 3 && day.starts_with(is_digit) && day.ends_with(is_digit)
    };
    match found {
        Some((day, text)) if is_day(day) => text,
        _ => text,
    }
}

/// The hash is equal in every run: the standard hasher with fixed keys.
fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(text: &str, ordinal: u32) -> KeyFact {
        KeyFact {
            text: text.into(),
            ordinal: Ordinal(ordinal),
        }
    }

    fn carried(old: &[KeyFact], new: &[KeyFact]) -> Vec<(String, u32)> {
        let bytes = |text: &str| Tokens(text.len() as u64);
        let facts = KeyFact::carried(old, new, bytes);
        facts
            .iter()
            .map(|f| (f.text.to_string(), f.ordinal.0))
            .collect()
    }

    #[test]
    fn a_repeated_fact_is_carried_once_from_its_newest_place() {
        let old = [fact("The port is 8080.", 3), fact("Use Rust", 4)];
        let new = [fact("the port  is 8080", 9), fact("", 10)];
        let expected = [("Use Rust".into(), 4), ("the port  is 8080".into(), 9)];
        assert_eq!(carried(&old, &new), expected);
    }

    #[test]
    fn the_day_of_a_fact_is_not_part_of_its_statement() {
        let old = [
            fact("[4 March 2024] We meet on Friday.", 3),
            fact("[1] Call me", 4),
        ];
        let new = [
            fact("[11 March 2024] We meet on Friday.", 9),
            fact("[2] Call me", 10),
        ];
        let places: Vec<u32> = carried(&old, &new).iter().map(|f| f.1).collect();
        assert_eq!(places, [4, 9, 10]);
    }

    #[test]
    fn a_fact_that_a_newer_one_contains_is_dropped() {
        let old = [fact("use rust", 1), fact("use rus", 2)];
        let new = [fact("We use Rust, not Go: use Rust for all", 5)];
        let expected = [
            ("use rus".into(), 2),
            ("We use Rust, not Go: use Rust for all".into(), 5),
        ];
        assert_eq!(carried(&old, &new), expected);
    }

    #[test]
    fn a_newer_value_replaces_the_old_one() {
        let old = [
            fact("The budget is 2,400 EUR and must not be exceeded", 3),
            fact("Checkout may be unavailable for 6 minutes", 4),
            fact("Cutover is on Tuesday 17 March", 5),
        ];
        let new = [
            fact("The budget is 2,900 EUR now and must not be exceeded.", 9),
            fact("Refunds may be unavailable for 2 hours", 10),
            fact("Correction: cutover moved to Tuesday 24 March", 11),
        ];
        let places: Vec<u32> = carried(&old, &new).iter().map(|f| f.1).collect();
        assert_eq!(places, [4, 9, 10, 11]);
    }

    #[test]
    fn a_newer_fact_that_says_it_corrects_needs_fewer_of_the_words() {
        let old = [fact(
            "Ana: The train to the airport must leave before 9:30",
            3,
        )];
        let places = |begin: &str| -> Vec<u32> {
            let text = format!("{begin} the train must leave at 11:15 from Ghent");
            let carried = carried(&old, &[fact(&text, 9)]);
            carried.iter().map(|f| f.1).collect()
        };
        let begins = [
            "Scratch that,",
            "Scratch that:",
            "Sorry, that's wrong,",
            "Korrektur:",
        ];
        for begin in begins {
            assert_eq!(places(begin), [9], "{begin}");
        }
        let others = [
            "On Friday",
            "From scratch,",
            "If the gate is wrong,",
            "For a piano longer",
        ];
        for begin in others {
            assert_eq!(places(begin), [3, 9], "{begin}");
        }
    }

    #[test]
    fn what_one_person_says_replaces_nothing_of_another() {
        let old = [
            fact("Ana: I must never eat peanuts or cashews.", 1),
            fact("Ben Ott: The train must leave Ghent before 9:30.", 2),
            fact("Limit: an export must have at most 500 rows.", 3),
            fact("Anna Schmidt: My room must have a window to the garden.", 4),
        ];
        let new = [
            fact("Ben: I must never eat peanuts or cashews.", 7),
            fact("Ben Ott: The train must leave Ghent before 11:15.", 8),
            fact("Update: an export must have at most 800 rows.", 9),
            fact("Anna Weber: My room must have a window to the garden.", 10),
        ];
        let places: Vec<u32> = carried(&old, &new).iter().map(|f| f.1).collect();
        assert_eq!(places, [1, 4, 7, 8, 9, 10]);
    }

    #[test]
    fn less_room_leaves_the_newest() {
        let facts = [fact("one", 1), fact("two", 2), fact("three", 3)];
        let bytes = |text: &str| Tokens(text.len() as u64);
        let within = |room| KeyFact::carried_within(&facts, &[], Tokens(room), bytes).len();
        assert_eq!(facts[2].to_string(), "- three (#3)");
        assert_eq!([0, 12, 13, 24, 35, 36].map(within), [0, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn the_newest_stay_where_they_are_too_many() {
        let many: Vec<KeyFact> = (1..=60).map(|n| fact(&format!("fact {n} !"), n)).collect();
        let kept = carried(&many, &[]);
        assert_eq!(kept.len(), FACTS_MAX);
        assert_eq!(kept[0].1, 11);
        let long: Vec<KeyFact> = (1..=9)
            .map(|n| fact(&n.to_string().repeat(300), n))
            .collect();
        let places: Vec<u32> = carried(&long, &[]).iter().map(|f| f.1).collect();
        assert_eq!(places, [7, 8, 9]);
    }
}
