//! Carries out effects, each in its own task that sends the result back to the session.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding, MessageId, Snapshot, Timestamp, Tokens};
use unisono_session::assignment::{HookJob, RunAssignment};
use unisono_session::machine::{AttemptEnd, Counted};
use unisono_session::measure::MeasureRequest;
use unisono_session::pending_effects::{CountRequest, RenderRequest};
use unisono_session::run::RunCause;
use unisono_session::{Definition, Effect, Input};

use crate::attachments;
use crate::clock;
use crate::concurrency::RunPermits;
use crate::env::Env;
use crate::measure;
use crate::pool_port::{Attempt, AttemptReply, cancelled_end};
use crate::session_port::Port;
use crate::tokenizer;

use super::port::ActorPort;
use super::{Args, Live, Msg, calling, compacting, render, supervision};

/// The interval in which the clock is read: it may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(30);
/// The timeout of a provider's count.
const MEASURING: Duration = Duration::from_secs(10);

pub(super) fn carry_out(args: &Args, live: &mut Live, myself: &ActorRef<Msg>, effect: Effect) {
    match effect {
        Effect::Count(request) => count(args, myself, request),
        Effect::Measure(request) => measure(args, myself, *request),
        Effect::Compact(job) => compacting::compact(args, live, myself, *job),
        Effect::Render(request) => render(args, myself, request),
        Effect::Dispatch(assignment) => dispatch(args, live, myself, *assignment),
        Effect::CallTool(job) => calling::call_tool(args, live, myself, *job),
        Effect::AskHook(job) => ask_hook(args, live, myself, *job),
        Effect::CancelHook(place) => drop(live.hooks.remove(&place)),
        Effect::CancelCall(place) => {
            if let Some(call) = live.calls.remove(&place) {
                call.withdraw();
            }
        }
        Effect::CancelRun(run) => drop(live.runs.remove(&run)),
        Effect::CancelCompaction(turn) => drop(live.compactions.remove(&turn)),
        Effect::Wake(at) => wake(live, myself, at),
    }
}

/// Cancels an attempt when it is dropped: because the run is no longer wanted, or the session dies.
/// It may wait in the queue of its agent, where it needs neither permits nor a place any more.
pub(super) struct RunGuard {
    env: Arc<Env>,
    definition: Arc<Definition>,
    /// None: the attempt has ended.
    stop: Option<DropGuard>,
    permits: RunPermits,
}

