//! The context for people.

use std::fmt::Display;

use unisono::fmt;
use unisono_api::compaction::NextTurn;
use unisono_api::context::{Context, ContextMessage};
use unisono_context::{Ordinal, SnapshotId, Tokens};

use crate::show;
use crate::terminal::Paint;

/// Cells of the occupancy bar.
const BAR: u64 = 30;
const TOPICS_SHOWN: usize = 12;
/// Maximum shown characters of an author's name.
const NAME_CHARS: usize = 40;
/// Characters of a message in a line.
const PREVIEW_CHARS: usize = 84;
/// Shown lines of a text without the flag for complete texts.
const PREVIEW_LINES: usize = 6;

pub(super) fn text(
    (context, next): (&Context, Option<&str>),
    title: &str,
    paint: Paint,
    full: bool,
) -> String {
    let mut out = head(context, title, paint);
    if let Some(next) = next {
        let name = paint.bold("next turn");
        out += &format!("{name} {next}\n");
    }
    out += &section(paint, "system", context.system_tokens, "");
    out += &body(&context.system, full, "  ");
    let names: Vec<&str> = context.tools.iter().map(|tool| &*tool.name).collect();
    out += &section(paint, "tools", context.tools_tokens, &names.join(", "));
    for summary in &context.summaries {
        let messages = show::many(u64::from(summary.messages), "message");
        let (first, last) = (Ordinal(summary.first), Ordinal(summary.last));
        let (number, model) = (summary.checkpoint, &summary.model);
        let tier = match summary.tier.as_str() {
            "conversation" => String::new(),
            tier => format!("{tier} "),
        };
        let ratio = show::compression(Tokens(summary.tokens_before), Tokens(summary.tokens));
        let tightened = match summary.tightened {
            true => paint.yellow(", less kept than requested"),
            false => String::new(),
        };
        let about = format!(
            "of {tier}{first}–{last}, {messages}{ratio}: checkpoint {number} ({model}){tightened}"
        );
        let name = if summary.note { "note" } else { "summary" };
        out += &section(paint, name, summary.tokens, &about);
        out += &body(&summary.text, full, "  ");
    }
    if let Some(prepared) = &context.prepared {
        let name = paint.bold(format_args!("{:<9}", "prepared"));
        out += &format!("\n{name} {prepared}\n");
    }
    out += &topics(context, paint);
    let total = context.messages.iter().map(|entry| entry.tokens).sum();
    let about = show::many(context.messages.len() as u64, "message");
    out += &section(paint, "messages", total, &about);
    for entry in &context.messages {
        out += &line(entry, paint, full);
    }
    out
}

/// The steps of the next turn, and the tokens that they free.
pub(super) fn next_turn(next: &NextTurn) -> String {
    if let Some(problem) = &next.problem {
        return would_fail(problem);
    }
    let freed = next
        .tokens_before
        .saturating_sub(next.estimated_tokens_after);
    match next.steps.join("; ") {
        steps if steps.is_empty() => "compacts nothing".to_owned(),
        steps => format!("frees at least {} tokens: {steps}", show::number(freed)),
    }
}

pub(super) fn would_fail(problem: impl Display) -> String {
    format!("would fail: {problem}")
}

/// The newest topics, and the tokens of the tiers.
fn topics(context: &Context, paint: Paint) -> String {
    let mut out = String::new();
    if !context.tiers.is_empty() {
        let tiers = context.tiers.iter().map(|tier| {
            let (has, share) = (show::number(tier.tokens), show::number(tier.limit_tokens));
            format!("{} {has} of {share}", tier.name)
        });
        let tiers: Vec<String> = tiers.collect();
        let name = paint.bold(format_args!("{:<9}", "tiers"));
        out += &format!("\n{name} {} tokens\n", tiers.join(", "));
    }
    let topics = &context.topics;
    if topics.items.is_empty() {
        return out;
    }
    let name = paint.bold(format_args!("{:<9}", "topics"));
    out += &format!("\n{name} {}", topics.count);
    if topics.count > TOPICS_SHOWN as u64 {
        out += &format!(", the newest {TOPICS_SHOWN} of them");
    }
    out.push('\n');
    let newest: Vec<_> = topics.items.iter().take(TOPICS_SHOWN).collect();
    for topic in newest.into_iter().rev() {
        let ended = match &topic.ended_by {
            Some(by) => format!("ended by {by}"),
            None => "current".to_owned(),
        };
        let range = format!("#{}–#{}", topic.first, topic.last);
        let title = topic.title.as_deref().unwrap_or_default();
        let summary = topic.summary.map(|number| format!(", checkpoint {number}"));
        let about = format!("{ended}{}", summary.unwrap_or_default());
        out += &format!(
            "  {range:<12} {:<11} {about}  {}\n",
            topic.status,
            paint.dim(show::line(
                title,
                show::line_room(29 + about.chars().count(), 60)
            ))
        );
    }
    out
}

