//! Model calls that wait for their budgets: each is reserved before it is made, in the order in
//! which they were asked for. What bounds the daemon is granted from the [`budget_broker`](crate::budget broker).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;
use unisono_context::{RunId, TurnId};
use unisono_session::budget::{Amount, Ask, Level, Reservation, SessionUse, Verdict};
use unisono_session::run::Cause;
use unisono_session::{Event, Fact, Input, OWNER, State as SessionState};

use crate::agent::Failure;
use crate::budget_broker::{self, Refused};
use crate::clock;
use crate::runtime::Error;

use super::{Live, Msg, Phase, State};

/// Who is told whether a call may be made: why it is the last, if a budget says so.
pub(crate) type Reply = oneshot::Sender<Result<Option<Arc<str>>, Failure>>;

/// A call that would be made.
pub(crate) struct Asking {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) ask: Ask,
    pub(crate) reply: Reply,
}

/// Calls that wait, and what of the daemon's budget the session holds.
#[derive(Default)]
pub(super) struct BudgetQueue {
    asking: Queue,
    /// Told when the journal is on disk up to that event.
    granted: Vec<(u64, Reply, Option<Arc<str>>)>,
    /// The most the session may have in use.
    ceiling: Amount,
    /// The call for which more was asked, and the number of that request.
    raising: Option<(RunId, u32, u64)>,
    raises: u64,
    /// Somebody else needs what is not used here: the budget broker is told whatever changes, until it
    /// is asked for more.
    recalled: bool,
    /// What the budget broker was told last: what is used, and whether something will be freed. None
    /// where it may have taken no notice.
    told: Option<(SessionUse, bool)>,
}

/// Calls that wait: those of runs that have begun before others, each in the order in which they
/// came. So what a run keeps for its last call is kept for as short as can be.
#[derive(Default)]
struct Queue {
    begun: usize,
    calls: VecDeque<Asking>,
    /// How many calls of a run wait.
    runs: BTreeMap<RunId, u32>,
}

