//! Agents that wait for what they gave to others: each is told as soon as the last of its
//! delegates has ended and that is on disk.

use std::collections::BTreeMap;

use ractor::ActorRef;
use tokio::sync::oneshot;
use unisono_context::RunId;
use unisono_session::event::RunRole;
use unisono_session::machine::DelegateCall;
use unisono_session::run::{Cause, Delegation, ToolResult};
use unisono_session::{Event, Fact, Input, State as SessionState};

use crate::agent::Failure;
use crate::runtime::Error;

use super::{Msg, Phase, State};

/// Who is told what came of a round.
pub(crate) type Reply = oneshot::Sender<Result<Vec<ToolResult>, Failure>>;

/// Tasks that the agent of a run gives to others at once.
pub(crate) struct Asked {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) round: u32,
    pub(crate) calls: Vec<DelegateCall>,
}

/// Those who wait. One attempt of a run is under way at a time: a later one takes the place of
/// an earlier one that nobody listens to any more.
#[derive(Default)]
pub(super) struct Rounds {
    /// By run and round.
    waiting: BTreeMap<(RunId, u32), Reply>,
    /// Told when the journal is on disk up to that event.
    ended: Vec<(u64, Reply, Vec<ToolResult>)>,
}

impl State {
    /// Takes the tasks; the reply waits until the last one is done.
    pub(super) fn on_delegate(&mut self, myself: &ActorRef<Msg>, asked: Asked, reply: Reply) {
        let Asked {
            run,
            attempt,
            round,
            calls,
        } = asked;
        let input = Input::Delegate {
            run,
            attempt,
            round,
            calls,
        };
        match self.decide(input) {
            Ok(reaction) => self.react(myself, reaction),
            Err(error) => return drop(reply.send(Err(lost(&error)))),
        }
        if let Phase::Live(live) = &mut self.phase {
            let (state, decided) = (live.machine.state(), live.decided);
            live.rounds.wait(state, (run, round), decided, reply);
            live.rounds.durable(live.outbox.durable());
        }
    }
}

impl Rounds {
    /// Registers somebody who waits for a round.
    fn wait(&mut self, state: &SessionState, key: (RunId, u32), decided: u64, reply: Reply) {
        match state.delegation(key.0, key.1) {
            Delegation::UnderWay => drop(self.waiting.insert(key, reply)),
            Delegation::Ended(results) => self.ended.push((decided, reply, results)),
            Delegation::Unknown => {
                let failure = Failure::new(Cause::Panic, "the run is not under way any more");
                // Its attempt has been given up already.
                let _ = reply.send(Err(failure));
            }
        }
    }

    /// Looks at what was decided: a round whose last run ended is over, and who has ended itself
    /// waits for nothing.
    pub(super) fn decided(&mut self, state: &SessionState, events: &[Event], decided: u64) {
        if self.waiting.is_empty() {
            return;
        }
        for event in events {
            let Fact::RunEnded { run, .. } = &event.fact else {
                continue;
            };
            let own = self.waiting.range((*run, 0)..=(*run, u32::MAX));
            for key in own.map(|(key, _)| *key).collect::<Vec<_>>() {
                self.waiting.remove(&key);
            }
            let Some(RunRole::Child { parent, round, .. }) = state.run(*run).map(|run| run.role)
            else {
                continue;
            };
            let key = (parent, round);
            if let Delegation::Ended(results) = state.delegation(parent, round)
                && let Some(reply) = self.waiting.remove(&key)
            {
                self.ended.push((decided, reply, results));
            }
        }
    }

    /// The journal is on disk up to there: tells those whose round is.
    pub(super) fn durable(&mut self, durable: u64) {
        if self.ended.is_empty() {
            return;
        }
        let ready = self.ended.extract_if(.., |(seq, _, _)| *seq <= durable);
        for (_, reply, results) in ready {
            // The attempt may have been given up.
            let _ = reply.send(Ok(results));
        }
    }

    /// Fails everybody who waits.
    pub(super) fn refuse(&mut self, error: &Error) {
        let ended = self.ended.drain(..).map(|(_, reply, _)| reply);
        let waiting = std::mem::take(&mut self.waiting).into_values();
        for reply in ended.chain(waiting) {
            let _ = reply.send(Err(lost(error)));
        }
    }
}

fn lost(error: &Error) -> Failure {
    Failure::new(Cause::Panic, error.to_string())
}
