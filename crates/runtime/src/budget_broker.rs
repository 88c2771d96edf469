//! The budget broker: owns the daemon's level of the budget tree and its journal.
//!
//! Sessions request larger grants and return unused ones through their [`Handle`]; each answer is
//! on disk before it is given, and waits while the store does not answer. If other sessions hold the rest,
//! the broker asks them to return unused parts. The request waits for these parts, and as long as a holder,
//! also in another program, works on something whose end releases a part. It never waits on a holder that is
//! itself queued. While requests of another program wait as well, the programs take turns: the one that
//! has been without a grant for longer gets what is free, until it has enough. At its first start the
//! broker takes back what sessions held in an earlier process, according to their journals; if it is
//! restarted while sessions are live, they are asked. At most one request of each session waits.

mod beats;
mod handle;
mod other_programs;
mod recording;
mod settle;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;
use unisono_context::SessionId;
use unisono_session::budget::broker::DaemonBudget;
use unisono_session::budget::{
    Amount, Broker, Grant, Level, OwnerBudget, OwnerBudgets, SessionUse, Shortage,
};
use unisono_store::{Grants, Journal};

use crate::address::ActorResult;
use crate::clock;
pub(crate) use handle::{BudgetRefusal, Handle, Recall, Request, ReturnedGrant};
use other_programs::OtherPrograms;
use recording::Obstacle;
use settle::{session_use, settle};
use waiting::{Waiting, WaitingRequests};

/// The maximum wait of a request for grants of other sessions.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause before another try while the store does not answer. Each try waits for the store, too.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Number of beats for which this program leaves what is free to others that are short, after it got a
/// grant itself. Each of the others decides at least once meanwhile.
const YIELDED_BEATS: u32 = 3;

pub(crate) enum Msg {
    /// Raise the grant of a session.
    Raise(Request, Reply),
    /// A session returns its unused grant.
    Lower(ReturnedGrant),
    /// A session has ended; nothing follows until it is opened again.
    SessionGone(SessionId),
    /// Take back the unused grants of these sessions, which are not live.
    Settle(Vec<SessionId>, oneshot::Sender<()>),
    /// A request has waited too long.
    TooLong { session: SessionId, number: u64 },
    /// The store may answer again.
    Retry,
    /// The other programs on the store were heard of. `is_wanted`: one of them is short. `since`: when
    /// the first of them began to wait for its turn.
    Beat {
        is_wanted: bool,
        since: Option<Instant>,
    },
}

type Reply = oneshot::Sender<Result<Amount, BudgetRefusal>>;

pub(crate) struct Args {
    pub(crate) journal: Journal,
    pub(crate) rules: DaemonBudget,
    pub(crate) owners: Arc<OwnerBudgets>,
    /// Whether there may be live sessions with grants.
    pub(crate) is_restart: bool,
}

pub(crate) struct BudgetBroker;

pub(crate) struct State {
    journal: Journal,
    rules: DaemonBudget,
    owners: Arc<OwnerBudgets>,
    grants: Grants,
    broker: Broker,
    waiting: WaitingRequests,
    /// Sessions with grants that may be returned, and how to ask for them.
    holders: HashMap<SessionId, Holder>,
    other_programs: OtherPrograms,
    /// Whether another program is short of budget.
    is_wanted: bool,
    /// Since when the first of the other programs waits for its turn.
    others_wait_since: Option<Instant>,
    /// When this program last had its turn.
    granted_at: Option<Instant>,
    /// Number of beats for which the others go first.
    yielded_beats: u32,
    /// Why the store does not answer: what waits is decided again soon.
    unanswered: Option<Arc<str>>,
    myself: ActorRef<Msg>,
}

/// A session with a grant that may be returned.
struct Holder {
    owner: Option<Arc<str>>,
    recall: Recall,
    known: HolderState,
}

/// The state of a session with a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HolderState {
    /// Unknown since its last answer.
    Nothing,
    /// It was asked, and has not answered.
    Asked,
    /// It will release a part by itself, and reports it.
    Spending,
}

impl State {
    async fn on_raise(&mut self, request: Request, reply: Reply) {
        let (session, number, session_use) = (request.session, request.number, request.session_use);
        self.holds(&request);
        self.waiting.push(request, reply);
        self.lower(session, session_use).await;
        self.serve().await;
        if self.waiting.position(session, number).is_some() {
            self.send_later(REQUEST_TIMEOUT, Msg::TooLong { session, number });
        }
    }

