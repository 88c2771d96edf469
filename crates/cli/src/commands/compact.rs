//! `unisono compact`: the older part of a conversation is summarised on request.

use serde_json::{Value, json};
use unisono_api::compaction::{CompactionEffect, Estimate, NewCompaction, NextTurn, OnFailure};
use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::{Compacted, TurnRequest};
use unisono_api::turn_event::NewCheckpoint;
use unisono_context::Tokens;
use unisono_model::catalogue::EXTRACTIVE;

use crate::app::App;
use crate::ask::{ask_fallback, can_ask, confirmed};
use crate::live::{End, Interrupts, Limits, Screen, Watch, conclude, follow};
use crate::options::{Compaction, Writer, tokens};
use crate::problem::Result;
use crate::service::{find_session, spoken_length};
use crate::show;
use crate::turn_service::{IdleStore, TurnService};

/// The code of a turn whose summary could not be written.
const UNWRITTEN: &str = "compaction_failed";
/// Conversations below this number of tokens are short: their summary may lose more than it saves.
const SHORT: u64 = 2_000;

const HELP: &str = "\
Without --keep, everything before the newest user message is summarised. --topic, --attention and
--large shrink one part instead, by the rules of the preset tiered. --dry-run also shows the
automatic compaction of the next turn. Messages in the journal are never changed or deleted.
A summary is at most as long as the summaries that it replaces and nine tenths of the new
messages together. --large cuts at most 1,024 messages at a time.

Examples:
  unisono compact latest --dry-run
  unisono compact latest --keep 20 --yes
  unisono compact latest --topic 12                the topic of message #12
  unisono compact latest --large=2000              messages over 2,000 tokens
  unisono compact latest --instructions \"Keep every figure.\"
  unisono compact latest --summariser extractive   quotes, without a model
  unisono compact latest --on-failure extractive   quotes, if every model fails

JSON of --dry-run: session, branch, total_messages, messages_to_summarise, messages_to_shorten,
tokens_before, estimated_tokens_after, estimated_compression_ratio, estimated_cost_usd (null: the
price is unknown), step, no_change_reason (the reason if there is no step), warnings (budgets
that have less left than this may need), next_turn {preset, starts_above_tokens,
keeps, tokens_before, estimated_tokens_after, estimated_compression_ratio, steps, tightened, problem}.
JSON otherwise: session, state (compacted, shortened, nothing_to_do), checkpoint, messages, tokens_before,
tokens_after, tokens_saved, effect (masked, cut, dropped, summarised, nothing),
compression_ratio (before by after), preview, no_change_reason (the reason if
nothing was done).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
    /// The branch; its summary applies to every branch that has the summarised messages
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// Shows the result, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    compaction: Compaction,
    /// Newest messages that stay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Tokens of the newest messages that stay
    #[arg(long, value_name = "TOKENS", value_parser = tokens, conflicts_with = "keep")]
    keep_tokens: Option<u64>,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    writer: Writer,
}

/// The part of the context to compact; by default, all older messages.
#[derive(Debug, clap::Args)]
#[group(conflicts_with_all = ["keep", "keep_tokens"])]
struct Part {
    /// Summarises the topic that message N belongs to, if it has ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    topic: Option<u32>,
    /// Summarises the middle of the current topic
    #[arg(long, conflicts_with = "topic")]
    attention: bool,
    /// Cuts the middle out of messages above this many tokens (default: the share of the preset
    /// tiered)
    #[arg(long, value_name = "TOKENS", value_parser = large, num_args = 0..=1,
          require_equals = true, conflicts_with_all = ["topic", "attention"])]
    large: Option<Option<u64>>,
}

/// Parses the size from which a message is large.
fn large(text: &str) -> std::result::Result<u64, String> {
    match tokens(text)? {
        small if small < 64 => Err("64 tokens are the least".to_owned()),
        size => Ok(size),
    }
}

