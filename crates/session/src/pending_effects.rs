//! What a session is waiting for, derived from its state alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::{Digest, Encoding, Message, RunId, Snapshot, Timestamp, TurnId};

use crate::agent::Definition;
use crate::assignment::{CompactionJob, HookJob, RunAssignment, ToolJob, hook_of_call};
use crate::event::{HookPlace, HookPoint};
use crate::measure::{self, MeasureRequest};
use crate::run::Run;
use crate::run::calls::{CallPlace, Status};
use crate::state::State;
use crate::turn::{Phase, Turn};

/// Something somebody else is to do, or that is to happen.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Count texts; answer with [`crate::Input::Counted`].
    Count(CountRequest),
    /// Have a context counted by its provider; answer with [`crate::Input::Measured`].
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
    /// Call a tool; answer with [`crate::Input::ToolEnded`].
    CallTool(Box<ToolJob>),
    /// Stop calling a tool; no answer is expected.
    CancelCall(CallPlace),
    /// Stop working on a run; no answer is expected.
    CancelRun(RunId),
    /// Stop the compaction step of a turn that has ended; no answer is expected.
    CancelCompaction(TurnId),
    /// Send [`crate::Input::Tick`] at that time.
    Wake(Timestamp),
}

impl Effect {
    /// Whether its intent must be on disk before it is carried out: it costs money, starts a
    /// program or may be seen outside. The others only compute.
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
    /// For this turn.
    pub turn: TurnId,
    /// In this encoding.
    pub encoding: Encoding,
    /// Messages without a count, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// System text and tools, and what agents are told besides, where it is not counted: each with
    /// what its count is known by.
    pub texts: Vec<(Digest, String)>,
}

/// A snapshot to render once per kind of prompt.
#[derive(Clone, Debug)]
pub struct RenderRequest {
    /// For this turn.
    pub turn: TurnId,
    /// The frozen context.
    pub snapshot: Arc<Snapshot>,
    /// The agents that will be sent it, each once, by the digests of their definitions.
    pub definitions: Vec<(Digest, Arc<Definition>)>,
}

/// Names an effect, so that it is asked for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Count(TurnId, Encoding),
    Measure(TurnId, u32),
    Compact(TurnId, u32, u32),
    Render(TurnId),
    Run(RunId, u32),
    Call(CallPlace),
    Hook(HookPlace),
    Wake(Timestamp),
}

/// The longest pause before a new attempt of its own accord.
pub(crate) const BACKOFF_MAX_MS: u64 = 30_000;
/// The longest that a provider which cannot be had is waited for before that.
pub(crate) const WAIT_MAX_MS: u64 = 120_000;
/// The longest a new attempt is ever put off. A time further ahead means that the clock was set
/// back since, and is not waited for.
const PUT_OFF_MAX_MS: u64 = BACKOFF_MAX_MS + WAIT_MAX_MS;

/// What the open turns are waiting for, each turn's in the order of its runs; `asked` is what
/// somebody was asked for before. Costs the number of turns at work and of their runs.
pub(crate) fn keys(state: &State, asked: &BTreeSet<Key>, now: Timestamp) -> Vec<Key> {
    let mut keys = Vec::new();
    for turn in state.turns_at_work() {
        let id = turn.accepted.id;
        keys.extend(state.next_deadline(turn).map(Key::Wake));
        keys.extend(turn.hooks_due.first().copied().map(Key::Hook));
        match &turn.phase {
            Phase::Queued => {}
            Phase::Preparing => {
                let missing = turn
                    .encodings()
                    .into_iter()
                    .filter(|e| !counted(state, turn, *e));
                keys.extend(missing.map(|encoding| Key::Count(id, encoding)));
                if measure::wanted(state, turn).is_some() {
                    keys.push(Key::Measure(id, turn.measured.len() as u32));
                }
            }
            // Hooks are asked before the step is carried out.
            Phase::Compacting(_) if !turn.hooks_due.is_empty() => {}
            Phase::Compacting(_) => {
                keys.push(Key::Compact(id, turn.steps_planned, turn.step_failures));
            }
            Phase::Frozen { .. } if turn.prefixes.0.is_none() => keys.push(Key::Render(id)),
            Phase::Frozen { .. } => {
                let open = state.runs_of(turn).filter(|run| run.is_open());
                keys.extend(open.flat_map(|run| keys_of(run, asked, now)));
            }
        }
    }
    let ended = state.ended_hooks.values();
    keys.extend(ended.filter_map(|ended| ended.due.first().copied().map(Key::Hook)));
    keys
}

