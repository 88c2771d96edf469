//! Begins the turn of a recorded start: finds or creates its session and begins the turn under its
//! key.

use std::sync::Arc;

use jiff::Zoned;
use tokio::sync::MutexGuard;
use unisono_api::Code;
use unisono_api::service::Sessions as _;
use unisono_api::session::{MAIN_BRANCH, SessionQuery};
use unisono_api::turn::NewTurn;
use unisono_config::automation::{NewTask, Target, Trigger, on_clock, zone};
use unisono_context::digest::Hasher;
use unisono_context::{Digest, SessionId, Timestamp, TurnId};
use unisono_runtime::{Handle, clock};
use unisono_session::Refusal;
use unisono_session::event::RequestKey;
use unisono_session::machine::Import;
use unisono_store::starts::{Progress, Source, Start, StartFact};
use uuid::Uuid;

use super::of_trigger;
use crate::Local;
use crate::agents;
use crate::ask::Ask;
use crate::error::Error;
use crate::service::sessions::find_only;
use crate::service::{id, requests};

/// A turn that has begun by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedTurn {
    /// Its session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
}

/// The cause of a turn: a schedule or a trigger.
pub(super) struct Cause<'c> {
    /// `schedule` or `trigger`.
    pub(super) kind: &'static str,
    pub(super) name: &'c str,
    pub(super) source: Arc<str>,
    pub(super) task: &'c NewTask,
    /// The moment that the task tells of.
    pub(super) moment: Zoned,
    pub(super) body: Option<&'c str>,
}

impl Local {
    /// Begins the turn of a trigger. A repeated request with the same key refers to the same turn,
    /// among the newest [`unisono_store::starts::KEPT`] requests of the trigger. `body` is valid
    /// JSON text.
    ///
    /// # Errors
    /// `key_reused`: the key was used with another body. The session does not exist, or the turn is
    /// refused.
    pub async fn begin_triggered(
        &self,
        trigger: &Trigger,
        key: Option<&str>,
        body: &str,
    ) -> Result<StartedTurn, Error> {
        let fresh = || Uuid::now_v7().to_string();
        let key: Arc<str> = format!(
            "trigger:{}:{}",
            trigger.name,
            key.map_or_else(fresh, str::to_owned)
        )
        .into();
        let cause = Cause {
            kind: "trigger",
            name: &trigger.name,
            source: of_trigger(&trigger.name),
            task: &trigger.task,
            moment: on_clock(
                clock::now(),
                &zone("UTC").unwrap_or(jiff::tz::TimeZone::UTC),
            ),
            body: Some(body),
        };
        let (session, _one) = self.locked_target(cause.task).await?;
        let request = Some(Digest::of_bytes(body.as_bytes()));
        let known = self.intend(&cause.source, &key, session, request).await?;
        // A start of an earlier program has no content.
        if known.request.is_some() && known.request != request {
            let reused = Refusal::KeyReused(key);
            return Err(unisono_runtime::Error::from(reused).into());
        }
        match &known.progress {
            Progress::Started(turn) => Ok(StartedTurn {
                session: known.session,
                turn: *turn,
            }),
            // A refused start began nothing: a retry may succeed.
            Progress::Failed(_) | Progress::Intended => self.carry_out(&cause, &known).await,
        }
    }

    /// Records the start of a turn under this key, requested by a person or program. Returns the
    /// recorded start, which may be an earlier one, perhaps of another request.
    pub(super) async fn intend(
        &self,
        source: &Arc<str>,
        key: &Arc<str>,
        session: SessionId,
        request: Option<Digest>,
    ) -> Result<Start, Error> {
        let new = Start {
            request,
            ..intended(key, None, session)
        };
        let decide = |known: &Source| match known.start(key) {
            Some(start) => (start.clone(), None),
            None => (new.clone(), Some(fact(&new))),
        };
        self.record(source, decide).await
    }

    /// The same, unless another start was recorded after `newest`.
    pub(super) async fn intend_after(
        &self,
        source: &Arc<str>,
        key: &Arc<str>,
        session: SessionId,
        newest: Option<&Start>,
    ) -> Result<Option<Start>, Error> {
        let new = intended(key, None, session);
        let decide = |known: &Source| match known.starts.last() == newest {
            true => (Some(new.clone()), Some(fact(&new))),
            false => (None, None),
        };
        self.record(source, decide).await
    }

