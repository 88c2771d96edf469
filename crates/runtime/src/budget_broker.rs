//! The budget broker: owns the daemon's level of the budget tree and its journal.
//!
//! Sessions ask it for more, and give back what they do not use, through their [`Handle`]; each
//! answer is on disk before it is given. Where a session asks for what others hold, they are asked
//! to give back what they do not use, and it waits for that, and while any of them frees something
//! by itself; never for one that waits, too. At its first start it takes back what sessions held
//! in an earlier process, from what their own journals say; when it is restarted beside sessions,
//! they are asked. At most one request of each session waits.

mod settle;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use unisono_context::SessionId;
use unisono_session::budget::broker::Rules;
use unisono_session::budget::{
    Amount, Broker, Grant, Level, OwnerBudget, OwnerBudgets, SessionUse, Shortage,
};
use unisono_store::{Grants, Journal};

use crate::address::ActorAddress;
use crate::clock;
use settle::{session_use, settle};

/// How long a request waits for what others hold.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a grant is decided again because other programs were granted something.
const DECIDED_AT_MOST: u32 = 64;

/// What the budget broker is sent.
pub(crate) enum Msg {
    /// Grant a session more.
    Raise(Request, Reply),
    /// A session gives back all it does not use.
    Lower(Back),
    /// Nothing more is heard of a session until it is opened again.
    Gone(SessionId),
    /// Take back what these sessions hold and do not use: nobody works on them.
    Settle(Vec<SessionId>, oneshot::Sender<()>),
    /// A request has waited long enough.
    TooLong { session: SessionId, number: u64 },
}

type Reply = oneshot::Sender<Result<Amount, Refused>>;

/// A session that needs more. From now on it holds what it uses and no more, until it is answered.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) session: SessionId,
    /// Whose it is; none: nobody's.
    pub(crate) owner: Option<Arc<str>>,
    /// Its number among the requests of the session.
    pub(crate) number: u64,
    pub(crate) session_use: SessionUse,
    pub(crate) needed: Amount,
    /// Whether it is for a run that keeps something for its last call: it goes before others.
    pub(crate) begun: bool,
    /// As in [`Back::spending`].
    pub(crate) spending: bool,
    pub(crate) recall: Recall,
}

/// A session holds what it uses and no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    pub(crate) session: SessionId,
    pub(crate) session_use: SessionUse,
    /// Whether it will free something of that without being granted more.
    pub(crate) spending: bool,
    /// The request it waits for: once that is answered, this is out of date.
    pub(crate) pending: Option<u64>,
}

/// Asks a session to give back what it does not use, and to tell how it stands from then on; false
/// where it has left memory.
#[derive(Clone)]
pub(crate) struct Recall(Arc<dyn Fn() -> bool + Send + Sync>);

impl Recall {
    pub(crate) fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Recall {
        Recall(Arc::new(ask))
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recall(..)")
    }
}

/// Why nothing more is granted.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// There is not enough left.
    Short(Arc<str>),
    /// It could not be written down, or nobody is there.
    Failed(Arc<str>),
}

/// What others hold of it.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) ActorAddress<Msg>);

impl Handle {
    /// Has a session's ceiling raised, and gives the new one. Sent at once, answered later.
    pub(crate) fn raise(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Amount, Refused>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        // Where nobody is there, the reply is dropped.
        let _ = self.0.send_now(Msg::Raise(request, reply));
        async {
            let gone = || Refused::Failed("the daemon's budget is not to be had".into());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }

    /// Has it lowered to what is used. A broker that is being started again asks for it by itself.
    pub(crate) fn lower(&self, back: Back) {
        let _ = self.0.send_now(Msg::Lower(back));
    }

    /// Has it take back what these sessions hold and do not use.
    pub(crate) fn settle(&self, sessions: Vec<SessionId>, reply: oneshot::Sender<()>) {
        // Where nobody is there, the reply is dropped.
        let _ = self.0.send_now(Msg::Settle(sessions, reply));
    }

    /// Tells that nothing more is heard of a session.
    pub(crate) fn gone(&self, session: SessionId) {
        let _ = self.0.send_now(Msg::Gone(session));
    }
}

/// What the budget broker is made of.
pub(crate) struct Args {
    pub(crate) journal: Journal,
    pub(crate) rules: Rules,
    pub(crate) owners: Arc<OwnerBudgets>,
    /// Whether sessions are in memory that may hold something.
    pub(crate) again: bool,
}

/// The actor.
pub(crate) struct BudgetBroker;

pub(crate) struct State {
    journal: Journal,
    rules: Rules,
    owners: Arc<OwnerBudgets>,
    grants: Grants,
    broker: Broker,
    waiting: Vec<(Request, Reply)>,
    /// Sessions that hold something which may come back, and how to ask for it.
    holders: HashMap<SessionId, Holder>,
}

/// A session that holds something which may come back.
struct Holder {
    owner: Option<Arc<str>>,
    recall: Recall,
    known: Known,
}

/// What is known of a session that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing since it was answered last.
    Nothing,
    /// It was asked, and has not answered.
    Asked,
    /// It will free something by itself, and tells when it does.
    Spending,
}

