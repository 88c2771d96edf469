//! Turns of sessions and their updates.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::stream;
use unisono_api::service::{self, TurnUpdates, Turns};
use unisono_api::session::EndedTurn;
use unisono_api::timeline::Timeline;
use unisono_api::turn::{NewTurn, Turn, TurnEstimate, TurnRequest};
use unisono_api::turn_event::TurnUpdate;
use unisono_api::{Code, Page, PageQuery};
use unisono_context::{RunId, TurnId};
use unisono_runtime::Handle;
use unisono_session::event::RequestKey;
use unisono_session::{Input, State};

use super::messages::unknown_branch;
use super::sessions::ended_turn;
use super::usage::budgets;
use super::{cursor, id, requests};
use crate::ask::Ask;
use crate::context::estimate::budget_warnings::MaximumUse;
use crate::context::{estimate, tip};
use crate::error::Error;
use crate::follow::Follower;
use crate::history::{self, Lookup};
use crate::local::off_thread;
use crate::models::notices;
use crate::turn_budgets::TurnBudgets;
use crate::view::Inspect;
use crate::{Local, append, timeline, turn_view};

#[async_trait]
impl Turns for Local {
    async fn begin(
        &self,
        session: &str,
        request: &TurnRequest,
        key: Option<&str>,
    ) -> service::Result<Turn> {
        let session = self.open(id("session", session)?).await?;
        let ask = self.ask_for(&session, request, key).await?;
        let turn = Local::begin(self, &session, &ask).await?;
        Ok(self.turn_of(&session, turn).await?)
    }

    async fn estimate_turn(&self, session: &str, new: &NewTurn) -> service::Result<TurnEstimate> {
        let session = self.view(id("session", session)?).await?;
        let ask = self.with_author_of_caller(&requests::task(new)?)?;
        let setup = self.setup_for(&session, &ask).await?;
        let mut state = session.inspect(Clone::clone).await.map_err(Error::from)?;
        if tip(&state, ask.on_branch()).is_none() {
            return Err(unknown_branch(ask.on_branch()).into());
        }
        let (learnt, task) = (self.calibrations().clone(), new.task.clone());
        let before = state.clone();
        let work = move || estimate::turn(&setup, &learnt, (&ask, &task), &mut state);
        let estimate = off_thread(work).await.map_err(Error::from)?;
        let needed = MaximumUse::of_runs(&estimate.runs);
        let shared = budgets::warnings(self, &before, needed).await;
        let shared = shared.map_err(Error::from)?;
        Ok(TurnEstimate {
            warnings: [estimate.warnings, shared].concat(),
            session: session.id().to_string(),
            branch: new.branch.clone(),
            ..estimate
        })
    }

    async fn turns(&self, session: &str, query: &PageQuery) -> service::Result<Page<Turn>> {
        let session = self.view(id("session", session)?).await?;
        let (before, limit) = (
            cursor(query.cursor.as_deref())?,
            Page::<()>::size(query.limit),
        );
        let turns = turn_view::turns(self.journal(), &session, before, limit).await;
        Ok(turns.map_err(Error::from)?)
    }

    async fn ended_turns(
        &self,
        session: &str,
        query: &PageQuery,
    ) -> service::Result<Page<EndedTurn>> {
        let session = self.view(id("session", session)?).await?;
        let before: Option<u64> = cursor(query.cursor.as_deref())?;
        let limit = Page::<()>::size(query.limit);
        let look = move |state: &State| {
            let ended = state.ended_turns().rev();
            let left = ended.filter(|(_, turn)| before.is_none_or(|before| turn.accepted < before));
            let part = Page::first(left, limit, |(_, last)| last.accepted.to_string());
            part.map(|(turn, ended)| ended_turn(state, turn, ended))
        };
        Ok(session.inspect(look).await.map_err(Error::from)?)
    }

    async fn turn(&self, session: &str, turn: &str) -> service::Result<Turn> {
        let session = self.view(id("session", session)?).await?;
        Ok(self.turn_of(&session, id("turn", turn)?).await?)
    }

    async fn timeline(&self, session: &str, turn: &str) -> service::Result<Timeline> {
        let session = self.view(id("session", session)?).await?;
        let turn: TurnId = id("turn", turn)?;
        let found = history::turn(self.journal(), &session, Lookup::Turn(turn)).await;
        let found = found.map_err(Error::from)?;
        let found = found.and_then(|trace| timeline::of_turn(&trace, session.id(), turn));
        found.ok_or_else(|| service::Error::not_found("turn", turn))
    }

    async fn follow(
        &self,
        session: &str,
        turn: &str,
        after: Option<u64>,
    ) -> service::Result<TurnUpdates<'_>> {
        let session = self.open(id("session", session)?).await?;
        let follower = self.follower(session, id("turn", turn)?, after).await?;
        Ok(self.updates_of(follower))
    }

    async fn begin_followed(
        &self,
        session: &str,
        request: &TurnRequest,
        key: Option<&str>,
    ) -> service::Result<(Turn, TurnUpdates<'_>)> {
        let session = self.open(id("session", session)?).await?;
        let ask = self.ask_for(&session, request, key).await?;
        let (turn, follower) = Local::begin_followed(self, &session, &ask).await?;
        let begun = self.turn_of(&session, turn).await?;
        Ok((begun, self.updates_of(follower)))
    }

    async fn cancel_turn(&self, session: &str, turn: &str) -> service::Result<Turn> {
        let session = self.view(id("session", session)?).await?;
        let turn = id("turn", turn)?;
        self.apply_input(&session, Input::Cancel { turn }).await?;
        let session = self.view(session.id()).await?;
        Ok(self.turn_of(&session, turn).await?)
    }

    async fn cancel_run(&self, session: &str, run: &str) -> service::Result<Turn> {
        let session = self.view(id("session", session)?).await?;
        let run: RunId = id("run", run)?;
        self.apply_input(&session, Input::CancelRun { run }).await?;
        let session = self.view(session.id()).await?;
        let trace = history::turn(self.journal(), &session, Lookup::Run(run)).await;
        let trace = trace.map_err(Error::from)?;
        let turn = trace.as_ref().and_then(|trace| {
            let turn = trace.run(run)?.opened.1.turn;
            turn_view::of_turn(trace, session.id(), turn)
        });
        turn.ok_or_else(|| service::Error::not_found("run", run))
    }
}

