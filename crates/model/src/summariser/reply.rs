//! A summariser's reply in the form for a context: without the text around the summary, and with
//! the expected headings.

use unisono_context::Tokens;
use unisono_context::call::{Reply, Stop};
use unisono_context::checkpoint::Tier;
use unisono_context::compaction::{self, Draft, Rejection, SECTIONS, accept};

use super::wrap::unguard;
use crate::extractive::{SummaryLayout, section_titles};
use crate::redact::redact;
use crate::think;

/// The maximum length of an introduction before the first heading.
const INTRODUCTION_CHARS: usize = 200;
/// The characters at the beginning in which a refusal is recognised.
const REFUSAL_CHARS: usize = 160;
/// How models refuse in words, without the stop reason of a refusal, in small letters and with straight
/// apostrophes.
const REFUSALS: [&str; 22] = [
    "i can't ",
    "i cannot ",
    "i'm sorry",
    "i am sorry",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "i won't be able",
    "i apologi",
    "sorry, ",
    "sorry but ",
    "unfortunately, i ",
    "es tut mir leid",
    "tut mir leid",
    "ich kann ",
    "je suis désolé",
    "désolé",
    "lo siento",
    "抱歉",
    "很抱歉",
    "申し訳",
];
/// What models write in an empty section.
const NOTHING: [&str; 6] = ["none", "n/a", "nothing", "none noted", "none recorded", "-"];

/// The summary in a reply, without credentials.
///
/// # Errors
/// The reply was refused or cut off, is empty, or has none of the required headings of a rolling
/// summary.
pub fn summary(reply: &Reply, layout: SummaryLayout) -> Result<String, Rejection> {
    let answer = think::answer(&reply.text);
    let text = match layout {
        SummaryLayout::Rolling => sections(without_fence(&answer)),
        SummaryLayout::Paragraph => paragraph(without_fence(&answer)),
    };
    let text = redact(&unguard(&text)).into_owned();
    let refuses = layout == SummaryLayout::Paragraph && refuses(&text);
    let draft = Draft {
        text: &text,
        stop: match reply.stop {
            Stop::Complete if refuses => compaction::Stop::Refused,
            Stop::Complete => compaction::Stop::Complete,
            Stop::CutOff => compaction::Stop::CutOff,
            Stop::Refused => compaction::Stop::Refused,
        },
        tokens: Tokens::ZERO,
    };
    let tier = match layout {
        SummaryLayout::Rolling => Tier::Conversation,
        SummaryLayout::Paragraph => Tier::Topic,
    };
    accept(&draft, tier, Tokens(u64::MAX), Tokens(u64::MAX))?;
    Ok(text)
}

/// The target after a summary of `tokens` exceeded its cap: reduced in proportion, by a further
/// tenth, to at least a quarter.
pub fn reduced_target(target: Tokens, tokens: Tokens, cap: Tokens) -> Tokens {
    let share = u128::from(target.0) * u128::from(cap.0) / u128::from(tokens.0.max(1));
    let least = Tokens(target.0 / 4);
    Tokens(u64::try_from(share * 9 / 10).unwrap_or(target.0)).max(least)
}

/// The answer without a code fence around it.
pub(super) fn without_fence(text: &str) -> &str {
    let text = text.trim();
    fenced_content(text).unwrap_or(text)
}

/// The content of a fence that begins before any heading and contains the first one.
fn fenced_content(text: &str) -> Option<&str> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if heading(line).is_some() {
            return None;
        }
        at += line.len();
        let opens = line.trim();
        if let Some(kind) = opens.strip_prefix("```") {
            let marks = opens.len() - opens.trim_start_matches('`').len();
            let whole = matches!(
                kind.trim_matches('`').trim(),
                "" | "markdown" | "md" | "text"
            );
            let inside = text[at..].trim_start();
            let fenced = whole && (heading(inside.lines().next()?).is_some() || at == line.len());
            return fenced.then(|| until_closing_fence(inside, &opens[..marks]));
        }
    }
    None
}

/// The text up to the last line that closes a fence with these marks; an inner fence may close
/// before it.
fn until_closing_fence<'t>(inside: &'t str, marks: &str) -> &'t str {
    let mut end = inside.len();
    let mut at = 0;
    for line in inside.split_inclusive('\n') {
        if line.trim() == marks {
            end = at;
        }
        at += line.len();
    }
    inside[..end].trim()
}

