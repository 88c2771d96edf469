//! Begins the turns of schedules when they are due.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::MutexGuard;
use unisono_config::automation::{NewTask, Schedule, on_clock};
use unisono_context::{SessionId, Timestamp, TurnId};
use unisono_runtime::clock;
use unisono_store::starts::{Progress, Source, Start, StartFact};

use super::begin::{Cause, StartedTurn, is_of_another, may_work_later, request_key};
use super::decide::{Step, behind, decide};
use super::of_schedule;
use crate::error::Error;
use crate::{Local, values};

/// The interval in which the clock is read: it may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(30);
/// The pause before a failed start is retried.
const AGAIN: Duration = Duration::from_secs(5);

/// Begins the turns of all schedules when they are due. Never returns.
pub async fn follow(local: &Local) {
    let setup = local.setup();
    let schedules = &setup.loaded.automation.schedules;
    let all = join_all(schedules.iter().map(|one| follow_one(local, one)));
    tokio::join!(all, follow_others(local));
    std::future::pending::<()>().await;
}

/// Wakes the schedules when another process has recorded something, such as a pause.
async fn follow_others(local: &Local) {
    let Some(mut beats) = local.beats() else {
        return;
    };
    while beats.changed().await.is_ok() {
        let last = beats.borrow_and_update().starts;
        if !local.has_read_starts(last).await {
            local.shared.starts.changed.notify_waiters();
        }
    }
}

