//! Lines that name a speaker.

use jiff::civil::Date;
use unicode_width::UnicodeWidthChar as _;
use unisono_context::Timestamp;

use super::names::without_note;
use super::time::{DayOrder, day_of_notice, moment, moment_or_elapsed};
use super::{above, has_role, is_direction, is_emoji};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeakerStyle {
    /// `[10:32] Alice: …`, `[10:32] <alice> …`, `2024-05-07 10:32 - Alice: …`.
    Stamped,
    /// `10:32 Alice: …`, `2024-05-07 10:32 Alice: …`, `Alice (10:32): …`, `Alice [10:32]: …`.
    Timed,
    /// `Alice  10:32`, `[10:32] Alice`, `[Alice] 10:32:07` above the text.
    TimedAbove,
    /// `## Assistant`: a heading that is a role.
    Heading,
    /// `**Alice:** …`.
    Bold,
    /// `Alice: …`, `[Alice]: …`.
    Plain,
    /// `Alice` above the text.
    Above,
}

pub(super) const STYLES: [SpeakerStyle; 7] = [
    SpeakerStyle::Stamped,
    SpeakerStyle::Timed,
    SpeakerStyle::TimedAbove,
    SpeakerStyle::Heading,
    SpeakerStyle::Bold,
    SpeakerStyle::Plain,
    SpeakerStyle::Above,
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

impl<'t> SpeakerLine<'t> {
    pub(super) fn untimed(name: Option<&'t str>, text: &'t str) -> Self {
        SpeakerLine {
            name,
            at: None,
            clock: None,
            text,
        }
    }

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

/// The colons after a name.
const COLONS: [char; 2] = [':', '：'];

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
            SpeakerStyle::TimedAbove => return above::timed(line, order),
            SpeakerStyle::Above => return above::alone(line),
            SpeakerStyle::Heading => {
                let title = line.trim_start_matches('#');
                let level = line.len() - title.len();
                let role = heading_role(title).filter(|_| (1..=6).contains(&level));
                (role?, "")
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
                let is_alone = is_wide || text.is_empty() || text.starts_with(char::is_whitespace);
                let name = is_alone.then_some(name)?;
                (in_brackets(name).unwrap_or(name), text)
            }
        };
        let name = is_name(name).then_some(name.trim())?;
        Some(SpeakerLine::untimed(Some(name), text.trim()))
    }
}

/// The name in `[SPEAKER_00]: …`, as programs write it that recognise speech.
fn in_brackets(name: &str) -> Option<&str> {
    name.trim().strip_prefix('[')?.strip_suffix(']')
}

/// The role in a heading; a response answers a prompt.
fn heading_role(title: &str) -> Option<&str> {
    let role = heading_text(title);
    match is_response(role) {
        true => Some("Assistant"),
        false => (has_role(role) && !role.is_empty()).then_some(role),
    }
}

/// A heading without marks, and without a picture before or behind it: `🤖 Claude`, `**User:**`.
fn heading_text(title: &str) -> &str {
    let is_mark = |c: char| "#*".contains(c) || c.is_whitespace() || COLONS.contains(&c);
    let is_picture = |c: char| !c.is_ascii() && !c.is_alphanumeric();
    title.trim_matches(|c: char| is_mark(c) || is_picture(c))
}

/// Whether a heading is `Response`, which is a role only beside `Prompt`.
pub(super) fn is_response(heading: &str) -> bool {
    heading_text(heading).eq_ignore_ascii_case("response")
}

/// Whether a text is a name as programs for meetings and chats show it: `Schmidt, Anna`,
/// `Anna (she/her)`, `Anna | ACME`, `anna#1234`, `🌸 Anna`.
pub(super) fn is_display_name(name: &str) -> bool {
    let name = name.replace(['/', ',', '|', '#'], "");
    is_name(name.trim_start_matches(|c: char| is_emoji(c) || c.is_whitespace()))
}

