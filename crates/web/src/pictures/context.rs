//! Draws a context as a bar of its parts.

use maud::{Markup, html};
use unisono_api::context::{Context, ContextMessage, Summary};
use unisono_api::fmt;

use super::{WIDTH, attribute, scaled};
use crate::parts::{counted, number};

/// The occupancy in percent at which the bar warns, and at which it alarms.
const WARN: u64 = 80;
const ALARM: u64 = 95;
/// Above this the context does not fit.
const FULL: u64 = 100;

/// Maximum messages that are drawn individually; with more, neighbours are joined.
const EACH: usize = 48;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// Its tokens by kind, each one of [`KINDS`].
    kinds: Vec<(&'static str, u64)>,
    says: String,
    to: Option<String>,
}

impl Part {
    fn new(kind: &'static str, says: String, tokens: u64, to: Option<String>) -> Part {
        let kinds = vec![(kind, tokens)];
        Part { kinds, says, to }
    }

    fn tokens(&self) -> u64 {
        self.kinds.iter().map(|(_, tokens)| tokens).sum()
    }
}

/// The links of messages and checkpoints, by number.
pub(crate) struct Places<'p> {
    pub(crate) message: Box<dyn Fn(u32) -> String + 'p>,
    pub(crate) checkpoint: Box<dyn Fn(u32) -> String + 'p>,
}

/// The occupancy in words.
fn fullness(percent: u64) -> (&'static str, &'static str) {
    match percent {
        0..WARN => ("calm", ""),
        WARN..ALARM => ("warn", ": filling up"),
        ALARM..=FULL => ("alarm", ": nearly full"),
        _ => (
            "alarm",
            ": more than fits. The next turn compacts it first, or fails",
        ),
    }
}

/// Draws the occupancy and the parts of a context.
pub(crate) fn bar(context: &Context, places: &Places<'_>) -> Markup {
    let percent = context.occupancy_percent;
    let (class, says) = fullness(percent);
    let (used, usable) = (number(context.used_tokens), number(context.usable_tokens));
    let parts = parts(context, places);
    html! {
        div class={ "context " (class) } id="context" {
            p class="fullness" { strong { (used) " of " (usable) " tokens, " (number(percent)) " %" }
                @if context.approximate { " (estimated)" } (says) }
            (occupancy(context))
            (drawn(&parts))
            details id="context-table" {
                summary { "Parts" }
                @if let Some(prepared) = &context.prepared { p class="quiet" { "Prepared: " (prepared.to_string()) "." } }
                (table(&parts, &reserve(context)))
                @for usable in &context.usable { p class="quiet" { "Usable: " (fmt::usable(usable).join(" ")) } }
            }
        }
    }
}

/// The reserved parts of the window, for the agent with the fewest usable tokens. The system text and
/// the tools are parts of the context.
fn reserve(context: &Context) -> Vec<(&'static str, u64)> {
    let agent = context.usable.iter().min_by_key(|one| one.usable_tokens);
    let parts = agent.map(|agent| {
        [
            ("Reserved for a reply", agent.reply_tokens),
            ("Reserved for errors of estimates", agent.safety_tokens),
            (
                "Reserved for instructions and task",
                agent.assignment_tokens,
            ),
            ("Reserved for results of delegates", agent.results_tokens),
        ]
    });
    let parts = parts.into_iter().flatten();
    parts.filter(|(_, tokens)| *tokens > 0).collect()
}

/// The used, pending, free and reserved parts of the window.
fn occupancy(context: &Context) -> Markup {
    let window = context.window_tokens.max(1) as f64;
    let usable = scaled(context.usable_tokens as f64, window);
    let used = scaled(context.used_tokens as f64, window);
    let pending = scaled(context.pending_tokens as f64, window);
    let mut at = usable;
    let reserved = reserve(context).into_iter().map(|(says, tokens)| {
        let (x, width) = (at, scaled(tokens as f64, window));
        at += width;
        (says, tokens, x, width)
    });
    let reserved: Vec<_> = reserved.collect();
    html! {
        svg class="occupancy" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect class="reserve" x="0" y="0" width=(attribute(WIDTH)) height="8" {}
            rect class="room" x="0" y="0" width=(attribute(usable)) height="8" {}
            rect class="used" x="0" y="0" width=(attribute(used.max(2.0))) height="8" {}
            @if context.pending_tokens > 0 {
                rect class="pending" x=(attribute(used)) y="0" width=(attribute(pending.max(2.0))) height="8" {}
            }
            @for (says, tokens, x, width) in reserved {
                rect class="reserve part" x=(attribute(x)) y="0" width=(attribute(width)) height="8" {
                    title { (says) ", " (counted(tokens, "token")) }
                }
            }
        }
        ul class="legend quiet" aria-hidden="true" {
            li { span class="swatch used" {} "used" } li { span class="swatch room" {} "usable" }
            li { span class="swatch reserve" {} "reserved of the window of " (number(context.window_tokens)) }
        }
    }
}

