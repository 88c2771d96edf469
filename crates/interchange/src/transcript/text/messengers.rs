//! Exports of LINE and KakaoTalk, and logs of HexChat. The day of a message, or its year, is on a line of its
//! own above it.

use jiff::civil::Date;
use unisono_context::Timestamp;

use super::line::{SpeakerLine, in_angles};
use super::push_message;
use super::time::{DayOrder, day, day_of_notice, moment};
use crate::transcript::draft::Draft;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// `10:32`, a name and a text with tabs between them; a text of several lines is in quotation marks.
    Line,
    /// `[Ana] [3:12 PM] Hello`, or `May 12, 2024 at 3:12 PM, Ana : Hello`.
    KakaoTalk,
    /// `May 12 10:32:10 <ana>`, a tab and a text.
    HexChat,
}

/// The beginnings of the line with the time of an export of KakaoTalk, in languages with several notations.
const SAVED: [&str; 3] = ["저장한 날짜", "Date Saved", "Saved Date"];
/// The beginning of the line with the year of a log of HexChat.
const BEGUN: &str = "**** BEGIN LOGGING AT ";
/// The beginning of each line of HexChat itself.
const LOGGING: &str = "**** ";
/// The beginning of a line of KakaoTalk with a day.
const RULE: &str = "-----";
/// The ends of notices without a time.
const NOTICES: [&str; 6] = [
    "님이 나갔습니다.",
    "님이 들어왔습니다.",
    "님을 초대했습니다.",
    "님을 내보냈습니다.",
    " joined this chatroom.",
    " left this chatroom.",
];
/// The maximum size of a time with its date.
const STAMP_BYTES: usize = 60;

/// What a line is.
enum Entry<'t> {
    Message(SpeakerLine<'t>),
    /// A notice of the program.
    Notice,
    /// A day, or another line that says nothing.
    Heading,
    /// A further line of a message.
    More,
}

/// The program, and the day so far.
struct Log {
    program: Program,
    order: DayOrder,
    day: Option<Date>,
}

/// Whether a text is an export of one of these programs, by its first two lines that are not empty.
pub(super) fn is_begun<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
    program(lines).is_some()
}

pub(super) fn is_one(text: &str) -> bool {
    let is_message = |mut log: Log| {
        let mut lines = text.lines();
        lines.any(|line| matches!(log.entry(line, true), Entry::Message(_)))
    };
    Log::from_text(text).is_some_and(is_message)
}

/// A line, its speaker, and the text so far.
type Spoken<'t> = (&'t str, SpeakerLine<'t>, String);

/// Reads a text for which [`is_one`] is true.
pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let Some(mut log) = Log::from_text(text) else {
        return;
    };
    let mut current: Option<Spoken<'t>> = None;
    let (mut was_blank, mut is_quoting) = (true, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_blank = line.trim().is_empty();
        let is_behind_blank = std::mem::replace(&mut was_blank, is_blank);
        let is_open = current.is_some() && is_quoting;
        let entry = match is_open && is_day_of_text(line, lines.clone()) {
            true => Entry::More,
            false => log.entry(line, is_behind_blank),
        };
        match (entry, &mut current) {
            (Entry::Message(start), _) => {
                let body = start.text.to_owned();
                is_quoting = begins_or_ends_quotation(&body, &body);
                push(log.program, current.replace((line, start, body)), draft);
            }
            (Entry::Notice, _) => {
                push(log.program, current.take(), draft);
                draft.omit("unnamed notice");
            }
            (Entry::Heading, _) => push(log.program, current.take(), draft),
            (Entry::More, Some((_, _, body))) => {
                body.push('\n');
                body.push_str(line);
                is_quoting ^= begins_or_ends_quotation(body, line);
            }
            (Entry::More, None) if is_blank => {}
            (Entry::More, None) => draft.omit("leading line"),
        }
    }
    push(log.program, current, draft);
}

fn push<'t>(program: Program, spoken: Option<Spoken<'t>>, draft: &mut Draft<'t, '_, '_>) {
    let spoken = spoken.map(|(line, start, body)| (line, start, unquoted(program, body)));
    push_message(spoken, draft);
}

