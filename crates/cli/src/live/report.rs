//! The result of a turn: the answer or the JSON on stdout, and the exit code.

use serde::Serialize;
use unisono_api::compaction::{CompactionEffect, FactCoverage};
use unisono_api::fmt;
use unisono_api::harmless::for_terminal;
use unisono_api::turn::ErrorInfo;
use unisono_api::turn_event::{Member, NewCheckpoint};
use unisono_api::usage::{Amounts, Budget, SummaryUsage};
use unisono_context::Cost;
use unisono_session::budget::EXCEEDED;

use super::follow::End;
use super::watch::Watch;
use crate::output::Out;
use crate::problem::{Exit, Problem, Result};
use crate::show;

/// A turn, as `run --json` and `resume --json` print it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    session: String,
    turn: String,
    /// `answered`, `compacted`, `reverted`, `failed`, `cancelled`, `timeout`, or `open` after an
    /// interruption.
    state: String,
    /// For `failed`: the code and the message.
    error: Option<ErrorInfo>,
    answer: Option<String>,
    /// The ordinal of the answer's message.
    answer_message: Option<u32>,
    /// Id of the frozen context, in full.
    snapshot: Option<String>,
    snapshot_agents: u64,
    tokens_before: Option<u64>,
    tokens_after: Option<u64>,
    usable_tokens: Option<u64>,
    /// Tokens before divided by tokens after; none without a compaction.
    compression_ratio: Option<f64>,
    /// Whether fewer messages were kept verbatim than requested, so that the context fits.
    tightened: bool,
    /// What the compaction did; none without one.
    effect: Option<CompactionEffect>,
    checkpoints: Vec<Made>,
    runs: Vec<RunReport>,
    /// After `resume`: the agents whose definitions have changed since the turn began. The turn
    /// continued with the old ones.
    changed_agents: Vec<String>,
    /// The cost of its usage; none if a price is unknown.
    cost_usd: Option<f64>,
    /// The usage of all runs and of the requests for summaries.
    usage: Amounts,
    /// The part of requests for summaries; none: no model was asked for one.
    summaries: Option<SummaryUsage>,
    /// The budgets of the turn and its session at its end, in dollars, tokens or seconds.
    budgets: Vec<Budget>,
}

#[derive(Debug, Serialize)]
struct Made {
    number: u32,
    messages: u32,
    tokens_before: u64,
    tokens_after: u64,
    compression_ratio: Option<f64>,
    model: String,
    /// Whether a model will write it again.
    degraded: bool,
    /// The number of the checkpoint that it replaces.
    regenerates: Option<u32>,
    duration_ms: u64,
    /// The days, names and ids of the messages that a model's summary retains.
    coverage: Option<FactCoverage>,
}

#[derive(Debug, Serialize)]
struct RunReport {
    /// Its id; none if it was not opened.
    run: Option<String>,
    agent: String,
    /// `delegate`, `lead`, or `child` of one of these.
    role: String,
    /// Its place in a pipeline, from 1.
    stage: Option<u32>,
    /// `waiting`, `running`, `done`, `partial`, `failed` or `cancelled`.
    state: String,
    text: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Input tokens of the provider's cache: expected, read and written.
    cache_expected_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    /// Whether less than half of the expected tokens came from the cache.
    cache_missed: Option<bool>,
    /// None for an unknown price.
    cost_usd: Option<f64>,
    duration_ms: Option<u64>,
    /// For `failed`: its class, such as `timeout` or `exit_failure`.
    cause: Option<String>,
    /// Why it failed or is not complete.
    reason: Option<String>,
}

impl Report {
    pub(crate) fn new(watch: &Watch, end: End) -> Report {
        let context = watch.context.as_ref();
        let used = watch.usage();
        Report {
            session: watch.session.clone(),
            turn: watch.turn.clone(),
            state: word(watch, end).to_owned(),
            error: watch.end.as_ref().and_then(|end| end.turn.error.clone()),
            answer: watch.answer().map(ToOwned::to_owned),
            answer_message: watch.end.as_ref().and_then(|end| end.answer_message),
            snapshot: context.map(|context| context.snapshot.clone()),
            snapshot_agents: context.map_or(0, |context| context.agents),
            tokens_before: watch.tokens_before.or(context.map(|c| c.tokens)),
            tokens_after: context.map(|context| context.tokens),
            usable_tokens: context.map(|context| context.usable_tokens),
            compression_ratio: watch
                .tokens_before
                .zip(context)
                .and_then(|(before, context)| show::ratio(before, context.tokens)),
            tightened: watch.tightened,
            effect: watch
                .end
                .as_ref()
                .and_then(|end| Some(end.turn.compacted?.effect)),
            checkpoints: watch.checkpoints.iter().map(made).collect(),
            runs: watch.agents.iter().map(run).collect(),
            changed_agents: watch.changed.iter().map(|one| one.agent.clone()).collect(),
            cost_usd: used.cost_usd,
            usage: used,
            summaries: watch.end.as_ref().and_then(|end| end.turn.summaries),
            budgets: watch
                .end
                .as_ref()
                .map_or_else(Vec::new, |end| end.budgets.clone()),
        }
    }
}