async fn follow_one(local: &Local, schedule: &Schedule) {
    let mut is_followed = false;
    loop {
        // Created before the state is read, so that no change is missed.
        let changed = local.shared.starts.changed.notified();
        let wait = match local.follow_step(schedule, &mut is_followed).await {
            Ok(wait) => wait,
            Err(error) => {
                let again = AGAIN.as_secs();
                tracing::warn!(schedule = &*schedule.name, %error, "a schedule cannot go on; the next try is in {again} s");
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = changed => {}
        }
    }
}

impl Local {
    /// Carries out the next step of a schedule. Returns the time until the next check. `is_followed` is for
    /// [`decide`]; this updates it.
    async fn follow_step(
        &self,
        schedule: &Schedule,
        is_followed: &mut bool,
    ) -> Result<Duration, Error> {
        let source = of_schedule(&schedule.name);
        let now = clock::store_now(self.journal());
        let (name, was_followed) = (&*schedule.name, *is_followed);
        let step = self.record(&source, |known| {
            let step = decide(schedule, known, was_followed, now);
            let fact = match &step {
                Step::Follow(rule) => Some(StartFact::Follows { rule: rule.clone() }),
                Step::Skip(scheduled) => Some(StartFact::Skipped {
                    scheduled: *scheduled,
                    reason: "it was missed: nothing worked then".into(),
                }),
                _ => None,
            };
            (step, fact)
        });
        let step = step.await?;
        // A recorded start comes before the rule.
        *is_followed |= !matches!(step, Step::Resume(_) | Step::Withdraw(_));
        match step {
            Step::Wait(at) => Ok(until(at, now)),
            Step::Follow(rule) => {
                tracing::info!(schedule = name, %rule, "a schedule is followed from now on");
                Ok(Duration::ZERO)
            }
            Step::Skip(at) => {
                let at = values::instant(at);
                tracing::warn!(schedule = name, %at, "a time of a schedule was missed");
                Ok(Duration::ZERO)
            }
            Step::Resume(start) => self.go_on(schedule, &start, was_followed).await,
            Step::Withdraw(start) => self.withdraw(schedule, &start).await,
            Step::Start(at) => self.start(schedule, at).await,
        }
    }

    /// Hands in the turn of an instant, unless the one before is still open.
    async fn start(&self, schedule: &Schedule, at: Timestamp) -> Result<Duration, Error> {
        let source = of_schedule(&schedule.name);
        let newest = self.newest(&source).await?;
        if self.is_open(newest.as_ref()).await? {
            let reason = "the turn before had not ended".into();
            if self.skip(&source, at, reason).await? {
                let (name, at) = (&*schedule.name, values::instant(at));
                tracing::warn!(schedule = name, %at, "a time is left out: the turn before has not ended");
            }
            return Ok(Duration::ZERO);
        }
        let key = format!("{source}:{}", values::instant(at)).into();
        let (session, _one) = match self.locked_target(&schedule.task).await {
            Ok(target) => target,
            Err(error) if may_work_later(&error) => return Err(error),
            Err(error) => {
                self.skip(&source, at, error.to_string().into()).await?;
                tracing::error!(schedule = &*schedule.name, %error, "a schedule has no session");
                return Ok(Duration::ZERO);
            }
        };
        let start = self.intend_scheduled(&source, (&key, at), session, newest.as_ref());
        match start.await? {
            Some(start) => self.go_on(schedule, &start, true).await,
            None => Ok(Duration::ZERO),
        }
    }

    /// Records that a time of a schedule is skipped. Returns whether it was open until then.
    async fn skip(
        &self,
        source: &Arc<str>,
        at: Timestamp,
        reason: Arc<str>,
    ) -> Result<bool, Error> {
        let fact = StartFact::Skipped {
            scheduled: at,
            reason,
        };
        let decide = |known: &Source| {
            let is_open = known.settled < at;
            (is_open, is_open.then(|| fact.clone()))
        };
        self.record(source, decide).await
    }

    /// Begins a turn whose start is recorded. `is_followed` is that of [`decide`].
    async fn go_on(
        &self,
        schedule: &Schedule,
        start: &Start,
        is_followed: bool,
    ) -> Result<Duration, Error> {
        if start.progress != Progress::Intended {
            return Ok(Duration::ZERO);
        }
        match self.carry_out(&cause(schedule, start), start).await {
            Ok(StartedTurn { session, turn }) => {
                tracing::info!(schedule = &*schedule.name, %session, %turn, "a schedule began a turn");
                Ok(Duration::ZERO)
            }
            Err(error) if is_of_another(&error) => {
                // That program learns of the start within a beat, and begins the turn.
                tracing::debug!(schedule = &*schedule.name, %error, "a start is left to another program");
                self.skip_behind(schedule, is_followed, clock::store_now(self.journal()))
                    .await?;
                Ok(AGAIN)
            }
            Err(error) if may_work_later(&error) => {
                self.skip_behind(schedule, is_followed, clock::store_now(self.journal()))
                    .await?;
                Err(error)
            }
            Err(error) => {
                tracing::error!(schedule = &*schedule.name, %error, "the turn of a schedule was refused");
                Ok(Duration::ZERO)
            }
        }
    }

    /// Records that the newest due time is skipped while a turn waits to begin, for example because
    /// its session belongs to a program that does not begin it.
    async fn skip_behind(
        &self,
        schedule: &Schedule,
        is_followed: bool,
        now: Timestamp,
    ) -> Result<(), Error> {
        let decide = |known: &Source| {
            let at = behind(schedule, known, is_followed, now);
            let fact = at.map(|scheduled| StartFact::Skipped {
                scheduled,
                reason: "the turn before had not begun".into(),
            });
            (at, fact)
        };
        if let Some(at) = self.record(&of_schedule(&schedule.name), decide).await? {
            let (name, at) = (&*schedule.name, values::instant(at));
            tracing::warn!(schedule = name, %at, "a time is left out: the turn before has not begun");
        }
        Ok(())
    }

    /// Ends a start that was recorded before the schedule was paused: its turn has begun, or does not
    /// begin.
    async fn withdraw(&self, schedule: &Schedule, start: &Start) -> Result<Duration, Error> {
        let key = start.key.clone();
        let begun = match self.journal().exists(start.session).await? {
            false => None,
            true => match self.begun_turn(start).await {
                Err(error) if is_of_another(&error) => return Ok(AGAIN),
                begun => begun?,
            },
        };
        let fact = match begun {
            Some(turn) => StartFact::Started { key, turn },
            None => StartFact::Failed {
                key,
                reason: "the schedule was paused before the turn began".into(),
            },
        };
        let decide = |known: &Source| {
            // Another process may have recorded a result, or resumed the schedule, meanwhile.
            let is_open = known.paused
                && known
                    .start(&start.key)
                    .is_some_and(|known| known.progress == Progress::Intended);
            ((), is_open.then(|| fact.clone()))
        };
        self.record(&of_schedule(&schedule.name), decide).await?;
        Ok(Duration::ZERO)
    }

    /// The turn of a recorded start, if it has begun.
    async fn begun_turn(&self, start: &Start) -> Result<Option<TurnId>, Error> {
        let session = self.open(start.session).await?;
        Ok(session.turn_by_key(&request_key(start)).await?)
    }

    /// Begins the turn of a schedule on request.
    ///
    /// # Errors
    /// `conflict` while its previous turn is open; or the turn is refused.
    pub(crate) async fn begin_scheduled(&self, schedule: &Schedule) -> Result<Start, Error> {
        self.runtime()?;
        let source = of_schedule(&schedule.name);
        let key = format!("{source}:by-hand:{}", uuid::Uuid::now_v7()).into();
        let (start, _one) = self.intend_by_hand(schedule, &source, &key).await?;
        let given = self.carry_out(&cause(schedule, &start), &start).await;
        if let Err(error) = &given
            && may_work_later(error)
        {
            // The caller receives the error and may try again.
            let reason = error.to_string().into();
            let fact = StartFact::Failed { key, reason };
            self.record(&source, |_| ((), Some(fact.clone()))).await?;
        }
        let progress = Progress::Started(given?.turn);
        Ok(Start { progress, ..start })
    }

    /// Records the start of a turn that was requested, unless the turn before is open. Of requests at
    /// the same time, also at several daemons, one is recorded. The guard is that of the session.
    async fn intend_by_hand(
        &self,
        schedule: &Schedule,
        source: &Arc<str>,
        key: &Arc<str>,
    ) -> Result<(Start, Option<MutexGuard<'_, ()>>), Error> {
        loop {
            let newest = self.newest(source).await?;
            if self.is_open(newest.as_ref()).await? {
                let detail = format!("the last turn of schedule {} has not ended", schedule.name);
                return Err(Error::new(unisono_api::Code::Conflict, detail));
            }
            let (session, one) = self.locked_target(&schedule.task).await?;
            if let Some(start) = self
                .intend_after(source, key, session, newest.as_ref())
                .await?
            {
                return Ok((start, one));
            }
        }
    }

    pub(crate) async fn pause(&self, schedule: &Schedule, paused: bool) -> Result<(), Error> {
        let decide = |known: &Source| {
            let fact = match paused {
                true => StartFact::Paused,
                false => StartFact::Resumed,
            };
            ((), (known.paused != paused).then_some(fact))
        };
        self.record(&of_schedule(&schedule.name), decide).await?;
        self.shared.starts.changed.notify_waiters();
        Ok(())
    }

    async fn newest(&self, source: &Arc<str>) -> Result<Option<Start>, Error> {
        self.record(source, |known| (known.starts.last().cloned(), None))
            .await
    }

    /// Whether the turn of this start has not ended.
    async fn is_open(&self, start: Option<&Start>) -> Result<bool, Error> {
        let Some(start) = start else {
            return Ok(false);
        };
        match start.progress {
            Progress::Failed(_) => Ok(false),
            Progress::Intended => Ok(true),
            Progress::Started(turn) => known_open(self.is_unended(start.session, turn).await),
        }
    }

    async fn is_unended(&self, session: SessionId, turn: TurnId) -> Result<bool, Error> {
        let session = self.view(session).await?;
        let turn = self.turn_of(&session, turn).await?;
        Ok(turn.ended_at.is_none())
    }
}

/// Whether a turn is open, as far as it can be read. One that is gone or unreadable has ended; a
/// store that does not answer now says nothing.
fn known_open(read: Result<bool, Error>) -> Result<bool, Error> {
    match read {
        Err(error) if !may_work_later(&error) => Ok(false),
        read => read,
    }
}

fn cause<'c>(schedule: &'c Schedule, start: &Start) -> Cause<'c> {
    let moment = start.scheduled.unwrap_or(start.at);
    let task: &NewTask = &schedule.task;
    Cause {
        kind: "schedule",
        name: &schedule.name,
        source: of_schedule(&schedule.name),
        task,
        moment: on_clock(moment, &schedule.rule.zone),
        body: None,
    }
}