impl State {
    async fn on_raise(&mut self, myself: &ActorRef<Msg>, request: Request, reply: Reply) {
        let (session, number, session_use) = (request.session, request.number, request.session_use);
        self.holds(&request);
        self.waiting.retain(|(waits, _)| waits.session != session);
        self.waiting.push((request, reply));
        self.lower(session, session_use).await;
        self.serve().await;
        if self.waiting(session, number).is_some() {
            let myself = myself.clone();
            tokio::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                // The tree may have been stopped meanwhile.
                let _ = myself.send_message(Msg::TooLong { session, number });
            });
        }
    }

    async fn on_lower(&mut self, back: Back) {
        let Back {
            session,
            session_use,
            spending,
            pending,
        } = back;
        match pending {
            Some(number) => {
                let at = self.waiting(session, number);
                // Once it has its answer, it tells again.
                let Some((request, _)) = at.and_then(|at| self.waiting.get_mut(at)) else {
                    return;
                };
                (request.session_use, request.spending) = (session_use, spending);
            }
            // What it asked for, it asked for in an earlier life.
            None => self.waiting.retain(|(of, _)| of.session != session),
        }
        self.lower(session, session_use).await;
        if spending {
            let known = self.holders.get_mut(&session);
            known.into_iter().for_each(|of| of.known = Known::Spending);
        } else {
            self.holders.remove(&session);
        }
        self.serve().await;
    }

    async fn on_gone(&mut self, session: SessionId) {
        self.holders.remove(&session);
        self.waiting.retain(|(of, _)| of.session != session);
        // Where that cannot be read, the next start sees to it.
        if let Ok(false) = self.journal.exists(session).await {
            let closed = self.keep(|broker, rules| broker.close(rules, session, clock::now()));
            if let Err(error) = closed.await {
                tracing::error!(%session, %error, "what a deleted session held cannot be written down");
            }
        }
        self.serve().await;
    }

    async fn on_settle(&mut self, sessions: Vec<SessionId>) {
        for session in sessions {
            if !self.broker.holders().any(|holder| holder == session) {
                continue;
            }
            match session_use(&self.journal, session).await {
                Ok(Some(session_use)) => self.lower(session, session_use).await,
                // Deleted, or it does not fold.
                Ok(None) => self.on_gone(session).await,
                Err(error) => {
                    tracing::warn!(%session, %error, "what a session holds is not taken back yet");
                }
            }
        }
        self.serve().await;
    }

    async fn on_too_long(&mut self, session: SessionId, number: u64) {
        let Some(at) = self.waiting(session, number) else {
            return;
        };
        // Who has not answered in all this time does not.
        self.holders.retain(|_, of| of.known != Known::Asked);
        let (request, reply) = self.waiting.remove(at);
        let short = self.raise(&request).err();
        let short = short.map(|short| described(&request, &short));
        let why = short.unwrap_or_else(|| "the daemon's budget is in use".into());
        self.refuse(&request, reply, why);
        self.serve().await;
    }

    fn waiting(&self, session: SessionId, number: u64) -> Option<usize> {
        let mut all = self.waiting.iter();
        all.position(|(of, _)| (of.session, of.number) == (session, number))
    }

    /// Answers those that wait until one has to wait on: first those whose runs have begun, else
    /// in the order in which they came.
    async fn serve(&mut self) {
        if !self.waiting.is_empty()
            && let Err(error) = self.grants.refresh(&mut self.broker).await
        {
            tracing::warn!(%error, "what other programs were granted is not known");
        }
        // Owners whose requests wait for their own sessions: those of others go on.
        let mut blocked = BTreeSet::new();
        while let Some(next) = self.next(&blocked) {
            let (request, reply) = self.waiting.remove(next);
            match self.grant(&request).await {
                Ok(answer) => {
                    self.holds(&request);
                    // The session may be gone.
                    let _ = reply.send(answer);
                }
                Err(short) if request.spending || self.may_come_back(&request, short.level) => {
                    tracing::debug!(session = %request.session, %short, "waits for others");
                    let owner = request.owner.clone();
                    // In its old place, so that the order stays.
                    self.waiting.insert(next, (request, reply));
                    match (short.level, owner) {
                        (Level::Owner, Some(owner)) => blocked.insert(owner),
                        _ => return,
                    };
                }
                Err(short) => self.refuse(&request, reply, described(&request, &short)),
            }
        }
    }

    /// The request that is answered next: first those whose runs have begun.
    fn next(&self, blocked: &BTreeSet<Arc<str>>) -> Option<usize> {
        let is_free = |of: &Request| of.owner.as_ref().is_none_or(|of| !blocked.contains(of));
        let find = |begun: bool| {
            let mut all = self.waiting.iter();
            all.position(|(of, _)| is_free(of) && (of.begun || !begun))
        };
        find(true).or_else(|| find(false))
    }

    /// It makes its last call with what it has kept, if it has.
    fn refuse(&mut self, request: &Request, reply: Reply, why: Arc<str>) {
        self.holds(request);
        // The session may be gone.
        let _ = reply.send(Err(Refused::Short(why)));
    }

    fn holds(&mut self, request: &Request) {
        let holder = Holder {
            owner: request.owner.clone(),
            recall: request.recall.clone(),
            known: Known::Nothing,
        };
        self.holders.insert(request.session, holder);
    }

    /// What a session holds and does not use is free again. It is of no account whether that could
    /// be written down: then it holds too much for a while.
    async fn lower(&mut self, session: SessionId, session_use: SessionUse) {
        let lowered =
            self.keep(|broker, rules| broker.lower(rules, session, session_use, clock::now()));
        if let Err(error) = lowered.await {
            tracing::error!(%session, %error, "what a session gave back cannot be written down");
        }
    }

    fn raise(&self, request: &Request) -> Result<Grant, Shortage> {
        let amounts = (request.session_use, request.needed);
        let of = (request.session, self.owner_budget(request));
        self.broker.raise(&self.rules, of, amounts, clock::now())
    }

    fn owner_budget(&self, request: &Request) -> Option<OwnerBudget> {
        request.owner.as_ref().map(|owner| self.owners.of(owner))
    }

    /// Whether others hold what they may give back; those of whom nothing is known are asked. What is
    /// missing of an owner's budget, only sessions of that owner have.
    fn may_come_back(&mut self, request: &Request, level: Level) -> bool {
        let helps = |session: &SessionId, holder: &Holder| {
            *session != request.session && (level != Level::Owner || holder.owner == request.owner)
        };
        self.holders.retain(|session, holder| {
            if helps(session, holder) && holder.known == Known::Nothing {
                holder.known = Known::Asked;
                return (holder.recall.0)();
            }
            true
        });
        let mut holders = self.holders.iter();
        holders.any(|(session, holder)| helps(session, holder))
    }

    /// Grants what is asked for, where there is enough left.
    async fn grant(&mut self, request: &Request) -> Result<Result<Amount, Refused>, Shortage> {
        let amounts = (request.session_use, request.needed);
        let of = (request.session, self.owner_budget(request));
        let mut short = None;
        let kept = self.keep(|broker, rules| {
            let raised = broker.raise(rules, of, amounts, clock::now());
            raised.map_err(|error| short = Some(error)).ok()
        });
        match kept.await {
            Ok(Some(grant)) => Ok(Ok(grant.ceiling)),
            Ok(None) => match short {
                Some(short) => Err(short),
                None => Ok(Err(Refused::Failed("nothing was granted".into()))),
            },
            Err(error) => Ok(Err(Refused::Failed(error.to_string().into()))),
        }
    }

    /// Writes a grant down, if there is one. Where another program was granted something meanwhile,
    /// it is decided again.
    async fn keep(
        &mut self,
        mut decide: impl FnMut(&Broker, &Rules) -> Option<Grant>,
    ) -> Result<Option<Grant>, unisono_store::Error> {
        use unisono_store::Error;

        let mut tries = 0..DECIDED_AT_MOST;
        loop {
            let Some(grant) = decide(&self.broker, &self.rules) else {
                return Ok(None);
            };
            match self.grants.append(&[grant]).await {
                Ok(()) => {
                    self.broker.apply(&grant);
                    return Ok(Some(grant));
                }
                Err(Error::Fenced { .. } | Error::Conflict { .. })
                    if self.journal.cluster().is_some() && tries.next().is_some() =>
                {
                    self.grants.refresh(&mut self.broker).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Why nothing more is granted; an owner's budget is named.
fn described(request: &Request, short: &Shortage) -> Arc<str> {
    match (&request.owner, short.level) {
        (Some(owner), Level::Owner) => format!("{short} (budget of owner {owner})").into(),
        _ => short.to_string().into(),
    }
}

impl Actor for BudgetBroker {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let Args {
            journal,
            rules,
            owners,
            again,
        } = args;
        let (mut grants, mut broker) = Grants::open(&journal).await?;
        if !again {
            let lowered = settle(&journal, &rules, &broker).await?;
            match grants.append(&lowered).await {
                // The next start finds out the same.
                Err(error) if error.is_ephemeral() => {
                    tracing::warn!(%error, "what sessions held cannot be written down");
                    lowered.iter().for_each(|grant| broker.apply(grant));
                }
                // Another program was granted something meanwhile: what is held longer is safe.
                Err(_) if journal.cluster().is_some() => grants.refresh(&mut broker).await?,
                Ok(()) => lowered.iter().for_each(|grant| broker.apply(grant)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(State {
            journal,
            rules,
            owners,
            grants,
            broker,
            waiting: Vec::new(),
            holders: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Raise(request, reply) => state.on_raise(&myself, request, reply).await,
            Msg::Lower(back) => state.on_lower(back).await,
            Msg::Gone(session) => state.on_gone(session).await,
            Msg::Settle(sessions, reply) => {
                state.on_settle(sessions).await;
                // Whoever waited may have gone.
                let _ = reply.send(());
            }
            Msg::TooLong { session, number } => state.on_too_long(session, number).await,
        }
        Ok(())
    }
}
