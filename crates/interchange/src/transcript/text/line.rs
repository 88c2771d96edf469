//! Lines that name a speaker.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthChar as _;
use unisono_context::Timestamp;

use super::has_role;

/// The style of speaker lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeakerStyle {
    /// `[10:32] Alice: …`, `[10:32] <alice> …`, `2024-05-07 10:32 - Alice: …`.
    Stamped,
    /// `10:32 Alice: …`, `2024-05-07 10:32 Alice: …`, `Alice (10:32): …`, `Alice [10:32]: …`.
    Timed,
    /// `## Assistant`: a heading that is a role.
    Heading,
    /// `**Alice:** …`.
    Bold,
    /// `Alice: …`.
    Plain,
}

pub(super) const STYLES: [SpeakerStyle; 5] = [
    SpeakerStyle::Stamped,
    SpeakerStyle::Timed,
    SpeakerStyle::Heading,
    SpeakerStyle::Bold,
    SpeakerStyle::Plain,
];

/// A speaker, the time, and the rest of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpeakerLine<'t> {
    /// `None` for a notice of the program.
    pub(super) name: Option<&'t str>,
    pub(super) at: Option<Timestamp>,
    /// A time of day without a date, as it is written.
    pub(super) clock: Option<&'t str>,
    pub(super) text: &'t str,
}

impl SpeakerLine<'_> {
    /// The line with the date of the last notice about the day before it, if it has none itself.
    pub(super) fn on_day(self, day: &mut Option<Date>) -> Self {
        if self.name.is_none() && self.clock.is_none() {
            *day = day_of_notice(self.text).or(*day);
        }
        let Some((clock, day)) = self.clock.zip(*day) else {
            return self;
        };
        let at = moment(&format!("{day} {clock}"), DayOrder::Unknown).flatten();
        let clock = self.clock.filter(|_| at.is_none());
        SpeakerLine { at, clock, ..self }
    }
}

/// The date in `Mon Apr 28 2008` or `Sun Apr 27 04:46:00 2008`, as in `--- Day changed …`.
fn day_of_notice(text: &str) -> Option<Date> {
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
    /// The order of all dates of a text, by its first date that has only one reading.
    pub(super) fn of_text(text: &str) -> DayOrder {
        let mut dates = text.lines().filter_map(|line| {
            let (stamp, _) = stamp(without_marks(line))?;
            date_numbers(words(stamp).find(|word| date_numbers(word).is_some())?)
        });
        let order = dates.find_map(|numbers| match numbers {
            [13..=31, 1..=12, _] => Some(DayOrder::DayFirst),
            [1..=12, 13..=31, _] => Some(DayOrder::MonthFirst),
            _ => None,
        });
        order.unwrap_or_default()
    }
}

/// The colons after a name.
const COLONS: [char; 2] = [':', '：'];

/// Characters that only set the direction of a text.
pub(super) fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn without_marks(line: &str) -> &str {
    line.trim_start_matches(|c| is_direction(c) || c == '\u{feff}')
}

impl SpeakerStyle {
    /// The speaker at the beginning of a line; `None` if there is none.
    pub(super) fn start(self, line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
        let line = without_marks(line);
        let (name, text) = match self {
            SpeakerStyle::Stamped => return stamped(line, order),
            SpeakerStyle::Timed => return timed(line, order),
            SpeakerStyle::Heading => {
                let title = line.trim_start_matches('#');
                let level = line.len() - title.len();
                let title = title.trim().trim_matches('*').trim_end_matches(COLONS);
                let is_one = (1..=6).contains(&level) && has_role(title) && !title.is_empty();
                (is_one.then_some(title)?, "")
            }
            SpeakerStyle::Bold => {
                let (name, text) = line.strip_prefix("**")?.split_once("**")?;
                match name.strip_suffix(COLONS) {
                    Some(name) => (name, text),
                    None => (name, text.strip_prefix(COLONS)?),
                }
            }
            SpeakerStyle::Plain => {
                let (name, text) = line.split_once(COLONS)?;
                let is_wide = line.get(name.len()..)?.starts_with('：');
                // Chinese and Japanese have no space behind a colon.
                let is_wide = is_wide || name.chars().all(|c| c.width() == Some(2));
                let is_alone = is_wide || text.is_empty() || text.starts_with([' ', '\t']);
                (is_alone.then_some(name)?, text)
            }
        };
        let name = is_name(name).then_some(name.trim())?;
        Some(SpeakerLine {
            name: Some(name),
            at: None,
            clock: None,
            text: text.trim(),
        })
    }
}

