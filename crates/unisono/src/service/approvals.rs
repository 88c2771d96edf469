//! Tool calls that wait for a person.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::MutexGuard;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, DecisionResult};
use unisono_api::service::{self, Approvals};
use unisono_api::token::Scope;
use unisono_api::{Code, Page};
use unisono_context::{CallId, SessionId};
use unisono_runtime::clock;
use unisono_session::run::calls::{CallDecision, WaitingCall};
use unisono_session::{Event, Input, Machine, State};
use unisono_store::SessionInfo;

use super::{cursor, id};
use crate::approvals::{self, to_api};
use crate::caller::Caller;
use crate::error::{Error, existing};
use crate::view::{Inspect as _, View};
use crate::waiting_sessions::{Known, KnownCall, NextPage, Place};
use crate::{Local, history};

/// The time to inspect changed sessions before the waiting calls are counted, or one is looked up. An
/// inspection that takes longer is continued by the next one.
const INSPECTED_WITHIN: Duration = Duration::from_millis(500);
/// Sessions that an inspection reads at a time.
const PAGE: usize = 1_024;

#[async_trait]
impl Approvals for Local {
    async fn approvals(&self, query: &ApprovalQuery) -> service::Result<Page<Approval>> {
        let after: Option<Place> = cursor(query.cursor.as_deref())?;
        let limit = Page::<Approval>::size(query.limit);
        let waiting = match query.session.as_deref() {
            Some(session) => self.waiting_of(session, after).await?,
            // One more item shows whether there is a next page.
            None => self.waiting_after(after, limit + 1).await?,
        };
        let part = Page::first(waiting, limit, |(_, last)| {
            Place::from_waiting(last).to_string()
        });
        Ok(part.map(|(session, one)| to_api(session, &one)))
    }

    async fn count_approvals(&self, limit: NonZeroUsize) -> service::Result<usize> {
        Ok(in_time(self.count_waiting(limit.get())).await?)
    }

    async fn count_approvals_of(
        &self,
        sessions: &[String],
    ) -> service::Result<BTreeMap<String, usize>> {
        Ok(in_time(self.count_waiting_of(sessions)).await?)
    }

    async fn decide(&self, call: &str, decide: &Decide) -> service::Result<DecisionResult> {
        let call: CallId = id("call", call)?;
        Ok(self.decide_call(call, approvals::decision(decide)?).await?)
    }
}

impl Local {
    /// The waiting calls of a session after a position, in the order of their positions.
    async fn waiting_of(
        &self,
        session: &str,
        after: Option<Place>,
    ) -> Result<Vec<(SessionId, WaitingCall)>, Error> {
        let session = self.recovered(id("session", session)?).await?;
        let calls = waiting_in(&session).await?.into_iter();
        let calls = calls.map(|one| (session.id(), one)).collect();
        Ok(in_order(calls, after))
    }

    /// The waiting calls of all sessions after a position, in the order of their positions: at least
    /// as many as requested, if they exist. Only the sessions of these calls are opened.
    async fn waiting_after(
        &self,
        after: Option<Place>,
        enough: usize,
    ) -> Result<Vec<(SessionId, WaitingCall)>, Error> {
        // Without a runtime nothing is known of new events.
        if self.runtime().is_err() {
            let all = self.waiting_in_all(self.unfinished().await?).await?;
            return Ok(in_order(all, after));
        }
        let places = self.inspected().await?.places_after(after);
        let mut opened: BTreeMap<SessionId, Vec<WaitingCall>> = BTreeMap::new();
        let mut waiting = Vec::new();
        for (place, session) in places {
            if waiting.len() >= enough {
                break;
            }
            let calls = match opened.remove(&session) {
                Some(calls) => calls,
                None => self.waiting_in_listed(session).await?,
            };
            let found = calls.iter().find(|one| Place::from_waiting(one) == place);
            waiting.extend(found.map(|one| (session, one.clone())));
            opened.insert(session, calls);
        }
        Ok(waiting)
    }