/// The time until an instant, limited by the interval in which the clock is read.
fn until(at: Option<Timestamp>, now: Timestamp) -> Duration {
    let ms = at.map_or(u64::MAX, |at| u64::try_from(at.0 - now.0).unwrap_or(0));
    Duration::from_millis(ms).min(LOOK)
}

#[cfg(test)]
mod tests {
    use unisono_api::service::Turns as _;

    use super::*;
    use crate::fixture;

    async fn local(missed: &str) -> Local {
        let settings = [
            ("schedules.beat.every", "8760h"),
            ("schedules.beat.task", "Look."),
            ("schedules.beat.missed", missed),
        ];
        fixture::local(settings).await
    }

    /// Records the start of a turn at this time.
    async fn intend(local: &Local, schedule: &Schedule, at: Timestamp) -> Start {
        let session = local.target(&schedule.task).await.unwrap();
        let (source, key) = (of_schedule("beat"), "schedule:beat:then".into());
        let start = local.intend_scheduled(&source, (&key, at), session, None);
        start.await.unwrap().unwrap()
    }

    #[test]
    fn a_store_that_does_not_answer_ends_no_turn() {
        let session = SessionId::from_u128(1);
        let gone = || unisono_runtime::Error::UnknownSession(session);
        let silent = || unisono_store::Error::TimedOut {
            doing: "read",
            after: LOOK,
        };
        let table = [
            (Ok(true), Some(true)),
            (Ok(false), Some(false)),
            (Err(gone().into()), Some(false)),
            (Err(Error::not_found("turn", session)), Some(false)),
            (Err(Error::Store(silent())), None),
        ];
        for (read, expected) in table {
            assert_eq!(known_open(read).ok(), expected);
        }
    }

