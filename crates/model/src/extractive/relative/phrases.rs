//! The phrases of each language, with the distance that they name.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use jiff::civil::Weekday::{self, Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};

use super::Distance;

/// The largest number of days in digits.
const MOST_DAYS: i64 = 99;

/// The phrases of a language.
struct Language {
    weekdays: [(&'static str, Weekday); 7],
    /// The words before a weekday that name the one before the date, of its week, and after it.
    last: &'static str,
    this: &'static str,
    next: &'static str,
    /// The numbers from two to ten.
    numbers: [&'static str; 9],
    /// Phrases of so many days and weeks, with `{}` for the number.
    days_ago: &'static str,
    weeks_ago: &'static str,
    others: &'static [(&'static str, Distance)],
}

const ENGLISH: Language = Language {
    weekdays: [
        ("monday", Monday),
        ("tuesday", Tuesday),
        ("wednesday", Wednesday),
        ("thursday", Thursday),
        ("friday", Friday),
        ("saturday", Saturday),
        ("sunday", Sunday),
    ],
    last: "last",
    this: "this",
    next: "next",
    numbers: [
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ],
    days_ago: "{} days ago",
    weeks_ago: "{} weeks ago",
    others: &[
        ("yesterday", Distance::Days(-1)),
        ("last night", Distance::Days(-1)),
        ("the day before yesterday", Distance::Days(-2)),
        ("day before yesterday", Distance::Days(-2)),
        ("tomorrow", Distance::Days(1)),
        ("the day after tomorrow", Distance::Days(2)),
        ("day after tomorrow", Distance::Days(2)),
        ("a week ago", Distance::Days(-7)),
        ("last weekend", Distance::WeekendBefore),
        ("last month", Distance::Months(-1)),
        ("next month", Distance::Months(1)),
        ("last year", Distance::Years(-1)),
        ("next year", Distance::Years(1)),
    ],
};

const GERMAN: Language = Language {
    weekdays: [
        ("montag", Monday),
        ("dienstag", Tuesday),
        ("mittwoch", Wednesday),
        ("donnerstag", Thursday),
        ("freitag", Friday),
        ("samstag", Saturday),
        ("sonntag", Sunday),
    ],
    last: "letzten",
    this: "diesen",
    next: "nächsten",
    numbers: [
        "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn",
    ],
    days_ago: "vor {} tagen",
    weeks_ago: "vor {} wochen",
    others: &[
        ("gestern", Distance::Days(-1)),
        ("letzte nacht", Distance::Days(-1)),
        ("vorgestern", Distance::Days(-2)),
        ("morgen", Distance::Days(1)),
        ("übermorgen", Distance::Days(2)),
        // The search ignores the case of ASCII letters only.
        ("Übermorgen", Distance::Days(2)),
        ("vor einer woche", Distance::Days(-7)),
        ("letztes wochenende", Distance::WeekendBefore),
        ("letzten monat", Distance::Months(-1)),
        ("nächsten monat", Distance::Months(1)),
        ("letztes jahr", Distance::Years(-1)),
        ("nächstes jahr", Distance::Years(1)),
    ],
};

impl Language {
    fn phrases(&self) -> Vec<(String, Distance)> {
        let others = self.others.iter();
        let mut all: Vec<_> = others
            .map(|(text, distance)| ((*text).to_owned(), *distance))
            .collect();
        for (name, weekday) in self.weekdays {
            all.push((format!("{} {name}", self.last), Distance::Before(weekday)));
            all.push((format!("{} {name}", self.this), Distance::This(weekday)));
            all.push((format!("{} {name}", self.next), Distance::After(weekday)));
        }
        let ago = |phrase: &str, number: &str| phrase.replace("{}", number);
        for (number, n) in self.numbers.iter().zip(2..) {
            all.push((ago(self.days_ago, number), Distance::Days(-n)));
            all.push((ago(self.weeks_ago, number), Distance::Days(-7 * n)));
        }
        for n in 2..=MOST_DAYS {
            all.push((ago(self.days_ago, &n.to_string()), Distance::Days(-n)));
        }
        all
    }
}

/// All phrases, found in one pass.
pub(super) struct Phrases {
    pub(super) matcher: AhoCorasick,
    /// The meaning of each pattern.
    pub(super) meanings: Vec<Distance>,
}

pub(super) fn phrases() -> Option<&'static Phrases> {
    static PHRASES: OnceLock<Option<Phrases>> = OnceLock::new();
    let build = || {
        let (texts, meanings): (Vec<String>, Vec<Distance>) =
            [ENGLISH, GERMAN].iter().flat_map(Language::phrases).unzip();
        let matcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(texts)
            .ok()?;
        Some(Phrases { matcher, meanings })
    };
    PHRASES.get_or_init(build).as_ref()
}
