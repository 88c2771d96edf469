//! What several places of the page show: the bar, summaries, runs, messages.

use maud::{Markup, html};
use unisono_api::compaction::Checkpoint;
use unisono_api::context::Context;
use unisono_api::message::{Message, Part};
use unisono_api::turn::{Run, Turn};

/// Occupancy from which the bar warns, and from which it alarms, in percent.
const WARN: u64 = 80;
const ALARM: u64 = 95;

/// A number with its thousands apart.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A text on one line, cut to so many characters.
pub(super) fn line(text: &str, most: usize) -> String {
    let whole = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match whole.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &whole[..at]),
        None => whole,
    }
}

/// An instant, to the minute.
pub(super) fn when(instant: &str) -> Markup {
    let shown = instant.get(..16).unwrap_or(instant).replace('T', " ");
    html! { time datetime=(instant) { (shown) } }
}

fn dollars(cost: Option<f64>) -> String {
    match cost {
        Some(0.0) => "free".to_owned(),
        Some(cost) => format!("${cost:.4}"),
        None => "unknown".to_owned(),
    }
}

/// How full the window is.
pub(super) fn bar(context: &Context) -> Markup {
    let percent = context.occupancy_percent;
    let class = match percent {
        ALARM.. => "alarm",
        WARN.. => "warn",
        _ => "calm",
    };
    let (used, usable) = (number(context.used_tokens), number(context.usable_tokens));
    html! {
        div class={ "bar " (class) } {
            label for="bar" { (used) " of " (usable) " tokens, " (percent) " %"
                @if context.approximate { " (estimated)" } }
            progress id="bar" max="100" value=(percent.min(100)) { (percent) " %" }
        }
    }
}

/// What the model sees, by section.
pub(super) fn sections(context: &Context) -> Markup {
    html! {
        p {
            "Snapshot " code { (context.snapshot.get(..12).unwrap_or(&context.snapshot)) }
            ", counted with " (context.encoding)
        }
        @if !context.system.is_empty() {
            details { summary { "System" } pre class="text" { (context.system) } }
        }
        @if !context.tools.is_empty() {
            details { summary { (context.tools.len()) " tools" }
                ul { @for tool in &context.tools { li { code { (tool.name) } " " (tool.description) } } } }
        }
        @for summary in &context.summaries {
            details class="summary" {
                summary {
                    span class="badge" { (summary.messages) " messages" }
                    " Summary of #" (summary.first) "–#" (summary.last)
                    span class="quiet" { (number(summary.tokens)) " tokens, " (summary.model) }
                }
                pre class="text" { (summary.text) }
            }
        }
        @for entry in &context.messages {
            details {
                summary {
                    "#" (entry.ordinal) " " (entry.author.as_deref().unwrap_or(&entry.role))
                    @if let Some(form) = &entry.form { span class="tag" { (form) } }
                    span class="quiet" { (number(entry.tokens)) " tokens · " (line(&entry.text, 80)) }
                }
                pre class="text" { (entry.text) }
            }
        }
    }
}

/// The checkpoints of a session.
pub(super) fn checkpoints(all: &[Checkpoint]) -> Markup {
    html! {
        @for checkpoint in all.iter().rev() {
            details class="summary" {
                summary {
                    span class="badge" { (checkpoint.messages) " messages" }
                    " Checkpoint " (checkpoint.number) ": #" (checkpoint.first) "–#" (checkpoint.last)
                    @if !checkpoint.active { span class="tag" { "not in the context" } }
                    @if checkpoint.degraded { span class="tag" { "without a model" } }
                    span class="quiet" {
                        (number(checkpoint.tokens_before)) " → " (number(checkpoint.tokens_after))
                        " tokens, " (checkpoint.model) ", " (when(&checkpoint.at))
                    }
                }
                @match &checkpoint.text {
                    Some(text) => pre class="text" { (text) },
                    None => p { "These messages were left out; a note stands for them." },
                }
            }
        }
    }
}

/// A turn with its tree of runs.
pub(super) fn turn(turn: &Turn) -> Markup {
    let open = turn.ended.is_none();
    html! {
        article class="card turn" data-turn=(turn.turn) data-open[open] {
            header {
                h3 { (line(turn.task.as_deref().unwrap_or("Compaction"), 120)) }
                p class="quiet" {
                    span class={ "state " (turn.state) } { (turn.state) }
                    " " (when(&turn.accepted))
                    @if let Some(snapshot) = &turn.snapshot {
                        " · snapshot " code { (snapshot.get(..12).unwrap_or(snapshot)) }
                        " " span class="badge" { "identical for " (turn.snapshot_agents) " agents" }
                    }
                    @if !open && !turn.runs.is_empty() { " · " (dollars(turn.cost_usd)) }
                }
                @if open {
                    form method="post" action={ "/sessions/" (turn.session) "/turns/" (turn.turn) "/cancel" } {
                        button class="small" { "Cancel" }
                    }
                }
            }
            @if let Some(error) = &turn.error { p class="trouble" { (error.code) ": " (error.reason) } }
            @if !turn.runs.is_empty() { (runs(turn)) }
            @if let Some(answer) = &turn.answer { pre class="text answer" { (answer) } }
        }
    }
}

