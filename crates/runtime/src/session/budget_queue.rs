//! Model calls that wait for their budgets: each is reserved before it is made, in order of
//! request. The daemon's part is granted by the [`budget_broker`](crate::budget_broker).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;
use unisono_context::{RunId, TurnId};
use unisono_session::budget::{
    Amount, Level, Reservation, ReservationRequest, SessionUse, Verdict, unknown_price,
};
use unisono_session::run::RunCause;
use unisono_session::{Event, Fact, Input, OWNER, State as SessionState};

use crate::budget_broker::{self, BudgetRefusal};
use crate::clock;
use crate::error::Error;
use crate::failure::Failure;
use crate::options::Options;

use super::{Live, Msg, Phase, State};

/// The channel for the decision about a call: none, or the reason why it is the last one.
pub(crate) type Reply = oneshot::Sender<Result<Option<Arc<str>>, Failure>>;

pub(crate) struct QueuedCall {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) ask: ReservationRequest,
    pub(crate) reply: Reply,
}

/// Waiting calls, and the session's grant of the daemon's budget.
#[derive(Default)]
pub(super) struct BudgetQueue {
    queue: Queue,
    /// Replies that are sent when the journal is on disk up to this event.
    granted: Vec<(u64, Reply, Option<Arc<str>>)>,
    /// The maximum amount that the session may have in use.
    ceiling: Amount,
    /// The call for which a larger grant was requested, and the number of that request.
    raising: Option<(RunId, u32, u64)>,
    raises: u64,
    /// Another session needs the unused grant: the budget broker gets every change until the next
    /// request.
    recalled: bool,
    /// The last report to the budget broker: the usage, and whether a part will be released. None
    /// if it may have been ignored.
    last_reported: Option<(SessionUse, bool)>,
}

/// Waiting calls: those of runs that have begun come before others, each in order of arrival. This
/// keeps the time short for which an amount is kept for last calls.
#[derive(Default)]
struct Queue {
    begun: usize,
    calls: VecDeque<QueuedCall>,
    /// The number of waiting calls of each run.
    runs: BTreeMap<RunId, u32>,
}

impl Queue {
    fn push(&mut self, queued: QueuedCall, begun: bool) {
        *self.runs.entry(queued.run).or_default() += 1;
        if begun {
            self.calls.insert(self.begun, queued);
            self.begun += 1;
        } else {
            self.calls.push_back(queued);
        }
    }

    fn remove(&mut self, at: usize) -> Option<QueuedCall> {
        let queued = self.calls.remove(at)?;
        self.begun -= usize::from(at < self.begun);
        if let Some(waiting) = self.runs.get_mut(&queued.run) {
            *waiting -= 1;
            if *waiting == 0 {
                self.runs.remove(&queued.run);
            }
        }
        Some(queued)
    }

    fn waits(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    fn position(&self, run: RunId, call: u32) -> Option<usize> {
        let mut calls = self.calls.iter();
        calls.position(|of| (of.run, of.ask.call) == (run, call))
    }
}

/// The decision about a waiting call.
enum QueueDecision {
    Grant(Reservation),
    /// Request a larger grant first.
    Raise(Amount),
    /// Wait, together with the calls that would wait for the same level.
    Wait(Level),
    Refuse(Failure),
}

impl State {
    /// Handles a requested call; the reply is sent after its reservation is on disk, or after a
    /// refusal.
    pub(super) fn on_reserve(&mut self, myself: &ActorRef<Msg>, queued: QueuedCall) {
        match &mut self.phase {
            Phase::Live(live) => {
                let begun = live.machine.state().budget().keeps_last_call(queued.run);
                live.budget_queue.queue.push(queued, begun);
            }
            Phase::Broken(error) => {
                let failure = Failure::new(RunCause::Panic, error.to_string());
                // The attempt may have been cancelled.
                let _ = queued.reply.send(Err(failure));
                return;
            }
            Phase::ReadOnly(shown) => {
                let failure = Failure::new(RunCause::Panic, shown.why.to_string());
                // The attempt may have been cancelled.
                let _ = queued.reply.send(Err(failure));
                return;
            }
            Phase::Loading => return,
        }
        self.grant_waiting(myself);
    }

    pub(super) fn on_grant_answered(
        &mut self,
        myself: &ActorRef<Msg>,
        number: u64,
        raised: Result<Amount, BudgetRefusal>,
    ) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if live
            .budget_queue
            .raising
            .is_none_or(|(_, _, last)| last != number)
        {
            return;
        }
        live.budget_queue.raised(raised);
        self.grant_waiting(myself);
    }

