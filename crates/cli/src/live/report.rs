//! What came of a turn: the answer or the JSON on stdout, the exit code.

use serde::Serialize;
use serde_json::Value;
use unisono_api::harmless::for_terminal;
use unisono_context::{Cost, SessionId, Tokens};
use unisono_session::budget::EXCEEDED;
use unisono_session::event::Outcome;

use super::follow::End;
use super::member::{Status, Watched};
use super::watch::Watch;
use crate::output::Out;
use crate::problem::{Exit, Problem, Result};
use crate::sessions;
use crate::show;

/// A turn, as `run --json` and `resume --json` print it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    session: String,
    turn: String,
    /// `answered`, `compacted`, `restored`, `failed`, `cancelled`, `timeout`, or `open` after an
    /// interruption.
    state: &'static str,
    /// For `failed`: a code and what happened.
    error: Option<Fault>,
    answer: Option<String>,
    /// The ordinal of the answer's message.
    answer_message: Option<u32>,
    /// Id of the frozen context, in full.
    snapshot: Option<String>,
    /// How many agents were given it.
    snapshot_agents: usize,
    tokens_before: Option<u64>,
    tokens_after: Option<u64>,
    usable_tokens: Option<u64>,
    /// Tokens before by tokens after; none where nothing was compacted.
    compression_ratio: Option<f64>,
    /// Whether less was kept verbatim than was asked for, so that the context fits.
    tightened: bool,
    /// Checkpoints this turn made.
    checkpoints: Vec<Made>,
    runs: Vec<RunReport>,
    /// After `resume`: its agents that are defined otherwise since it began. It went on with them as
    /// they were.
    changed_agents: Vec<String>,
    /// What its finished runs cost together; none where a price is unknown.
    cost_usd: Option<f64>,
    /// What they used together.
    usage: Value,
    /// How its bounds and its session's stood when it ended, in dollars, tokens or seconds.
    budgets: Vec<Value>,
}

#[derive(Debug, Serialize)]
struct Fault {
    code: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Made {
    number: u32,
    messages: u32,
    tokens_before: u64,
    tokens_after: u64,
    compression_ratio: Option<f64>,
    model: String,
    /// Whether a model is to write it anew.
    degraded: bool,
    /// The number of the checkpoint that it writes anew.
    rewrites: Option<u32>,
    duration_ms: u64,
}

#[derive(Debug, Serialize)]
struct RunReport {
    /// Its id; none where it was not opened.
    run: Option<String>,
    agent: String,
    /// `delegate`, `lead`, or `child` of one of these.
    role: &'static str,
    /// Its place in a pipeline, from 1.
    stage: Option<u32>,
    /// `waiting`, `running`, `done`, `partial`, `failed` or `cancelled`.
    state: &'static str,
    text: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Input tokens that were expected in, read from and written to the provider's cache.
    cache_expected_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    /// Whether less than half of what was expected was read.
    cache_missed: Option<bool>,
    /// None for an unknown price.
    cost_usd: Option<f64>,
    duration_ms: Option<u64>,
    /// For `failed`: its class, such as `timeout` or `exit_failure`.
    cause: Option<&'static str>,
    /// Why it failed or is not complete.
    reason: Option<String>,
}

impl Report {
    pub(crate) fn new(session: SessionId, watch: &Watch, end: End) -> Report {
        let error = match &watch.outcome {
            Some(Outcome::Failed { code, reason }) => Some(Fault {
                code: code.to_string(),
                reason: reason.to_string(),
            }),
            _ => None,
        };
        let frozen = watch.frozen.as_ref();
        Report {
            session: session.to_string(),
            turn: watch.turn.to_string(),
            state: word(watch, end),
            error,
            answer: watch
                .answer
                .as_ref()
                .map(|message| message.countable_text()),
            answer_message: watch.answer.as_ref().map(|message| message.ordinal.0),
            snapshot: frozen.map(|frozen| frozen.snapshot.to_string()),
            snapshot_agents: frozen.map_or(0, |frozen| frozen.agents),
            tokens_before: watch
                .tokens_before
                .or(frozen.map(|f| f.tokens))
                .map(|t| t.0),
            tokens_after: frozen.map(|frozen| frozen.tokens.0),
            usable_tokens: frozen.map(|frozen| frozen.usable.0),
            compression_ratio: watch
                .tokens_before
                .zip(frozen)
                .and_then(|(before, frozen)| show::ratio(before.0, frozen.tokens.0)),
            tightened: watch.tightened,
            checkpoints: made(watch),
            runs: watch.runs.iter().map(run).collect(),
            changed_agents: watch
                .changed
                .iter()
                .map(|(agent, _)| agent.to_string())
                .collect(),
            cost_usd: show::dollars(watch.used().cost),
            usage: show::used(&watch.used()),
            budgets: watch.budgets.iter().map(show::budget).collect(),
        }
    }
}

fn word(watch: &Watch, end: End) -> &'static str {
    match (end, &watch.outcome) {
        (End::TimedOut, None | Some(Outcome::Failed { .. } | Outcome::Cancelled)) => "timeout",
        (_, Some(outcome)) => outcome.name(),
        (_, None) => "open",
    }
}