impl RunGuard {
    /// Releases the attempt without cancelling it.
    fn disarm(mut self) {
        if let Some(stop) = self.stop.take() {
            stop.disarm();
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let Some(stop) = self.stop.take() else {
            return;
        };
        drop(stop);
        self.permits.yield_permits();
        if let Some(pool) = self.env.pools.get(&self.definition) {
            pool.withdraw_cancelled();
        }
    }
}

/// Sends to the session; a session that died meanwhile requests it again when it returns.
pub(super) fn feed(session: &ActorRef<Msg>, input: Input) {
    let _ = session.send_message(Msg::Feed(input));
}

fn count(args: &Args, myself: &ActorRef<Msg>, request: CountRequest) {
    let (tokenizer, myself) = (args.tokenizer.clone(), myself.clone());
    tokio::spawn(async move {
        let CountRequest {
            turn,
            encoding,
            messages,
            texts: others,
        } = request;
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let beside: Vec<Count> = messages.iter().map(|m| m.tokens_beside_text()).collect();
        let mut texts: Vec<String> = messages.iter().map(|m| m.countable_text()).collect();
        let (names, others): (Vec<Digest>, Vec<String>) = others.into_iter().unzip();
        texts.extend(others);
        let mut counts = count_surely(&tokenizer, texts, encoding).await;
        let counted = counts.split_off(ids.len().min(counts.len()));
        let counts = counts
            .into_iter()
            .zip(beside)
            .map(|(text, beside)| text + beside);
        let messages = ids.into_iter().zip(counts).collect();
        feed(
            &myself,
            Input::Counted(Counted {
                turn,
                encoding,
                texts: names.into_iter().zip(counted).collect(),
                messages,
            }),
        );
    });
}

/// Counts, or estimates if the tokenizer is lost twice: counting never fails a turn.
pub(super) async fn count_surely(
    tokenizer: &tokenizer::Handle,
    texts: Vec<String>,
    encoding: Encoding,
) -> Vec<Count> {
    for _ in 0..2 {
        match tokenizer.count(texts.clone(), encoding).await {
            Ok(counts) => return counts,
            Err(error) => tracing::warn!(%error, "counting again"),
        }
    }
    texts
        .iter()
        .map(|text| Count::approximate(text.len() as u64))
        .collect()
}

fn render(args: &Args, myself: &ActorRef<Msg>, request: RenderRequest) {
    let (env, myself) = (args.env.clone(), myself.clone());
    let is_short = render::is_short(&request.snapshot);
    let is_whole = request.snapshot.is_loaded() || request.snapshot.contents().is_empty();
    let journal = env.journal.clone();
    let snapshot = request.snapshot.clone();
    let rendering = move |loaded: Result<(), String>| {
        let turn = request.turn;
        let prefixes = loaded.and_then(|()| render::try_groups(&request, &env.models));
        let prefixes = prefixes.map_err(Into::into);
        // A session that died meanwhile requests it again when it returns.
        let _ = myself.send_message(Msg::Rendered { turn, prefixes });
    };
    if !is_whole {
        tokio::spawn(async move {
            let loaded = attachments::load(&journal, &snapshot).await;
            tokio::task::spawn_blocking(move || rendering(loaded));
        });
    } else if is_short {
        rendering(Ok(()));
    } else {
        tokio::task::spawn_blocking(move || rendering(Ok(())));
    }
}

fn dispatch(args: &Args, live: &mut Live, myself: &ActorRef<Msg>, mut assignment: RunAssignment) {
    assignment.bounded |= args.budget_broker.is_some();
    let (run, number) = (assignment.run, assignment.attempt);
    let myself = myself.clone();
    let session = myself.clone();
    let reply = AttemptReply::new(move |end| {
        let ended = Input::RunEnded {
            run,
            attempt: number,
            end,
        };
        feed(&session, ended);
    });
    let key = (assignment.turn, assignment.definition_digest);
    let Some(prefix) = live.prefixes.get(&key).cloned() else {
        let reason = "its context was not rendered";
        return reply.send(AttemptEnd::failed(RunCause::SnapshotMismatch, reason));
    };
    let cancelled = CancellationToken::new();
    let turn_permits = RunPermits::default();
    let definition = assignment.definition.clone();
    let guard = RunGuard {
        env: args.env.clone(),
        definition: definition.clone(),
        stop: Some(cancelled.clone().drop_guard()),
        permits: turn_permits.clone(),
    };
    live.runs.insert(run, guard);
    let port = ActorPort::new(args, myself);
    let concurrency_limits = live
        .concurrency_limits
        .for_turn(assignment.turn, args.env.options.live_runs);
    let attempt = Attempt {
        assignment,
        prefix,
        port: Port::new(port),
        cancelled,
        turn_permits,
    };
    let pool = args.env.pools.get(&definition);
    if let Some(pool) = pool.filter(|_| concurrency_limits.is_empty()) {
        return pool.dispatch(attempt, reply);
    }
    let supervisor = args.supervisor.clone();
    tokio::spawn(async move {
        let entered = attempt
            .turn_permits
            .begin(&concurrency_limits, attempt.assignment.session);
        attempt.cancelled.run_until_cancelled(entered).await;
        if attempt.cancelled.is_cancelled() {
            attempt.turn_permits.yield_permits();
            return reply.send(cancelled_end());
        }
        match supervision::pool_of(&supervisor, &definition).await {
            Ok(pool) => pool.dispatch(attempt, reply),
            Err(error) => reply.send(AttemptEnd::failed(RunCause::Panic, error.to_string())),
        }
    });
}

/// Releases the guard of the run, call or hook whose end an input reports, without cancelling it.
pub(super) fn drop_ended(live: &mut Live, input: &Input) {
    match input {
        Input::RunEnded { run, .. } => {
            if let Some(guard) = live.runs.remove(run) {
                guard.disarm();
            }
        }
        Input::ToolEnded { call, .. } | Input::ToolTaskLost { call } => {
            if let Some(guard) = live.calls.remove(call) {
                guard.into_result();
            }
        }
        Input::HookAnswered { place, .. } => {
            if let Some(guard) = live.hooks.remove(place) {
                guard.disarm();
            }
        }
        _ => {}
    }
}

/// Asks a hook. A cancelled question is stopped and has no answer.
fn ask_hook(args: &Args, live: &mut Live, myself: &ActorRef<Msg>, job: HookJob) {
    let cancelled = CancellationToken::new();
    live.hooks.insert(job.place, cancelled.clone().drop_guard());
    let (env, myself) = (args.env.clone(), myself.clone());
    tokio::spawn(async move {
        let asked = cancelled.run_until_cancelled(env.hooks.ask(&job));
        if let Some(reply) = asked.await {
            let place = job.place;
            feed(&myself, Input::HookAnswered { place, reply });
        }
    });
}

/// Has a context counted by its provider. After the timeout, the estimate is used.
fn measure(args: &Args, myself: &ActorRef<Msg>, request: MeasureRequest) {
    let (env, myself) = (args.env.clone(), myself.clone());
    tokio::spawn(async move {
        let MeasureRequest {
            turn,
            agent,
            snapshot,
            estimated,
        } = request;
        let model = agent.model.clone();
        // In a task of its own, because a model may panic. It ends with the timeout.
        let mut counting = JoinSet::new();
        counting.spawn(count_by_provider(env, agent, snapshot));
        let counted = match tokio::time::timeout(MEASURING, counting.join_next()).await {
            Ok(Some(Ok(counted))) => counted,
            Ok(Some(Err(panicked))) => Err(panicked.to_string()),
            Ok(None) | Err(_) => Ok(None),
        };
        let reported = counted.unwrap_or_else(|reason| {
            tracing::warn!(model = &*model, reason, "not counted by the provider");
            None
        });
        let measured = Input::Measured {
            turn,
            model,
            estimated,
            reported,
        };
        feed(&myself, measured);
    });
}

async fn count_by_provider(
    env: Arc<Env>,
    agent: Arc<Definition>,
    snapshot: Arc<Snapshot>,
) -> Result<Option<Tokens>, String> {
    let model = env.models.get(&agent.model).map_err(|e| e.to_string())?;
    // Without its attachments it would be counted too short.
    attachments::load(&env.journal, &snapshot).await?;
    let counted = measure::context(model.as_ref(), &agent, snapshot).await;
    counted.map_err(|error| error.to_string())
}

fn wake(live: &mut Live, myself: &ActorRef<Msg>, at: Timestamp) {
    // Removes timers that have fired.
    while live.wakes.try_join_next().is_some() {}
    let (myself, pause) = (myself.clone(), pause_until(at, clock::now()));
    live.wakes.spawn(async move {
        tokio::time::sleep(pause).await;
        feed(&myself, Input::Tick);
    });
}

/// The time until a session looks at the clock: at the latest when it has to.
fn pause_until(at: Timestamp, now: Timestamp) -> Duration {
    let ms = u64::try_from(at.ms_since(now)).unwrap_or(0);
    Duration::from_millis(ms).min(LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_again_before_a_time_that_is_far_away() {
        for (at, expected) in [
            (0, 0),
            (999, 0),
            (1_000, 0),
            (1_250, 250),
            (86_400_000, 30_000),
        ] {
            let pause = pause_until(Timestamp(at), Timestamp(1_000));
            assert_eq!(pause, Duration::from_millis(expected), "{at}");
        }
    }
}
