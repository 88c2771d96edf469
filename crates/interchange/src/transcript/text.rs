//! Conversations as a text with the speaker at the beginning of a line: `Alice: …`, `[Alice]: …`,
//! `**Alice:** …`, `## Assistant`, `10:32 Alice: …`, `[10:32] Alice: …`, `[10:32] <alice> …` or
//! `2024-05-07 10:32 - Alice: …`; or above the text, with a time or alone: `Alice  10:32`. Times are
//! read as UTC. Captions of recordings and exports of messengers are texts, too.

mod above;
mod captions;
mod discord;
mod labels;
mod line;
mod lines;
mod messengers;
mod names;
mod speakers;
mod table;
mod time;
mod whatsapp;

use std::borrow::Cow;

use unisono_api::harmless::is_direction;
use unisono_context::message::Part;
use unisono_context::{AgentId, Role};

use super::draft::{Draft, DraftMessage};
use super::fields;
use super::source::Problem;
use line::{SpeakerLine, SpeakerStyle};
use lines::Line;
use speakers::speakers;
use time::DayOrder;

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
    let lower = without_emoji(name).to_lowercase();
    let model = lower.strip_prefix("github ").unwrap_or(&lower);
    let mut words = model.split([' ', '-', '_']).filter(|word| !word.is_empty());
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

/// Whether a character is an emoji or a part of one: a variant, a joiner, or a tag of a flag.
fn is_emoji(c: char) -> bool {
    let is_part = matches!(
        c,
        '\u{200d}' | '\u{20e3}' | '\u{fe0f}' | '\u{e0020}'..='\u{e007f}'
    );
    let is_symbol = matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}');
    is_part || is_symbol || ('\u{1f000}'..='\u{1faff}').contains(&c)
}

fn without_emoji(name: &str) -> String {
    let rest: String = name.chars().filter(|c| !is_emoji(*c)).collect();
    rest.trim().to_owned()
}

fn has_role(name: &str) -> bool {
    let (role, author) = role_of(name);
    role != Role::User || author.is_none()
}

/// Whether the first line that is not empty has a time and a speaker, or a speaker in brackets, or a
/// messenger's export begins with the first two lines.
pub(super) fn has_first_speaker(begin: &[u8]) -> bool {
    let lines = begin.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.filter(|line| !line.trim_ascii().is_empty()).take(2);
    // A text in another encoding is a text, too.
    let lines: Vec<Cow<'_, str>> = lines.map(String::from_utf8_lossy).collect();
    if messengers::is_begun(lines.iter().map(|line| &**line)) {
        return true;
    }
    let line = lines.first().map_or("", |line| &**line);
    let is_in_brackets = line.trim_start().starts_with('[');
    let plain = is_in_brackets.then_some(SpeakerStyle::Plain);
    let styles = [SpeakerStyle::Stamped, SpeakerStyle::TimedAbove];
    let mut styles = styles.into_iter().chain(plain);
    styles.any(|style| style.start(line, DayOrder::Unknown).is_some())
}

pub(super) fn is_clear(text: &str) -> bool {
    let is_export = messengers::is_one(text) || discord::is_one(text) || table::is_one(text);
    captions::is_one(text) || is_export || speakers(text, true).is_some()
}

pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    if captions::is_one(text) {
        return captions::read(text, draft);
    }
    if messengers::is_one(text) {
        return messengers::read(text, draft);
    }
    if discord::is_one(text) {
        return discord::read(text, draft);
    }
    if table::is_one(text) {
        return table::read(text, draft);
    }
    let Some(speakers) = speakers(text, true).or_else(|| speakers(text, false)) else {
        let reason = "no line begins with a speaker, as in `Alice: …`";
        return draft.bad(Problem::new(text, reason));
    };
    let mut current: Option<(&'t str, SpeakerLine<'t>, String)> = None;
    let mut day = None;
    let chat = chat_name(&speakers.lines);
    for doubt in speakers.doubts {
        draft.warn(doubt);
    }
    for line in speakers.lines {
        let (line, start) = (line.text, line.start);
        match (start, &mut current) {
            (Some(start), _) => {
                let start = start.on_day(&mut day);
                let name = start.name.filter(|name| chat != Some(*name));
                let start = SpeakerLine { name, ..start };
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

/// The name of a chat with which an iPhone's export has its notices, as if the chat said them. The first
/// is about encryption, and a mark of direction is before each of them.
fn chat_name<'t>(lines: &[Line<'t>]) -> Option<&'t str> {
    let first = lines.iter().find(|line| line.name().is_some())?;
    let is_first = whatsapp::is_encryption_notice(first.spoken_text());
    let name = first.name().filter(|_| is_first)?;
    let is_notice = |line: &Line<'t>| whatsapp::is_note(line.text, line.spoken_text());
    let mut own = lines.iter().filter(|line| line.name() == Some(name));
    own.all(is_notice).then_some(name)
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
    let text = without_edit_mark(without_rule(text.trim()), draft);
    if text.is_empty() {
        return draft.omit("empty message");
    }
    if draft.import.messages.is_empty() && whatsapp::is_encryption_notice(text) {
        return draft.omit("unnamed notice");
    }
    // `Ida: Ida changed this group's icon`.
    if text.starts_with(name) && whatsapp::is_note(line, start.text) {
        return draft.omit("unnamed notice");
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

/// A text without the rule at its end: Markdown separates messages with `---`.
fn without_rule(text: &str) -> &str {
    let rules = ["\n---", "\n***", "\n___"];
    let said = rules.iter().find_map(|rule| text.strip_suffix(rule));
    said.map_or(text, str::trim_end)
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