    #[tokio::test]
    async fn what_was_handed_in_and_not_written_down_is_the_same_turn() {
        for missed in ["run", "skip"] {
            let local = local(missed).await;
            let setup = local.setup();
            let schedule = setup.loaded.automation.schedule("beat").unwrap();
            // The schedule is new, then nothing is due.
            assert_eq!(
                local.follow_step(schedule, &mut false).await.unwrap(),
                Duration::ZERO
            );
            assert_eq!(local.follow_step(schedule, &mut false).await.unwrap(), LOOK);
            let start = intend(&local, schedule, Timestamp(clock::now().0 + 1)).await;
            // The process ends here: the turn is on disk, and its result is not recorded.
            let of = cause(schedule, &start);
            let first = local.hand_in(&of, &start).await.unwrap();
            local.follow_step(schedule, &mut false).await.unwrap();
            let known = local.known_starts().await.unwrap();
            let [begun] = &known[&of_schedule("beat")].starts[..] else {
                panic!("{known:?}");
            };
            assert_eq!(begun.progress, Progress::Started(first));
            assert_eq!(local.follow_step(schedule, &mut false).await.unwrap(), LOOK);
            let (session, all) = (start.session.to_string(), Default::default());
            let turns = local.turns(&session, &all).await.unwrap();
            assert_eq!(turns.items.len(), 1);
            local.shutdown().await;
        }
    }

    #[tokio::test]
    async fn times_behind_a_turn_that_waits_to_begin_are_recorded_as_skipped() {
        let local = local("run").await;
        let setup = local.setup();
        let schedule = setup.loaded.automation.schedule("beat").unwrap();
        local.follow_step(schedule, &mut false).await.unwrap();
        let at = schedule.rule.next(clock::now()).unwrap();
        intend(&local, schedule, at).await;
        let skipped = async || {
            let known = local.known_starts().await.unwrap();
            known[&of_schedule("beat")].skipped.clone()
        };
        // Another program has the session and does not begin the turn.
        local.skip_behind(schedule, true, at).await.unwrap();
        assert_eq!(skipped().await, None);
        let later = schedule.rule.next(at).unwrap();
        for _ in 0..2 {
            local.skip_behind(schedule, true, later).await.unwrap();
            let reason = "the turn before had not begun".into();
            assert_eq!(skipped().await, Some((later, reason)));
        }
        local.shutdown().await;
    }

    #[tokio::test]
    async fn daemons_with_different_rules_do_not_record_them_in_turn() {
        let local = local("run").await;
        let setup = local.setup();
        let schedule = setup.loaded.automation.schedule("beat").unwrap();
        let mut is_followed = false;
        for wait in [Duration::ZERO, LOOK] {
            let step = local.follow_step(schedule, &mut is_followed);
            assert_eq!(step.await.unwrap(), wait);
        }
        let source = of_schedule("beat");
        let other = StartFact::Follows {
            rule: "every 1h".into(),
        };
        let recorded = local.record(&source, |_| ((), Some(other.clone())));
        recorded.await.unwrap();
        let rule = async || local.known_starts().await.unwrap()[&source].rule.clone();
        let step = local.follow_step(schedule, &mut is_followed);
        assert_eq!(step.await.unwrap(), LOOK);
        assert_eq!(rule().await.as_deref(), Some("every 1h"));
        // The settings of a daemon that starts later are newer.
        let step = local.follow_step(schedule, &mut false).await;
        assert_eq!(step.unwrap(), Duration::ZERO);
        assert_eq!(rule().await.as_deref(), Some("every 8760h"));
        local.shutdown().await;
    }

    #[tokio::test]
    async fn a_turn_that_had_not_begun_before_a_pause_does_not_begin() {
        for has_begun in [false, true] {
            let local = local("run").await;
            let setup = local.setup();
            let schedule = setup.loaded.automation.schedule("beat").unwrap();
            local.follow_step(schedule, &mut false).await.unwrap();
            let start = intend(&local, schedule, Timestamp(clock::now().0 + 1)).await;
            let expected = match has_begun {
                true => {
                    let begun = local.hand_in(&cause(schedule, &start), &start).await;
                    Progress::Started(begun.unwrap())
                }
                false => Progress::Failed("the schedule was paused before the turn began".into()),
            };
            local.pause(schedule, true).await.unwrap();
            assert_eq!(
                local.follow_step(schedule, &mut false).await.unwrap(),
                Duration::ZERO
            );
            let known = local.known_starts().await.unwrap();
            assert_eq!(known[&of_schedule("beat")].starts[0].progress, expected);
            assert_eq!(local.follow_step(schedule, &mut false).await.unwrap(), LOOK);
            let exists = local.journal().exists(start.session).await.unwrap();
            assert_eq!(exists, has_begun);
            local.shutdown().await;
        }
    }
}