fn word(watch: &Watch, end: End) -> &str {
    match (end, watch.outcome()) {
        (End::TimedOut, None | Some("failed" | "cancelled")) => "timeout",
        (_, Some(outcome)) => outcome,
        (_, None) => "open",
    }
}

fn made(checkpoint: &NewCheckpoint) -> Made {
    Made {
        number: checkpoint.number,
        messages: checkpoint.messages,
        tokens_before: checkpoint.tokens_before,
        tokens_after: checkpoint.tokens_after,
        compression_ratio: show::ratio(checkpoint.tokens_before, checkpoint.tokens_after),
        model: checkpoint.model.clone(),
        degraded: checkpoint.degraded,
        regenerates: checkpoint.regenerates,
        duration_ms: checkpoint.duration_ms,
        coverage: checkpoint.coverage,
    }
}

fn run(agent: &Member) -> RunReport {
    let used = agent.usage.as_ref();
    let error = agent.error.as_ref();
    RunReport {
        run: agent.run.clone(),
        agent: agent.agent.clone(),
        role: agent.role.clone(),
        stage: agent.stage,
        state: agent.state.clone(),
        text: agent.text.clone(),
        input_tokens: used.map(|used| used.input_tokens),
        output_tokens: used.map(|used| used.output_tokens),
        cache_expected_tokens: used.map(|used| used.cache_expected_tokens),
        cache_read_tokens: used.map(|used| used.cache_read_tokens),
        cache_write_tokens: used.map(|used| used.cache_write_tokens),
        cache_missed: used.map(|used| used.cache_missed),
        cost_usd: used.and_then(|used| used.cost_usd),
        duration_ms: agent.duration_ms,
        cause: error
            .filter(|_| agent.state == "failed")
            .map(|error| error.code.clone()),
        reason: error.map(|error| error.reason.clone()),
    }
}

/// Prints the answer and returns the result of the program.
pub(crate) fn conclude(out: &Out, watch: &Watch, end: End) -> Result<()> {
    if out.json {
        report(out, watch, end);
    } else if let Some(answer) = watch.answer() {
        report_cost(out, watch);
        for budget in watch.end.iter().flat_map(|end| &end.budgets) {
            out.message(format_args!("budget     {}", show::budget_line(budget)));
        }
        out.message("");
        out.markdown(&for_terminal(answer));
    }
    ending(out, watch, end)
}

