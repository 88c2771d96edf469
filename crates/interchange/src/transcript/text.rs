//! Conversations as a text with the speaker at the beginning of a line: `Alice: …`, `**Alice:** …`,
//! `## Assistant`, `[10:32] Alice: …`, `[10:32] <alice> …` or `2024-05-07 10:32 - Alice: …`. Times
//! are read as UTC.

mod line;
mod whatsapp;

use std::collections::{BTreeMap, BTreeSet};

use unisono_context::message::Part;
use unisono_context::{AgentId, Role};

use super::draft::{Draft, DraftMessage};
use super::fields;
use super::source::Problem;
use line::{DayOrder, STYLES, SpeakerLine, SpeakerStyle};

/// Names of language models as speakers; versions may follow.
const MODELS: [&str; 14] = [
    "assistant",
    "ai",
    "chatgpt",
    "gpt",
    "claude",
    "gemini",
    "bot",
    "bard",
    "copilot",
    "llama",
    "mistral",
    "deepseek",
    "grok",
    "model",
];
/// Words of versions.
const VERSIONS: [&str; 9] = [
    "opus",
    "sonnet",
    "haiku",
    "pro",
    "flash",
    "turbo",
    "mini",
    "assistant",
    "instruct",
];

/// Role and author of a speaker's name.
pub(super) fn role_of(name: &str) -> (Role, Option<AgentId>) {
    let lower = name.trim().to_lowercase();
    let mut words = lower.split([' ', '-', '_']).filter(|word| !word.is_empty());
    let is_version =
        |word: &str| VERSIONS.contains(&word) || word.contains(|c: char| c.is_ascii_digit());
    let is_model =
        words.next().is_some_and(|first| MODELS.contains(&first)) && words.all(is_version);
    // ChatGPT's page, copied: `You said:`, `ChatGPT said:`.
    if let Some(said) = lower.strip_suffix(" said") {
        let (role, author) = role_of(said);
        if role != Role::User || author.is_none() {
            return (role, None);
        }
    }
    match &*lower {
        "system" => (Role::System, None),
        "user" | "human" | "you" | "me" | "prompt" => (Role::User, None),
        _ if is_model => (Role::Assistant, None),
        _ => (Role::User, fields::named(name)),
    }
}

fn has_role(name: &str) -> bool {
    let (role, author) = role_of(name);
    role != Role::User || author.is_none()
}

/// Whether the first line has a time and a speaker.
pub(super) fn is_stamped(begin: &[u8]) -> bool {
    let line = begin
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    SpeakerStyle::Stamped
        .start(line, DayOrder::Unknown)
        .is_some()
}

/// Whether a text is clearly a conversation.
pub(super) fn is_clear(text: &str) -> bool {
    speakers(text, true).is_some()
}

/// The lines, each with whether it begins a paragraph and whether it is in code.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool, bool)> {
    let (mut in_code, mut is_after_blank) = (false, true);
    text.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        let begins = std::mem::replace(&mut is_after_blank, line.trim().is_empty());
        (
            line,
            begins && !line.trim().is_empty() && !in_code,
            in_code || is_fence,
        )
    })
}

/// The style of speaker lines in a text, and the speakers' names in lower case.
struct Speakers {
    style: SpeakerStyle,
    order: DayOrder,
    names: BTreeSet<String>,
}