/// The summary with normalised headings, without an introduction and without empty sections.
fn sections(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut fence = false;
    for line in text.lines() {
        fence ^= line.trim_start().starts_with("```");
        match heading(line).filter(|_| !fence) {
            Some(title) => {
                drop_empty(&mut lines);
                if lines.iter().all(|line| !line.starts_with("## ")) {
                    drop_introduction(&mut lines);
                }
                lines.push(format!("## {title}"));
            }
            None => lines.push(line.trim_end().to_owned()),
        }
    }
    drop_empty(&mut lines);
    lines.join("\n").trim().to_owned()
}

/// Removes one line before the first heading; several lines are content.
fn drop_introduction(lines: &mut Vec<String>) {
    let mut text = lines.iter().filter(|line| !is_rule(line));
    let introduces = match (text.next(), text.next()) {
        (None, _) => true,
        (Some(only), None) => only.chars().count() <= INTRODUCTION_CHARS,
        (Some(_), Some(_)) => false,
    };
    if introduces {
        lines.clear();
    }
}

/// Removes the last section if it is empty.
fn drop_empty(lines: &mut Vec<String>) {
    let Some(at) = lines.iter().rposition(|line| is_title(line)) else {
        return;
    };
    let body = lines[at + 1..].iter().filter(|line| !is_rule(line));
    let says_nothing = |line: &String| {
        let text = line.trim().trim_start_matches(['-', '*', '(', '_', ' ']);
        let text = text.trim_end_matches(['.', ')', '*', '_']).to_lowercase();
        text.is_empty() || NOTHING.contains(&text.as_str())
    };
    if body.count() <= 1
        && lines[at + 1..]
            .iter()
            .all(|line| is_rule(line) || says_nothing(line))
    {
        lines.truncate(at);
    }
}

fn is_title(line: &str) -> bool {
    let title = line.strip_prefix("## ");
    title.is_some_and(|title| section_titles().contains(&title))
}

fn is_rule(line: &str) -> bool {
    line.trim().trim_matches(['-', '*', '_']).is_empty()
}

/// The section of a heading in any markup: `# Context`, `### 1. Context:`, `**Work done**`.
fn heading(line: &str) -> Option<&'static str> {
    let line = line.trim();
    let title = line.trim_start_matches('#');
    let (marks, title) = (line.len() - title.len(), title.trim());
    let bold = title.strip_prefix("**");
    if !(1..=6).contains(&marks) && bold.is_none_or(|rest| rest.matches("**").count() != 1) {
        return None;
    }
    let title = title.trim_matches(['*', ':', ' ']);
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c));
    let title = title.trim_end_matches(['*', ':', ' ']).to_lowercase();
    let bare = title.split(" (").next().unwrap_or(&title);
    let at = SECTIONS
        .iter()
        .position(|section| section.to_lowercase() == bare)?;
    section_titles().get(at).copied()
}

/// The text as one paragraph, without an introduction and without markup of lines.
fn paragraph(text: &str) -> String {
    let mut blocks: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    blocks.retain(|block| !is_rule(block));
    if blocks.len() > 1 && introduces(blocks[0]) {
        blocks.remove(0);
    }
    let lines = blocks.iter().flat_map(|block| block.lines());
    let plain = lines.map(|line| {
        let line = line.trim();
        let line = title_text(line).unwrap_or(line);
        line.strip_prefix("- ")
            .or_else(|| line.strip_prefix("* "))
            .unwrap_or(line)
    });
    let plain: Vec<&str> = plain.filter(|line| !line.is_empty()).collect();
    plain.join(" ")
}

/// Whether the first block is only an announcement or a title.
fn introduces(block: &str) -> bool {
    let short = block.chars().count() <= INTRODUCTION_CHARS && !block.contains('\n');
    let is_bold = block.starts_with("**") && block.ends_with("**");
    short && (block.ends_with(':') || title_text(block).is_some() || is_bold)
}

/// The text of a title in Markdown: `## Moving`, but not `#12 asks for a van`.
fn title_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix('#')?.trim_start_matches('#');
    (text.is_empty() || text.starts_with(' ')).then_some(text.trim_start())
}

fn refuses(text: &str) -> bool {
    let start: String = text.chars().take(REFUSAL_CHARS).collect();
    let start = start.to_lowercase().replace('’', "'");
    REFUSALS.iter().any(|words| start.starts_with(words))
}
