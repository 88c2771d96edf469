//! Agents that wait for delegated tasks or tool calls: each is notified as soon as its round has
//! ended and that is on disk.

use std::collections::BTreeMap;

use ractor::ActorRef;
use tokio::sync::{oneshot, watch};
use unisono_context::RunId;
use unisono_session::event::{HookPoint, RunRole};
use unisono_session::run::calls::CallRoundStatus;
use unisono_session::run::{DelegationStatus, Run, RunCause, ToolResult};
use unisono_session::{Event, Fact, Input, State as SessionState};

use crate::error::Error;
use crate::failure::Failure;

use super::{Msg, Phase, State};

pub(crate) struct RoundReply {
    pub(crate) results: oneshot::Sender<Result<Vec<ToolResult>, Failure>>,
    /// Whether all remaining calls wait for a person.
    pub(crate) held: watch::Sender<bool>,
}

/// A round for which an agent waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Round {
    pub(crate) run: RunId,
    pub(crate) number: u32,
    pub(crate) kind: RoundKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RoundKind {
    Tasks,
    Calls,
}

enum RoundStatus {
    Unknown,
    InProgress { held: bool },
    Ended(Vec<ToolResult>),
}

/// Waiting agents. One attempt of a run is in progress at a time: a later one replaces an earlier
/// one that nobody waits for any more.
#[derive(Default)]
pub(super) struct Rounds {
    waiting: BTreeMap<Round, RoundReply>,
    /// Tasks that begin when the open ones of their run have ended: on the branch of a lead the results
    /// of a round follow its calls.
    later: Vec<(Input, Round, RoundReply)>,
    /// Results that are sent when the journal is on disk up to this event.
    ended: Vec<(u64, RoundReply, Vec<ToolResult>)>,
}

impl State {
    /// Handles an input that begins a round; the reply waits until the round has ended. Of two rounds of
    /// tasks at once, the second begins after the first.
    pub(super) fn on_round(
        &mut self,
        myself: &ActorRef<Msg>,
        input: Input,
        round: Round,
        reply: RoundReply,
    ) {
        if let Phase::Live(live) = &mut self.phase
            && round.is_behind_another(live.machine.state())
        {
            return live.rounds.later.push((input, round, reply));
        }
        match self.decide(input) {
            Ok(reaction) => self.react(myself, reaction),
            Err(error) => return drop(reply.results.send(Err(lost(&error)))),
        }
        if let Phase::Live(live) = &mut self.phase {
            let (state, decided) = (live.machine.state(), live.decided);
            live.rounds.wait(state, round, decided, reply);
            live.rounds.on_durable(live.outbox.durable());
        }
    }

    /// Begins a round that waited for another one of its run, if that has ended.
    pub(super) fn begin_later_round(&mut self, myself: &ActorRef<Msg>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if let Some((input, round, reply)) = live.rounds.next_later(live.machine.state()) {
            self.on_round(myself, input, round, reply);
        }
    }
}

impl Round {
    /// Whether it has not begun, and other tasks of its run have not ended.
    fn is_behind_another(&self, state: &SessionState) -> bool {
        let waits = |run: &Run| run.round(self.number).is_none() && run.awaited_children() > 0;
        self.kind == RoundKind::Tasks && state.run(self.run).is_some_and(waits)
    }

    fn status(&self, state: &SessionState) -> RoundStatus {
        match self.kind {
            RoundKind::Tasks => match state.delegation_status(self.run, self.number) {
                DelegationStatus::Unknown => RoundStatus::Unknown,
                DelegationStatus::InProgress => RoundStatus::InProgress { held: false },
                DelegationStatus::Ended(results) => RoundStatus::Ended(results),
            },
            RoundKind::Calls => match state.call_round_status(self.run, self.number) {
                CallRoundStatus::Unknown => RoundStatus::Unknown,
                CallRoundStatus::InProgress { held } => RoundStatus::InProgress { held },
                CallRoundStatus::Ended(results) => RoundStatus::Ended(results),
            },
        }
    }
}

impl Rounds {
    /// Removes a later round that may begin. One that nobody waits for any more does not begin.
    fn next_later(&mut self, state: &SessionState) -> Option<(Input, Round, RoundReply)> {
        self.later
            .retain(|(_, _, reply)| !reply.results.is_closed());
        let mut later = self.later.iter();
        let at = later.position(|(_, round, _)| !round.is_behind_another(state))?;
        Some(self.later.remove(at))
    }

    fn wait(&mut self, state: &SessionState, round: Round, decided: u64, reply: RoundReply) {
        match round.status(state) {
            RoundStatus::InProgress { held } => {
                reply.held.send_replace(held);
                self.waiting.insert(round, reply);
            }
            RoundStatus::Ended(results) => self.ended.push((decided, reply, results)),
            RoundStatus::Unknown => {
                let failure = Failure::new(RunCause::Panic, "the run has ended");
                // Its attempt has already been cancelled.
                let _ = reply.results.send(Err(failure));
            }
        }
    }

    /// Checks new events: a round whose last part ended is complete, and an ended run waits for
    /// nothing.
    pub(super) fn on_decided(&mut self, state: &SessionState, events: &[Event], decided: u64) {
        for event in events {
            if self.waiting.is_empty() {
                return;
            }
            match &event.fact {
                Fact::RunEnded { run, .. } => {
                    self.waiting.retain(|round, _| round.run != *run);
                    let role = state.run(*run).map(|run| run.role);
                    if let Some(RunRole::Child { parent, round, .. }) = role {
                        let (run, number, kind) = (parent, round, RoundKind::Tasks);
                        self.look(state, Round { run, number, kind }, decided);
                    }
                }
                Fact::ToolStarted { call }
                | Fact::ToolEnded { call, .. }
                | Fact::ToolInDoubt { call }
                | Fact::ToolDecided { call, .. } => {
                    let (run, number, kind) = (call.run, call.round, RoundKind::Calls);
                    self.look(state, Round { run, number, kind }, decided);
                }
                Fact::HookAnswered { place, .. } => {
                    if let HookPoint::Call(call) = place.point {
                        let (run, number, kind) = (call.run, call.round, RoundKind::Calls);
                        self.look(state, Round { run, number, kind }, decided);
                    }
                }
                _ => {}
            }
        }
    }

    fn look(&mut self, state: &SessionState, round: Round, decided: u64) {
        match round.status(state) {
            RoundStatus::Unknown => {}
            RoundStatus::InProgress { held } => {
                if let Some(reply) = self.waiting.get(&round) {
                    reply.held.send_replace(held);
                }
            }
            RoundStatus::Ended(results) => {
                if let Some(reply) = self.waiting.remove(&round) {
                    self.ended.push((decided, reply, results));
                }
            }
        }
    }

    /// The journal is on disk up to this event: sends the results of the rounds before it.
    pub(super) fn on_durable(&mut self, durable: u64) {
        if self.ended.is_empty() {
            return;
        }
        let ready = self.ended.extract_if(.., |(seq, _, _)| *seq <= durable);
        for (_, reply, results) in ready {
            // The attempt may have been cancelled.
            let _ = reply.results.send(Ok(results));
        }
    }

    /// Fails all waiting agents.
    pub(super) fn refuse(&mut self, error: &Error) {
        let ended = self.ended.drain(..).map(|(_, reply, _)| reply);
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let later = self.later.drain(..).map(|(_, _, reply)| reply);
        for reply in ended.chain(waiting).chain(later) {
            let _ = reply.results.send(Err(lost(error)));
        }
    }
}

fn lost(error: &Error) -> Failure {
    Failure::new(RunCause::Panic, error.to_string())
}