fn is_name(name: &str) -> bool {
    let begins = name
        .strip_prefix('@')
        .unwrap_or(name)
        .starts_with(char::is_alphabetic);
    let is_short = name.chars().count() <= 40 && name.split_whitespace().count() <= 4;
    let is_plain = |c: char| c.is_alphanumeric() || " .-_'’()@&".contains(c) || is_sign(c);
    begins && is_short && name.chars().all(is_plain)
}

/// Signs within words of scripts such as Devanagari and Thai, and joiners.
fn is_sign(c: char) -> bool {
    let is_script = ('\u{0300}'..'\u{2000}').contains(&c) || ('\u{a800}'..'\u{ac00}').contains(&c);
    matches!(c, '\u{200c}' | '\u{200d}') || is_script && c.width() == Some(0)
}

/// The beginnings of a chat program's own lines.
const NOTICES: [&str; 5] = [
    "=== ",
    "-!- ",
    "--- Log opened ",
    "--- Log closed ",
    "--- Day changed ",
];
/// The beginnings of notices after a time; `* alice waves` is an action.
const EVENTS: [&str; 3] = ["-!- ", "* ", "*** "];

/// `<@ana> hello`, as in IRC logs.
fn in_angles(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.strip_prefix('<')?.split_once('>')?;
    let name = name.trim_start_matches(['@', '+', '%', '&', '~', ' ']);
    (!name.contains(char::is_whitespace)).then_some((name, text))
}

/// `Ana: hello`, `Ana：hello`, `Ana:`.
fn before_colon(text: &str) -> Option<(&str, &str)> {
    let plain = text
        .split_once(": ")
        .or_else(|| Some((text.strip_suffix(':')?, "")));
    let wide = text.split_once('：');
    plain
        .into_iter()
        .chain(wide)
        .min_by_key(|(name, _)| name.len())
}

/// The time at the beginning of a line, and the rest of the line.
fn stamp(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix('[') {
        return rest.split_once(']');
    }
    let ends = [" <", " - ", " -!- ", " * ", " *** "];
    let found = ends.into_iter().filter_map(|end| {
        let (stamp, _) = line.split_once(end)?;
        let rest = line.get(stamp.len()..)?;
        let rest = rest.strip_prefix(" - ").unwrap_or(rest);
        let is_time = moment(stamp, DayOrder::Unknown).is_some();
        is_time.then_some((stamp, rest))
    });
    found.min_by_key(|(stamp, _)| stamp.len())
}

/// A line with a time. Without a name it is a notice of the program.
fn stamped(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    if let Some(notice) = NOTICES.iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(SpeakerLine {
            name: None,
            at: None,
            clock: None,
            text: notice.trim(),
        });
    }
    let (stamp, rest) = stamp(line)?;
    let at = moment(stamp, order)?;
    let rest = rest.trim_start_matches(|c| is_direction(c) || " ~\u{202f}".contains(c));
    let is_event = EVENTS.iter().any(|mark| rest.starts_with(mark));
    let named = in_angles(rest).or_else(|| before_colon(rest).filter(|_| !is_event));
    let named = named.filter(|(name, _)| !name.is_empty() && name.chars().count() <= 60);
    let (name, text) = match named {
        Some((name, text)) => (
            Some(name.trim_matches(|c: char| c.is_whitespace() || is_direction(c))),
            text,
        ),
        None => (None, rest),
    };
    let text = text.trim_start_matches(is_direction).trim();
    let clock = at.is_none().then(|| stamp.trim());
    Some(SpeakerLine {
        name,
        at,
        clock,
        text,
    })
}

/// The maximum number of words of a time: `Tue 5/7/24, 10:32 AM`.
const TIME_WORDS: usize = 4;