pub(super) fn is_name(name: &str) -> bool {
    let begins = name
        .strip_prefix('@')
        .unwrap_or(name)
        .starts_with(char::is_alphabetic);
    let begins = begins || name.starts_with(is_emoji) && has_role(name);
    let words = name.split_whitespace();
    let words = words.filter(|word| !word.chars().all(is_emoji));
    let is_short = name.chars().count() <= 40 && words.count() <= 4;
    let is_usual = |c: char| c.is_alphanumeric() || " .-_'’()@&".contains(c);
    let is_plain = |c: char| is_usual(c) || is_sign(c) || is_emoji(c);
    // The note behind a name may have a slash: `Anna (she/her)`.
    let is_noted = |c: char| is_plain(c) || c == '/';
    let is_allowed = without_note(name).chars().all(is_plain) && name.chars().all(is_noted);
    begins && is_short && is_allowed
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

/// The signs of rights before a name.
const MODES: [char; 5] = ['@', '+', '%', '&', '~'];

/// `<@ana> hello`, as in IRC logs.
pub(super) fn in_angles(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.strip_prefix('<')?.split_once('>')?;
    let name = name.trim_start_matches(' ').trim_start_matches(MODES);
    (!name.contains(char::is_whitespace)).then_some((name, text))
}

/// `Ana: hello`, `Ana：hello`, `Ana:`.
fn before_colon(text: &str) -> Option<(&str, &str)> {
    let plain = text.match_indices(':').find_map(|(end, _)| {
        let behind = &text[end + 1..];
        let said = behind.strip_prefix(char::is_whitespace);
        Some((&text[..end], said.or(behind.is_empty().then_some(behind))?))
    });
    let wide = text.split_once('：');
    plain
        .into_iter()
        .chain(wide)
        .min_by_key(|(name, _)| name.len())
}

/// The time at the beginning of a line, and the rest of the line.
fn stamp(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix('[') {
        let (stamp, rest) = rest.split_once(']')?;
        // Skype writes `[2024-05-07 10:32:07 | Edited 10:33:00]`.
        let (stamp, _) = stamp.split_once(" | ").unwrap_or((stamp, ""));
        return Some((stamp, rest));
    }
    let ends = [" <", " - ", " -!- ", " * ", " *** "];
    let found = ends.into_iter().filter_map(|end| {
        let (stamp, _) = line.split_once(end)?;
        let rest = line.get(stamp.len()..)?;
        let rest = rest.strip_prefix(" - ").unwrap_or(rest);
        let is_time = moment_or_elapsed(stamp, DayOrder::Unknown).is_some();
        is_time.then_some((stamp, rest))
    });
    found.min_by_key(|(stamp, _)| stamp.len())
}

/// A date, a name and a text with tabs between them, as some IRC programs write them. In a notice a sign
/// such as `-->` stands for the name.
fn in_columns(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    let (stamp, rest) = line.split_once('\t')?;
    let (name, text) = rest.split_once('\t')?;
    let at = moment(stamp, order).flatten()?;
    let name = name.trim().trim_start_matches(MODES);
    let is_nick = name.starts_with(|c: char| c.is_alphanumeric() || "[]`_^{}|".contains(c));
    let is_nick = is_nick && !name.ends_with(':') && !name.contains(char::is_whitespace);
    Some(SpeakerLine {
        // Other networks have names with spaces.
        name: (is_nick || is_name(name)).then_some(name),
        at: Some(at),
        clock: None,
        text: text.trim(),
    })
}

/// The order of day and month in the times at the beginnings of lines.
pub(super) fn day_order(text: &str) -> DayOrder {
    let named = |line| before_name(line).or_else(|| behind_name(line));
    let stamps = text.lines().map(without_marks).filter_map(|line| {
        let stamp = stamp(line).map(|(stamp, _)| stamp);
        stamp.or_else(|| named(line).map(|(stamp, ..)| stamp))
    });
    DayOrder::of_times(stamps)
}

/// A line with a time. Without a name it is a notice of the program.
fn stamped(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    if let Some(notice) = NOTICES.iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(SpeakerLine::untimed(None, notice.trim()));
    }
    if let Some(start) = in_columns(line, order) {
        return Some(start);
    }
    let (stamp, rest) = stamp(line)?;
    let at = moment_or_elapsed(stamp, order)?;
    let rest = rest.trim_start_matches(|c: char| is_direction(c) || c.is_whitespace() || c == '~');
    let is_event = EVENTS.iter().any(|mark| rest.starts_with(mark));
    let named = in_angles(rest).or_else(|| before_colon(rest).filter(|_| !is_event));
    let fits = |name: &str| !name.is_empty() && name.chars().count() <= 60 && !is_quoting(name);
    let named = named.filter(|(name, _)| fits(name));
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

/// Whether a quotation begins and does not end before the colon, as in the notice
/// `Ana changed the name to "Trip: May"`.
fn is_quoting(name: &str) -> bool {
    let is_open = |begin: char, ends: &[char]| {
        let last = name.rsplit_once(begin);
        last.is_some_and(|(_, behind)| !behind.contains(ends))
    };
    // Hebrew abbreviates with it: `ד"ר`.
    let is_inner = |at: usize| {
        let behind = name.get(at + 1..).unwrap_or_default();
        name[..at].ends_with(char::is_alphabetic) && behind.starts_with(char::is_alphabetic)
    };
    let marks = name.match_indices('"').filter(|(at, _)| !is_inner(*at));
    let is_odd = marks.count() % 2 == 1;
    // German ends a quotation with the sign that begins an English one, Polish with the one that ends it.
    let is_low = name.contains('„');
    is_odd
        || is_open('„', &['“', '”'])
        || is_open('«', &['»'])
        || is_open('「', &['」'])
        || !is_low && is_open('“', &['”'])
}

/// The maximum number of words of a time: `2024. 5. 7. 오후 10:32,`.
const TIME_WORDS: usize = 6;

/// A line with a time and a name without a sign between them.
fn timed(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    let (stamp, name, text) = before_name(line).or_else(|| behind_name(line))?;
    let at = moment_or_elapsed(stamp, order)?;
    let sender = sender(name);
    if sender.is_some() && text.trim().is_empty() {
        // It stands above its text.
        return None;
    }
    let name = sender.unwrap_or(name);
    let name = is_name(name).then_some(name.trim())?;
    Some(SpeakerLine {
        name: Some(name),
        at,
        clock: at.is_none().then(|| stamp.trim()),
        text: text.trim(),
    })
}

/// The sender in `From Anna Schmidt to Everyone`, as chats of Zoom have it. Chats of Zoom's recordings have
/// two spaces after `From`, and no receiver.
pub(super) fn sender(name: &str) -> Option<&str> {
    let words = [("From ", " to "), ("Von ", " an ")];
    words.into_iter().find_map(|(from, to)| {
        let rest = name.trim().strip_prefix(from)?;
        let addressed = rest.split_once(to).map(|(sender, _)| sender);
        Some(addressed.or(rest.strip_prefix(' '))?.trim())
    })
}

/// `10:32 AM Alice: …`: the time, the name and the text.
fn before_name(line: &str) -> Option<(&str, &str, &str)> {
    if !line.starts_with(char::is_numeric) {
        return None;
    }
    let ends = line.match_indices(char::is_whitespace);
    let ends = ends.map(|(end, _)| end).take(TIME_WORDS);
    let is_time = |end: &usize| moment_or_elapsed(&line[..*end], DayOrder::Unknown).is_some();
    let stamps = ends.filter(is_time);
    let (stamp, rest) = line.split_at(stamps.last()?);
    let (name, text) = before_colon(rest)?;
    Some((stamp, name.trim_start(), text))
}

/// `Alice (10:32): …`: the time, the name and the text.
fn behind_name(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once(['(', '['])?;
    let (stamp, text) = rest.split_once([')', ']'])?;
    let text = text.strip_prefix(':')?;
    (text.is_empty() || text.starts_with(char::is_whitespace)).then_some((stamp, name, text))
}