/// A fan-out, as `delegate --json` prints it.
#[derive(Debug, Serialize)]
struct Delegation {
    #[serde(flatten)]
    turn: Report,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct Missing {
    agent: String,
    /// `partial`, `failed` or `cancelled`.
    state: String,
    reason: Option<String>,
}

/// Prints the result of each delegate and the lead's answer, and returns the result of the program.
pub(crate) fn conclude_delegation(out: &Out, watch: &Watch, end: End) -> Result<()> {
    let turn = Report::new(watch, end);
    let given: Vec<&RunReport> = turn.runs.iter().filter(|run| run.role != "lead").collect();
    if out.json {
        let lacking =
            |run: &&&RunReport| matches!(run.state.as_str(), "partial" | "failed" | "cancelled");
        let missing = given.iter().filter(lacking).map(|run| Missing {
            agent: run.agent.clone(),
            state: run.state.clone(),
            reason: run.reason.clone(),
        });
        let missing = missing.collect();
        out.json(&Delegation { missing, turn });
        return ending(out, watch, end);
    }
    report_cost(out, watch);
    out.message("");
    for run in given {
        out.data(format_args!("## {}\n", run.agent));
        if let Some(text) = &run.text {
            out.markdown(&for_terminal(text));
            out.data("");
        }
        match (&run.reason, run.state.as_str()) {
            (Some(reason), state) => out.data(format_args!("[{state}: {reason}]\n")),
            (None, "done") => {}
            (None, state) => out.data(format_args!("[{state}]\n")),
        }
    }
    if let Some(answer) = &turn.answer {
        out.data("## answer\n");
        out.markdown(&for_terminal(answer));
    }
    ending(out, watch, end)
}

/// Prints the turn as one line of JSON.
pub(crate) fn report(out: &Out, watch: &Watch, end: End) {
    out.json(&Report::new(watch, end));
}

fn report_cost(out: &Out, watch: &Watch) {
    let used = watch.usage();
    let cost = show::cost_of(&used);
    if cost == Some(Cost::ZERO) {
        return;
    }
    let cost = cost.map_or_else(|| "unknown".to_owned(), |c| c.to_string());
    let input = show::number(used.input_tokens);
    let cache = show::cache(&used).map(|cache| format!("; cache: {cache}"));
    out.message(format_args!(
        "cost       {cost}: {input} tokens in{}",
        cache.unwrap_or_default()
    ));
}

pub(crate) fn report_unused_summary(out: &Out, watch: &Watch) {
    let summaries = watch.end.as_ref().and_then(|end| end.turn.summaries);
    if let Some(unused) = summaries.and_then(|summaries| fmt::unused_summary(&summaries)) {
        out.message(format_args!("summary    {unused}"));
    }
}

/// Reports the end of a turn without a complete answer.
pub(crate) fn ending(out: &Out, watch: &Watch, end: End) -> Result<()> {
    report_unused_summary(out, watch);
    let short = show::short_id(&watch.session);
    match (end, watch.outcome()) {
        (End::Interrupted, _) => {
            let then = match watch.elsewhere {
                true => "the daemon continues it; `unisono resume {}` follows it",
                false => "`unisono resume {}` continues it",
            };
            let then = then.replace("{}", &short);
            out.message(format_args!("interrupted: {then}"));
            Err(Problem::silent(Exit::Interrupted))
        }
        (_, Some("answered")) => match watch.over_budget() {
            Some(why) => {
                out.warn(format_args!("the answer may be incomplete: {why}"));
                Err(Problem::silent(Exit::OverBudget))
            }
            None => some_failed(out, watch),
        },
        (End::TimedOut, _) => {
            out.message("timeout: the turn was cancelled; results of finished agents are kept");
            Err(Problem::silent(Exit::TimedOut))
        }
        (_, Some("failed")) => {
            let (code, reason) = watch.error().unwrap_or_default();
            Err(match watch.over_budget() {
                Some(_) => Problem {
                    exit: Exit::OverBudget,
                    ..failed(EXCEEDED, reason)
                },
                None => failed(code, reason),
            })
        }
        (_, Some("cancelled")) => Err(Problem::failed("the turn was cancelled")),
        _ => Ok(()),
    }
}

fn failed(code: &str, reason: &str) -> Problem {
    let problem = Problem {
        code: code.to_owned().into(),
        ..Problem::failed(format!("the turn failed ({code}): {reason}"))
    };
    match code {
        "context_overflow" => problem.hint(
            "shorten the task, unpin messages (`unisono unpin`), let the context be compacted \
             (--preset checkpoint), or ask an agent with a larger model",
        ),
        "compaction_failed" => problem.hint(
            "try again (--on-failure retry), take quotes (--on-failure extractive), or leave it",
        ),
        "edit_rejected" => problem.hint("write a shorter text; nothing was changed"),
        "revert_overflow" => problem.hint(
            "compact less instead: `unisono checkpoints edit`, or ask an agent with a larger model",
        ),
        EXCEEDED => problem.hint(
            "raise the budget (--max-cost, --max-tokens, [budget.…] in config/unisono.toml), ask \
             fewer agents, or let the context be compacted",
        ),
        "snapshot_mismatch" => problem.hint("run `unisono doctor`, then ask again"),
        _ => problem,
    }
}

fn some_failed(out: &Out, watch: &Watch) -> Result<()> {
    let all = watch.agents.len();
    let warn = |names: &[&str], what| {
        let (count, names) = (names.len(), names.join(", "));
        out.warn(format_args!("{count} of {all} agents {what}: {names}"));
    };
    // A cancellation is reported, but is not a failure.
    let cancelled = watch.of_state("cancelled");
    if !cancelled.is_empty() {
        warn(&cancelled, "were cancelled");
    }
    let failed = watch.of_state("failed");
    if failed.is_empty() {
        return Ok(());
    }
    warn(&failed, "failed");
    Err(Problem::silent(Exit::SomeFailed))
}