    /// Records a start under a key for a time of a schedule. None if the time already has a result, the
    /// schedule is paused, or another start was recorded after `newest`.
    pub(super) async fn intend_scheduled(
        &self,
        source: &Arc<str>,
        (key, at): (&Arc<str>, Timestamp),
        session: SessionId,
        newest: Option<&Start>,
    ) -> Result<Option<Start>, Error> {
        let new = intended(key, Some(at), session);
        let decide = |known: &Source| match known.start(key) {
            Some(start) => (Some(start.clone()), None),
            None if known.paused || known.settled >= at => (None, None),
            None if known.starts.last() != newest => (None, None),
            None => (Some(new.clone()), Some(fact(&new))),
        };
        self.record(source, decide).await
    }

    /// Begins the turn of a recorded start and records the result. A failure that may be temporary
    /// is not recorded.
    pub(super) async fn carry_out(
        &self,
        cause: &Cause<'_>,
        start: &Start,
    ) -> Result<StartedTurn, Error> {
        let key = start.key.clone();
        match self.hand_in(cause, start).await {
            Ok(turn) => {
                let fact = StartFact::Started { key, turn };
                self.record(&cause.source, |_| ((), Some(fact.clone())))
                    .await?;
                let session = start.session;
                Ok(StartedTurn { session, turn })
            }
            Err(error) if may_work_later(&error) => Err(error),
            Err(error) => {
                let reason = error.to_string().into();
                let fact = StartFact::Failed { key, reason };
                self.record(&cause.source, |_| ((), Some(fact.clone())))
                    .await?;
                Err(error)
            }
        }
    }

    /// Checks the first turn of a session before the session is created: a refused one would leave it
    /// empty.
    async fn check_first(&self, ask: &Ask) -> Result<(), Error> {
        let setup = self.setup_with(Arc::default(), ask.settings()).await?;
        agents::list(&setup, ask)?;
        match ask.on_branch() {
            MAIN_BRANCH => Ok(()),
            branch => {
                let detail = format!("a new session has no branch `{branch}`");
                Err(Error::new(Code::Refused, detail))
            }
        }
    }

    /// Creates the session if necessary, and begins the turn.
    pub(super) async fn hand_in(&self, cause: &Cause<'_>, start: &Start) -> Result<TurnId, Error> {
        let ask = requests::task(&new_turn(cause)?)?.with_key(Some(request_key(start)));
        if !self.journal().exists(start.session).await? {
            self.check_first(&ask).await?;
        }
        let session = self.session_for(cause, start.session).await?;
        self.begin(&session, &ask).await
    }

    /// The session with this id; a session that the start was to create is created if it does not
    /// exist.
    async fn session_for(&self, cause: &Cause<'_>, id: SessionId) -> Result<Handle, Error> {
        let is_ours = !matches!(cause.task.session, Target::Id(_));
        if self.journal().exists(id).await? || !is_ours {
            return self.open(id).await;
        }
        let mut labels = vec![(cause.kind, cause.name)];
        if let Target::Label { name, value } = &cause.task.session {
            labels.retain(|(known, _)| known != name);
            labels.push((name, value));
        }
        let each = labels.into_iter();
        let import = Import {
            session: Some(id),
            title: format!("{} {}", cause.name, cause.moment.strftime("%Y-%m-%d %H:%M")).into(),
            labels: each
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Import::default()
        };
        match self.import(import).await {
            // Another program created it first.
            Err(error) if error.code() == Code::Conflict => self.open(id).await,
            made => made,
        }
    }

    /// The session of a task; `None` if the task makes a new session or its session is unknown.
    pub async fn session_of_task(&self, task: &NewTask) -> Option<SessionId> {
        match &task.session {
            Target::New => None,
            _ => self.target(task).await.ok(),
        }
    }

    /// The session of the next turn of a schedule; `None` if it makes a new session or its session is
    /// unknown.
    pub async fn session_of_schedule(&self, name: &str) -> Option<SessionId> {
        let setup = self.setup();
        let schedule = setup.loaded.automation.schedule(name)?;
        self.session_of_task(&schedule.task).await
    }

