//! Loads and appends the session's journal, and acknowledges requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use unisono_context::{Role, SessionId, Timestamp, TurnId};
use unisono_session::state::EndedTurn;
use unisono_session::{Event, Fact, FoldError, Machine, Outbox, Reaction, State as SessionState};
use unisono_store::{Claim, Journal};

use crate::address::ActorResult;
use crate::clock;
use crate::concurrency::ConcurrencyLimits;
use crate::error::Error;

use super::budget_queue::BudgetQueue;
use super::read_only::{ReadOnlySession, can_be_read};
use super::rounds::Rounds;
use super::unanswered;
use super::{DrainGuard, Live, Msg, Phase, State};

/// Events per page when a journal is folded.
const PAGE: usize = 4_096;

/// The result of loading a session's journal.
pub(super) enum Loaded {
    Live(Box<Live>, Reaction),
    ReadOnly(Box<ReadOnlySession>),
    /// The store is still read-only.
    Unchanged,
}

/// A session that this program took over, and the state of its journal under that claim.
#[derive(Debug)]
pub struct Folded {
    /// The session.
    pub session: SessionId,
    /// The epoch of the claim.
    pub epoch: u64,
    /// The state after its last event.
    pub state: SessionState,
}

/// Claims a session and folds its journal; an empty journal is a session to be created. A session
/// that was taken over and `folded` needs neither, as long as that claim is the last one. With a
/// read-only store the journal is folded without a claim, unless `now` is already such a session. A
/// store that does not answer is not read.
pub(super) async fn load(
    journal: &Journal,
    id: SessionId,
    now: &Phase,
    folded: Option<Box<Folded>>,
) -> Result<Loaded, Error> {
    if let Some(folded) = folded.filter(|folded| journal.take_up(id, folded.epoch)) {
        let claim = Claim {
            epoch: folded.epoch,
            last_seq: folded.state.events(),
        };
        let (machine, reaction) = resume(id, folded.state)?;
        return Ok(live(claim, machine, reaction));
    }
    let claim = match journal.claim(id).await {
        // Reading would wait for the store once more.
        Err(error) if error.is_unanswered() => return Err(error.into()),
        Err(error) if can_be_read(&error) => {
            if matches!(now, Phase::ReadOnly(_)) {
                return Ok(Loaded::Unchanged);
            }
            let state = fold(journal, id, None).await?;
            let why = error.into();
            return Ok(Loaded::ReadOnly(Box::new(ReadOnlySession { state, why })));
        }
        claim => claim?,
    };
    let state = fold(journal, id, Some(claim.last_seq)).await?;
    let (machine, reaction) = resume(id, state)?;
    Ok(live(claim, machine, reaction))
}

fn live(claim: Claim, machine: Machine, reaction: Reaction) -> Loaded {
    let live = Live {
        machine,
        outbox: Outbox::new(claim.last_seq),
        held_back: Vec::new(),
        epoch: claim.epoch,
        decided: claim.last_seq,
        pending: Vec::new(),
        held: false,
        drained: None,
        in_flight: Arc::default(),
        acks: Vec::new(),
        step_acks: Vec::new(),
        unanswered: None,
        waits: HashMap::new(),
        rounds: Rounds::default(),
        budget_queue: BudgetQueue::default(),
        concurrency_limits: ConcurrencyLimits::default(),
        prefixes: HashMap::new(),
        runs: HashMap::new(),
        calls: HashMap::new(),
        hooks: HashMap::new(),
        end_hooks: None,
        compactions: HashMap::new(),
        wakes: JoinSet::new(),
        compacting: HashMap::new(),
        active_at: clock::now(),
        indexed: super::indexed::Indexed::default(),
        weight: super::weight::Weight::default(),
    };
    Loaded::Live(Box::new(live), reaction)
}

/// Folds a journal, up to its last event if that is known.
async fn fold(
    journal: &Journal,
    id: SessionId,
    last_seq: Option<u64>,
) -> Result<SessionState, Error> {
    let mut state = SessionState::default();
    while last_seq.is_none_or(|last| state.events() < last) {
        let page = journal.read(id, state.events() + 1, PAGE).await?;
        if page.is_empty() {
            if last_seq.is_none() {
                break;
            }
            let reason = format!("event {} cannot be read", state.events() + 1);
            return Err(Error::Broken {
                session: id,
                reason: reason.into(),
            });
        }
        for (_, event) in &page {
            state.apply(event).map_err(|error| broken(id, &error))?;
        }
    }
    Ok(state)
}