impl Args {
    fn new_compaction(&self) -> NewCompaction {
        NewCompaction {
            instructions: self.writer.instructions.clone(),
            summariser: self.writer.summariser.clone(),
            on_failure: self.writer.on_failure(),
            keep_messages: self.keep,
            keep_tokens: self.keep_tokens,
            topic: self.part.topic,
            attention: self.part.attention,
            large_messages: self.part.large.is_some(),
            over_tokens: self.part.large.flatten(),
            ..NewCompaction::new(self.branch.as_str())
        }
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(args.compaction.overrides())?;
    let new = args.new_compaction();
    let idle_store = app.idle_store(&setup).await?;
    let service = idle_store.service();
    let session = find_session(service, &args.session).await?.session;
    spoken_length(service, &session, &args.branch).await?;
    let estimate = service.estimate(&session, &new).await?;
    if args.dry_run {
        report_estimate(app, &estimate);
        idle_store.close().await;
        return Ok(());
    }
    if estimate.step.is_none() {
        let why = estimate.no_change_reason.as_deref().unwrap_or_default();
        report_unchanged(app, &session, Some(estimate.tokens_before), why);
        idle_store.close().await;
        return Ok(());
    }
    if estimate.tokens_before < SHORT {
        let before = show::number(estimate.tokens_before);
        app.out.warn(format_args!(
            "the conversation is short ({before} tokens): little is saved"
        ));
    }
    if !args.yes && !confirmed(&app.out, &question(&estimate))? {
        app.out.message("nothing was changed");
        idle_store.close().await;
        return Ok(());
    }
    let mut interrupts = Interrupts::listen()?;
    let request = TurnRequest::Compact(new);
    let asks = !args.yes && args.writer.is_open();
    let at = (session.as_str(), args.branch.as_str());
    let (watch, end) = follow_each(app, idle_store, at, &request, &mut interrupts, asks).await?;
    report(app, &watch, end)
}

/// The next request after a summary could not be written, if a person wants one.
async fn next_request(
    app: &App,
    watch: &Watch,
    failed: &TurnRequest,
    interrupts: &mut Interrupts,
) -> Result<Option<TurnRequest>> {
    let Some((UNWRITTEN, reason)) = watch.error() else {
        return Ok(None);
    };
    if !can_ask(&app.out) {
        return Ok(None);
    }
    let mut again = failed.clone();
    match ask_fallback(&app.out, reason, interrupts).await? {
        OnFailure::Leave => return Ok(None),
        OnFailure::Retry => {}
        OnFailure::Extractive => write_by_quotes(&mut again),
    }
    Ok(Some(again))
}

/// Asks for a summary without a model.
fn write_by_quotes(request: &mut TurnRequest) {
    let summariser = match request {
        TurnRequest::Compact(new) => &mut new.summariser,
        TurnRequest::Regenerate { new, .. } => &mut new.summariser,
        TurnRequest::RetryCompaction { new, .. } => &mut new.summariser,
        TurnRequest::Task(_) | TurnRequest::Edit { .. } | TurnRequest::Revert { .. } => return,
    };
    *summariser = Some(EXTRACTIVE.to_owned());
}

fn dollars(usd: Option<f64>) -> String {
    let cost = usd.map(show::in_dollars);
    cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string())
}

fn question(estimate: &Estimate) -> String {
    let (what, messages) = match estimate.messages_to_summarise {
        0 => ("Cut", estimate.messages_to_shorten),
        summarised => ("Summarise", summarised),
    };
    format!(
        "{what} {messages} of {}: {} tokens become at most {}, cost {}?",
        show::many(u64::from(estimate.total_messages), "message"),
        show::number(estimate.tokens_before),
        show::number(estimate.estimated_tokens_after),
        dollars(estimate.estimated_cost_usd),
    )
}

fn report_estimate(app: &App, estimate: &Estimate) {
    if app.out.json {
        return app.out.json(estimate);
    }
    let rows = [
        ("messages", show::number(estimate.total_messages.into())),
        match estimate.messages_to_shorten {
            0 => ("to summarise", show::number(estimate.messages_to_summarise)),
            cut => ("to cut", show::number(cut)),
        },
        ("tokens before", show::number(estimate.tokens_before)),
        (
            "tokens after",
            format!(
                "at most {}{}",
                show::number(estimate.estimated_tokens_after),
                show::compression(
                    Tokens(estimate.tokens_before),
                    Tokens(estimate.estimated_tokens_after),
                )
            ),
        ),
        ("cost", dollars(estimate.estimated_cost_usd)),
        (
            "step",
            estimate
                .step
                .as_ref()
                .map(|steps| steps.replace("; ", BELOW))
                .or_else(|| {
                    Some(format!(
                        "nothing to do: {}",
                        estimate.no_change_reason.as_ref()?
                    ))
                })
                .unwrap_or_default(),
        ),
        ("next turn", by_itself(&estimate.next_turn)),
    ];
    let paint = app.out.paint;
    for (name, value) in rows {
        let row = format!("{} {value}", paint.bold(format_args!("{name:<14}")));
        app.out.data(show::wrap(&row, BEHIND));
    }
    for warning in &estimate.warnings {
        app.out.warn(warning);
    }
}

/// Columns before the values of an estimate.
const BEHIND: usize = 15;
/// The indentation of further lines of a value: each step has its own line.
const BELOW: &str = "\n               ";

/// Describes the automatic compaction of the next turn.
fn by_itself(next: &NextTurn) -> String {
    let starts = match next.starts_above_tokens {
        Some(starts) => format!(" compacts above {} tokens", show::number(starts)),
        None if next.preset == "off" => " never compacts".to_owned(),
        None => " compacts where a tier is full".to_owned(),
    };
    let what = match (&next.problem, &next.steps[..]) {
        (Some(problem), _) => format!("it would fail: {problem}"),
        (None, []) => format!(
            "nothing to do at {} tokens",
            show::number(next.tokens_before)
        ),
        (None, steps) => {
            let (before, after) = (next.tokens_before, next.estimated_tokens_after);
            let less = match next.tightened {
                true => ", less kept than requested",
                false => "",
            };
            format!(
                "{} → at most {} tokens{}{less}:{BELOW}{}",
                show::number(before),
                show::number(after),
                show::compression(Tokens(before), Tokens(after)),
                steps.join(BELOW)
            )
        }
    };
    format!(
        "preset {}{starts}, keeps {}: {what}",
        next.preset, next.keeps
    )
}