    fn send_later(&self, after: Duration, message: Msg) {
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            // The tree may have been stopped meanwhile.
            let _ = myself.send_message(message);
        });
    }

    async fn on_lower(&mut self, back: ReturnedGrant) {
        let ReturnedGrant {
            session,
            session_use,
            spending,
            pending,
        } = back;
        match pending {
            Some(number) => {
                // It reports again after its answer.
                let Some(request) = self.waiting.get_mut(session, number) else {
                    return;
                };
                (request.session_use, request.spending) = (session_use, spending);
            }
            // The request belongs to an earlier life of the session.
            None => self.waiting.forget(session),
        }
        self.lower(session, session_use).await;
        if spending {
            let known = self.holders.get_mut(&session);
            known
                .into_iter()
                .for_each(|of| of.known = HolderState::Spending);
        } else {
            self.holders.remove(&session);
        }
        self.serve().await;
    }

    async fn on_session_gone(&mut self, session: SessionId) {
        self.holders.remove(&session);
        self.waiting.forget(session);
        // If that cannot be read, the next start handles it.
        if let Ok(false) = self.journal.exists(session).await {
            let now = clock::store_now(&self.journal);
            let closed = self.record_grant(|broker, rules| broker.close(rules, session, now));
            if let Err(error) = closed.await {
                tracing::error!(%session, %error, "the grant of a deleted session cannot be recorded");
            }
        }
        self.serve().await;
    }

    async fn on_settle(&mut self, sessions: Vec<SessionId>) {
        for session in sessions {
            if !self.broker.holders().any(|holder| holder == session) {
                continue;
            }
            // If a request has opened it meanwhile, its journal may lack what it reserves: it returns the
            // rest by itself.
            let holder = self.holders.get(&session);
            if holder.is_some_and(|holder| (holder.recall.0)()) {
                continue;
            }
            match session_use(&self.journal, session).await {
                Ok(Some(session_use)) => self.lower(session, session_use).await,
                // Deleted, or its journal does not fold.
                Ok(None) => self.on_session_gone(session).await,
                Err(error) => {
                    tracing::warn!(%session, %error, "the grant of a session is not taken back yet");
                }
            }
        }
        self.serve().await;
    }

    async fn on_too_long(&mut self, session: SessionId, number: u64) {
        let Some(at) = self.waiting.position(session, number) else {
            return;
        };
        // A session that has not answered in all this time will not.
        self.holders.retain(|_, of| of.known != HolderState::Asked);
        let Waiting { request, reply, .. } = self.waiting.remove(at);
        if let Some(reason) = &self.unanswered {
            // The session may have ended.
            let _ = reply.send(Err(BudgetRefusal::Failed(reason.clone())));
            return;
        }
        let short = self.raise(&request).err();
        let why = short.map(|short| request.describe(&short));
        let why = why.unwrap_or_else(|| "the daemon's budget is in use".into());
        self.refuse(&request, reply, why);
        self.serve().await;
    }

    /// Answers waiting requests as far as possible. While another program is short, they are answered at
    /// beats only, so that the other one can get what is returned here. While the store does not answer, the
    /// next try decides: each try waits for the store.
    async fn serve(&mut self) {
        match self.is_wanted {
            true => self.recall(|_, _| true),
            false if self.unanswered.is_some() => {}
            false => {
                self.answer_waiting().await;
            }
        }
    }

    /// Answers waiting requests until one must continue to wait. Returns whether it granted something.
    async fn answer_waiting(&mut self) -> bool {
        self.refresh().await;
        // What is granted now is one turn of this program.
        let (mut has_granted, granted_at) = (false, self.granted_at);
        // Owners whose requests wait for their own sessions: those of others go on.
        let mut blocked = BTreeSet::new();
        while let Some(next) = self.waiting.next(&blocked) {
            let waiting = self.waiting.remove(next);
            if waiting.goes_behind(self.others_wait_since, granted_at) {
                self.waiting.insert(next, waiting);
                self.other_programs.leave_turn(&self.journal);
                return has_granted;
            }
            match self.grant(&waiting.request).await {
                Ok(answer) => {
                    if answer.is_ok() {
                        (has_granted, self.granted_at) = (true, waiting.took_turn(self.granted_at));
                    }
                    self.holds(&waiting.request);
                    // The session may have ended.
                    let _ = waiting.reply.send(answer);
                }
                Err(Obstacle::Unanswered(reason)) => {
                    self.waiting.insert(next, waiting);
                    if self.unanswered.replace(reason).is_none() {
                        self.send_later(RETRY_AFTER, Msg::Retry);
                    }
                    return has_granted;
                }
                Err(Obstacle::Short(short)) if self.waits(&waiting, &short) => {
                    let Request { session, owner, .. } = &waiting.request;
                    tracing::debug!(%session, %short, "waits for others");
                    let owner = owner.clone();
                    self.waiting.insert(next, waiting);
                    match (short.level, owner) {
                        (Level::Owner, Some(owner)) => blocked.insert(owner),
                        _ => return has_granted,
                    };
                }
                Err(Obstacle::Short(short)) => {
                    let Waiting { request, reply, .. } = waiting;
                    self.refuse(&request, reply, request.describe(&short));
                }
            }
        }
        if blocked.is_empty() {
            self.other_programs.end_needs(&self.journal);
        }
        has_granted
    }

    /// Whether a request without enough budget waits: for its own session, or for what sessions of this
    /// program or of others may return.
    fn waits(&mut self, waiting: &Waiting, short: &Shortage) -> bool {
        let request = &waiting.request;
        if request.spending {
            self.other_programs.leave_turn(&self.journal);
            return true;
        }
        let comes_back = self.may_come_back(request, short.level);
        let owner = self.owner_budget(request).map(|of| of.owner);
        let owner = owner.filter(|_| short.level == Level::Owner);
        let may_suffice = short.would_end_with(self.broker.unspent(request.session, owner));
        if !may_suffice {
            self.other_programs.leave_turn(&self.journal);
            return comes_back;
        }
        // An owner's budget is no matter of the requests of other owners.
        let is_of_all = short.level == Level::Daemon;
        let since = is_of_all.then(|| waiting.waits_since(self.granted_at));
        let (others, last) = (&mut self.other_programs, self.grants.last());
        // Both are asked: sessions of this program may take longer.
        others.may_give_back(&self.journal, last, since) || comes_back
    }

    /// Refuses a request. The run makes its last call with its kept amount, if it has one.
    fn refuse(&mut self, request: &Request, reply: Reply, why: Arc<str>) {
        self.holds(request);
        // The session may have ended.
        let _ = reply.send(Err(BudgetRefusal::Short(why)));
    }

    fn holds(&mut self, request: &Request) {
        let holder = Holder {
            owner: request.owner.clone(),
            recall: request.recall.clone(),
            known: HolderState::Nothing,
        };
        self.holders.insert(request.session, holder);
    }

    /// Takes back the unused grant of a session. If that cannot be recorded, the session holds too
    /// much for a while.
    async fn lower(&mut self, session: SessionId, session_use: SessionUse) {
        let now = clock::store_now(&self.journal);
        let lowered =
            self.record_grant(|broker, rules| broker.lower(rules, session, session_use, now));
        if let Err(error) = lowered.await {
            tracing::error!(%session, %error, "the returned grant of a session cannot be recorded");
        }
    }

    fn raise(&self, request: &Request) -> Result<Grant, Shortage> {
        let amounts = (request.session_use, request.needed);
        let of = (request.session, self.owner_budget(request));
        let now = clock::store_now(&self.journal);
        self.broker.raise(&self.rules, of, amounts, now)
    }

    fn owner_budget(&self, request: &Request) -> Option<OwnerBudget> {
        let owner = request.owner.as_ref()?;
        Some(self.owners.owner_budget(owner))
    }

    /// Whether other sessions hold amounts that they may return; sessions in an unknown state are
    /// asked. Only sessions of the same owner can return a part of that owner's budget.
    fn may_come_back(&mut self, request: &Request, level: Level) -> bool {
        let (own, owner) = (request.session, request.owner.clone());
        let helps = move |session: SessionId, holder: &Holder| {
            session != own && (level != Level::Owner || holder.owner == owner)
        };
        self.recall(&helps);
        let mut holders = self.holders.iter();
        holders.any(|(session, holder)| helps(*session, holder))
    }

    /// Asks sessions in an unknown state to return their unused grants.
    fn recall(&mut self, helps: impl Fn(SessionId, &Holder) -> bool) {
        self.holders.retain(|session, holder| {
            if helps(*session, holder) && holder.known == HolderState::Nothing {
                holder.known = HolderState::Asked;
                return (holder.recall.0)();
            }
            true
        });
    }
}