impl Queue {
    fn push(&mut self, asking: Asking, begun: bool) {
        *self.runs.entry(asking.run).or_default() += 1;
        if begun {
            self.calls.insert(self.begun, asking);
            self.begun += 1;
        } else {
            self.calls.push_back(asking);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Asking> {
        let asking = self.calls.remove(at)?;
        self.begun -= usize::from(at < self.begun);
        if let Some(waiting) = self.runs.get_mut(&asking.run) {
            *waiting -= 1;
            if *waiting == 0 {
                self.runs.remove(&asking.run);
            }
        }
        Some(asking)
    }

    fn waits(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    fn position(&self, run: RunId, call: u32) -> Option<usize> {
        let mut calls = self.calls.iter();
        calls.position(|of| (of.run, of.ask.call) == (run, call))
    }
}

/// What becomes of a call that waits.
enum Next {
    Grant(Reservation),
    /// Not before the daemon has granted more.
    Raise(Amount),
    /// It waits, and so do those that would wait for the same.
    Wait(Level),
    Refuse(Failure),
}

impl State {
    /// Takes a call; the reply is given once it is reserved on disk, or cannot be.
    pub(super) fn on_reserve(&mut self, myself: &ActorRef<Msg>, asking: Asking) {
        match &mut self.phase {
            Phase::Live(live) => {
                let begun = live.machine.state().budget().keeps(asking.run);
                live.budget_queue.asking.push(asking, begun);
            }
            Phase::Broken(error) => {
                let failure = Failure::new(Cause::Panic, error.to_string());
                // The attempt may have been given up.
                let _ = asking.reply.send(Err(failure));
                return;
            }
            Phase::Shown(shown) => {
                let failure = Failure::new(Cause::Panic, shown.why.to_string());
                // The attempt may have been given up.
                let _ = asking.reply.send(Err(failure));
                return;
            }
            Phase::Loading => return,
        }
        self.spend(myself);
    }

    /// The daemon has granted more, or has not.
    pub(super) fn on_raised(
        &mut self,
        myself: &ActorRef<Msg>,
        number: u64,
        raised: Result<Amount, Refused>,
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
        self.spend(myself);
    }

    /// Another session needs what is granted to this one and not used.
    pub(super) fn on_recall(&mut self) {
        match &mut self.phase {
            Phase::Live(live) => {
                live.budget_queue.recalled = true;
                self.give_back();
            }
            // Nothing comes back of it before it is opened again.
            Phase::Broken(_) | Phase::Shown(_) => {
                let budget_broker = self.args.budget_broker.iter();
                budget_broker.for_each(|budget_broker| budget_broker.gone(self.args.id));
            }
            Phase::Loading => {}
        }
    }

    /// Gives back what is granted and not used, and tells whether more may come back by itself.
    pub(super) fn give_back(&mut self) {
        let (Phase::Live(live), Some(budget_broker)) = (&mut self.phase, &self.args.budget_broker)
        else {
            return;
        };
        let (session_use, spending) = live.session_use();
        live.budget_queue.ceiling = session_use.in_use;
        live.budget_queue.told = Some((session_use, spending));
        budget_broker.lower(budget_broker::Back {
            session: self.args.id,
            session_use,
            spending,
            pending: live.budget_queue.raising.map(|(_, _, number)| number),
        });
    }

    /// Grants what can be granted, in order.
    pub(super) fn spend(&mut self, myself: &ActorRef<Msg>) {
        self.grant_in_order(myself);
        if self.args.budget_broker.is_some()
            && let Phase::Live(live) = &self.phase
            && (live.budget_queue.recalled || live.budget_queue.raising.is_some())
            && live.budget_queue.told != Some(live.session_use())
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
            let Some(asking) = budget_queue.asking.calls.get(at) else {
                return;
            };
            if asking.reply.is_closed() {
                // Nobody waits for it any more.
                budget_queue.asking.remove(at);
                continue;
            }
            let turn = state.budget().turn_of(asking.run);
            if turn.is_some_and(|turn| blocked.contains(&turn)) {
                at += 1;
                continue;
            }
            let ceiling = self
                .args
                .budget_broker
                .as_ref()
                .map(|_| budget_queue.ceiling);
            match next(state, asking, &budget_queue.asking, ceiling) {
                Next::Wait(Level::Session | Level::Owner | Level::Daemon) => return,
                Next::Wait(Level::Turn) => {
                    blocked.extend(turn);
                    at += 1;
                }
                Next::Wait(Level::Run) => at += 1,
                Next::Raise(needed) => return self.raise(myself, at, needed),
                Next::Refuse(failure) => {
                    if let Some(asking) = budget_queue.asking.remove(at) {
                        // The attempt may have been given up.
                        let _ = asking.reply.send(Err(failure));
                    }
                }
                Next::Grant(reservation) => self.grant(myself, at, reservation),
            }
        }
    }

    fn grant(&mut self, myself: &ActorRef<Msg>, at: usize, reservation: Reservation) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let Some(asking) = live.budget_queue.asking.remove(at) else {
            return;
        };
        let (run, attempt) = (asking.run, asking.attempt);
        let ask = Ask {
            short: reservation.wrap_up.clone(),
            ..asking.ask
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
                    let told = (live.decided, asking.reply, reservation.wrap_up);
                    live.budget_queue.granted.push(told);
                    live.budget_queue.durable(live.outbox.durable());
                    return;
                }
                Failure::new(Cause::Budget, "the time for the call is up")
            }
            Err(error) => Failure::new(Cause::Panic, error.to_string()),
        };
        // The attempt may have been given up.
        let _ = asking.reply.send(Err(refused));
    }

    fn raise(&mut self, myself: &ActorRef<Msg>, at: usize, needed: Amount) {
        let (Phase::Live(live), Some(budget_broker)) = (&mut self.phase, &self.args.budget_broker)
        else {
            return;
        };
        let Some(asking) = live.budget_queue.asking.calls.get(at) else {
            return;
        };
        // One that goes before it takes the place of what was asked for, which is forgotten.
        let of = |(run, call, _)| (run, call) == (asking.run, asking.ask.call);
        if live.budget_queue.raising.is_some_and(of) {
            return;
        }
        live.budget_queue.raises += 1;
        live.budget_queue.recalled = false;
        live.budget_queue.raising = Some((asking.run, asking.ask.call, live.budget_queue.raises));
        // Until it is answered nothing is granted that was granted before: it counts as given back.
        let (session_use, spending) = live.session_use();
        live.budget_queue.ceiling = session_use.in_use;
        live.budget_queue.told = Some((session_use, spending));
        let recalled = myself.clone();
        let raised = budget_broker.raise(budget_broker::Request {
            session: self.args.id,
            owner: owner_of(live.machine.state()),
            number: live.budget_queue.raises,
            session_use,
            needed,
            begun: at < live.budget_queue.asking.begun,
            spending,
            recall: budget_broker::Recall::new(move || recalled.send_message(Msg::Recall).is_ok()),
        });
        let (myself, number) = (myself.clone(), live.budget_queue.raises);
        tokio::spawn(async move {
            // A session that died meanwhile asks again when it returns.
            let _ = myself.send_message(Msg::Raised(number, raised.await));
        });
    }
}