/// Reports why nothing is changed in a context with this number of tokens.
pub(crate) fn report_unchanged(app: &App, session: &str, tokens: Option<u64>, why: &str) {
    let report = json!({
        "session": session, "state": "nothing_to_do", "checkpoint": null,
        "messages": 0, "tokens_before": tokens, "tokens_after": tokens, "tokens_saved": 0,
        "effect": CompactionEffect::Nothing, "compression_ratio": null, "preview": null,
        "no_change_reason": why,
    });
    let message = format!("nothing to do: {why}");
    app.out.outcome(&report, message);
}

/// Asks a session, on a branch, for a turn without agents and follows it to its end. With `asks`, a
/// person chooses how to continue after each summary that could not be written.
pub(crate) async fn follow_each(
    app: &App,
    idle_store: IdleStore,
    at: (&str, &str),
    request: &TurnRequest,
    interrupts: &mut Interrupts,
    asks: bool,
) -> Result<(Watch, End)> {
    let turns = idle_store.work(app, None).await?;
    let done = one_by_one(app, &turns, at, request, interrupts, asks).await;
    let end = done.as_ref().map_or(End::Ended, |(_, end)| *end);
    turns.stop(end).await;
    done
}

async fn one_by_one(
    app: &App,
    turns: &TurnService,
    (session, branch): (&str, &str),
    request: &TurnRequest,
    interrupts: &mut Interrupts,
    asks: bool,
) -> Result<(Watch, End)> {
    let mut asked = request.clone();
    loop {
        let mut followed = turns.begin(session, &asked, branch).await?;
        let mut screen = Screen::new(&app.out);
        let limits = Limits::leaving(interrupts);
        let end = follow(turns.service(), &mut followed, &mut screen, limits).await?;
        drop(screen);
        let watch = followed.leave();
        if !asks {
            return Ok((watch, end));
        }
        match next_request(app, &watch, request, interrupts).await? {
            Some(again) => asked = again,
            None => return Ok((watch, end)),
        }
    }
}

/// Reports the result of a compaction on request, or of a regenerated summary.
pub(crate) fn report(app: &App, watch: &Watch, end: End) -> Result<()> {
    let compacted = watch
        .amounts()
        .filter(|_| watch.outcome() == Some("compacted"));
    match (compacted, watch.checkpoints.last()) {
        (Some(amounts), Some(checkpoint)) => report_checkpoint(app, watch, amounts, checkpoint),
        (Some(amounts), None) => report_without_checkpoint(app, watch, amounts),
        (None, _) => return conclude(&app.out, watch, end),
    }
    Ok(())
}

fn compacted(watch: &Watch) -> Option<Compacted> {
    watch.end.as_ref()?.turn.compacted
}

/// The result as JSON; without a checkpoint, messages were masked and cut at most.
fn as_json(watch: &Watch, (before, after): (u64, u64), made: Option<&NewCheckpoint>) -> Value {
    let state = match made {
        Some(_) => "compacted",
        None if after < before => "shortened",
        None => "nothing_to_do",
    };
    json!({
        "session": watch.session, "state": state, "checkpoint": made.map(|made| made.number),
        "messages": made.map_or(0, |made| made.messages), "tokens_before": before,
        "tokens_after": after, "tokens_saved": before.saturating_sub(after),
        "effect": compacted(watch).map_or(CompactionEffect::Nothing, |done| done.effect),
        "compression_ratio": show::ratio(before, after),
        "preview": made.map(|made| &made.preview), "no_change_reason": null,
    })
}

/// Reports the tokens saved by masking and cutting messages, if any.
fn report_without_checkpoint(app: &App, watch: &Watch, (before, after): (u64, u64)) {
    if app.out.json {
        return app.out.json(&as_json(watch, (before, after), None));
    }
    if after >= before {
        let tokens = show::number(before);
        return app
            .out
            .message(format_args!("nothing was changed: {tokens} tokens"));
    }
    let effect = compacted(watch);
    let effect = effect.map_or_else(|| "nothing changed".to_owned(), |done| done.text());
    app.out.data(format_args!(
        "{effect}: {} → {} tokens, {} saved{}; the messages stay whole in the history",
        show::number(before),
        show::number(after),
        show::number(before.saturating_sub(after)),
        show::compression(Tokens(before), Tokens(after))
    ));
}

/// Reports the result of a compaction, with the beginning of the summary.
fn report_checkpoint(app: &App, watch: &Watch, (before, after): (u64, u64), made: &NewCheckpoint) {
    if app.out.json {
        return app.out.json(&as_json(watch, (before, after), Some(made)));
    }
    let ratio = show::compression(Tokens(before), Tokens(after));
    let saved = match before.saturating_sub(after) {
        0 => String::new(),
        saved => format!(", {} saved{ratio}", show::number(saved)),
    };
    let (before, after) = (show::number(before), show::number(after));
    app.out.data(format_args!(
        "compacted: {before} → {after} tokens{saved}; checkpoint {}\n{}",
        made.number, made.preview
    ));
}