/// The idempotency key of a request. What a request is about may be in its address and not in its JSON.
fn request_key(name: &str, request: &TurnRequest) -> Result<RequestKey, append::Error> {
    let waited_for = request.waited_for(true);
    match request {
        TurnRequest::Task(_) | TurnRequest::Compact(_) => append::key(name, &waited_for),
        TurnRequest::Edit { checkpoint, .. }
        | TurnRequest::Regenerate { checkpoint, .. }
        | TurnRequest::Revert { checkpoint, .. } => append::key(name, &(checkpoint, waited_for)),
        TurnRequest::RetryCompaction { turn, .. } => append::key(name, &(turn, waited_for)),
    }
}

/// Adds the client's own id and parts of the message that brought the request.
fn with_client_message(key: RequestKey, request: &TurnRequest) -> RequestKey {
    match request {
        TurnRequest::Task(new) => RequestKey {
            client_message_id: new.client_message_id.as_deref().map(Into::into),
            client_parts: new.client_parts.as_deref().map(Into::into),
            ..key
        },
        _ => key,
    }
}

impl Local {
    /// The ask for a request to a session, under this idempotency key.
    ///
    /// # Errors
    /// The request, an attachment or the key is wrong, or the session has no such checkpoint or
    /// turn.
    pub async fn ask_for(
        &self,
        session: &Handle,
        request: &TurnRequest,
        key: Option<&str>,
    ) -> Result<Ask, Error> {
        let ask = requests::read(self.journal(), session, request).await?;
        let key = key.map(|name| request_key(name, request)).transpose();
        let key = key.map_err(|error| Error::new(Code::InvalidRequest, error.to_string()))?;
        let ask = ask.with_key(key.map(|key| with_client_message(key, request)));
        match request {
            TurnRequest::Task(new) => {
                let attachments = &new.attachments;
                self.with_attachments(session, ask, attachments).await
            }
            _ => Ok(ask),
        }
    }

    /// A turn in its current state, with its budgets, and with notices about the models of its agents.
    ///
    /// # Errors
    /// It does not exist, or the journal cannot be read.
    pub async fn turn_of(&self, session: &impl Inspect, turn: TurnId) -> Result<Turn, Error> {
        let trace = history::turn(self.journal(), session, Lookup::Turn(turn)).await?;
        let trace = trace.ok_or_else(|| Error::not_found("turn", turn))?;
        let found = turn_view::of_turn(&trace, session.id(), turn);
        let mut found = found.ok_or_else(|| Error::not_found("turn", turn))?;
        let budgets = TurnBudgets::read(session, &trace, turn).await?;
        budgets.add_to_turn(&mut found);
        let team = move |state: &State| {
            let open = state.turn(turn).into_iter();
            let agents = open.flat_map(|turn| turn.team.definitions());
            let asks = agents.filter(|agent| agent.kind.uses_model());
            asks.map(|agent| agent.model.to_string()).collect()
        };
        // An ended turn asks no more models than it has asked.
        let mut models: BTreeSet<String> = match &found.ended_at {
            None => session.inspect(team).await?,
            Some(_) => BTreeSet::new(),
        };
        models.extend(found.runs.iter().filter_map(|run| run.model.clone()));
        let (setup, learnt) = (self.setup(), self.calibrations());
        let notices = notices::of_models(&setup.loaded, models, learnt, notices::today());
        found.notices = notices.iter().map(ToString::to_string).collect();
        Ok(found)
    }

    fn updates_of(&self, follower: Follower) -> TurnUpdates<'_> {
        let next = async |following: Option<Follower>| {
            let mut follower = following?;
            let update = self.next_of(&mut follower).await.transpose()?;
            // Nothing follows an error.
            let following = update.is_ok().then_some(follower);
            Some((update, following))
        };
        Box::pin(stream::unfold(Some(follower), next))
    }

    /// The next update of a turn; or an error if the runtime has failed.
    async fn next_of(&self, follower: &mut Follower) -> service::Result<Option<TurnUpdate>> {
        tokio::select! {
            next = follower.next() => Ok(next?),
            reason = self.failed() => {
                let detail = format!("the runtime gave up: {reason}");
                Err(service::Error::new(Code::Failed, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::turn::RevertCheckpoint;

    use super::*;

    #[test]
    fn a_key_is_of_one_checkpoint() {
        let revert = |checkpoint: &str, wait| TurnRequest::Revert {
            checkpoint: checkpoint.to_owned(),
            new: RevertCheckpoint {
                branch: "main".to_owned(),
                wait,
            },
        };
        let key = |request: &TurnRequest| request_key("undo", request).unwrap();
        let first = key(&revert("1", true));
        assert_eq!(first, key(&revert("1", false)));
        assert_ne!(first, key(&revert("2", true)));
    }
}