    /// Another session needs the unused grant of this one.
    pub(super) fn on_recall(&mut self) {
        match &mut self.phase {
            Phase::Live(live) => {
                live.budget_queue.recalled = true;
                self.give_back();
            }
            // Its grant does not change before it is opened again.
            Phase::Broken(_) | Phase::ReadOnly(_) => {
                let budget_broker = self.args.budget_broker.iter();
                budget_broker.for_each(|budget_broker| budget_broker.session_gone(self.args.id));
            }
            Phase::Loading => {}
        }
    }

    /// Returns the unused grant, and reports whether more may be released by itself.
    pub(super) fn give_back(&mut self) {
        let (Phase::Live(live), Some(budget_broker)) = (&mut self.phase, &self.args.budget_broker)
        else {
            return;
        };
        let (session_use, spending) = live.session_use();
        live.budget_queue.ceiling = session_use.in_use;
        live.budget_queue.last_reported = Some((session_use, spending));
        budget_broker.lower(budget_broker::ReturnedGrant {
            session: self.args.id,
            session_use,
            spending,
            pending: live.budget_queue.raising.map(|(_, _, number)| number),
        });
    }

    /// Grants waiting calls as far as possible, in order.
    pub(super) fn grant_waiting(&mut self, myself: &ActorRef<Msg>) {
        self.grant_in_order(myself);
        if self.args.budget_broker.is_some()
            && let Phase::Live(live) = &self.phase
            && live.must_report_use()
        {
            self.give_back();
        }
    }

    fn grant_in_order(&mut self, myself: &ActorRef<Msg>) {
        let (mut at, mut blocked) = (0, BTreeSet::<TurnId>::new());
        loop {
            let Phase::Live(live) = &mut self.phase else {
                return;
            };
            let (state, budget_queue) = (live.machine.state(), &mut live.budget_queue);
            let Some(queued) = budget_queue.queue.calls.get(at) else {
                return;
            };
            if queued.reply.is_closed() {
                // Nobody waits for it any more.
                budget_queue.queue.remove(at);
                continue;
            }
            let turn = state.budget().turn_of(queued.run);
            if turn.is_some_and(|turn| blocked.contains(&turn)) {
                at += 1;
                continue;
            }
            let ceiling = self
                .args
                .budget_broker
                .as_ref()
                .map(|_| budget_queue.ceiling);
            let options = &self.args.env.options;
            let decision = match unpriced_failure(options, state, &queued.ask) {
                Some(failure) => QueueDecision::Refuse(failure),
                None => decide(state, queued, &budget_queue.queue, ceiling),
            };
            match decision {
                QueueDecision::Wait(Level::Session | Level::Owner | Level::Daemon) => return,
                QueueDecision::Wait(Level::Turn) => {
                    blocked.extend(turn);
                    at += 1;
                }
                QueueDecision::Wait(Level::Run) => at += 1,
                QueueDecision::Raise(needed) => return self.raise(myself, at, needed),
                QueueDecision::Refuse(failure) => {
                    if let Some(queued) = budget_queue.queue.remove(at) {
                        // The attempt may have been cancelled.
                        let _ = queued.reply.send(Err(failure));
                    }
                }
                QueueDecision::Grant(reservation) => self.grant(myself, at, reservation),
            }
        }
    }

