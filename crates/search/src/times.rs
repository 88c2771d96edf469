//! Instants and periods in queries.

use jiff::civil::Date;
use unisono_context::Timestamp;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The end of a time range that an instant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its beginning: a date means its first moment.
    Since,
    /// Its end: a date means its last moment.
    Until,
}

/// Parses an instant: `2026-03-02`, `2026-03-02T09:14:00Z`, or a period before now: `30m`, `12h`,
/// `7d`, `2w`. Dates are in UTC.
///
/// # Errors
/// The text has none of these forms.
pub fn instant(text: &str, now: Timestamp, bound: Bound) -> Result<Timestamp, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let minutes = match unit {
        "m" | "min" => Some(1),
        "h" => Some(60),
        "d" => Some(60 * 24),
        "w" => Some(60 * 24 * 7),
        _ => None,
    };
    if let (Ok(number), Some(minutes)) = (number.parse::<i64>(), minutes) {
        let ago = number.saturating_mul(minutes).saturating_mul(60_000);
        return Ok(now.plus_ms(ago.saturating_neg()));
    }
    if let Ok(date) = text.parse::<Date>()
        && text.len() <= "2026-03-02".len()
    {
        let start = first_moment(date);
        return Ok(match bound {
            Bound::Since => start,
            Bound::Until => start.plus_ms(DAY_MS),
        });
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(at) => Ok(Timestamp(at.as_millisecond())),
        Err(_) => Err(
            "a time is a date such as 2026-03-02, an instant such as 2026-03-02T09:14:00Z, or how long ago such as 12h or 7d"
                .to_owned(),
        ),
    }
}

/// A day or a month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// Its first moment.
    pub(crate) since: Timestamp,
    /// The first moment after it.
    pub(crate) until: Timestamp,
}

/// The period that a text names, if it names nothing else: `2026-03-02`, `2026-03`,
/// `2 March 2026`, `March 2, 2026`, `March 2026`.
pub(crate) fn period(text: &str) -> Option<Period> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .take(4)
        .collect();
    let (first, last) = match words[..] {
        [word] if is_numeric_form(word, &[4, 2, 2]) => {
            let day = word.parse().ok()?;
            (day, day)
        }
        [word] if is_numeric_form(word, &[4, 2]) => whole_month(format!("{word}-01").parse().ok()?),
        [name, year] => whole_month(Date::new(number(year, 4)?, month(name)?, 1).ok()?),
        [one, other, year] => {
            let (day, name) = match month(one) {
                Some(name) => (other, name),
                None => (one, month(other)?),
            };
            let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let day = number(day, 1).or_else(|| number(day, 2))?;
            let day = Date::new(number(year, 4)?, name, i8::try_from(day).ok()?).ok()?;
            (day, day)
        }
        _ => return None,
    };
    Some(Period {
        since: first_moment(first),
        until: first_moment(last).plus_ms(DAY_MS),
    })
}

/// The first moment of a day in UTC, also of 9999-12-31, which has no `jiff::Timestamp`.
fn first_moment(day: Date) -> Timestamp {
    let hours = day.duration_since(Date::constant(1970, 1, 1)).as_hours();
    Timestamp(hours.div_euclid(24) * DAY_MS)
}

/// Whether a word consists of numbers with so many digits, with hyphens between them.
fn is_numeric_form(word: &str, digits: &[usize]) -> bool {
    let numbers = word.split('-');
    let lengths = numbers.map(|number| match number.bytes().all(|c| c.is_ascii_digit()) {
        true => number.len(),
        false => 0,
    });
    lengths.eq(digits.iter().copied())
}

fn number(word: &str, digits: usize) -> Option<i16> {
    let is_number = word.len() == digits && word.bytes().all(|c| c.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

/// The first and the last day of a month.
fn whole_month(first: Date) -> (Date, Date) {
    (first, first.last_of_month())
}

/// The month with an English name, or with its first three letters.
fn month(name: &str) -> Option<i8> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let name = name.to_lowercase();
    let is_it = |known: &str| known == name || (name.len() == 3 && known.starts_with(&name));
    let at = NAMES.iter().position(|known| is_it(known))?;
    i8::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_bounds() {
        for (text, first) in [
            ("1969-12-31", -DAY_MS),
            ("1970-01-01", 0),
            ("2026-03-02", 1_772_409_600_000),
            ("9999-12-31", 253_402_214_400_000),
        ] {
            let read = |bound| instant(text, Timestamp(5), bound).map(|at| at.0);
            assert_eq!(read(Bound::Since), Ok(first), "{text}");
            assert_eq!(read(Bound::Until), Ok(first + DAY_MS), "{text}");
        }
    }

    #[test]
    fn days_and_months_are_periods() {
        let of = |since: &str, until: &str| {
            let at = |day: &str| instant(day, Timestamp(0), Bound::Since).unwrap();
            Some(Period {
                since: at(since),
                until: at(until),
            })
        };
        for text in [
            "2025-03-11",
            "(2025-03-11).",
            "11 March 2025",
            "march 11, 2025",
            "11th Mar 2025",
        ] {
            assert_eq!(period(text), of("2025-03-11", "2025-03-12"), "{text}");
        }
        for text in ["2025-12", "December 2025", "Dec, 2025"] {
            assert_eq!(period(text), of("2025-12-01", "2026-01-01"), "{text}");
        }
        for text in [
            "",
            "2025",
            "March",
            "11 March",
            "2025-3-1",
            "2025-13",
            "2025-02-30",
            "31 April 2025",
            "20250311",
            "March 25",
            "Ma 2025",
            "on 11 March 2025",
            "1234-56-78-90",
            "a-b-c",
        ] {
            assert_eq!(period(text), None, "{text}");
        }
    }
}