/// The speakers in the first style that matches. `clear`: only if the text cannot be anything else.
fn speakers(text: &str, clear: bool) -> Option<Speakers> {
    let order = DayOrder::of_text(text);
    STYLES.into_iter().find_map(|style| {
        // The number of lines of each speaker, and of those at the beginning of a paragraph.
        let mut names: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        let (mut paragraphs, mut filled) = (0, 0);
        for (line, begins, in_code) in lines(text) {
            filled += u32::from(!line.trim().is_empty());
            let start = if in_code {
                None
            } else {
                style.start(line, order)
            };
            paragraphs += u32::from(begins);
            if let Some(name) = start.and_then(|start| start.name) {
                let (times, begun) = names.entry(name).or_default();
                *times += 1;
                *begun += u32::from(begins);
            }
        }
        let is_plain = style == SpeakerStyle::Plain;
        let is_letter = |c: char| c.is_alphabetic() && !c.is_lowercase();
        let is_person = |name: &str| name.starts_with(is_letter) || has_role(name);
        if is_plain && clear {
            // Keys of settings look the same.
            names.retain(|name, _| is_person(name));
        }
        let is_again = |(name, (times, _)): (&&str, &(u32, u32))| *times > 1 || has_role(name);
        let begun: u32 = names.values().map(|(_, begun)| begun).sum();
        let most = matches!(style, SpeakerStyle::Stamped | SpeakerStyle::Heading)
            || begun * 2 >= paragraphs;
        let is_one = match clear {
            true => names.len() > 1 && names.iter().any(is_again) && most,
            false => !names.is_empty(),
        };
        // A single match within a paragraph may be part of its text, unless nearly all lines begin
        // with a speaker.
        let named: u32 = names.values().map(|(times, _)| times).sum();
        let is_dense = named * 10 >= filled * 9;
        let is_sure = |name: &str, times: u32| times > 1 || is_dense && is_person(name);
        let sure = names.iter();
        let sure = sure.filter(|(name, (times, begun))| is_sure(name, times + begun));
        let sure: BTreeSet<String> = sure.map(|(name, _)| name.to_lowercase()).collect();
        let names = match is_plain && sure.len() > 1 {
            true => sure,
            false => names.keys().map(|name| name.to_lowercase()).collect(),
        };
        is_one.then_some(Speakers {
            style,
            order,
            names,
        })
    })
}

impl Speakers {
    fn start<'t>(&self, line: &'t str) -> Option<SpeakerLine<'t>> {
        let speaks = |name: &str| self.names.contains(&name.to_lowercase());
        let start = self.style.start(line, self.order);
        start.filter(|start| start.name.is_none_or(speaks))
    }
}

/// Reads a text.
pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let Some(speakers) = speakers(text, true).or_else(|| speakers(text, false)) else {
        let reason = "no line begins with a speaker, as in `Alice: …`";
        return draft.bad(Problem::new(text, reason));
    };
    let mut current: Option<(&'t str, SpeakerLine<'t>, String)> = None;
    let mut day = None;
    for (line, _, in_code) in lines(text) {
        let start = if in_code { None } else { speakers.start(line) };
        match (start, &mut current) {
            (Some(start), _) => {
                let start = start.on_day(&mut day);
                let body = start.text.to_owned();
                push_message(current.replace((line, start, body)), draft);
            }
            (None, Some((_, _, body))) => {
                body.push('\n');
                body.push_str(line);
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => match line.strip_prefix("# ") {
                Some(title) if draft.import.title.is_empty() => {
                    draft.import.title = title.trim().into();
                }
                _ => draft.omit("leading line"),
            },
        }
    }
    push_message(current, draft);
}

fn push_message<'t>(
    body: Option<(&'t str, SpeakerLine<'t>, String)>,
    draft: &mut Draft<'t, '_, '_>,
) {
    let Some((line, start, text)) = body else {
        return;
    };
    let Some(name) = start.name else {
        return draft.omit("unnamed notice");
    };
    let text = without_edit_mark(text.trim(), draft);
    if text.is_empty() {
        return draft.omit("empty message");
    }
    if whatsapp::is_deletion(text) {
        return draft.omit("deleted message");
    }
    let (role, author) = role_of(name);
    let part = match (whatsapp::attached(text), start.clock) {
        (Some(part), _) => part,
        // A time without a date is no instant.
        (None, Some(clock)) => Part::text(format!("[{clock}] {text}")),
        (None, None) => Part::text(text),
    };
    let message = DraftMessage {
        author,
        at: start.at,
        ..DraftMessage::new(role, vec![part])
    };
    draft.push_or_system(line, message);
}

/// A text without the mark of an edited message, which is counted.
fn without_edit_mark<'t>(text: &'t str, draft: &mut Draft<'_, '_, '_>) -> &'t str {
    match whatsapp::without_edit_mark(text) {
        Some(text) => {
            draft.omit("edit mark");
            text
        }
        None => text,
    }
}