    fn grant(&mut self, myself: &ActorRef<Msg>, at: usize, reservation: Reservation) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let Some(queued) = live.budget_queue.queue.remove(at) else {
            return;
        };
        let (run, attempt) = (queued.run, queued.attempt);
        let ask = ReservationRequest {
            short: reservation.wrap_up.clone(),
            ..queued.ask
        };
        let decided = self.decide(Input::Reserve { run, attempt, ask });
        let refused = match decided {
            Ok(reaction) => {
                self.react(myself, reaction);
                let Phase::Live(live) = &mut self.phase else {
                    return;
                };
                let tree = live.machine.state().budget();
                if tree.reserved(run, reservation.call).is_some() {
                    let reply = (live.decided, queued.reply, reservation.wrap_up);
                    live.budget_queue.granted.push(reply);
                    live.budget_queue.on_durable(live.outbox.durable());
                    return;
                }
                Failure::new(RunCause::Budget, "the time for the call is up")
            }
            Err(error) => Failure::new(RunCause::Panic, error.to_string()),
        };
        // The attempt may have been cancelled.
        let _ = queued.reply.send(Err(refused));
    }

    fn raise(&mut self, myself: &ActorRef<Msg>, at: usize, needed: Amount) {
        let (Phase::Live(live), Some(budget_broker)) = (&mut self.phase, &self.args.budget_broker)
        else {
            return;
        };
        let Some(queued) = live.budget_queue.queue.calls.get(at) else {
            return;
        };
        // A call before it replaces the call of the current request, which is dropped.
        let is_same = |(run, call, _)| (run, call) == (queued.run, queued.ask.call);
        if live.budget_queue.raising.is_some_and(is_same) {
            return;
        }
        live.budget_queue.raises += 1;
        live.budget_queue.recalled = false;
        live.budget_queue.raising = Some((queued.run, queued.ask.call, live.budget_queue.raises));
        // Until the answer, nothing is granted from the old grant: it counts as returned.
        let (session_use, spending) = live.session_use();
        live.budget_queue.ceiling = session_use.in_use;
        live.budget_queue.last_reported = Some((session_use, spending));
        let recalled = myself.clone();
        let raised = budget_broker.raise(budget_broker::Request {
            session: self.args.id,
            owner: owner_of(live.machine.state()),
            number: live.budget_queue.raises,
            session_use,
            needed,
            begun: at < live.budget_queue.queue.begun,
            spending,
            recall: budget_broker::Recall::new(move || recalled.send_message(Msg::Recall).is_ok()),
        });
        let (myself, number) = (myself.clone(), live.budget_queue.raises);
        tokio::spawn(async move {
            // A session that died meanwhile asks again when it returns.
            let _ = myself.send_message(Msg::GrantAnswered(number, raised.await));
        });
    }
}

fn owner_of(state: &SessionState) -> Option<Arc<str>> {
    let owner = state.labels().get(OWNER);
    owner.filter(|owner| !owner.is_empty()).cloned()
}

impl Live {
    pub(super) fn has_no_waiting_calls(&self) -> bool {
        self.budget_queue.queue.calls.is_empty() && self.budget_queue.granted.is_empty()
    }

    /// Whether the budget broker must know the usage: a part of the grant is awaited, or the usage
    /// exceeds it. A coding agent, for example, reports its usage only afterwards.
    fn must_report_use(&self) -> bool {
        let queue = &self.budget_queue;
        let is_awaited = queue.recalled || queue.raising.is_some();
        let in_use = self.machine.state().session_use().in_use;
        (is_awaited || !in_use.is_within(queue.ceiling))
            && queue.last_reported != Some(self.session_use())
    }

    /// The usage, and whether a part of it will be released by itself.
    fn session_use(&self) -> (SessionUse, bool) {
        let (state, waits) = (self.machine.state(), |run| {
            self.budget_queue.queue.waits(run)
        });
        (state.session_use(), state.is_spending(waits))
    }
}

impl BudgetQueue {
    /// Nobody is there for the requested grant any more. The next report to the budget broker withdraws the
    /// request; otherwise it would be granted to a session that cannot return it.
    pub(super) fn forget_request(&mut self) {
        self.raising = None;
    }

    fn raised(&mut self, raised: Result<Amount, BudgetRefusal>) {
        let request = self.raising.take();
        self.last_reported = None;
        match raised {
            Ok(ceiling) => self.ceiling = ceiling,
            Err(refused) => {
                let at = request.and_then(|(run, call, _)| self.queue.position(run, call));
                let Some(at) = at else { return };
                if let (BudgetRefusal::Short(short), Some(queued)) =
                    (&refused, self.queue.calls.get_mut(at))
                    && queued.ask.last.is_some()
                    && queued.ask.short.is_none()
                {
                    // The amount kept for its last call is already granted.
                    queued.ask.short = Some(RunCause::Budget.describe(short));
                    return;
                }
                if let Some(queued) = self.queue.remove(at) {
                    let _ = queued.reply.send(Err(refused.into()));
                }
            }
        }
    }

    /// The journal is on disk up to this event: replies to the calls before it.
    pub(super) fn on_durable(&mut self, durable: u64) {
        if self.granted.is_empty() {
            return;
        }
        let ready = self.granted.extract_if(.., |(seq, ..)| *seq <= durable);
        for (_, reply, wrap_up) in ready {
            // The attempt may have been cancelled: then the call counts as lost.
            let _ = reply.send(Ok(wrap_up));
        }
    }