/// Whether a line with only a day is not above messages, so that it may be a part of a text.
fn is_day_of_text<'t>(line: &str, mut below: impl Iterator<Item = &'t str>) -> bool {
    let mut next = || below.find(|line| !line.trim().is_empty());
    weekday_and_date(line).is_some() && next().is_none_or(|line| in_tabs(line).is_none())
}

/// Whether a line of a text that is in quotation marks begins or ends a quotation.
fn begins_or_ends_quotation(text: &str, line: &str) -> bool {
    text.starts_with('"') && line.matches('"').count() % 2 == 1
}

/// A text of several lines without the quotation marks of LINE.
fn unquoted(program: Program, body: String) -> String {
    let quoted = body.trim().strip_prefix('"');
    let inner = quoted.and_then(|body| body.strip_suffix('"'));
    let inner = inner.filter(|inner| program == Program::Line && inner.contains('\n'));
    let inner = inner.map(|inner| inner.replace("\"\"", "\""));
    inner.unwrap_or(body)
}

fn program<'t>(mut lines: impl Iterator<Item = &'t str>) -> Option<Program> {
    let first = lines.next()?;
    let second = lines.next().unwrap_or_default();
    if first.starts_with(BEGUN) {
        return Some(Program::HexChat);
    }
    // In Korean, LINE begins its second line as KakaoTalk does.
    let is_line = first.starts_with("[LINE]");
    if is_line || weekday_and_date(first).is_some() && in_tabs(second).is_some() {
        return Some(Program::Line);
    }
    (is_saved(first) || is_saved(second)).then_some(Program::KakaoTalk)
}

/// Whether a line has the time of an export of KakaoTalk: `저장한 날짜 : 2024-05-14 15:12:03`.
fn is_saved(line: &str) -> bool {
    let labelled = line.split_once(" : ");
    let labelled = labelled.filter(|(label, _)| !label.contains(char::is_numeric));
    let has_label = SAVED.iter().any(|begin| line.starts_with(begin));
    has_label || labelled.is_some_and(|(_, stamp)| dated(stamp).is_some())
}

impl Log {
    fn from_text(text: &str) -> Option<Log> {
        let program = program(text.lines().filter(|line| !line.trim().is_empty()))?;
        Some(Log {
            program,
            order: order_of_days(text),
            day: None,
        })
    }

    fn entry<'t>(&mut self, line: &'t str, is_behind_blank: bool) -> Entry<'t> {
        let entry = match self.program {
            Program::Line => self.line_entry(line),
            Program::KakaoTalk => self.kakao_talk_entry(line, is_behind_blank),
            Program::HexChat => self.hex_chat_entry(line),
        };
        entry.unwrap_or(Entry::More)
    }

    fn line_entry<'t>(&mut self, line: &'t str) -> Option<Entry<'t>> {
        if let Some((_, date)) = weekday_and_date(line) {
            self.day = day_or_reiwa(date, self.order);
            return Some(Entry::Heading);
        }
        Some(match in_tabs(line)? {
            start if start.name.is_some() => Entry::Message(start.on_day(&mut self.day)),
            _ => Entry::Notice,
        })
    }

    /// An export has its days in rules, or dates before its messages. In the second kind, a date alone is a
    /// heading only behind an empty line: messages have such lines, too.
    fn kakao_talk_entry<'t>(&mut self, line: &'t str, is_behind_blank: bool) -> Option<Entry<'t>> {
        let date = long_date(line);
        if date.is_some() && line.starts_with(RULE) {
            self.day = date;
            return Some(Entry::Heading);
        }
        if let Some(start) = in_brackets(line) {
            return Some(Entry::Message(start.on_day(&mut self.day)));
        }
        if self.day.is_some() {
            let is_notice = NOTICES.iter().any(|end| line.trim_end().ends_with(end));
            return is_notice.then_some(Entry::Notice);
        }
        if date.is_some() || dated(line).is_some() {
            return is_behind_blank.then_some(Entry::Heading);
        }
        behind_comma(line)
    }

    fn hex_chat_entry<'t>(&mut self, line: &'t str) -> Option<Entry<'t>> {
        if let Some(begun) = line.strip_prefix(BEGUN) {
            self.day = day_of_notice(begun);
        }
        if line.starts_with(LOGGING) || line.trim().is_empty() {
            return Some(Entry::Heading);
        }
        let (month, rest) = line.split_once(' ')?;
        let (number, rest) = rest.trim_start().split_once(' ')?;
        let (clock, rest) = rest.split_once(' ')?;
        moment(clock, DayOrder::Unknown)?;
        let mut date = self.day.and_then(|day| date_behind(day, month, number));
        self.day = date.or(self.day);
        let named = in_angles(rest).filter(|(name, _)| !name.is_empty());
        let Some((name, text)) = named else {
            return Some(Entry::Notice);
        };
        let start = SpeakerLine::untimed(Some(name), text.trim());
        let clock = Some(clock);
        Some(Entry::Message(
            SpeakerLine { clock, ..start }.on_day(&mut date),
        ))
    }
}