fn made(watch: &Watch) -> Vec<Made> {
    let made = watch.checkpoints.iter().map(|checkpoint| Made {
        number: checkpoint.number,
        messages: checkpoint.messages_included,
        tokens_before: checkpoint.original.0,
        tokens_after: show::block_tokens(checkpoint).0,
        compression_ratio: show::ratio(checkpoint.original.0, show::block_tokens(checkpoint).0),
        model: checkpoint.model.to_string(),
        degraded: checkpoint.degraded,
        rewrites: watch.rewrites(checkpoint),
        duration_ms: checkpoint.duration_ms,
    });
    made.collect()
}

fn run(watched: &Watched) -> RunReport {
    let mut report = RunReport {
        run: watched.run.map(|id| id.to_string()),
        agent: watched.agent.to_string(),
        role: watched.role_word(),
        stage: watched.stage,
        state: watched.status.word(),
        text: None,
        input_tokens: None,
        output_tokens: None,
        cache_expected_tokens: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        cache_missed: None,
        cost_usd: None,
        duration_ms: None,
        cause: None,
        reason: None,
    };
    match &watched.status {
        Status::Done {
            text,
            partial,
            usage,
            ms,
        } => {
            let used = |tokens: Tokens| Some(tokens.0);
            report.text = Some(text.to_string());
            report.reason = partial.as_ref().map(ToString::to_string);
            report.input_tokens = used(usage.input);
            report.output_tokens = used(usage.output);
            report.cache_expected_tokens = used(usage.cache_expected);
            report.cache_read_tokens = used(usage.cache_read);
            report.cache_write_tokens = used(usage.cache_write);
            report.cache_missed = Some(usage.missed());
            report.cost_usd = show::dollars(usage.cost);
            report.duration_ms = Some(*ms);
        }
        Status::Failed { cause, reason, ms } => {
            report.cause = Some(cause.code());
            report.reason = Some(reason.to_string());
            report.duration_ms = Some(*ms);
        }
        Status::Waiting | Status::Running { .. } | Status::Delegating | Status::Cancelled => {}
    }
    report
}

/// Prints the answer and says how the program ends.
pub(crate) fn conclude(out: &Out, session: SessionId, watch: &Watch, end: End) -> Result<()> {
    if out.json {
        report(out, session, watch, end);
    } else if let Some(answer) = &watch.answer {
        say_cost(out, watch);
        for budget in &watch.budgets {
            out.say(format_args!("budget     {budget}"));
        }
        out.say("");
        out.prose(&for_terminal(&answer.countable_text()));
    }
    ending(out, session, watch, end)
}