fn head(context: &Context, title: &str, paint: Paint) -> String {
    let percent = context.occupancy_percent;
    let colour = |text: String| match percent {
        95.. => paint.red(text),
        80.. => paint.orange(text),
        _ => paint.green(text),
    };
    let filled = (percent.min(100) * BAR).div_ceil(100);
    let bar = "█".repeat(filled as usize);
    let rest = "░".repeat((BAR - filled) as usize);
    let approximate = if context.approximate { "about " } else { "" };
    let id = show::short_id(&context.session);
    let label = |name| paint.bold(format_args!("{name:<9}"));
    let exact = context.exact_tokens.map(|exact| {
        let tokens = show::tokens(Tokens(exact));
        let label = label("provider");
        format!("{label} {tokens} tokens with the lead's instructions\n")
    });
    let usable = context.usable.iter().map(|usable| {
        let [first, second] = fmt::usable(usable);
        format!("{} {first}\n          {second}\n", label("usable"))
    });
    let usable: String = usable.collect();
    format!(
        "{} {}\n{} {} {approximate}{} of {} usable tokens (window {}, {})\n{usable}{}{} {}\n",
        label("session"),
        format_args!(
            "{id} {}, branch {}",
            show::line(
                title,
                show::line_room(34 + context.branch.chars().count(), 60)
            ),
            context.branch
        ),
        colour(format!("{bar}{rest}")),
        colour(format!("{percent} %")),
        show::tokens(Tokens(context.used_tokens)),
        show::tokens(Tokens(context.usable_tokens)),
        show::tokens(Tokens(context.window_tokens)),
        context.encoding,
        exact.unwrap_or_default(),
        label("snapshot"),
        paint.cyan(snapshot(&context.snapshot)),
    )
}

fn section(paint: Paint, name: &str, tokens: u64, about: &str) -> String {
    let name = paint.bold(format_args!("{name:<9}"));
    format!(
        "\n{name} {:>7} tokens  {about}",
        show::tokens(Tokens(tokens))
    )
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
    let shown = lines.iter().take(PREVIEW_LINES).map(|line| {
        format!(
            "{indent}{}\n",
            show::line(line, show::line_room(indent.len(), 110))
        )
    });
    let mut out: String = shown.collect();
    if lines.len() > PREVIEW_LINES {
        out += &format!(
            "{indent}… {} more lines, --full shows them\n",
            lines.len() - PREVIEW_LINES
        );
    }
    out
}

fn line(entry: &ContextMessage, paint: Paint, full: bool) -> String {
    let mark = entry.form.as_ref().map(|form| format!("{form} "));
    let mark = mark.unwrap_or_default();
    let pin = if entry.pinned { "pinned " } else { "" };
    let tokens = show::tokens(Tokens(entry.tokens));
    let ordinal = Ordinal(entry.ordinal).to_string();
    let who = entry.author.as_deref().unwrap_or(&entry.role);
    let who = show::line(who, if full { NAME_CHARS } else { 9 });
    let head = format!("  {ordinal:>5} {who:<9} {tokens:>6}  ");
    let taken = [&head, pin, &mark].map(|part| part.chars().count());
    let room = show::line_room(taken.iter().sum(), PREVIEW_CHARS);
    let painted = |text: &str, paint: &dyn Fn(&str) -> String| match text {
        "" => String::new(),
        text => paint(text),
    };
    let (pin, mark) = (
        painted(pin, &|pin| paint.cyan(pin)),
        painted(&mark, &|mark| paint.yellow(mark)),
    );
    let head = format!("{head}{pin}{mark}");
    if full {
        return format!(
            "{}\n{}\n",
            head.trim_end(),
            show::indented(&entry.text, "        ")
        );
    }
    format!("{head}{}\n", show::line(&entry.text, room))
}

/// The start of a snapshot's id.
fn snapshot(snapshot: &str) -> String {
    let id = snapshot.parse::<SnapshotId>();
    id.map_or_else(|_| snapshot.to_owned(), |id| id.short())
}