fn resume(id: SessionId, state: SessionState) -> Result<(Machine, Reaction), Error> {
    Machine::resume(state, clock::now()).map_err(|error| broken(id, &error))
}

fn broken(session: SessionId, error: &FoldError) -> Error {
    Error::Broken {
        session,
        reason: error.to_string().into(),
    }
}

impl State {
    /// Hands decided events to the store, unless an append is in flight or they wait for a result.
    pub(super) fn start_append(&mut self, myself: &ActorRef<Msg>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if !live.in_flight.is_empty() || live.pending.is_empty() || live.held {
            return;
        }
        live.in_flight = Arc::new(std::mem::take(&mut live.pending));
        self.send_append(myself);
    }

    /// Sends the events in flight to the store.
    pub(super) fn send_append(&mut self, myself: &ActorRef<Msg>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let was_sent = live.unanswered.is_some();
        let events = live.in_flight.clone();
        let (journal, id) = (self.args.env.journal.clone(), self.args.id);
        let (epoch, expected) = (live.epoch, live.outbox.durable());
        // The state is the one after the last decision.
        let open = match live.pending.is_empty() {
            true => live.machine.state().work_left(),
            false => usize::MAX,
        };
        let myself = myself.clone();
        tokio::spawn(async move {
            let result = journal.append(id, epoch, expected, &events, open).await;
            let result = match was_sent {
                true => unanswered::settle(result, expected, &events),
                false => result,
            };
            // A session that died meanwhile reads its journal when it returns.
            let _ = myself.send_message(Msg::Committed(result));
        });
    }

    /// Writes pending events without waiting for the result.
    pub(super) fn on_flush(&mut self, myself: &ActorRef<Msg>) {
        if let Phase::Live(live) = &mut self.phase {
            live.held = false;
        }
        self.start_append(myself);
    }

    /// Writes all pending events, and holds `busy` until they are on disk.
    pub(super) fn on_drain(&mut self, myself: &ActorRef<Msg>, busy: DrainGuard) {
        if let Phase::Live(live) = &mut self.phase {
            live.held = false;
            live.drained = Some(busy);
        }
        self.start_append(myself);
        self.notify_drained();
    }

    fn notify_drained(&mut self) {
        if let Phase::Live(live) = &mut self.phase
            && live.in_flight.is_empty()
        {
            live.drained = None;
        }
    }

    /// An append has ended: releases everything that waited for it. If another program claimed the
    /// session, the store is read-only, or a client's message is too large for it, the session is
    /// restarted from its journal; after any other failure it is unavailable until it has left memory.
    pub(super) fn on_committed(
        &mut self,
        myself: &ActorRef<Msg>,
        result: Result<u64, unisono_store::Error>,
    ) -> ActorResult {
        let Phase::Live(live) = &mut self.phase else {
            return Ok(());
        };
        match result {
            Ok(seq) => {
                live.unanswered = None;
                let committed = std::mem::take(&mut live.in_flight);
                // Whoever learns of the events finds what the observers made of them.
                let observer = &self.args.env.options.observer;
                observer.notify(self.args.id, &committed);
                self.args.feed.publish(seq, &committed);
                let search = &self.args.env.search;
                let state = live.machine.state();
                live.indexed.committed(search, self.args.id, seq, state);
                let ready = live.outbox.committed(seq);
                live.acknowledge();
                live.notify_ended(&committed);
                self.start_append(myself);
                self.carry_out(myself, ready);
                self.weigh(myself);
                self.notify_drained();
                Ok(())
            }
            Err(error) => {
                let fenced = is_fenced(&error);
                let is_refused = is_too_large(&error, &live.in_flight);
                if !is_refused && unanswered::can_divide(live, &error) {
                    self.divide_append(myself);
                    return Ok(());
                }
                let again = fenced || is_refused || can_be_read(&error);
                let is_retried = unanswered::can_retry(live, &error);
                let error = Error::from(error);
                if is_retried && !self.args.env.is_stopping() {
                    self.retry_append(myself, error);
                    return Ok(());
                }
                if fenced && self.args.env.journal.cluster().is_some() {
                    tracing::warn!(session = %self.args.id, %error, "another program took a session");
                    live.refuse(&error);
                    self.lose(error);
                    return Ok(());
                }
                tracing::error!(session = %self.args.id, %error, "events cannot be stored");
                live.refuse(&error);
                if again {
                    return Err(error.to_string().into());
                }
                self.break_off(error);
                self.schedule_retry(myself);
                Ok(())
            }
        }
    }
}

