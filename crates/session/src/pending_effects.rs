//! The effects that a session waits for, derived from its state alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::{Digest, Encoding, Message, RunId, Snapshot, Timestamp, TurnId};

use crate::agent::Definition;
use crate::assignment::{AHEAD, CompactionJob, HookJob, RunAssignment, ToolJob, hook_of_call};
use crate::event::{HookPlace, HookPoint};
use crate::measure::{self, MeasureRequest};
use crate::run::Run;
use crate::run::calls::{CallPlace, CallStatus};
use crate::state::State;
use crate::turn::Phase;

/// An action of the runtime, or a point in time.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Count texts; answer with [`crate::Input::Counted`].
    Count(CountRequest),
    /// Have a provider count a context; answer with [`crate::Input::Measured`].
    Measure(Box<MeasureRequest>),
    /// Carry out a compaction step; answer with [`crate::Input::StepDone`] or `StepFailed`.
    Compact(Box<CompactionJob>),
    /// Render the shared prompt; answer with [`crate::Input::Rendered`].
    Render(RenderRequest),
    /// Start an attempt of a run; answer with [`crate::Input::RunEnded`].
    Dispatch(Box<RunAssignment>),
    /// Ask a hook; answer with [`crate::Input::HookAnswered`].
    AskHook(Box<HookJob>),
    /// Stop asking a hook; no answer is expected.
    CancelHook(HookPlace),
    /// Call a tool, or poll the task of an earlier call; answer with [`crate::Input::ToolEnded`], or
    /// with [`crate::Input::ToolTaskLost`].
    CallTool(Box<ToolJob>),
    /// Stop calling a tool; no answer is expected.
    CancelCall(CallPlace),
    /// Stop working on a run; no answer is expected.
    CancelRun(RunId),
    /// Stop the compaction step of a turn that has ended, or the summary that is written ahead after
    /// it; no answer is expected.
    CancelCompaction(TurnId),
    /// Send [`crate::Input::Tick`] at this time.
    Wake(Timestamp),
}

impl Effect {
    /// Whether its intent must be on disk before it is carried out: it costs money, starts a
    /// program or is visible outside. The other effects only compute.
    pub fn needs_durable_intent(&self) -> bool {
        matches!(
            self,
            Effect::Compact(_) | Effect::Dispatch(_) | Effect::CallTool(_) | Effect::AskHook(_)
        )
    }
}

/// Texts to count.
#[derive(Clone, Debug)]
pub struct CountRequest {
    /// The turn.
    pub turn: TurnId,
    /// The encoding.
    pub encoding: Encoding,
    /// Messages without a count, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Uncounted system text and tools, and uncounted texts of agents beside the context, each with
    /// the digest under which its count is stored.
    pub texts: Vec<(Digest, String)>,
}

/// A snapshot to render, once per kind of prompt.
#[derive(Clone, Debug)]
pub struct RenderRequest {
    /// The turn.
    pub turn: TurnId,
    /// The frozen context.
    pub snapshot: Arc<Snapshot>,
    /// The agents that get it, without duplicates, by definition digest.
    pub definitions: Vec<(Digest, Arc<Definition>)>,
}

/// Identifies an effect, so that it is requested once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EffectKey {
    Count(TurnId, Encoding),
    Measure(TurnId, u32),
    Compact(TurnId, u32, u32),
    Render(TurnId),
    Run(RunId, u32),
    Call(CallPlace),
    Hook(HookPlace),
    Wake(Timestamp),
}

/// The maximum pause before a new attempt.
pub(crate) const BACKOFF_MAX_MS: u64 = 30_000;
/// The maximum additional wait for an unavailable provider.
pub(crate) const WAIT_MAX_MS: u64 = 120_000;
/// The maximum delay of a new attempt. A later time means that the clock was set back, and is
/// ignored.
const DELAY_MAX_MS: u64 = BACKOFF_MAX_MS + WAIT_MAX_MS;

/// The effects that open turns wait for, for each turn in the order of its runs; `requested` has the
/// effects that are already requested. The cost depends on the number of active turns and of their
/// runs.
pub(crate) fn due_keys(
    state: &State,
    requested: &BTreeSet<EffectKey>,
    now: Timestamp,
) -> Vec<EffectKey> {
    let mut keys = Vec::new();
    for turn in state.active_turns() {
        let id = turn.accepted.id;
        keys.extend(state.next_deadline(turn).map(EffectKey::Wake));
        keys.extend(turn.hooks_due.first().copied().map(EffectKey::Hook));
        match &turn.phase {
            Phase::Queued => {}
            Phase::Preparing => {
                let missing = turn
                    .encodings()
                    .into_iter()
                    .filter(|e| !measure::is_counted(state, turn, *e));
                keys.extend(missing.map(|encoding| EffectKey::Count(id, encoding)));
                if measure::agent_to_measure(state, turn).is_some() {
                    keys.push(EffectKey::Measure(id, turn.measured.len() as u32));
                }
            }
            // Hooks are asked before the step is carried out.
            Phase::Compacting(_) if !turn.hooks_due.is_empty() => {}
            Phase::Compacting(_) => {
                keys.push(EffectKey::Compact(
                    id,
                    turn.steps_planned,
                    turn.step_failures,
                ));
            }
            Phase::Frozen { .. } if turn.prefixes.0.is_none() => keys.push(EffectKey::Render(id)),
            Phase::Frozen { .. } => {
                let open = state.runs_of(turn).filter(|run| run.is_open());
                keys.extend(open.flat_map(|run| keys_of(run, requested, now)));
            }
        }
    }
    let ahead = state.preparations_in_progress();
    keys.extend(ahead.map(|of| EffectKey::Compact(of.planned.turn, AHEAD, 0)));
    let ended = state.ended_hooks.values();
    keys.extend(ended.filter_map(|ended| ended.due.first().copied().map(EffectKey::Hook)));
    keys
}