    /// The number of waiting calls that the caller sees, at most `limit`.
    async fn count_waiting(&self, limit: usize) -> Result<usize, Error> {
        if self.runtime().is_err() {
            return Ok(self.waiting_after(None, limit).await?.len().min(limit));
        }
        let whole = self.for_caller(Caller::default());
        let mut known = self.inspected().await?;
        let mut count = 0;
        for (session, calls) in known.waiting() {
            if count >= limit {
                break;
            }
            // Another program may have deleted it.
            if !whole.journal().exists(session).await? {
                known.set(session, 0, Vec::new());
            } else if self.journal().shows(session).await? {
                count += calls;
            }
        }
        Ok(count.min(limit))
    }

    /// The number of waiting calls of each of these sessions that has some and that the caller sees.
    async fn count_waiting_of(
        &self,
        sessions: &[String],
    ) -> Result<BTreeMap<String, usize>, Error> {
        let mut counts: BTreeMap<SessionId, usize> = BTreeMap::new();
        if self.runtime().is_err() {
            for (session, _) in self.waiting_after(None, usize::MAX).await? {
                *counts.entry(session).or_default() += 1;
            }
        } else {
            counts.extend(self.inspected().await?.waiting());
        }
        let mut shown = BTreeMap::new();
        for session in sessions {
            let known: SessionId = id("session", session)?;
            if let Some(calls) = counts.get(&known)
                && self.journal().shows(known).await?
            {
                shown.insert(session.clone(), *calls);
            }
        }
        Ok(shown)
    }

