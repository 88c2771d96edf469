//! Times before speakers, in the notations of several languages.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use unisono_context::Timestamp;

use super::is_direction;

/// The date in `Mon Apr 28 2008` or `Sun Apr 27 04:46:00 2008`, as in `--- Day changed …`.
pub(super) fn day_of_notice(text: &str) -> Option<Date> {
    let words: Vec<&str> = words(text).collect();
    let [_, month, day, .., year] = words.as_slice() else {
        return None;
    };
    Date::strptime("%b %d %Y", format!("{month} {day} {year}")).ok()
}

/// The position of the day in dates such as `5/7/2024`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DayOrder {
    /// No date of the file shows it.
    #[default]
    Unknown,
    /// `7/5/2024` is the seventh of May.
    DayFirst,
    /// `7/5/2024` is the fifth of July.
    MonthFirst,
}

impl DayOrder {
    /// The order of all dates of a text, by the first of its times whose date has only one reading.
    pub(super) fn of_times<'t>(times: impl Iterator<Item = &'t str>) -> DayOrder {
        let mut dates = times.filter_map(|time| words(time).find_map(date_numbers));
        let order = dates.find_map(|numbers| match numbers {
            [13..=31, 1..=12, _] => Some(DayOrder::DayFirst),
            [1..=12, 13..=31, _] => Some(DayOrder::MonthFirst),
            _ => None,
        });
        order.unwrap_or_default()
    }
}

/// Weekdays before a time; they do not say the date.
const WEEKDAYS: [&str; 14] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
];

/// The words of a time; `2024-05-07T10:32` has two.
fn words(stamp: &str) -> impl Iterator<Item = &str> {
    let is_space = |c: char| matches!(c, ',' | '،') || c.is_whitespace();
    let words = stamp
        .split(is_space)
        .flat_map(|word| match word.split_once('T') {
            Some((date, time)) if word.starts_with(char::is_numeric) => [date, time],
            _ => [word, ""],
        });
    words.filter(|word| !word.is_empty())
}

/// The maximum size of a time.
const TIME_BYTES: usize = 80;
/// The marks of the halves of a day, and whether it is after noon; longer ones before shorter ones.
/// In Chinese, Japanese and Korean they stand before the time.
const HALVES: [(&str, bool); 22] = [
    ("a.m.", false),
    ("p.m.", true),
    ("am", false),
    ("pm", true),
    ("a.", false),
    ("p.", true),
    ("ص", false),
    ("م", true),
    ("π.μ.", false),
    ("μ.μ.", true),
    ("上午", false),
    ("下午", true),
    ("午前", false),
    ("午後", true),
    ("오전", false),
    ("오후", true),
    ("öö", false),
    ("ös", true),
    ("לפנה״צ", false),
    ("אחה״צ", true),
    ("לפנה\"צ", false),
    ("אחה\"צ", true),
];
/// Words beside a time: `klo 10.32`, `kl. 10.32`, `10:32 Uhr`, `à 10:32`, `at 10:32`, `10:32 UTC`, `a. m.`.
const FILLERS: [&str; 11] = [
    "m.", "à", "às", "at", "gmt", "kl", "kl.", "klo", "uhr", "um", "utc",
];

/// A word without the mark of a half, and the half.
fn without_half(word: &str) -> (&str, Option<bool>) {
    let halves = HALVES.into_iter();
    let mut found = halves.filter_map(|(mark, half)| {
        let rest = word.strip_prefix(mark).or(word.strip_suffix(mark))?;
        Some((rest, Some(half)))
    });
    found.next().unwrap_or((word, None))
}

/// The digit as it is written in the West; Arabic and Persian have others.
fn western(c: char) -> char {
    match c {
        '٠'..='٩' => digit(c, '٠'),
        '۰'..='۹' => digit(c, '۰'),
        c => c,
    }
}

fn digit(c: char, zero: char) -> char {
    char::from_digit(u32::from(c) - u32::from(zero), 10).unwrap_or(c)
}

/// Whether a text is a time since the beginning of a recording: `0:03`, `75:10`, `1:02:03`.
fn is_elapsed(text: &str) -> bool {
    let is_digits = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
    let Some((first, rest)) = text.split_once(':') else {
        return false;
    };
    let mut rest = rest.split(':');
    let is_short = (1..=3).contains(&first.len()) && is_digits(first);
    let is_sixtieth = |part: &str| part.len() == 2 && is_digits(part) && part < "60";
    is_short && rest.clone().count() <= 2 && rest.all(is_sixtieth)
}

/// [`moment`], or a time since the beginning of a recording, which is no instant: after 23 minutes it
/// is no time of day.
pub(super) fn moment_or_elapsed(stamp: &str, order: DayOrder) -> Option<Option<Timestamp>> {
    moment(stamp, order).or_else(|| is_elapsed(stamp.trim()).then_some(None))
}