fn drawn(parts: &[Part]) -> Markup {
    let whole: u64 = parts.iter().map(Part::tokens).sum();
    let mut at = 0;
    let placed = parts.iter().map(|part| {
        let kinds = part.kinds.iter().map(|(kind, tokens)| {
            let x = scaled(at as f64, whole as f64);
            at += tokens;
            (*kind, x, scaled(*tokens as f64, whole as f64))
        });
        (part, kinds.collect::<Vec<_>>())
    });
    let placed: Vec<_> = placed.collect();
    let has = |kind: &str| {
        let kinds = parts.iter().flat_map(|part| &part.kinds);
        kinds.into_iter().any(|(one, _)| *one == kind)
    };
    html! {
        svg class="parts" viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            (textures())
            @for (part, kinds) in placed {
                @let rects = html! {
                    title { (part.says) ", " (counted(part.tokens(), "token")) }
                    @for (kind, x, width) in kinds { (textured(kind, x, width, 24)) }
                };
                @match &part.to {
                    Some(to) => a href=(to) tabindex="-1" { (rects) },
                    None => g { (rects) },
                }
            }
        }
        ul class="legend quiet" aria-hidden="true" {
            @for (kind, _, says) in KINDS { @if has(kind) { li { (swatch(kind)) (says) } } }
        }
    }
}

/// The patterns of kinds, so that they differ not by their colours alone.
fn textures() -> Markup {
    let paths = [
        ("rising", "M0 8L8 0"),
        ("falling", "M0 0L8 8"),
        ("cross", "M0 0L8 8M0 8L8 0"),
        ("level", "M0 4H8"),
        ("upright", "M4 0V8"),
        ("grid", "M0 4H8M4 0V8"),
        ("dots", "M3 4H5"),
    ];
    html! {
        defs {
            @for (name, path) in paths {
                pattern id={ "texture-" (name) } width="8" height="8" patternUnits="userSpaceOnUse" {
                    path class="texture" d=(path) {}
                }
            }
        }
    }
}

/// A rectangle of a kind, with its pattern.
fn textured(kind: &str, x: f64, width: f64, height: u32) -> Markup {
    let texture = KINDS.iter().find(|(name, ..)| *name == kind);
    let texture = texture.map_or("", |(_, texture, _)| texture);
    html! {
        rect class=(kind) x=(attribute(x)) y="0" width=(attribute(width)) height=(height) {}
        @if !texture.is_empty() {
            rect class="over" fill={ "url(#texture-" (texture) ")" } x=(attribute(x)) y="0" width=(attribute(width)) height=(height) {}
        }
    }
}

fn swatch(kind: &str) -> Markup {
    html! {
        svg class="sample" viewBox="0 0 16 16" aria-hidden="true" focusable="false" { (textured(kind, 0.0, 16.0, 16)) }
    }
}

/// Kinds of parts: their names, their patterns, and their names for people.
const KINDS: [(&str, &str, &str); 10] = [
    ("system", "", "system"),
    ("skills", "dots", "skills"),
    ("tools", "rising", "tools"),
    ("checkpoint", "level", "checkpoints"),
    ("user", "", "user"),
    ("assistant", "falling", "assistant"),
    ("tool", "upright", "tool results"),
    ("pinned", "cross", "pinned"),
    ("short", "grid", "masked or cut"),
    ("pending", "", "waits for the current turn"),
];

fn table(parts: &[Part], reserve: &[(&str, u64)]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Parts of the context" { table {
            thead { tr { th scope="col" { "Part" } th scope="col" class="number" { "Tokens" } } }
            tbody { @for part in parts { tr {
                td { @for (kind, _) in &part.kinds { (swatch(kind)) }
                    @match &part.to { Some(to) => a href=(to) { (part.says) }, None => (part.says) } }
                td class="number" { (number(part.tokens())) }
            } }
            @for (says, tokens) in reserve { tr { td { (says) } td class="number" { (number(*tokens)) } } } }
        } }
    }
}

