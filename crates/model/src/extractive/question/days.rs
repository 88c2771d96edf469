//! Days and months that a question names: `15 February 2025`, `2025-02-15`, `im Juli 2024`.

use std::collections::HashSet;

use crate::date::{Date, utc_date};
use crate::extractive::pool::Pool;

/// The months in English and in German, with their short forms.
pub(in crate::extractive) const MONTHS: [&str; 12] = [
    "january januar jan",
    "february februar feb",
    "march märz mar",
    "april apr",
    "may mai",
    "june juni jun",
    "july juli jul",
    "august aug",
    "september sep sept",
    "october oktober oct okt",
    "november nov",
    "december dezember dec dez",
];
/// Words before a month that stands alone; without one, `may` and `march` are verbs.
const BEFORE_MONTHS: [&str; 7] = ["in", "im", "since", "seit", "of", "last", "until"];

/// A day or a month, of any year if the question has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedDay {
    year: Option<i16>,
    month: i8,
    day: Option<i8>,
}

impl NamedDay {
    fn has(self, date: Date) -> bool {
        self.month == date.month()
            && self.year.is_none_or(|year| year == date.year())
            && self.day.is_none_or(|day| day == date.day())
    }
}

/// The sources that were said on a day that a task names.
pub(super) fn sources_on_named_days(pool: &Pool<'_>, task: &str) -> HashSet<usize> {
    let named = named_days(task);
    if named.is_empty() {
        return HashSet::new();
    }
    let said = pool.units.iter().filter(|unit| {
        let date = unit.at.and_then(utc_date);
        date.is_some_and(|date| named.iter().any(|named| named.has(date)))
    });
    said.map(|unit| unit.source).collect()
}

fn named_days(task: &str) -> Vec<NamedDay> {
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let words: Vec<String> = task
        .split(|c: char| !is_part(c))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut named: Vec<NamedDay> = words.iter().filter_map(|word| iso_day(word)).collect();
    for (at, word) in words.iter().enumerate() {
        let is_word = |months: &str| months.split(' ').any(|month| month == word);
        let Some(month) = MONTHS.iter().position(|months| is_word(months)) else {
            continue;
        };
        let word = |at: Option<usize>| at.and_then(|at| words.get(at)).map(String::as_str);
        let before = word(at.checked_sub(1)).filter(|word| *word != "of");
        let before = before.or_else(|| word(at.checked_sub(2)));
        let (next, after_next) = (word(Some(at + 1)), word(Some(at + 2)));
        let day_after = next.and_then(day);
        let day = before.and_then(day).or(day_after);
        let year = match day_after {
            Some(_) => after_next,
            None => next,
        };
        let year = year.and_then(year_of);
        let introduced = word(at.checked_sub(1)).is_some_and(|word| BEFORE_MONTHS.contains(&word));
        if day.is_some() || year.is_some() || introduced {
            named.push(NamedDay {
                year,
                month: month as i8 + 1,
                day,
            });
        }
    }
    named
}

/// Parses `2025-02-15`; eight digits may be any number.
fn iso_day(word: &str) -> Option<NamedDay> {
    let date: Date = word.parse().ok().filter(|_| word.contains('-'))?;
    Some(NamedDay {
        year: Some(date.year()),
        month: date.month(),
        day: Some(date.day()),
    })
}

/// Parses `15`, `15th`.
fn day(word: &str) -> Option<i8> {
    let endings = ["st", "nd", "rd", "th"];
    let digits = endings.iter().find_map(|end| word.strip_suffix(end));
    let day = digits.unwrap_or(word).parse().ok()?;
    (1..=31).contains(&day).then_some(day)
}

fn year_of(word: &str) -> Option<i16> {
    let year = word.parse().ok()?;
    (1_900..=2_999).contains(&year).then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_of_a_question() {
        let of = |year, month, day| NamedDay { year, month, day };
        let rows = [
            (
                "What did Mara do on 15 February 2025?",
                vec![of(Some(2025), 2, Some(15))],
            ),
            (
                "And on February 15, 2025?",
                vec![of(Some(2025), 2, Some(15))],
            ),
            ("on the 3rd of May", vec![of(None, 5, Some(3))]),
            ("2025-02-15?", vec![of(Some(2025), 2, Some(15))]),
            ("Was geschah im Juli 2024?", vec![of(Some(2024), 7, None)]),
            ("Am 5. März?", vec![of(None, 3, Some(5))]),
            ("What happened in March?", vec![of(None, 3, None)]),
            ("Who may march?", vec![]),
            ("What costs 15 euros?", vec![]),
            ("Where is order 20250215?", vec![]),
        ];
        for (task, expected) in rows {
            assert_eq!(named_days(task), expected, "{task}");
        }
    }
}