/// A line with a time and a name without a sign between them.
fn timed(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    let (stamp, name, text) = before_name(line).or_else(|| behind_name(line))?;
    let at = moment(stamp, order)?;
    let name = is_name(name).then_some(name.trim())?;
    Some(SpeakerLine {
        name: Some(name),
        at,
        clock: at.is_none().then(|| stamp.trim()),
        text: text.trim(),
    })
}

/// `10:32 AM Alice: …`: the time, the name and the text.
fn before_name(line: &str) -> Option<(&str, &str, &str)> {
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let ends = line.match_indices(' ').map(|(end, _)| end).take(TIME_WORDS);
    let stamps = ends.filter(|end| moment(&line[..*end], DayOrder::Unknown).is_some());
    let (stamp, rest) = line.split_at(stamps.last()?);
    let (name, text) = before_colon(rest)?;
    Some((stamp, name.trim_start(), text))
}

/// `Alice (10:32): …`: the time, the name and the text.
fn behind_name(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once(['(', '['])?;
    let (stamp, text) = rest.split_once([')', ']'])?;
    let text = text.strip_prefix(':')?;
    (text.is_empty() || text.starts_with(' ')).then_some((stamp, name, text))
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

/// The words of a time.
fn words(stamp: &str) -> impl Iterator<Item = &str> {
    let is_space = |c: char| matches!(c, ',' | '،' | 'T') || c.is_whitespace();
    stamp.split(is_space).filter(|word| !word.is_empty())
}

/// A time, possibly with a date: the inner value is the instant if there is a date. `None` if it is
/// something else.
fn moment(stamp: &str, order: DayOrder) -> Option<Option<Timestamp>> {
    // A time with an offset from UTC.
    if let Ok(at) = stamp.trim().parse::<jiff::Timestamp>() {
        return Some(Some(Timestamp(at.as_millisecond())));
    }
    let (mut date, mut time, mut half) = (None, None, None);
    for word in words(stamp) {
        let word: String = word.chars().filter(|c| !is_direction(*c)).collect();
        match word.to_ascii_lowercase().as_str() {
            "am" | "a.m." | "a." | "ص" => half = Some(false),
            "pm" | "p.m." | "p." | "م" => half = Some(true),
            "m." | "à" | "" => {}
            word if WEEKDAYS.contains(&word.trim_end_matches('.')) => {}
            word if word.contains(':') => time = Some(word.trim_end_matches('z').to_owned()),
            word => date = Some(word.to_owned()),
        }
    }
    let time = clock(&time?, half)?;
    let Some(date) = date else {
        return Some(None);
    };
    let date = day(&date, half.is_some(), order)?;
    let zoned = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
    Some(Some(Timestamp(zoned.timestamp().as_millisecond())))
}

/// `10:32`, `10:32:07`; `half` is whether it is after noon, for a 12-hour clock.
fn clock(text: &str, half: Option<bool>) -> Option<Time> {
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

/// The three numbers of a date.
fn date_numbers(text: &str) -> Option<[i16; 3]> {
    let is_separator = |c: char| matches!(c, '-' | '.' | '/');
    let number = |n: &str| n.trim_matches(is_direction).parse().ok();
    let numbers: Option<Vec<i16>> = text.split(is_separator).map(number).collect();
    numbers?.try_into().ok()
}

/// `2024-05-07`, `07.05.24`, `7/5/2024`. If neither the date nor the file shows which number is the
/// day, the month comes first only with a 12-hour clock and slashes.
fn day(text: &str, is_half: bool, order: DayOrder) -> Option<Date> {
    let [first, second, third] = date_numbers(text)?;
    let is_month_first = match order {
        DayOrder::Unknown => is_half && text.contains('/'),
        DayOrder::DayFirst => false,
        DayOrder::MonthFirst => true,
    };
    let (year, month, day) = match (first, second, third) {
        (32.., _, _) => (first, second, third),
        (_, 13.., _) => (third, first, second),
        (..=12, _, _) if is_month_first => (third, first, second),
        _ => (third, second, first),
    };
    let year = if year < 100 { year + 2000 } else { year };
    Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
}