fn runs(turn: &Turn) -> Markup {
    let top = turn.runs.iter().filter(|run| run.parent.is_none());
    html! {
        div class="scroll" {
            table class="runs" {
                thead { tr {
                    th { "Agent" } th { "Model" } th { "State" } th class="number" { "In" }
                    th class="number" { "Cached" } th class="number" { "Out" }
                    th class="number" { "Cost" } th class="number" { "Time" }
                } }
                tbody { @for run in top { (row(run, turn, 0)) } }
            }
        }
        @for run in &turn.runs {
            details class="run" {
                summary { (run.agent) span class="quiet" { " " (line(run.text.as_deref().unwrap_or(""), 90)) } }
                @if let Some(task) = &run.task { p { "Task: " (task) } }
                @if let Some(error) = &run.error { p class="trouble" { (error.code) ": " (error.reason) } }
                pre class="text" data-run=(run.run) { (run.text.as_deref().unwrap_or("")) }
            }
        }
    }
}

/// How deep the tree is drawn; what is deeper stands at that depth.
const DEEPEST: usize = 4;

fn row(run: &Run, turn: &Turn, depth: usize) -> Markup {
    let below = turn
        .runs
        .iter()
        .filter(|child| child.parent.as_deref() == Some(&run.run));
    let used = &run.usage;
    html! {
        tr {
            td class={ "depth" (depth.min(DEEPEST)) } {
                (run.agent) @if run.role == "lead" { span class="tag" { "lead" } }
            }
            td class="quiet" { (run.model.as_deref().unwrap_or("")) }
            td { span class={ "state " (run.state) } { (run.state) }
                @if run.attempt > 1 { span class="quiet" { " attempt " (run.attempt) } } }
            td class="number" { (number(used.input_tokens)) }
            td class="number" { (number(used.cache_read_tokens)) }
            td class="number" { (number(used.output_tokens)) }
            td class="number" { (dollars(used.cost_usd)) }
            td class="number" { @if let Some(ms) = run.duration_ms { (number(ms)) " ms" } }
        }
        @for child in below { (row(child, turn, depth + 1)) }
    }
}

/// A message, and a way to fork from it.
pub(super) fn message(message: &Message, session: &str) -> Markup {
    let gone = matches!(message.form.as_str(), "summarised" | "dropped");
    let who = message.author.as_deref().unwrap_or(&message.role);
    html! {
        article class={ "message " (message.role) @if gone { " gone" } } id={ "m" (message.ordinal) } {
            header class="quiet" {
                a href={ "#m" (message.ordinal) } { "#" (message.ordinal) }
                " " strong { (who) } " " (when(&message.at))
                @if let Some(tokens) = message.tokens { " · " (number(tokens)) " tokens" }
                @if message.form != "verbatim" {
                    span class="tag" { @if gone { (message.form) ", not in the context" } @else { (message.form) } }
                }
            }
            @for part in &message.parts { (self::part(part)) }
            details class="fork" {
                summary { "Fork here" }
                form method="post" action={ "/sessions/" (session) "/fork" } {
                    input type="hidden" name="at" value=(message.id);
                    label for={ "fork" (message.ordinal) } { "Name of the branch" }
                    input id={ "fork" (message.ordinal) } name="name" required maxlength="60";
                    button class="small" { "Fork" }
                }
            }
        }
    }
}

fn part(part: &Part) -> Markup {
    html! {
        @match part {
            Part::Text { text } => pre class="text" { (text) },
            Part::ToolCall { name, arguments, .. } => pre class="tool" { (name) "(" (arguments) ")" },
            Part::ToolResult { content, is_error, .. } => {
                details { summary { @if *is_error { "Failed: " } @else { "Result: " } (line(content, 80)) }
                    pre class="tool" { (content) } }
            },
            Part::Attachment { filename, mime, size_bytes } => {
                p class="tool" { (filename) ", " (mime) ", " (number(*size_bytes)) " bytes" }
            },
        }
    }
}