/// The date with a month and a day that is not long before another one: a new year begins.
fn date_behind(last: Date, month: &str, number: &str) -> Option<Date> {
    let date = english_date(month, number, &last.year().to_string())?;
    let is_next_year = date.month() + 6 < last.month();
    match is_next_year {
        true => english_date(month, number, &(last.year() + 1).to_string()),
        false => Some(date),
    }
}

fn english_date(month: &str, number: &str, year: &str) -> Option<Date> {
    let text = format!("{month} {number} {year}");
    let mut formats = ["%b %d %Y", "%B %d %Y"].into_iter();
    formats.find_map(|format| Date::strptime(format, &text).ok())
}

/// `10:32`, a name and a text with tabs between them. Without a name it is a notice.
fn in_tabs(line: &str) -> Option<SpeakerLine<'_>> {
    let (clock, rest) = line.split_once('\t')?;
    let is_time = |clock: &str| moment(clock, DayOrder::Unknown).is_some();
    // As in Indonesian.
    let is_dotted = || clock.len() == "10.32".len() && is_time(&clock.replacen('.', ":", 1));
    if !is_time(clock) && !is_dotted() {
        return None;
    }
    let named = rest.split_once('\t');
    let (name, text) = named.unwrap_or(("", rest));
    let name = Some(name.trim()).filter(|name| !name.is_empty());
    let clock = Some(clock.trim());
    let start = SpeakerLine::untimed(name, text.trim());
    Some(SpeakerLine { clock, ..start })
}

/// `[Ana] [3:12 PM] Hello`.
fn in_brackets(line: &str) -> Option<SpeakerLine<'_>> {
    let (name, rest) = line.strip_prefix('[')?.split_once("] [")?;
    let (clock, text) = rest.split_once(']')?;
    moment(clock, DayOrder::Unknown)?;
    let clock = Some(clock.trim());
    let start = SpeakerLine::untimed(Some(name.trim()), text.trim());
    Some(SpeakerLine { clock, ..start })
}

/// `May 12, 2024 at 3:12 PM, Ana : Hello`; without a name it is a notice.
fn behind_comma(line: &str) -> Option<Entry<'_>> {
    let commas = line.match_indices(',').map(|(at, _)| at);
    let mut commas = commas.take_while(|at| *at <= STAMP_BYTES);
    let found = commas.find_map(|at| Some((dated(&line[..at])?, &line[at + 1..])));
    let Some((at, rest)) = found else {
        let (stamp, _) = line.split_once(": ")?;
        return dated(stamp).map(|_| Entry::Notice);
    };
    let Some((name, text)) = rest.split_once(" : ") else {
        return Some(Entry::Notice);
    };
    let start = SpeakerLine::untimed(Some(name.trim()), text.trim());
    let at = Some(at);
    Some(Entry::Message(SpeakerLine { at, ..start }))
}

