//! Words of dates.

use jiff::civil::{Date, Weekday};

/// The months in English and in German, with their short forms.
const MONTHS: [&[&str]; 12] = [
    &["january", "januar", "jänner", "jan"],
    &["february", "februar", "feber", "feb"],
    &["march", "märz", "maerz", "mar", "mär"],
    &["april", "apr"],
    &["may", "mai"],
    &["june", "juni", "jun"],
    &["july", "juli", "jul"],
    &["august", "aug"],
    &["september", "sept", "sep"],
    &["october", "oktober", "oct", "okt"],
    &["november", "nov"],
    &["december", "dezember", "dec", "dez"],
];

/// The words of a text in lower case, with `.` after a word that ends a sentence and `-` between the
/// parts of a range.
pub(crate) fn lowercase_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for raw in text.split_whitespace() {
        let word = raw.trim_matches(|c: char| !c.is_alphanumeric());
        if word.is_empty() {
            if raw.starts_with(['-', '–', '—']) {
                words.push("-");
            }
            continue;
        }
        push_parts(&mut words, word, raw);
        let is_alphabetic = word.chars().all(char::is_alphabetic);
        if is_alphabetic && raw.ends_with(['.', '!', '?']) && !is_short_month(word) {
            words.push(".");
        }
    }
    words
}

fn push_parts<'t>(words: &mut Vec<&'t str>, word: &'t str, raw: &'t str) {
    let word = ["'s", "’s"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word);
    match word.split_once(['-', '–', '—']) {
        Some((first, last)) if date(word).is_none() && month_and_year(word).is_none() => {
            let parts = [first, "-", last].map(|part| match part {
                "-" => part,
                _ => part.trim_matches(|c: char| !c.is_alphanumeric()),
            });
            words.extend(parts);
        }
        // The full stop after a German day without a year: `3.5.`
        _ if word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') => {
            let start = raw.find(word).unwrap_or(0);
            let end = start + word.len();
            let end = end + usize::from(raw[end..].starts_with('.'));
            words.push(raw.get(start..end).unwrap_or(word));
        }
        _ => words.push(word),
    }
}

fn is_short_month(word: &str) -> bool {
    month(word).is_some()
        && word.chars().count() <= 4
        && !matches!(
            word,
            "may" | "mai" | "june" | "juni" | "july" | "juli" | "märz"
        )
}

pub(super) fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|names| names.contains(&word))?;
    i8::try_from(at + 1).ok()
}

pub(super) fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "montag" => Weekday::Monday,
        "tuesday" | "dienstag" => Weekday::Tuesday,
        "wednesday" | "mittwoch" => Weekday::Wednesday,
        "thursday" | "donnerstag" => Weekday::Thursday,
        "friday" | "freitag" => Weekday::Friday,
        "saturday" | "samstag" | "sonnabend" => Weekday::Saturday,
        "sunday" | "sonntag" => Weekday::Sunday,
        _ => return None,
    })
}

/// The day of a month: `3`, `3rd`.
pub(super) fn day(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if !matches!(&word[digits.len()..], "" | "st" | "nd" | "rd" | "th") || digits.len() > 2 {
        return None;
    }
    let day = digits.parse().ok()?;
    (1..=31).contains(&day).then_some(day)
}

/// A year of four digits.
pub(super) fn year(word: &str) -> Option<i16> {
    let year = word.parse().ok().filter(|_| word.len() == 4)?;
    (1_900..=2_999).contains(&year).then_some(year)
}

/// A number of days or weeks.
pub(super) fn count(word: &str) -> Option<i64> {
    let words: [&[&str]; 10] = [
        &["a", "one", "einem", "einer"],
        &["two", "zwei"],
        &["three", "drei"],
        &["four", "vier"],
        &["five", "fünf"],
        &["six", "sechs"],
        &["seven", "sieben"],
        &["eight", "acht"],
        &["nine", "neun"],
        &["ten", "zehn"],
    ];
    if let Some(at) = words.iter().position(|words| words.contains(&word)) {
        return i64::try_from(at + 1).ok();
    }
    let is_small = word.len() <= 3;
    word.parse().ok().filter(|_| is_small)
}

/// A date with a year: `2024-05-03`, also with a time after it, `2024/05/03`, `03.05.2024`.
pub(super) fn date(word: &str) -> Option<Date> {
    let numbers = |text: &str, between: char| -> Option<[i16; 3]> {
        let parts: Vec<&str> = text.split(between).collect();
        let numbers: Option<Vec<i16>> = parts.iter().map(|part| number(part)).collect();
        numbers?.try_into().ok()
    };
    let of = |year: i16, month: i16, day: i16| {
        let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        Date::new(year, month, day).ok()
    };
    let is_year = |year: i16| (1_900..=2_999).contains(&year);
    let whole = word.split_once('t').map_or(word, |(date, _)| date);
    for between in ['-', '/'] {
        if let Some([year, month, day]) = numbers(whole, between).filter(|n| is_year(n[0])) {
            return of(year, month, day);
        }
    }
    let [day, month, year] = numbers(word, '.')?;
    let is_short = word.rsplit('.').next().is_some_and(|year| year.len() == 2);
    let year = if is_short { 2_000 + year } else { year };
    of(is_year(year).then_some(year)?, month, day)
}

/// `13/5/2024`, `5/13/24`: the year and the two numbers before it. Which of them is the month depends on
/// the country.
pub(super) fn slash_date(word: &str) -> Option<(i16, i8, i8)> {
    let mut parts = word.split('/');
    let (first, second) = (day(parts.next()?)?, day(parts.next()?)?);
    let last = parts.next().filter(|_| parts.clone().next().is_none())?;
    let year = match last.len() {
        2 => 2_000 + number(last)?,
        _ => year(last)?,
    };
    Some((year, first, second))
}

fn number(text: &str) -> Option<i16> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// `2024-05`.
pub(super) fn month_and_year(word: &str) -> Option<(i16, i8)> {
    let (first, last) = word.split_once('-')?;
    let month = last.parse().ok().filter(|_| last.len() == 2)?;
    (1..=12).contains(&month).then_some((year(first)?, month))
}

/// `3.5.` and, after a German preposition, `3.5`: other such numbers are decimals.
pub(super) fn dotted_day(word: &str, before: Option<&str>) -> Option<(i8, i8)> {
    let is_introduced = matches!(
        before,
        Some("am" | "vom" | "zum" | "bis" | "seit" | "ab" | "den" | "dem" | "und" | "der")
    );
    let parts = match word.strip_suffix('.') {
        Some(parts) => parts,
        None if is_introduced => word,
        None => return None,
    };
    let (first, last) = parts.split_once('.')?;
    let month = day(last).filter(|month| *month <= 12)?;
    Some((day(first)?, month))
}
