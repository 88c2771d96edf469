//! Texts that DiscordChatExporter writes: a header between rules, then messages. Each has its time and author
//! above it, and its files, embeds and reactions below it.

use jiff::civil::Date;
use unisono_context::Timestamp;
use unisono_context::message::Part;

use super::role_of;
use super::time::{DayOrder, moment};
use crate::transcript::attachment::attachment;
use crate::transcript::draft::{Draft, DraftMessage};

/// The number of signs of a rule.
const RULE_SIGNS: usize = 62;
/// What the program writes in the place of a message, around a name or a number.
const NOTICES: [(&str, &str); 12] = [
    ("Added ", " to the group."),
    ("Added a recipient", "."),
    ("Changed the channel icon", "."),
    ("Changed the channel name", "."),
    ("Changed the channel name: ", ""),
    ("Joined the server", "."),
    ("Left the group", "."),
    ("Pinned a message", "."),
    ("Removed ", " from the group."),
    ("Removed a recipient", "."),
    ("Started a call that lasted ", " minutes."),
    ("Started a thread", "."),
];

/// The part of a message in which a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Text,
    Files,
    Embed,
    Reactions,
}

/// The lines above the sections of a message.
const SECTIONS: [(&str, Section); 4] = [
    ("{Attachments}", Section::Files),
    ("{Embed}", Section::Embed),
    ("{Stickers}", Section::Files),
    ("{Reactions}", Section::Reactions),
];

struct Spoken<'t> {
    line: &'t str,
    name: &'t str,
    at: Timestamp,
    section: Section,
    text: String,
    embeds: String,
    parts: Vec<Part>,
    reactions: usize,
}

impl<'t> Spoken<'t> {
    fn add(&mut self, line: &'t str, is_behind_blank: bool) {
        let mut sections = SECTIONS.into_iter();
        let section = sections.find(|(mark, _)| is_behind_blank && *mark == line.trim_end());
        if let Some((_, section)) = section {
            self.section = section;
            return;
        }
        match self.section {
            Section::Text => push_line(&mut self.text, line),
            Section::Embed => push_line(&mut self.embeds, line),
            Section::Files if line.trim().is_empty() => {}
            Section::Files => {
                let path = line.trim().split('?').next().unwrap_or_default();
                let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
                let file = attachment(name, "application/octet-stream", 0);
                self.parts.push(file);
            }
            Section::Reactions => {
                let words = line.split_whitespace();
                self.reactions += words.filter(|word| !word.starts_with('(')).count();
            }
        }
    }

    /// Adds the message. A text with a link has previews as its embeds.
    fn push(mut self, draft: &mut Draft<'t, '_, '_>) {
        (0..self.reactions).for_each(|_| draft.omit("reaction"));
        let (mut text, embeds) = (self.text.trim().to_owned(), self.embeds.trim());
        if is_notice(&text) {
            return draft.omit("unnamed notice");
        }
        match embeds {
            "" => {}
            _ if text.contains("://") => draft.omit("link preview"),
            _ => text = format!("{text}\n{embeds}"),
        }
        if !text.trim().is_empty() {
            self.parts.insert(0, Part::text(text.trim()));
        }
        if self.parts.is_empty() {
            return draft.omit("empty message");
        }
        let (role, author) = role_of(self.name);
        let message = DraftMessage {
            author,
            at: Some(self.at),
            ..DraftMessage::new(role, self.parts)
        };
        draft.push_or_system(self.line, message);
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn is_notice(text: &str) -> bool {
    let is_around = |(begin, end): &(&str, &str)| {
        let inner = text.strip_prefix(begin);
        let inner = inner.and_then(|rest| rest.strip_suffix(end));
        inner.is_some_and(|inner| !inner.contains('\n'))
    };
    NOTICES.iter().any(is_around)
}

/// The lines of the header, and the messages without what is below them.
fn header_and_messages(text: &str) -> Option<(&str, &str)> {
    let (rule, rest) = text.trim_start().split_once('\n')?;
    let rule = rule.trim_end();
    let is_rule = rule.len() == RULE_SIGNS && rule.bytes().all(|sign| sign == b'=');
    let is_header = is_rule && rest.starts_with("Guild: ");
    let (header, rest) = is_header.then(|| rest.split_once(rule)).flatten()?;
    let before_last_rules = || rest.trim_end().strip_suffix(rule)?.rsplit_once(rule);
    let messages = before_last_rules().map_or(rest, |(messages, _)| messages);
    Some((header, messages))
}

pub(super) fn is_one(text: &str) -> bool {
    let is_start = |line| time_and_name(line, DayOrder::Unknown).is_some();
    header_and_messages(text).is_some_and(|(_, messages)| messages.lines().any(is_start))
}

/// Reads a text for which [`is_one`] is true.
pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let Some((header, messages)) = header_and_messages(text) else {
        return;
    };
    header.lines().for_each(|_| draft.omit("leading line"));
    let order = DayOrder::of_times(messages.lines().filter_map(stamp));
    let mut current: Option<Spoken<'t>> = None;
    let mut was_blank = true;
    for line in messages.lines() {
        let is_blank = line.trim().is_empty();
        let is_behind_blank = std::mem::replace(&mut was_blank, is_blank);
        let start = time_and_name(line, order).filter(|_| is_behind_blank);
        let Some((at, name)) = start else {
            if let Some(spoken) = &mut current {
                spoken.add(line, is_behind_blank);
            }
            continue;
        };
        let next = Spoken {
            line,
            name,
            at,
            section: Section::Text,
            text: String::new(),
            embeds: String::new(),
            parts: Vec::new(),
            reactions: 0,
        };
        if let Some(spoken) = current.replace(next) {
            spoken.push(draft);
        }
    }
    if let Some(spoken) = current {
        spoken.push(draft);
    }
}

fn stamp(line: &str) -> Option<&str> {
    let (stamp, _) = line.strip_prefix('[')?.split_once("] ")?;
    Some(stamp)
}

/// `[5/7/2024 10:32 AM] anna`, or `[07-May-24 10:32 AM] anna#1234` as older versions write it.
fn time_and_name(line: &str, order: DayOrder) -> Option<(Timestamp, &str)> {
    let stamp = stamp(line)?;
    let name = line.get(stamp.len() + 2..)?.trim();
    let name = name.strip_suffix(" (pinned)").unwrap_or(name);
    let named_month = || {
        let (date, clock) = stamp.split_once(' ')?;
        let date = Date::strptime("%d-%b-%y", date).ok()?;
        moment(&format!("{date} {clock}"), order).flatten()
    };
    let at = moment(stamp, order).flatten().or_else(named_month)?;
    (!name.is_empty()).then_some((at, name))
}