fn parts(context: &Context, places: &Places<'_>) -> Vec<Part> {
    let system = context.system_tokens.saturating_sub(context.skills_tokens);
    let fixed = [
        ("system", "System text", system),
        ("skills", "List of skills", context.skills_tokens),
        ("tools", "Tools", context.tools_tokens),
    ];
    let fixed = fixed.into_iter().filter(|(.., tokens)| *tokens > 0);
    let mut all: Vec<Part> = fixed
        .map(|(kind, says, tokens)| Part::new(kind, says.to_owned(), tokens, None))
        .collect();
    let mut summaries = context.summaries.iter().peekable();
    let mut stretch: Vec<&ContextMessage> = Vec::new();
    let each = context.messages.len().div_ceil(EACH).max(1);
    for entry in &context.messages {
        while let Some(summary) = summaries.next_if(|summary| summary.first <= entry.ordinal) {
            flush(&mut stretch, &mut all, places);
            all.push(checkpoint(summary, places));
        }
        let same = stretch
            .first()
            .is_none_or(|first| kind(first) == kind(entry));
        if stretch.len() >= each || (each == 1 && !stretch.is_empty()) || (!same && each < 4) {
            flush(&mut stretch, &mut all, places);
        }
        stretch.push(entry);
    }
    flush(&mut stretch, &mut all, places);
    all.extend(summaries.map(|summary| checkpoint(summary, places)));
    if context.pending_messages > 0 {
        let messages = counted(context.pending_messages.into(), "message");
        let says = format!("{messages}, after the current turn");
        all.push(Part::new("pending", says, context.pending_tokens, None));
    }
    all
}

fn checkpoint(summary: &Summary, places: &Places<'_>) -> Part {
    let (first, last) = (summary.first, summary.last);
    let says = format!("Checkpoint {}: #{first}–#{last}", summary.checkpoint);
    let to = (places.checkpoint)(summary.checkpoint);
    Part::new("checkpoint", says, summary.tokens, Some(to))
}

/// Neighbouring messages as one part.
fn flush(stretch: &mut Vec<&ContextMessage>, all: &mut Vec<Part>, places: &Places<'_>) {
    let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else {
        return;
    };
    let says = match stretch.len() {
        1 => {
            let form = first
                .form
                .as_deref()
                .map_or(String::new(), |form| format!(", {form}"));
            let pinned = if first.pinned { ", pinned" } else { "" };
            format!("#{} {}{form}{pinned}", first.ordinal, first.role)
        }
        n => format!("#{}–#{}, {n} messages", first.ordinal, last.ordinal),
    };
    let tokens = |kind: &&str| {
        let own = stretch.iter().filter(|entry| self::kind(entry) == *kind);
        own.map(|entry| entry.tokens).sum()
    };
    let kinds = KINDS.iter().map(|(kind, ..)| *kind);
    let kinds = kinds.map(|kind| (kind, tokens(&kind)));
    all.push(Part {
        kinds: kinds.filter(|(_, tokens)| *tokens > 0).collect(),
        says,
        to: Some((places.message)(first.ordinal)),
    });
    stretch.clear();
}

