//! The context for people.

use unisono_context::Tokens;
use unisono_context::alteration::Form;
use unisono_context::checkpoint::Body;
use unisono_context::snapshot::Entry;
use unisono_session::State;

use unisono_daemon::context::entry_text;

use super::Shown;
use crate::output::Paint;
use crate::{sessions, show};

/// Cells of the occupancy bar.
const BAR: u64 = 30;
/// Topics that are shown.
const TOPICS_SHOWN: usize = 12;
/// Characters of a message in a line.
const PREVIEW_CHARS: usize = 84;
/// Lines of a text that are shown unless all are asked for.
const PREVIEW_LINES: usize = 6;

pub(super) fn text(shown: &Shown, state: &State, paint: Paint, full: bool) -> String {
    let mut out = head(shown, state, paint);
    let preamble = &shown.context.measured.preamble;
    out += &section(paint, "system", shown.context.measured.system.tokens, "");
    out += &body(preamble.system(), full, "  ");
    let names: Vec<&str> = preamble.tools().iter().map(|tool| &*tool.name).collect();
    out += &section(
        paint,
        "tools",
        shown.context.measured.tools.tokens,
        &names.join(", "),
    );
    for block in shown.context.snapshot.blocks() {
        let c = block.checkpoint();
        let messages = show::many(u64::from(c.messages_included), "message");
        let (first, last, number, model) = (c.first(), c.cutoff, c.number, &c.model);
        let about = format!("of {first}–{last}, {messages}: checkpoint {number} ({model})");
        let name = if c.body == Body::Tombstone {
            "note"
        } else {
            "summary"
        };
        out += &section(paint, name, shown.context.block_tokens(block), &about);
        out += &body(block.text(), full, "  ");
    }
    out += &topics(shown, paint);
    let entries = shown.context.snapshot.entries();
    let total: Tokens = entries
        .iter()
        .map(|entry| shown.context.entry_tokens(state, entry))
        .sum();
    let about = show::many(entries.len() as u64, "message");
    out += &section(paint, "messages", total, &about);
    for entry in entries {
        out += &line(shown, state, entry, paint, full);
    }
    out
}

/// The newest topics, and what the tiers have.
fn topics(shown: &Shown, paint: Paint) -> String {
    let mut out = String::new();
    if !shown.tiers.is_empty() {
        let tiers = shown.tiers.iter().map(|tier| {
            let (has, share) = (show::number(tier.tokens), show::number(tier.share));
            format!("{} {has} of {share}", tier.name)
        });
        let tiers: Vec<String> = tiers.collect();
        let name = paint.bold(format_args!("{:<9}", "tiers"));
        out += &format!("\n{name} {} tokens\n", tiers.join(", "));
    }
    if shown.topics.is_empty() {
        return out;
    }
    let name = paint.bold(format_args!("{:<9}", "topics"));
    let older = shown.topics.len().saturating_sub(TOPICS_SHOWN);
    out += &format!("\n{name} {}", shown.topics.len());
    if older > 0 {
        out += &format!(", the newest {TOPICS_SHOWN} of them");
    }
    out.push('\n');
    for topic in &shown.topics[older..] {
        let standing = topic["standing"].as_str().unwrap_or_default();
        let ended = match topic["ended_by"].as_str() {
            Some(by) => format!("ended by {by}"),
            None => "current".to_owned(),
        };
        let (first, last) = (&topic["first"], &topic["last"]);
        let range = format!("#{first}–#{last}");
        out += &format!("  {range:<12} {standing:<11} {ended}\n");
    }
    out
}

fn head(shown: &Shown, state: &State, paint: Paint) -> String {
    let budget = &shown.context.measured.budget;
    let percent = shown.context.percent();
    let colour = |text: String| match percent {
        95.. => paint.red(text),
        80.. => paint.orange(text),
        _ => paint.green(text),
    };
    let filled = (percent.min(100) * BAR).div_ceil(100);
    let bar = "█".repeat(filled as usize);
    let rest = "░".repeat((BAR - filled) as usize);
    let approximate = if shown.context.used.is_approximate() {
        "about "
    } else {
        ""
    };
    let id = state.id().map(sessions::short).unwrap_or_default();
    let exact = shown.exact.map(|exact| {
        let (name, tokens) = (format!("{:<9}", "provider"), show::tokens(exact));
        format!(
            "{} {tokens} tokens with the lead's persona\n",
            paint.bold(name)
        )
    });
    format!(
        "{} {}\n{} {} {approximate}{} of {} usable tokens (window {}, {})\n{}{} {}\n",
        paint.bold(format_args!("{:<9}", "session")),
        format_args!(
            "{id} {}, branch {}",
            show::line(state.title(), 60),
            shown.branch
        ),
        colour(format!("{bar}{rest}")),
        colour(format!("{percent} %")),
        show::tokens(shown.context.used.tokens),
        show::tokens(budget.usable),
        show::tokens(budget.window),
        shown.context.encoding.name(),
        exact.unwrap_or_default(),
        paint.bold(format_args!("{:<9}", "snapshot")),
        paint.cyan(shown.context.snapshot.id().short()),
    )
}

fn section(paint: Paint, name: &str, tokens: Tokens, about: &str) -> String {
    let name = paint.bold(format_args!("{name:<9}"));
    format!("\n{name} {:>7} tokens  {about}", show::tokens(tokens))
        .trim_end()
        .to_owned()
        + "\n"
}

/// A text, or its beginning.
fn body(text: &str, full: bool, indent: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    if full {
        return show::indented(text, indent) + "\n";
    }
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let shown = lines
        .iter()
        .take(PREVIEW_LINES)
        .map(|line| format!("{indent}{}\n", show::line(line, 110)));
    let mut out: String = shown.collect();
    if lines.len() > PREVIEW_LINES {
        out += &format!(
            "{indent}… {} more lines, --full shows them\n",
            lines.len() - PREVIEW_LINES
        );
    }
    out
}

fn line(shown: &Shown, state: &State, entry: &Entry, paint: Paint, full: bool) -> String {
    let message = entry.message();
    let mark = match entry.form() {
        Some(Form::Masked { .. }) => paint.yellow("masked "),
        Some(Form::Cut { .. } | Form::Truncated { .. }) => paint.yellow("cut "),
        None => String::new(),
    };
    let pin = if state.pinned().contains(&message.id) {
        paint.cyan("pinned ")
    } else {
        String::new()
    };
    let mark = format!("{pin}{mark}");
    let text = entry_text(entry);
    let tokens = show::tokens(shown.context.entry_tokens(state, entry));
    let ordinal = message.ordinal.to_string();
    let head = format!(
        "  {ordinal:>5} {:<9} {tokens:>6}  {mark}",
        message.role.name()
    );
    if full {
        return format!(
            "{}\n{}\n",
            head.trim_end(),
            show::indented(&text, "        ")
        );
    }
    format!("{head}{}\n", show::line(&text, PREVIEW_CHARS))
}
