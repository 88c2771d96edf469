//! Tool calls that wait for a person.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, DecisionResult};
use unisono_api::service::{self, Approvals};
use unisono_api::token::Scope;
use unisono_api::{Code, Page};
use unisono_context::{CallId, SessionId, Timestamp};
use unisono_runtime::clock;
use unisono_session::run::calls::{CallDecision, CallPlace, WaitingCall};
use unisono_session::{Event, Input, Machine, State};

use super::{cursor, id};
use crate::approvals::{self, to_api};
use crate::error::Error;
use crate::view::{Inspect as _, View};
use crate::{Local, history};

/// The position of a call among waiting calls; it stays valid when the call has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    asked_at: Timestamp,
    call: CallPlace,
}

impl Place {
    fn of(waiting: &WaitingCall) -> Place {
        Place {
            asked_at: waiting.call.asked_at,
            call: waiting.place,
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { asked_at, call } = self;
        write!(
            f,
            "{}.{}.{}.{}",
            asked_at.0, call.run, call.round, call.index
        )
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Place, ()> {
        let parts: Vec<&str> = text.split('.').collect();
        let [asked_at, run, round, index] = parts[..] else {
            return Err(());
        };
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Place {
            asked_at: Timestamp(asked_at.parse().map_err(|_| ())?),
            call: CallPlace {
                run: run.parse().map_err(|_| ())?,
                round: number(round)?,
                index: number(index)?,
            },
        })
    }
}

#[async_trait]
impl Approvals for Local {
    async fn approvals(&self, query: &ApprovalQuery) -> service::Result<Page<Approval>> {
        let after: Option<Place> = cursor(query.cursor.as_deref())?;
        let mut all = self.waiting(query.session.as_deref()).await?;
        all.retain(|(_, one)| after.is_none_or(|after| Place::of(one) > after));
        let limit = Page::<Approval>::size(query.limit);
        let part = Page::first(all, limit, |(_, last)| Place::of(last).to_string());
        let items = part.items.iter();
        Ok(Page {
            items: items.map(|(session, one)| to_api(*session, one)).collect(),
            next: part.next,
        })
    }

    async fn decide(&self, call: &str, decide: &Decide) -> service::Result<DecisionResult> {
        let call: CallId = id("call", call)?;
        Ok(self.decide_call(call, approvals::decision(decide)?).await?)
    }
}

impl Local {
    /// The waiting calls with their sessions, in the order of their positions.
    async fn waiting(&self, session: Option<&str>) -> Result<Vec<(SessionId, WaitingCall)>, Error> {
        let ids = match session {
            Some(text) => vec![id("session", text)?],
            None => self.unfinished().await?,
        };
        let mut waiting = Vec::new();
        for id in ids {
            let session = self.recovered(id).await?;
            let calls = session.inspect(|state| state.waiting_calls().collect::<Vec<_>>());
            waiting.extend(calls.await?.into_iter().map(|one| (id, one)));
        }
        waiting.sort_by_key(|(_, one)| Place::of(one));
        Ok(waiting)
    }

    /// A session in the state in which a runtime would start it: a call in progress when its
    /// program was killed is in doubt.
    async fn recovered(&self, session: SessionId) -> Result<View, Error> {
        if self.runtime().is_ok() {
            return self.view(session).await;
        }
        let mut events: Vec<Event> = Vec::new();
        history::read(self.journal(), session, |event| {
            events.push(event.clone());
            Ok::<_, history::Error>(true)
        })
        .await?;
        if events.is_empty() {
            return Err(unisono_runtime::Error::UnknownSession(session).into());
        }
        let seq = events.len() as u64;
        let unfit = |error: String| history::Error::Unfit {
            session,
            seq,
            error,
        };
        let recovered = Machine::recover(&events, clock::now());
        let (machine, _) = recovered.map_err(|error| unfit(error.to_string()))?;
        let state = Arc::new(machine.state().clone());
        Ok(View::Stored { id: session, state })
    }

    /// The session of a waiting call; none if the call does not wait.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn session_of_call(&self, call: CallId) -> Result<Option<SessionId>, Error> {
        for session in self.unfinished().await? {
            let view = self.recovered(session).await?;
            let waits = move |state: &State| state.waiting_calls().any(|one| one.id == call);
            if view.inspect(waits).await? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Decides the waiting call of any session.
    async fn decide_call(
        &self,
        call: CallId,
        decision: CallDecision,
    ) -> Result<DecisionResult, Error> {
        self.check_scope(Scope::Approve)?;
        let mut before = match self.recent_decisions().session_of(call) {
            Some(session) => self.journal().shows(session).await?,
            None => false,
        };
        for session in self.unfinished().await? {
            let view = self.recovered(session).await?;
            let look = move |state: &State| {
                let found = state.waiting_calls().find(|waiting| waiting.id == call);
                (found, state.is_decided(call))
            };
            let (found, decided) = view.inspect(look).await?;
            before |= decided;
            let Some(waiting) = found else { continue };
            let word = decision.name();
            match view {
                View::Live(handle) => self.decide_in(&handle, call, decision).await?,
                View::Stored { .. } => {
                    let by = self.caller().name().cloned();
                    self.settle(session, Input::Decide { call, decision, by })
                        .await?;
                }
            }
            self.recent_decisions().add(call, session);
            return Ok(DecisionResult {
                call: call.to_string(),
                session: session.to_string(),
                turn: waiting.turn.to_string(),
                decision: word.to_owned(),
                by: self.caller().name().map(ToString::to_string),
            });
        }
        Err(if before {
            let detail = format!("call {call} has already been decided");
            Error::new(Code::Conflict, detail)
        } else {
            Error::not_found("call that waits for a person", call)
        })
    }
}