impl Actor for BudgetBroker {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, myself: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        let Args {
            journal,
            rules,
            owners,
            is_restart,
        } = args;
        let (mut grants, mut broker) = Grants::open(&journal).await?;
        if !is_restart {
            let lowered = settle(&journal, &rules, &broker).await?;
            match grants.append(&lowered).await {
                // The next start repeats this.
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "the grants of sessions cannot be recorded");
                    lowered.iter().for_each(|grant| broker.apply(grant));
                }
                // Another program got a grant meanwhile: a grant that stays longer is safe.
                Err(_) if journal.cluster().is_some() => grants.refresh(&mut broker).await?,
                Ok(()) => lowered.iter().for_each(|grant| broker.apply(grant)),
                Err(error) => return Err(error.into()),
            }
        }
        let other_programs = OtherPrograms::follow(&journal, myself.clone());
        Ok(State {
            journal,
            rules,
            owners,
            grants,
            broker,
            waiting: WaitingRequests::default(),
            holders: HashMap::new(),
            other_programs,
            is_wanted: false,
            others_wait_since: None,
            granted_at: None,
            yielded_beats: 0,
            unanswered: None,
            myself,
        })
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        match message {
            Msg::Raise(request, reply) => state.on_raise(request, reply).await,
            Msg::Lower(back) => state.on_lower(back).await,
            Msg::SessionGone(session) => state.on_session_gone(session).await,
            Msg::Settle(sessions, reply) => {
                state.on_settle(sessions).await;
                // The caller may have ended.
                let _ = reply.send(());
            }
            Msg::TooLong { session, number } => state.on_too_long(session, number).await,
            Msg::Retry => {
                state.unanswered = None;
                state.serve().await;
            }
            Msg::Beat { is_wanted, since } => state.on_beat(is_wanted, since).await,
        }
        state.tell_spending();
        Ok(())
    }
}