pub(crate) fn keys_of_run(
    state: &State,
    run: RunId,
    requested: &BTreeSet<EffectKey>,
    now: Timestamp,
) -> Vec<EffectKey> {
    let Some(run) = state.runs.get(&run).filter(|run| run.is_open()) else {
        return Vec::new();
    };
    let turn = state.turns.get(&run.turn);
    let rendered = turn.is_some_and(|turn| turn.prefixes.0.is_some());
    let keys = rendered.then(|| keys_of(run, requested, now));
    keys.into_iter().flatten().collect()
}

/// An attempt of the run, and its started calls.
fn keys_of(
    run: &Run,
    requested: &BTreeSet<EffectKey>,
    now: Timestamp,
) -> impl Iterator<Item = EffectKey> {
    let calls = run.open_calls().filter_map(|(place, call)| {
        let approval = call.planned.approval.as_ref();
        match call.status {
            CallStatus::HookPending { .. } => {
                hook_of_call(place, &call.status).map(EffectKey::Hook)
            }
            CallStatus::Started => Some(EffectKey::Call(place)),
            CallStatus::AwaitingApproval => {
                approval.and_then(|held| held.until).map(EffectKey::Wake)
            }
            CallStatus::Ready | CallStatus::InDoubt | CallStatus::Ended(_) => None,
        }
    });
    std::iter::once(key_of(run, requested, now)).chain(calls)
}

pub(crate) fn calls_of(run: RunId) -> std::ops::RangeInclusive<EffectKey> {
    let place = |round, index| EffectKey::Call(CallPlace { run, round, index });
    place(0, 0)..=place(u32::MAX, u32::MAX)
}

/// The key range of the hooks about calls of a run.
pub(crate) fn hooks_of(run: RunId) -> std::ops::RangeInclusive<EffectKey> {
    let key = |round, index, rule| {
        let point = HookPoint::Call(CallPlace { run, round, index });
        EffectKey::Hook(HookPlace { point, rule })
    };
    key(0, 0, 0)..=key(u32::MAX, u32::MAX, u32::MAX)
}

/// A started attempt stays started if the clock changes.
fn key_of(run: &Run, requested: &BTreeSet<EffectKey>, now: Timestamp) -> EffectKey {
    let attempt = EffectKey::Run(run.id, run.attempt);
    let wait = run.not_before.ms_since(now);
    let waits = run.attempt > 1 && wait > 0 && wait <= DELAY_MAX_MS as i64;
    if waits && !requested.contains(&attempt) {
        EffectKey::Wake(run.not_before)
    } else {
        attempt
    }
}

pub(crate) fn cancellation(key: EffectKey) -> Option<Effect> {
    match key {
        EffectKey::Run(run, _) => Some(Effect::CancelRun(run)),
        EffectKey::Call(place) => Some(Effect::CancelCall(place)),
        EffectKey::Hook(place) => Some(Effect::CancelHook(place)),
        EffectKey::Compact(turn, ..) => Some(Effect::CancelCompaction(turn)),
        EffectKey::Count(..)
        | EffectKey::Measure(..)
        | EffectKey::Render(_)
        | EffectKey::Wake(_) => None,
    }
}

/// The effect with this key; none if it is no longer due.
pub(crate) fn effect(state: &State, key: EffectKey) -> Option<Effect> {
    Some(match key {
        EffectKey::Count(turn, encoding) => {
            let turn = state.turns.get(&turn)?;
            let head = state.tree.head(&turn.accepted.branch);
            let uncounted = head.map(|head| state.tree.uncounted(head, encoding));
            let mut texts = turn.needs().texts(encoding, &state.preambles);
            let preamble = state.preamble_counts(&turn.preamble);
            if preamble.get(encoding).is_none() {
                let text = turn.preamble.countable_text();
                texts.push((turn.preamble.digest(), text));
            }
            Effect::Count(CountRequest {
                turn: turn.accepted.id,
                encoding,
                messages: uncounted.unwrap_or_default().into_iter().cloned().collect(),
                texts,
            })
        }
        EffectKey::Measure(turn, _) => Effect::Measure(Box::new(state.measure_request(turn)?)),
        EffectKey::Compact(turn, AHEAD, _) => {
            Effect::Compact(Box::new(state.preparation_job(turn)?))
        }
        EffectKey::Compact(turn, ..) => Effect::Compact(Box::new(state.compaction_job(turn)?)),
        EffectKey::Render(turn) => {
            let turn = state.turns.get(&turn)?;
            Effect::Render(RenderRequest {
                turn: turn.accepted.id,
                snapshot: turn.snapshot.0.clone()?,
                definitions: turn.distinct_definitions(),
            })
        }
        EffectKey::Hook(place) => Effect::AskHook(Box::new(state.hook_job(place)?)),
        EffectKey::Call(place) => Effect::CallTool(Box::new(state.tool_job(place)?)),
        EffectKey::Run(run, _) => Effect::Dispatch(Box::new(state.assignment(run)?)),
        EffectKey::Wake(at) => Effect::Wake(at),
    })
}