    /// The waiting calls of the sessions of all callers, after the sessions that changed since the last
    /// inspection were inspected.
    async fn inspected(&self) -> Result<MutexGuard<'_, Known>, Error> {
        let whole = self.for_caller(Caller::default());
        let sessions = &self.shared.waiting_sessions;
        let mut known = sessions.begin(self.is_shared(), Instant::now()).await;
        whole.inspect_changed(&mut known).await?;
        Ok(known)
    }

    /// Inspects the sessions that changed since the last inspection.
    async fn inspect_changed(&self, known: &mut Known) -> Result<(), Error> {
        while let Some(NextPage { after }) = known.next_page() {
            let page = self.journal().sessions(after, PAGE).await?;
            let last = page.last().map(|info| info.session.into());
            let unfinished = self.journal().unfinished_of(page).await?;
            known.add_page(unfinished, last, Instant::now());
        }
        while let Some(session) = known.next_due() {
            match self.journal().session(session).await? {
                None => known.set(session, 0, Vec::new()),
                Some(info) if known.is_current(session, info.last_seq) => known.keep(session),
                Some(info) => {
                    let calls = self.known_calls_of(session, info).await?;
                    known.set(session, info.last_seq, calls);
                }
            }
        }
        Ok(())
    }

    /// The waiting calls of a session; one without open turns is not opened. One that cannot be opened
    /// has none, and is not opened again before its next event.
    async fn known_calls_of(
        &self,
        session: SessionId,
        info: SessionInfo,
    ) -> Result<Vec<KnownCall>, Error> {
        if self.journal().unfinished_of(vec![info]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let look = |state: &State| -> Vec<KnownCall> {
            let waiting = state.waiting_calls();
            waiting.map(|one| KnownCall::from_waiting(&one)).collect()
        };
        match self.recovered(session).await {
            Ok(view) => Ok(view.inspect(look).await?),
            Err(error) if error.code() == Code::Unavailable => Err(error),
            Err(error) => {
                tracing::debug!(%session, %error, "the waiting calls of a session cannot be read");
                Ok(Vec::new())
            }
        }
    }

    /// The waiting calls of listed sessions.
    async fn waiting_in_all(
        &self,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<(SessionId, WaitingCall)>, Error> {
        let mut waiting = Vec::new();
        for session in sessions {
            let calls = self.waiting_in_listed(session).await?.into_iter();
            waiting.extend(calls.map(|one| (session, one)));
        }
        Ok(waiting)
    }

    /// The waiting calls of a listed session. One that the caller does not see, that was deleted since it
    /// was listed, or that cannot be read has none.
    async fn waiting_in_listed(&self, session: SessionId) -> Result<Vec<WaitingCall>, Error> {
        match self.searched(session).await? {
            Some(view) => waiting_in(&view).await,
            None => Ok(Vec::new()),
        }
    }

    /// The sessions to search for a waiting call: its own if that is known, otherwise all unfinished ones.
    async fn sessions_to_search(&self, call: CallId) -> Result<Vec<SessionId>, Error> {
        if self.runtime().is_ok() {
            // A session that does not respond does not keep the calls of others from a decision.
            let inspected = tokio::time::timeout(INSPECTED_WITHIN, self.inspected()).await;
            let known = inspected.ok().and_then(Result::ok);
            if let Some(session) = known.and_then(|known| known.session_of(call)) {
                return Ok(vec![session]);
            }
        }
        self.unfinished().await
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
        let recovered = Machine::recover(&events, clock::now());
        let (machine, _) = recovered.map_err(|error| history::unfit(session, seq, error))?;
        let state = Arc::new(machine.state().clone());
        Ok(View::Stored { id: session, state })
    }

    /// The same in a search of many sessions: none if the caller does not see it, if it was deleted, or if it
    /// cannot be read, which must not keep the calls of others from a person.
    async fn searched(&self, session: SessionId) -> Result<Option<View>, Error> {
        match existing(self.recovered(session).await) {
            Err(error) if error.code() != Code::Unavailable => {
                tracing::warn!(%session, %error, "the waiting calls of a session cannot be read");
                Ok(None)
            }
            found => found,
        }
    }

    /// The session of a waiting call; none if the call does not wait.
    ///
    /// # Errors
    /// The store fails.
    pub async fn session_of_call(&self, call: CallId) -> Result<Option<SessionId>, Error> {
        for session in self.sessions_to_search(call).await? {
            let Some(view) = self.searched(session).await? else {
                continue;
            };
            let waits = move |state: &State| state.waiting_calls().any(|one| one.id == call);
            if view.inspect(waits).await? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    async fn decide_call(
        &self,
        call: CallId,
        decision: CallDecision,
    ) -> Result<DecisionResult, Error> {
        self.check_scope(Scope::Approve)?;
        let mut before = match self.shared.recent_decisions.session_of(call) {
            Some(session) => self.journal().shows(session).await?,
            None => false,
        };
        for session in self.sessions_to_search(call).await? {
            let Some(view) = self.searched(session).await? else {
                continue;
            };
            let look = move |state: &State| {
                let found = state.waiting_calls().find(|waiting| waiting.id == call);
                (found, state.is_decided(call))
            };
            let (found, decided) = view.inspect(look).await?;
            before |= decided;
            let Some(waiting) = found else { continue };
            let word = decision.name();
            let is_late =
                decision == CallDecision::Approved && waiting.call.is_overdue(clock::now());
            let by = self.caller().name().cloned();
            self.apply_input(&view, Input::Decide { call, decision, by })
                .await?;
            self.shared.recent_decisions.add(call, session);
            if is_late {
                let detail = format!("nobody approved call {call} in time: it is denied");
                return Err(Error::new(Code::Conflict, detail));
            }
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

/// The result of a count, if it comes in time.
async fn in_time<T>(count: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| {
        let detail = "sessions with waiting calls do not respond";
        Error::new(Code::Unavailable, detail)
    };
    let counted = tokio::time::timeout(INSPECTED_WITHIN, count);
    counted.await.map_err(late)?
}

async fn waiting_in(session: &View) -> Result<Vec<WaitingCall>, Error> {
    let calls = session.inspect(|state| state.waiting_calls().collect::<Vec<_>>());
    Ok(calls.await?)
}

/// The calls after a position, in the order of their positions.
fn in_order(
    mut calls: Vec<(SessionId, WaitingCall)>,
    after: Option<Place>,
) -> Vec<(SessionId, WaitingCall)> {
    calls.retain(|(_, one)| after.is_none_or(|after| Place::from_waiting(one) > after));
    calls.sort_by_key(|(_, one)| Place::from_waiting(one));
    calls
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use unisono_config::setup::Setup;
    use unisono_runtime::Extensions;
    use unisono_session::machine::Import;
    use unisono_store::{Append, Engine, EngineFuture, Event as Stored, Journal, Memory};

    use super::*;
    use crate::fixture::{local, sources};
    use crate::local::OpenedStore;

    /// Counts the sessions whose last events are read.
    struct LastEvents(Memory, AtomicUsize);

    impl Engine for LastEvents {
        unisono_store::forward_engine!(
            0: claim, append, read, put_checkpoint, latest_checkpoint, session, sessions,
            delete_session, health, close
        );

        fn last_events(&self, sessions: Vec<SessionInfo>) -> EngineFuture<'_, Vec<Option<Stored>>> {
            self.1.fetch_add(sessions.len(), Ordering::Relaxed);
            self.0.last_events(sessions)
        }
    }

    #[tokio::test]
    async fn a_list_reads_only_sessions_that_changed_since_the_last_one() {
        let engine = Arc::new(LastEvents(Memory::new(), AtomicUsize::new(0)));
        let opened = OpenedStore {
            journal: Journal::new(engine.clone()),
            ..OpenedStore::nothing()
        };
        let setup = Setup::load(sources([("models.default", "extractive")])).unwrap();
        let local = Local::start_on(opened, setup, Extensions::default());
        let local = local.await.unwrap();
        let add = async |n: u128| {
            let session = Some(SessionId::from_u128(n));
            let import = Import {
                session,
                ..Import::default()
            };
            local.import(import).await.unwrap();
        };
        for n in 1..=20 {
            add(n).await;
        }
        for (read, new) in [(20, None), (0, None), (1, Some(21)), (0, None)] {
            if let Some(new) = new {
                add(new).await;
            }
            engine.1.store(0, Ordering::Relaxed);
            let listed = local.approvals(&ApprovalQuery::default()).await.unwrap();
            assert!(listed.items.is_empty());
            assert_eq!(engine.1.load(Ordering::Relaxed), read);
        }
        let named = [SessionId::from_u128(1).to_string()];
        let counts = local.count_approvals_of(&named).await.unwrap();
        assert!(counts.is_empty());
        assert_eq!(engine.1.load(Ordering::Relaxed), 0);
        local.shutdown().await;
    }

    #[tokio::test]
    async fn a_session_that_cannot_be_read_keeps_no_calls_of_others_from_a_person() {
        let (engine, damaged) = (Memory::new(), SessionId::from_u128(7));
        let claim = engine.claim(damaged.into()).await.unwrap();
        let payloads = vec![b"damaged".to_vec()];
        let append = Append::new(damaged.into(), claim.epoch, 0, payloads);
        engine.append(append).await.unwrap();
        let opened = OpenedStore {
            journal: Journal::new(Arc::new(engine)),
            ..OpenedStore::nothing()
        };
        let setup = Setup::load(sources([("models.default", "extractive")])).unwrap();
        let local = Local::reader(opened, setup, Extensions::default()).unwrap();
        assert_eq!(local.unfinished().await.unwrap(), [damaged]);
        assert!(local.waiting_after(None, 9).await.unwrap().is_empty());
        let call = CallId::from_u128(1);
        assert_eq!(local.session_of_call(call).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_session_that_was_deleted_since_the_list_has_no_waiting_calls() {
        let local = local([("models.default", "extractive")]).await;
        let deleted = SessionId::from_u128(7);
        let waiting = local.waiting_in_all(vec![deleted]).await.unwrap();
        assert!(waiting.is_empty());
        let alone = local.waiting_of(&deleted.to_string(), None).await;
        let alone = alone.unwrap_err();
        assert_eq!(alone.code(), Code::NotFound);
    }
}