/// Whose a session is.
fn owner_of(state: &SessionState) -> Option<Arc<str>> {
    let owner = state.labels().get(OWNER);
    owner.filter(|owner| !owner.is_empty()).cloned()
}

impl Live {
    /// Whether nobody waits for anything here.
    pub(super) fn owes_nothing(&self) -> bool {
        self.budget_queue.asking.calls.is_empty() && self.budget_queue.granted.is_empty()
    }

    /// What is used, and whether something of it will be freed by itself.
    fn session_use(&self) -> (SessionUse, bool) {
        let (state, waits) = (self.machine.state(), |run| {
            self.budget_queue.asking.waits(run)
        });
        (state.session_use(), state.is_spending(waits))
    }
}

impl BudgetQueue {
    fn raised(&mut self, raised: Result<Amount, Refused>) {
        let asked = self.raising.take();
        self.told = None;
        match raised {
            Ok(ceiling) => self.ceiling = ceiling,
            Err(refused) => {
                let at = asked.and_then(|(run, call, _)| self.asking.position(run, call));
                let Some(at) = at else { return };
                if let (Refused::Short(short), Some(asking)) =
                    (&refused, self.asking.calls.get_mut(at))
                    && asking.ask.last.is_some()
                    && asking.ask.short.is_none()
                {
                    // What was kept for its last words is granted already.
                    asking.ask.short = Some(Cause::Budget.describe(short));
                    return;
                }
                if let Some(asking) = self.asking.remove(at) {
                    let _ = asking.reply.send(Err(refused.into()));
                }
            }
        }
    }

    /// The journal is on disk up to there: tells those whose call is.
    pub(super) fn durable(&mut self, durable: u64) {
        if self.granted.is_empty() {
            return;
        }
        let ready = self.granted.extract_if(.., |(seq, ..)| *seq <= durable);
        for (_, reply, wrap_up) in ready {
            // The attempt may have been given up: then the call counts as lost.
            let _ = reply.send(Ok(wrap_up));
        }
    }

    /// Fails everybody who waits.
    pub(super) fn refuse(&mut self, error: &Error) {
        let granted = self.granted.drain(..).map(|(_, reply, _)| reply);
        let asking = std::mem::take(&mut self.asking).calls;
        for reply in granted.chain(asking.into_iter().map(|asking| asking.reply)) {
            let failure = Failure::new(Cause::Panic, error.to_string());
            let _ = reply.send(Err(failure));
        }
    }
}

/// What becomes of a call now. `ceiling`: where the daemon's budget is bounded.
fn next(state: &SessionState, asking: &Asking, queue: &Queue, ceiling: Option<Amount>) -> Next {
    let (of, waits) = ((asking.run, asking.attempt), |run| queue.waits(run));
    let verdict = state.afford(of, &asking.ask, waits, clock::now());
    let reservation = match verdict {
        None => {
            let gone = Failure::new(Cause::Panic, "the run is not under way any more");
            return Next::Refuse(gone);
        }
        Some(Verdict::Waits(short)) => return Next::Wait(short.level),
        Some(Verdict::Refused(why)) => return Next::Refuse(Failure::new(Cause::Budget, why)),
        Some(Verdict::Granted(reservation)) => reservation,
    };
    let Some(ceiling) = ceiling else {
        return Next::Grant(reservation);
    };
    let account = state.budget().run(asking.run);
    let own = account.map_or(Amount::ZERO, |account| account.kept);
    let added = (reservation.amount + reservation.keep) - own;
    if (state.session_use().in_use + added).is_within(ceiling) {
        Next::Grant(reservation)
    } else {
        Next::Raise(added)
    }
}

/// Whether facts may have freed something, or changed whether anything will be freed.
pub(super) fn frees(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event.fact,
            Fact::RunStepped { .. }
                | Fact::ToolsAnswered { .. }
                | Fact::Delegated { .. }
                | Fact::ToolsCalled { .. }
                | Fact::ToolInDoubt { .. }
                | Fact::CallSettled { .. }
                | Fact::RunRetried { .. }
                | Fact::RunEnded { .. }
                | Fact::CameLate { .. }
                | Fact::TurnEnded { .. }
        )
    })
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Short(short) => Failure::new(Cause::Budget, short),
            Refused::Failed(reason) => Failure::new(Cause::Panic, reason),
        }
    }
}