/// The time in `2024년 5월 12일 오후 3:12`, `2024年5月12日 午後3:12`, `2024. 5. 12. 오후 3:12` or
/// `May 12, 2024 at 3:12 PM`.
fn dated(stamp: &str) -> Option<Timestamp> {
    if stamp.len() > STAMP_BYTES {
        return None;
    }
    let dotted = stamp.replace(SIGNS, ".");
    let at = moment(&dotted, DayOrder::Unknown).flatten();
    at.or_else(|| {
        let mut words = words(stamp);
        let date = english_date(words.next()?, words.next()?, words.next()?)?;
        let clock: Vec<&str> = words.collect();
        let dated = format!("{date} {}", clock.join(" "));
        moment(&dated, DayOrder::Unknown).flatten()
    })
}

/// The Korean and Japanese words behind a year, a month and a day.
const SIGNS: [char; 6] = ['년', '월', '일', '年', '月', '日'];
/// The ends of their weekdays.
const WEEKDAY_ENDS: [&str; 2] = ["요일", "曜日"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace());
    words.filter(|word| !word.is_empty())
}

/// The date in `--------------- Sunday, May 12, 2024 ---------------`, `2024년 5월 12일 일요일` or
/// `2024年5月12日 日曜日`.
fn long_date(line: &str) -> Option<Date> {
    let text = line.trim_matches(|c: char| c == '-' || c.is_whitespace());
    let words: Vec<&str> = words(text).take(5).collect();
    match words.as_slice() {
        [weekday, month, number, year] if weekday.ends_with("day") => {
            english_date(month, number, year)
        }
        [date @ .., weekday] if WEEKDAY_ENDS.iter().any(|end| weekday.ends_with(end)) => {
            let date = date.concat().replace(SIGNS, ".");
            day(&date, false, DayOrder::Unknown)
        }
        _ => None,
    }
}

/// The weekday and the date of a line with only these: `2024/05/12(日)`, `Sun, 05/12/2024`,
/// `2024.05.12 Sunday`, `2024/05/12週日`, `อา. 12/05/2567`.
fn weekday_and_date(line: &str) -> Option<(&str, &str)> {
    let is_sign = |c: char| matches!(c, ',' | '(' | ')' | '（' | '）') || c.is_whitespace();
    let is_of_date = |c: char| c.is_ascii_digit() || matches!(c, '/' | '.' | '-');
    let line = line.trim_matches(is_sign);
    let era_bytes = usize::from(line.starts_with(REIWA));
    let behind = line.get(era_bytes..)?.trim_start_matches(is_of_date);
    let before = line.trim_end_matches(is_of_date);
    let (weekday, date) = match behind.len() + era_bytes < line.len() {
        true => (behind, &line[..line.len() - behind.len()]),
        false => (before, &line[before.len()..]),
    };
    let weekday = weekday.trim_matches(is_sign);
    let is_mark = |c: char| c.is_numeric() || c.is_ascii_punctuation() && c != '.';
    let is_word = !weekday.is_empty() && !weekday.contains(|c: char| is_sign(c) || is_mark(c));
    (is_word && day_or_reiwa(date, DayOrder::Unknown).is_some()).then_some((weekday, date))
}

/// The sign of the Japanese era that began in 2019.
const REIWA: char = 'R';

/// [`day`], or a Japanese date such as `R6/05/12`.
fn day_or_reiwa(date: &str, order: DayOrder) -> Option<Date> {
    let Some(date) = date.strip_prefix(REIWA) else {
        return day(date, false, order);
    };
    let (year, rest) = date.split_once('/')?;
    let year = 2018 + year.parse::<u8>().ok().map(u16::from)?;
    day(&format!("{year}/{rest}"), false, order)
}

/// The order of day and month in the days of LINE: that with their weekdays.
fn order_of_days(text: &str) -> DayOrder {
    let days = || text.lines().filter_map(weekday_and_date);
    let is_right = |(weekday, date): (&str, &str)| {
        let date = day(date, false, DayOrder::MonthFirst);
        date.is_some_and(|date| weekday.starts_with(&date.strftime("%a").to_string()))
    };
    match days().all(is_right) {
        true => DayOrder::MonthFirst,
        false => DayOrder::of_times(days().map(|(_, date)| date)),
    }
}
