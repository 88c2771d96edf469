//! Days named by their distance: `yesterday`, `two days ago`, `last Friday`.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::cues::whole_words;
use super::days::day_name;

/// The meaning of a phrase relative to the date of its message.
#[derive(Clone, Copy)]
enum Distance {
    Days(i64),
    Before(Weekday),
    After(Weekday),
    Months(i64),
    Years(i64),
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];
const NUMBERS: [&str; 9] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
];
/// The largest number of days in digits.
const MOST_DAYS: i64 = 99;
const WORDS: [(&str, Distance); 15] = [
    ("yesterday", Distance::Days(-1)),
    ("last night", Distance::Days(-1)),
    ("the day before yesterday", Distance::Days(-2)),
    ("day before yesterday", Distance::Days(-2)),
    ("tomorrow", Distance::Days(1)),
    ("the day after tomorrow", Distance::Days(2)),
    ("day after tomorrow", Distance::Days(2)),
    ("last weekend", Distance::Before(Weekday::Saturday)),
    ("last month", Distance::Months(-1)),
    ("next month", Distance::Months(1)),
    ("last year", Distance::Years(-1)),
    ("next year", Distance::Years(1)),
    ("a week ago", Distance::Days(-7)),
    ("gestern", Distance::Days(-1)),
    ("vorgestern", Distance::Days(-2)),
];

struct Phrases {
    matcher: AhoCorasick,
    meanings: Vec<Distance>,
}

fn phrases() -> Option<&'static Phrases> {
    static PHRASES: OnceLock<Option<Phrases>> = OnceLock::new();
    let build = || {
        let mut all: Vec<(String, Distance)> = Vec::new();
        all.extend(WORDS.map(|(text, distance)| (text.to_owned(), distance)));
        for (name, weekday) in WEEKDAYS {
            all.push((format!("last {name}"), Distance::Before(weekday)));
            all.push((format!("next {name}"), Distance::After(weekday)));
        }
        for (number, days) in NUMBERS.iter().zip(2..) {
            all.push((format!("{number} days ago"), Distance::Days(-days)));
            all.push((format!("{number} weeks ago"), Distance::Days(-7 * days)));
        }
        for days in 2..=MOST_DAYS {
            all.push((format!("{days} days ago"), Distance::Days(-days)));
        }
        let matcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(all.iter().map(|(text, _)| text))
            .ok()?;
        Some(Phrases {
            matcher,
            meanings: all.into_iter().map(|(_, distance)| distance).collect(),
        })
    };
    PHRASES.get_or_init(build).as_ref()
}

impl Distance {
    /// Whether people mean different days by it: next Friday, said before the Friday of the same week.
    fn is_ambiguous(self, from: Date) -> bool {
        match self {
            Distance::After(weekday) => {
                from.weekday().to_monday_zero_offset() < weekday.to_monday_zero_offset()
            }
            _ => false,
        }
    }

    fn resolve(self, from: Date) -> Option<String> {
        let day = match self {
            Distance::Days(days) => from.checked_add(days.days()).ok()?,
            Distance::Before(weekday) => from.nth_weekday(-1, weekday).ok()?,
            Distance::After(weekday) => from.nth_weekday(1, weekday).ok()?,
            Distance::Months(months) => {
                let month = from.first_of_month().checked_add(months.months()).ok()?;
                return Some(month.strftime("%B %Y").to_string());
            }
            Distance::Years(years) => {
                return Some(from.checked_add(years.years()).ok()?.year().to_string());
            }
        };
        Some(day_name(day))
    }
}

/// The text with the day in brackets after each phrase that names one by its distance from `date`,
/// the date of the message. `None` if there is no such phrase.
pub(super) fn resolved(text: &str, date: Date) -> Option<String> {
    let phrases = phrases()?;
    let mut out = String::new();
    let mut from = 0;
    for found in phrases.matcher.find_iter(text) {
        let follows = text.get(found.end()..).unwrap_or_default();
        let before = &text[..found.start()];
        if !whole_words(text, found.start(), found.end())
            || is_part_of_another(before, &text[found.range()], follows)
        {
            continue;
        }
        let possessive = ["'s", "’s"].iter().find(|end| follows.starts_with(**end));
        let end = found.end() + possessive.map_or(0, |end| end.len());
        let distance = phrases.meanings[found.pattern().as_usize()];
        if distance.is_ambiguous(date) {
            continue;
        }
        if let Some(day) = distance.resolve(date) {
            out.push_str(&text[from..end]);
            out.push_str(" (");
            out.push_str(&day);
            out.push(')');
            from = end;
        }
    }
    (from > 0).then(|| out + &text[from..])
}

/// Words before a number of days or weeks that are part of it.
const NUMERALS: [&str; 13] = [
    "and", "or", "to", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
    "ninety", "hundred", "half",
];

/// Whether a phrase is part of one that means another day, such as `twenty-two days ago`, `a week
/// from tomorrow`, `the last Friday of June` and `the last Tuesday before Easter`, or is resolved
/// already.
fn is_part_of_another(before: &str, phrase: &str, follows: &str) -> bool {
    let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric());
    let last = last.into_iter().next().unwrap_or_default();
    let is_ago = phrase
        .get(phrase.len() - 3..)
        .is_some_and(|end| end.eq_ignore_ascii_case("ago"));
    let counts = |word: &&str| last.eq_ignore_ascii_case(word);
    let is_counted = is_ago && (last.parse::<u64>().is_ok() || NUMERALS.iter().any(counts));
    let is_named_by_an_event = phrase
        .get(..5)
        .is_some_and(|start| ["last ", "next "].contains(&start.to_lowercase().as_str()))
        && (last.eq_ignore_ascii_case("the") || follows.starts_with(" before "));
    before.ends_with(['-', '–', '/'])
        || is_named_by_an_event
        || is_counted
        || last.eq_ignore_ascii_case("from")
        || follows.starts_with(" (")
        || follows.starts_with(" of ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_days_are_resolved_in_brackets() {
        let monday = jiff::civil::date(2023, 5, 8);
        let rows = [
            ("I went yesterday.", "I went yesterday (7 May 2023)."),
            (
                "Two days ago it rained",
                "Two days ago (6 May 2023) it rained",
            ),
            ("see you last Friday", "see you last Friday (5 May 2023)"),
            ("next month we move", "next month (June 2023) we move"),
            (
                "the day before yesterday",
                "the day before yesterday (6 May 2023)",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(resolved(text, monday).as_deref(), Some(expected));
        }
        let rows = [
            ("10 days ago", "10 days ago (28 April 2023)"),
            ("next Monday", "next Monday (15 May 2023)"),
            ("Gestern war Oma da", "Gestern (7 May 2023) war Oma da"),
            (
                "the day after tomorrow",
                "the day after tomorrow (10 May 2023)",
            ),
            (
                "Yesterday's concert, and yesterday I slept",
                "Yesterday's (7 May 2023) concert, and yesterday (7 May 2023) I slept",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(resolved(text, monday).as_deref(), Some(expected));
        }
        for same in [
            "yesterdays",
            "yesterday (7 May 2023)",
            "",
            "twenty-two days ago",
            "one year and two days ago",
            "the last Friday of June",
            "It's the last Tuesday before the freeze",
            "the last Friday was quiet",
            "last Saturday before the festival",
            "next Friday",
            "a week from tomorrow",
            "pre-yesterday",
        ] {
            assert_eq!(resolved(same, monday), None, "{same}");
        }
    }
}