/// Whether another claim or another writer was first.
fn is_fenced(error: &unisono_store::Error) -> bool {
    matches!(
        error,
        unisono_store::Error::Fenced { .. } | unisono_store::Error::Conflict { .. }
    )
}

/// Whether the store refused a message of a client because of its size. After a restart it is not sent
/// again, while the large output of an agent may be.
fn is_too_large(error: &unisono_store::Error, events: &[Event]) -> bool {
    let mut messages = events.iter().filter_map(|event| event.fact.message());
    matches!(error, unisono_store::Error::TooLarge { .. })
        && messages.any(|message| message.role != Role::Assistant)
}

impl Live {
    /// Acknowledges the requests whose events are on disk.
    pub(super) fn acknowledge(&mut self) {
        let durable = self.outbox.durable();
        for acks in [&mut self.acks, &mut self.step_acks] {
            for (_, reply) in acks.extract_if(.., |(seq, _)| *seq <= durable) {
                // The client may have given up.
                let _ = reply.send(Ok(()));
            }
        }
        self.rounds.on_durable(durable);
        self.budget_queue.on_durable(durable);
    }

    /// Notifies the callers that wait for a turn, after its end is on disk, and drops its prompts.
    fn notify_ended(&mut self, committed: &[Event]) {
        for event in committed {
            let Fact::TurnEnded { turn, .. } = &event.fact else {
                continue;
            };
            self.prefixes.retain(|(of, _), _| of != turn);
            self.concurrency_limits.turn_ended(*turn);
            self.compactions.remove(turn);
            self.compacting.remove(turn);
            let Some(ended) = self.machine.state().ended_turn(*turn) else {
                continue;
            };
            for reply in self.waits.remove(turn).unwrap_or_default() {
                let _ = reply.send(Ok(ended.clone()));
            }
        }
        if self.machine.state().open_turns().next().is_none() {
            self.wakes.abort_all();
        }
    }

    /// Registers a caller that waits for a turn, or answers at once.
    pub(super) fn wait_for(
        &mut self,
        turn: TurnId,
        reply: oneshot::Sender<Result<EndedTurn, Error>>,
    ) {
        let on_its_way = self.pending.iter().chain(self.in_flight.iter());
        let durable = !on_its_way.into_iter().any(|event| event.fact.ends(turn));
        match self.machine.state().ended_turn(turn) {
            Some(ended) if durable => drop(reply.send(Ok(ended.clone()))),
            None if self.machine.state().turn(turn).is_none() => {
                let unknown = unisono_session::Refusal::UnknownTurn(turn);
                let _ = reply.send(Err(unknown.into()));
            }
            Some(_) | None => self.waits.entry(turn).or_default().push(reply),
        }
    }

    /// Fails the clients that wait for an acknowledgement.
    pub(super) fn refuse_requests(&mut self, error: &Error) {
        for (_, reply) in self.acks.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Fails all waiting callers.
    fn refuse(&mut self, error: &Error) {
        self.refuse_requests(error);
        for (_, reply) in self.step_acks.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
        self.rounds.refuse(error);
        self.budget_queue.refuse(error);
        for reply in self.waits.drain().flat_map(|(_, replies)| replies) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Whether there is no open work, no append in flight, and no request for this long.
    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        let nothing_open = !self.machine.state().has_work();
        is_past(clock::now(), self.active_at, limit)
            && nothing_open
            && self.has_no_waiting_calls()
            && self.pending.is_empty()
            && self.in_flight.is_empty()
    }
}

/// Whether `now` is this long after a moment. A clock that was set back is: the session would stay in
/// memory until the clock has the time of that moment again.
fn is_past(now: Timestamp, moment: Timestamp, limit: Duration) -> bool {
    let passed = now.ms_since(moment);
    passed < 0 || u128::from(passed.unsigned_abs()) >= limit.as_millis()
}

#[cfg(test)]
mod tests {
    //! The time after which a session is idle.

    use super::*;

    #[test]
    fn a_clock_that_was_set_back_keeps_no_session() {
        for (now, is_idle) in [(4_999, false), (5_000, true), (999, true), (1_000, false)] {
            let limit = Duration::from_secs(4);
            let past = is_past(Timestamp(now), Timestamp(1_000), limit);
            assert_eq!(past, is_idle, "{now}");
        }
    }
}