    /// The session for a task. If a session with a label does not exist yet, other starts wait for
    /// the guard before they look for theirs: otherwise starts at the same time would create several.
    pub(super) async fn locked_target(
        &self,
        task: &NewTask,
    ) -> Result<(SessionId, Option<MutexGuard<'_, ()>>), Error> {
        let Target::Label { name, value } = &task.session else {
            return Ok((self.target(task).await?, None));
        };
        let session = self.target(task).await?;
        if self.journal().exists(session).await? {
            return Ok((session, None));
        }
        let one = self.shared.starts.by_label.lock().await;
        // Another start may have created it meanwhile.
        let session = self.target(task).await?;
        if self.journal().exists(session).await? {
            return Ok((session, None));
        }
        let session = self.first_with_label((name, value), session).await?;
        Ok((session, Some(one)))
    }

    /// The id of the session to create with a label: that which a program on the store named first, so that
    /// starts at several programs at the same time create one session.
    async fn first_with_label(
        &self,
        (name, value): (&str, &str),
        new: SessionId,
    ) -> Result<SessionId, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(new);
        };
        let mut hasher = Hasher::new("unisono/session-with-label", 1);
        hasher.str(name).str(value);
        hasher.opt_str(self.caller().owner().map(|owner| &**owner));
        let mut cause = [0; 16];
        for (to, from) in cause.iter_mut().zip(hasher.finish().0) {
            *to = from;
        }
        let cause = u128::from_be_bytes(cause);
        let first = cluster.begun(cause, Some(new.into())).await?;
        Ok(first.map_or(new, Into::into))
    }

    /// The session for a task: an existing one, or the id for a new one.
    pub(super) async fn target(&self, task: &NewTask) -> Result<SessionId, Error> {
        let (name, value) = match &task.session {
            Target::New => return Ok(SessionId::new(Uuid::now_v7())),
            Target::Id(text) => return find_only(self, text).await,
            Target::Label { name, value } => (name, value),
        };
        let mut query = SessionQuery {
            label: Some(format!("{name}={value}")),
            ..SessionQuery::default()
        };
        loop {
            let page = self.sessions(&query).await?;
            // A label whose name has a `=` may have the same text.
            let mut items = page.items.iter();
            if let Some(newest) = items.find(|one| one.labels.get(name) == Some(value)) {
                return id("session", &newest.session);
            }
            match page.next {
                None => return Ok(SessionId::new(Uuid::now_v7())),
                next => query.cursor = next,
            }
        }
    }
}

fn intended(key: &Arc<str>, scheduled: Option<Timestamp>, session: SessionId) -> Start {
    Start {
        key: key.clone(),
        scheduled,
        at: clock::now(),
        session,
        progress: Progress::Intended,
        request: None,
    }
}

fn fact(start: &Start) -> StartFact {
    StartFact::Intended {
        key: start.key.clone(),
        scheduled: start.scheduled,
        session: start.session,
        request: start.request,
    }
}

/// The key of the turn of a start. The key alone identifies the turn: the settings of its task may have
/// changed before a retry.
pub(super) fn request_key(start: &Start) -> RequestKey {
    RequestKey::new(start.key.clone(), Digest::of_bytes(start.key.as_bytes()))
}

fn new_turn(cause: &Cause<'_>) -> Result<NewTurn, Error> {
    let task = cause.task;
    let text = task.fill(cause.name, &cause.moment, cause.body);
    let text = text.map_err(|place| {
        let detail = format!("the placeholder ${{{place}}} of the task has no value");
        Error::new(Code::Refused, detail)
    })?;
    let settings = task.settings.iter();
    Ok(NewTurn {
        branch: task.branch.clone(),
        lead: task.lead.clone(),
        agents: task.agents.clone(),
        settings: settings
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect(),
        ..NewTurn::new(text)
    })
}

/// Whether another program has to begin the turn, because it owns the session.
pub(super) fn is_of_another(error: &Error) -> bool {
    matches!(error, Error::Runtime(error) if error.is_owned_elsewhere())
}

/// Whether a refusal says nothing of the turn itself.
pub(super) fn may_work_later(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Busy | Code::Unavailable | Code::DiskFull
    )
}