/// A fan-out, as `delegate --json` prints it.
#[derive(Debug, Serialize)]
struct Delegation {
    #[serde(flatten)]
    turn: Report,
    /// What is not there, or not whole.
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct Missing {
    agent: String,
    /// `partial`, `failed` or `cancelled`.
    state: &'static str,
    reason: Option<String>,
}

/// Prints what each agent came back with, then the lead's answer, and says how the program ends.
pub(crate) fn conclude_delegation(
    out: &Out,
    session: SessionId,
    watch: &Watch,
    end: End,
) -> Result<()> {
    let turn = Report::new(session, watch, end);
    let given: Vec<&RunReport> = turn.runs.iter().filter(|run| run.role != "lead").collect();
    if out.json {
        let lacking = |run: &&&RunReport| matches!(run.state, "partial" | "failed" | "cancelled");
        let missing = given.iter().filter(lacking).map(|run| Missing {
            agent: run.agent.clone(),
            state: run.state,
            reason: run.reason.clone(),
        });
        let missing = missing.collect();
        out.json(&Delegation { missing, turn });
        return ending(out, session, watch, end);
    }
    say_cost(out, watch);
    out.say("");
    for run in given {
        out.data(format_args!("## {}\n", run.agent));
        if let Some(text) = &run.text {
            out.prose(&for_terminal(text));
            out.data("");
        }
        match (&run.reason, run.state) {
            (Some(reason), state) => out.data(format_args!("[{state}: {reason}]\n")),
            (None, "done") => {}
            (None, state) => out.data(format_args!("[{state}]\n")),
        }
    }
    if let Some(answer) = &turn.answer {
        out.data("## answer\n");
        out.prose(&for_terminal(answer));
    }
    ending(out, session, watch, end)
}

/// Prints the turn as one line of JSON.
pub(crate) fn report(out: &Out, session: SessionId, watch: &Watch, end: End) {
    out.json(&Report::new(session, watch, end));
}

fn say_cost(out: &Out, watch: &Watch) {
    let used = watch.used();
    if used.cost == Some(Cost::ZERO) {
        return;
    }
    let cost = used
        .cost
        .map_or_else(|| "unknown".to_owned(), |c| c.to_string());
    let input = show::tokens(used.input);
    let cache = show::cache(&used).map(|cache| format!("; cache: {cache}"));
    out.say(format_args!(
        "cost       {cost}: {input} tokens in{}",
        cache.unwrap_or_default()
    ));
}

/// Says how a turn ended, and with it the program, where there is no answer or not all of it.
pub(crate) fn ending(out: &Out, session: SessionId, watch: &Watch, end: End) -> Result<()> {
    let short = sessions::short(session);
    match (end, &watch.outcome) {
        (End::Interrupted, _) => {
            let then = match watch.elsewhere {
                true => "the daemon goes on with it; `unisono resume {}` follows it",
                false => "`unisono resume {}` continues it",
            };
            let then = then.replace("{}", &short);
            out.say(format_args!("interrupted: {then}"));
            Err(Problem::silent(Exit::Interrupted))
        }
        (_, Some(Outcome::Answered)) => match watch.over_budget() {
            Some(why) => {
                out.warn(format_args!("the answer may be incomplete: {why}"));
                Err(Problem::silent(Exit::OverBudget))
            }
            None => some_failed(out, watch),
        },
        (End::TimedOut, _) => {
            out.say("timeout: the turn was cancelled, what its agents had finished is kept");
            Err(Problem::silent(Exit::TimedOut))
        }
        (_, Some(Outcome::Failed { code, reason })) => Err(match watch.over_budget() {
            Some(_) => Problem {
                exit: Exit::OverBudget,
                ..failed(EXCEEDED, reason)
            },
            None => failed(code, reason),
        }),
        (_, Some(Outcome::Cancelled)) => Err(Problem::failed("the turn was cancelled")),
        (_, Some(Outcome::Compacted { .. } | Outcome::Restored { .. }) | None) => Ok(()),
    }
}

fn failed(code: &str, reason: &str) -> Problem {
    let problem = Problem {
        code: code.to_owned().into(),
        ..Problem::failed(format!("the turn failed ({code}): {reason}"))
    };
    match code {
        "context_overflow" => problem.hint(
            "shorten the task, or let the context be compacted: --preset checkpoint, or an agent \
             with a larger model",
        ),
        "compaction_failed" => problem.hint(
            "try again (--on-failure retry), take quotes (--on-failure extractive), or leave it",
        ),
        "edit_rejected" => problem.hint("write a shorter text; nothing was changed"),
        "restore_overflow" => problem.hint(
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
    let all = watch.runs.len();
    let tell = |names: &[&str], what| {
        let (count, names) = (names.len(), names.join(", "));
        out.warn(format_args!("{count} of {all} agents {what}: {names}"));
    };
    // Somebody wanted that: it is told, and is no failure.
    let cancelled = watch.of_status(|status| matches!(status, Status::Cancelled));
    if !cancelled.is_empty() {
        tell(&cancelled, "were cancelled");
    }
    let failed = watch.of_status(|status| matches!(status, Status::Failed { .. }));
    if failed.is_empty() {
        return Ok(());
    }
    tell(&failed, "failed");
    Err(Problem::silent(Exit::SomeFailed))
}