fn kind(entry: &ContextMessage) -> &'static str {
    match entry.role.as_str() {
        _ if entry.pinned => "pinned",
        _ if entry.form.is_some() => "short",
        "user" => "user",
        "tool" => "tool",
        _ => "assistant",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;
    use unisono_api::context::UsableTokens;
    use unisono_api::session::Preview;

    fn context(occupancy_percent: u64, messages: u32) -> Context {
        let entry = |ordinal| ContextMessage {
            ordinal,
            role: if ordinal % 2 == 1 {
                "user"
            } else {
                "assistant"
            }
            .to_owned(),
            author: None,
            tokens: 10,
            pinned: ordinal == 5,
            form: None,
            text: "<b>".to_owned(),
        };
        Context {
            session: String::new(),
            branch: "main".to_owned(),
            snapshot: String::new(),
            encoding: "o200k_base".to_owned(),
            window_tokens: 2_000,
            usable_tokens: 1_000,
            usable: vec![UsableTokens {
                agent: "lead".to_owned(),
                lead: true,
                model: String::new(),
                encoding: "o200k_base".to_owned(),
                window_tokens: 2_000,
                reply_tokens: 900,
                safety_tokens: 0,
                preamble_tokens: 0,
                assignment_tokens: 100,
                results_tokens: 0,
                calibration_tokens: 0,
                usable_tokens: 1_000,
            }],
            used_tokens: occupancy_percent * 10,
            occupancy_percent,
            approximate: false,
            system: String::new(),
            system_tokens: 11,
            skills_tokens: 4,
            tools: Vec::new(),
            tools_tokens: 0,
            uncounted_servers: Vec::new(),
            topics: Preview::new(0, Vec::new(), String::new()),
            tiers: Vec::new(),
            summaries: vec![Summary {
                checkpoint: 2,
                first: 1,
                last: 4,
                messages: 4,
                tier: "conversation".to_owned(),
                tokens: 30,
                tokens_before: 100,
                compression_ratio: None,
                tightened: false,
                at: String::new(),
                model: String::new(),
                note: false,
                text: String::new(),
            }],
            messages: (5..5 + messages).map(entry).collect(),
            pending_messages: 2,
            pending_tokens: 6,
            prepared: None,
            exact_tokens: None,
            exact_error: None,
        }
    }

    fn places<T>(then: impl FnOnce(&Places<'_>) -> T) -> T {
        then(&Places {
            message: Box::new(|number| format!("#m{number}")),
            checkpoint: Box::new(|number| format!("/checkpoints/{number}")),
        })
    }

    #[test]
    fn the_bar_warns_from_80_percent_alarms_from_95_and_says_what_does_not_fit() {
        for (percent, class, says) in [
            (0, "calm", "0 %</strong></p>"),
            (79, "calm", "79 %</strong></p>"),
            (80, "warn", "80 %</strong>: filling up"),
            (94, "warn", "94 %</strong>: filling up"),
            (95, "alarm", "95 %</strong>: nearly full"),
            (100, "alarm", "100 %</strong>: nearly full"),
            (532, "alarm", "532 %</strong>: more than fits"),
        ] {
            let shown = places(|places| bar(&context(percent, 1), places)).into_string();
            shown.has_all(&[&format!("class=\"context {class}\""), says]);
        }
    }

    #[test]
    fn parts_stand_in_the_order_of_the_context_and_lead_to_what_they_are() {
        let parts = places(|places| parts(&context(10, 3), places));
        let said = parts.iter().map(|part| {
            (
                part.kinds[0].0,
                part.says.as_str(),
                part.tokens(),
                part.to.as_deref().unwrap_or(""),
            )
        });
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                ("system", "System text", 7, ""),
                ("skills", "List of skills", 4, ""),
                ("checkpoint", "Checkpoint 2: #1–#4", 30, "/checkpoints/2"),
                ("pinned", "#5 user, pinned", 10, "#m5"),
                ("assistant", "#6 assistant", 10, "#m6"),
                ("user", "#7 user", 10, "#m7"),
                ("pending", "2 messages, after the current turn", 6, ""),
            ]
        );
    }

    #[test]
    fn what_is_reserved_and_what_waits_are_in_the_picture_and_in_the_table() {
        let shown = places(|places| bar(&context(10, 1), places)).into_string();
        for (says, times) in [
            ("Reserved for a reply", 2),
            ("Reserved for instructions and task", 2),
            ("Reserved for results", 0),
            ("class=\"pending\"", 4),
            ("2 messages, after the current turn", 2),
        ] {
            assert_eq!(shown.matches(says).count(), times, "{says}: {shown}");
        }
        shown.has_all(&["class=\"reserve part\" x=\"500\" y=\"0\" width=\"450\""]);
    }

    #[test]
    fn many_messages_are_few_parts_and_all_of_their_tokens() {
        let parts = places(|places| parts(&context(10, 10_000), places));
        assert!(parts.len() <= EACH + 4, "{}", parts.len());
        let tokens: u64 = parts.iter().map(Part::tokens).sum();
        assert_eq!(tokens, 11 + 30 + 100_000 + 6);
        let last = &parts[parts.len() - 2];
        assert!(last.says.ends_with("messages"), "{}", last.says);
        let kinds: Vec<_> = last.kinds.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["user", "assistant"], "both roles of the group");
    }
}