fn is_date(text: &str) -> bool {
    date_numbers(text).is_some()
}

/// A time, possibly with a date: the inner value is the instant if there is a date with a year. `None` if
/// it is something else.
pub(super) fn moment(stamp: &str, order: DayOrder) -> Option<Option<Timestamp>> {
    if stamp.len() > TIME_BYTES {
        return None;
    }
    // A time with an offset from UTC.
    if let Ok(at) = stamp.trim().parse::<jiff::Timestamp>() {
        return Some(Some(Timestamp(at.as_millisecond())));
    }
    let (mut date, mut time, mut half) = (String::new(), None, None);
    for word in words(stamp) {
        let word = word.chars().filter(|c| !is_direction(*c)).map(western);
        let word = word.collect::<String>().to_lowercase();
        let (word, half_of_word) = without_half(&word);
        half = half.or(half_of_word);
        // Denmark, Finland and Indonesia write times with a full stop.
        let is_dotted = is_date(&date) && word.contains('.') && time.is_none();
        match word {
            "" => {}
            word if FILLERS.contains(&word) => {}
            word if WEEKDAYS.contains(&word.trim_end_matches('.')) => {}
            word if word.contains(':') => time = Some(word.trim_end_matches('z').to_owned()),
            word if is_dotted => time = Some(word.replace('.', ":")),
            word => date.push_str(word),
        }
    }
    let time = clock(&time?, half)?;
    if date.is_empty() || is_without_year(&date) {
        return Some(None);
    }
    let is_american = ["AM", "PM"].iter().any(|half| stamp.contains(half));
    let date = day(&date, is_american, order)?;
    let zoned = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
    Some(Some(Timestamp(zoned.timestamp().as_millisecond())))
}

/// Words for days that depend on the day on which a chat was copied.
const RELATIVE: [&str; 4] = ["gestern", "heute", "today", "yesterday"];

/// Whether a date has no year, as in chats copied from Teams: `5/7`, `07.05.`, `yesterday`.
fn is_without_year(date: &str) -> bool {
    let numbers = date.trim_end_matches('.').split(['.', '/']);
    let numbers: Option<Vec<u8>> = numbers.map(|number| number.parse().ok()).collect();
    let is_day = matches!(
        numbers.as_deref(),
        Some([1..=12, 1..=31] | [1..=31, 1..=12])
    );
    is_day || RELATIVE.contains(&date)
}

/// `10:32`, `10:32:07`, `10:32:07.250`; `half` is whether it is after noon, for a 12-hour clock.
fn clock(text: &str, half: Option<bool>) -> Option<Time> {
    let text = match text.split_once('.') {
        Some((whole, fraction)) if fraction.parse::<u32>().is_ok() => whole,
        _ => text,
    };
    let numbers: Option<Vec<i8>> = text.split(':').map(|number| number.parse().ok()).collect();
    let (mut hour, minute, second) = match numbers?.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    if let Some(is_after_noon) = half {
        hour = hour % 12 + if is_after_noon { 12 } else { 0 };
    }
    Time::new(hour, minute, second, 0).ok()
}

fn date_numbers(text: &str) -> Option<[i16; 3]> {
    let is_separator = |c: char| matches!(c, '-' | '.' | '/');
    let number = |n: &str| {
        let digits: String = n.trim_matches(is_direction).chars().map(western).collect();
        digits.parse().ok()
    };
    let numbers = text.trim_end_matches('.').split(is_separator).map(number);
    let numbers: Option<Vec<i16>> = numbers.collect();
    numbers?.try_into().ok()
}

/// `2024-05-07`, `07.05.24`, `7/5/2024`, or `7/5/2567` with a Buddhist year. If neither the date nor the
/// file shows which number is the day, the month comes first only with slashes and `AM` or `PM` in
/// capitals: other countries with a 12-hour clock write `am`, `a. m.` or `ص`.
pub(super) fn day(text: &str, is_american: bool, order: DayOrder) -> Option<Date> {
    let [first, second, third] = date_numbers(text)?;
    let is_month_first = match order {
        DayOrder::Unknown => is_american && text.contains('/'),
        DayOrder::DayFirst => false,
        DayOrder::MonthFirst => true,
    };
    let (year, month, day) = match (first, second, third) {
        (32.., _, _) => (first, second, third),
        (_, 13.., _) => (third, first, second),
        (..=12, _, _) if is_month_first => (third, first, second),
        _ => (third, second, first),
    };
    let year = match year {
        ..100 => year + 2000,
        2400.. => year - 543,
        _ => year,
    };
    Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
}