/// What one run waits for.
pub(crate) fn keys_of_run(
    state: &State,
    run: RunId,
    asked: &BTreeSet<Key>,
    now: Timestamp,
) -> Vec<Key> {
    let Some(run) = state.runs.get(&run).filter(|run| run.is_open()) else {
        return Vec::new();
    };
    let turn = state.turns.get(&run.turn);
    let rendered = turn.is_some_and(|turn| turn.prefixes.0.is_some());
    let keys = rendered.then(|| keys_of(run, asked, now));
    keys.into_iter().flatten().collect()
}

/// An attempt of the run, and the calls that are made for it.
fn keys_of(run: &Run, asked: &BTreeSet<Key>, now: Timestamp) -> impl Iterator<Item = Key> {
    let calls = run.open_calls().filter_map(|(place, call)| {
        let approval = call.planned.approval.as_ref();
        match call.status {
            Status::Asked { .. } => hook_of_call(place, &call.status).map(Key::Hook),
            Status::Started => Some(Key::Call(place)),
            Status::Held => approval.and_then(|held| held.until).map(Key::Wake),
            Status::Ready | Status::InDoubt | Status::Ended(_) => None,
        }
    });
    std::iter::once(key_of(run, asked, now)).chain(calls)
}

/// What a call of that run is known by.
pub(crate) fn calls_of(run: RunId) -> std::ops::RangeInclusive<Key> {
    let place = |round, index| Key::Call(CallPlace { run, round, index });
    place(0, 0)..=place(u32::MAX, u32::MAX)
}

/// What a hook that is asked about a call of that run is known by.
pub(crate) fn hooks_of(run: RunId) -> std::ops::RangeInclusive<Key> {
    let key = |round, index, rule| {
        let point = HookPoint::Call(CallPlace { run, round, index });
        Key::Hook(HookPlace { point, rule })
    };
    key(0, 0, 0)..=key(u32::MAX, u32::MAX, u32::MAX)
}

/// An attempt that was started stays started, wherever the clock goes.
fn key_of(run: &Run, asked: &BTreeSet<Key>, now: Timestamp) -> Key {
    let attempt = Key::Run(run.id, run.attempt);
    let wait = run.not_before.ms_since(now);
    let waits = run.attempt > 1 && wait > 0 && wait <= PUT_OFF_MAX_MS as i64;
    if waits && !asked.contains(&attempt) {
        Key::Wake(run.not_before)
    } else {
        attempt
    }
}

/// What undoes an effect that is no longer asked for.
pub(crate) fn cancellation(key: Key) -> Option<Effect> {
    match key {
        Key::Run(run, _) => Some(Effect::CancelRun(run)),
        Key::Call(place) => Some(Effect::CancelCall(place)),
        Key::Hook(place) => Some(Effect::CancelHook(place)),
        Key::Compact(turn, ..) => Some(Effect::CancelCompaction(turn)),
        Key::Count(..) | Key::Measure(..) | Key::Render(_) | Key::Wake(_) => None,
    }
}

/// The effect of that name; none if the state no longer asks for it.
pub(crate) fn effect(state: &State, key: Key) -> Option<Effect> {
    Some(match key {
        Key::Count(turn, encoding) => {
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
        Key::Measure(turn, _) => Effect::Measure(Box::new(state.measure_request(turn)?)),
        Key::Compact(turn, ..) => Effect::Compact(Box::new(state.compaction_job(turn)?)),
        Key::Render(turn) => {
            let turn = state.turns.get(&turn)?;
            Effect::Render(RenderRequest {
                turn: turn.accepted.id,
                snapshot: turn.snapshot.0.clone()?,
                definitions: turn.distinct_definitions(),
            })
        }
        Key::Hook(place) => Effect::AskHook(Box::new(state.hook_job(place)?)),
        Key::Call(place) => Effect::CallTool(Box::new(state.tool_job(place)?)),
        Key::Run(run, _) => Effect::Dispatch(Box::new(state.assignment(run)?)),
        Key::Wake(at) => Effect::Wake(at),
    })
}

/// Whether the turn's branch, its preamble and what its agents are told are counted in an encoding.
pub(crate) fn counted(state: &State, turn: &Turn, encoding: Encoding) -> bool {
    let branch = state.tree.head(&turn.accepted.branch).is_none_or(|head| {
        let node = state.tree.get(head);
        node.is_some_and(|n| {
            state
                .tree
                .prefix(head, n.message.ordinal, encoding)
                .is_some()
        })
    });
    branch
        && state
            .preamble_counts(&turn.preamble)
            .get(encoding)
            .is_some()
        && turn.needs().are_counted(encoding, &state.preambles)
}