    /// Fails all waiting calls.
    pub(super) fn refuse(&mut self, error: &Error) {
        let granted = self.granted.drain(..).map(|(_, reply, _)| reply);
        let queued = std::mem::take(&mut self.queue).calls;
        for reply in granted.chain(queued.into_iter().map(|queued| queued.reply)) {
            let failure = Failure::new(RunCause::Panic, error.to_string());
            let _ = reply.send(Err(failure));
        }
    }
}

/// The failure of a call of unknown price, if the daemon or the session's owner has a limit of cost.
/// The session itself refuses it for all levels below.
fn unpriced_failure(
    options: &Options,
    state: &SessionState,
    ask: &ReservationRequest,
) -> Option<Failure> {
    let rules = options.budget.filter(|_| ask.is_unpriced())?;
    let owner = owner_of(state).map(|owner| options.budget_owners.owner_budget(&owner));
    let level = match owner.is_some_and(|owner| owner.caps.cost.is_some()) {
        true => Level::Owner,
        false => rules.caps.cost.map(|_| Level::Daemon)?,
    };
    let why = unknown_price(&ask.model, level);
    Some(Failure::new(RunCause::Budget, why))
}

/// The current decision about a call. `ceiling`: set if the daemon's budget is limited.
fn decide(
    state: &SessionState,
    queued: &QueuedCall,
    queue: &Queue,
    ceiling: Option<Amount>,
) -> QueueDecision {
    let (attempt, waits) = ((queued.run, queued.attempt), |run| queue.waits(run));
    let verdict = state.afford(attempt, &queued.ask, waits, clock::now());
    let reservation = match verdict {
        None => {
            let gone = Failure::new(RunCause::Panic, "the run has ended");
            return QueueDecision::Refuse(gone);
        }
        Some(Verdict::Waits(short)) => return QueueDecision::Wait(short.level),
        Some(Verdict::Refused(why)) => {
            return QueueDecision::Refuse(Failure::new(RunCause::Budget, why));
        }
        Some(Verdict::Granted(reservation)) => reservation,
    };
    let Some(ceiling) = ceiling else {
        return QueueDecision::Grant(reservation);
    };
    let account = state.budget().run(queued.run);
    let kept = account.map_or(Amount::ZERO, |account| account.kept);
    let added = (reservation.amount + reservation.keep) - kept;
    if (state.session_use().in_use + added).is_within(ceiling) {
        QueueDecision::Grant(reservation)
    } else {
        QueueDecision::Raise(added)
    }
}

/// Whether facts may have released an amount, or changed whether any will be released.
pub(super) fn frees(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event.fact,
            Fact::RunStepped { .. }
                | Fact::ToolsAnswered { .. }
                | Fact::Delegated { .. }
                | Fact::ToolsCalled { .. }
                | Fact::ToolInDoubt { .. }
                | Fact::HookAnswered { .. }
                | Fact::CallSettled { .. }
                | Fact::RunRetried { .. }
                | Fact::RunEnded { .. }
                | Fact::LateOutputReceived { .. }
                | Fact::SummariserUsed { .. }
                | Fact::SummaryPrepared { .. }
                | Fact::PreparationDropped { .. }
                | Fact::TurnEnded { .. }
        )
    })
}

impl From<BudgetRefusal> for Failure {
    fn from(refused: BudgetRefusal) -> Failure {
        match refused {
            BudgetRefusal::Short(short) => Failure::new(RunCause::Budget, short),
            BudgetRefusal::Failed(reason) => Failure::new(RunCause::Panic, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::Timestamp;
    use unisono_session::event::{DropReason, HookAnswer, HookPlace, HookPoint};
    use unisono_session::run::Usage;
    use unisono_session::run::calls::CallPlace;

    use super::*;

    #[test]
    fn facts_that_may_release_an_amount_have_waiting_calls_decided_again() {
        let turn = TurnId::from_u128(1);
        let call = CallPlace {
            run: RunId::from_u128(2),
            round: 1,
            index: 0,
        };
        let facts = [
            // The call may wait for a person from then on, and so does what its run keeps.
            Fact::HookAnswered {
                place: HookPlace {
                    point: HookPoint::Call(call),
                    rule: 0,
                },
                hook: "guard".into(),
                answer: HookAnswer::default(),
            },
            Fact::SummariserUsed {
                turn,
                model: "a/1".into(),
                usage: Usage::NONE,
            },
            Fact::PreparationDropped {
                turn,
                by: None,
                reason: DropReason::Busy,
            },
        ];
        for fact in facts {
            let at = Timestamp(0);
            assert!(frees(&[Event { at, fact }]));
        }
    }
}
