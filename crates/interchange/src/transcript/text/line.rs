//! Lines that name a speaker.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use unisono_context::Timestamp;

use super::has_role;

/// The style of speaker lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeakerStyle {
    /// `[10:32] Alice: …`, `[10:32] <alice> …`, `2024-05-07 10:32 - Alice: …`.
    Stamped,
    /// `## Assistant`: a heading that is a role.
    Heading,
    /// `**Alice:** …`.
    Bold,
    /// `Alice: …`.
    Plain,
}

pub(super) const STYLES: [SpeakerStyle; 4] = [
    SpeakerStyle::Stamped,
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
    pub(super) text: &'t str,
}

/// Words before a colon that are not names.
const NO_NAMES: [&str; 12] = [
    "from", "to", "cc", "bcc", "subject", "date", "note", "warning", "http", "https", "example",
    "todo",
];

impl SpeakerStyle {
    /// The speaker at the beginning of a line; `None` if there is none.
    pub(super) fn start(self, line: &str) -> Option<SpeakerLine<'_>> {
        let line = line.trim_start_matches(['\u{200e}', '\u{200f}', '\u{feff}']);
        let (name, text) = match self {
            SpeakerStyle::Stamped => return stamped(line),
            SpeakerStyle::Heading => {
                let title = line.trim_start_matches('#');
                let level = line.len() - title.len();
                let title = title.trim().trim_matches('*').trim_end_matches(':');
                let is_one = (1..=6).contains(&level) && has_role(title) && !title.is_empty();
                (is_one.then_some(title)?, "")
            }
            SpeakerStyle::Bold => {
                let (name, text) = line.strip_prefix("**")?.split_once("**")?;
                match name.strip_suffix(':') {
                    Some(name) => (name, text),
                    None => (name, text.strip_prefix(':')?),
                }
            }
            SpeakerStyle::Plain => {
                let (name, text) = line.split_once(':')?;
                let is_alone = text.is_empty() || text.starts_with([' ', '\t']);
                (is_alone.then_some(name)?, text)
            }
        };
        let name = is_name(name).then_some(name.trim())?;
        Some(SpeakerLine {
            name: Some(name),
            at: None,
            text: text.trim(),
        })
    }
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(char::is_alphabetic);
    let is_short = name.chars().count() <= 40 && name.split_whitespace().count() <= 4;
    let is_plain = |c: char| c.is_alphanumeric() || " .-_'’()@&".contains(c);
    let is_other = NO_NAMES.contains(&&*name.trim().to_lowercase());
    begins && is_short && name.chars().all(is_plain) && !is_other
}

/// The beginnings of a chat program's own lines.
const NOTICES: [&str; 2] = ["=== ", "-!- "];

/// `<@ana> hello`, as in IRC logs.
fn in_angles(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.strip_prefix('<')?.split_once('>')?;
    let name = name.trim_start_matches(['@', '+', '%', '&', '~', ' ']);
    (!name.contains(char::is_whitespace)).then_some((name, text))
}

/// A line with a time. Without a name it is a notice of the program.
fn stamped(line: &str) -> Option<SpeakerLine<'_>> {
    if let Some(notice) = NOTICES.iter().find_map(|mark| line.strip_prefix(mark)) {
        let (name, at, text) = (None, None, notice.trim());
        return Some(SpeakerLine { name, at, text });
    }
    let (stamp, rest) = match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => match line.find(" <") {
            Some(at) if line.get(..at).and_then(moment).is_some() => line.split_at(at),
            _ => line.split_once(" - ")?,
        },
    };
    let at = moment(stamp)?;
    let rest = rest.trim_start_matches([' ', '\u{200e}', '~', '\u{202f}']);
    let named = in_angles(rest)
        .or_else(|| rest.split_once(": "))
        .or_else(|| Some((rest.strip_suffix(':')?, "")));
    let named = named.filter(|(name, _)| !name.is_empty() && name.chars().count() <= 60);
    let (name, text) = match named {
        Some((name, text)) => (Some(name.trim()), text),
        None => (None, rest),
    };
    let text = text.trim_start_matches('\u{200e}').trim();
    Some(SpeakerLine { name, at, text })
}

/// A time, possibly with a date: the inner value is the instant if there is a date. `None` if it is
/// something else.
fn moment(stamp: &str) -> Option<Option<Timestamp>> {
    let is_space = |c: char| c == ',' || c == 'T' || c.is_whitespace();
    let (mut date, mut time, mut half) = (None, None, None);
    for word in stamp.split(is_space).filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "am" | "a.m." => half = Some(false),
            "pm" | "p.m." => half = Some(true),
            word if word.contains(':') => time = Some(word.trim_end_matches('z').to_owned()),
            word => date = Some(word.to_owned()),
        }
    }
    let time = clock(&time?, half)?;
    let Some(date) = date else {
        return Some(None);
    };
    let date = day(&date, half.is_some())?;
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

/// `2024-05-07`, `07.05.24`, `7/5/2024`. If day and month are ambiguous, the month comes first only
/// with a 12-hour clock and slashes.
fn day(text: &str, is_half: bool) -> Option<Date> {
    let numbers: Option<Vec<i16>> = text
        .split(['-', '.', '/'])
        .map(|n| n.parse().ok())
        .collect();
    let [first, second, third] = numbers?.try_into().ok()?;
    let (year, month, day) = match (first, second, third) {
        (32.., _, _) => (first, second, third),
        (_, 13.., _) => (third, first, second),
        (..=12, _, _) if is_half && text.contains('/') => (third, first, second),
        _ => (third, second, first),
    };
    let year = if year < 100 { year + 2000 } else { year };
    Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
}
