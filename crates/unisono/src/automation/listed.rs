//! Schedules as clients see them.

use async_trait::async_trait;
use unisono_api::schedule::{Schedule, ScheduledTurn, SkippedTime};
use unisono_api::service::{self, Schedules, Turns as _};
use unisono_api::{Code, Page, PageQuery};
use unisono_config::automation::{self, MissedPolicy, Target};
use unisono_runtime::clock;
use unisono_session::OWNER;
use unisono_store::starts::{Progress, Source, Start};

use super::{decide, of_schedule};
use crate::error::Error;
use crate::service::no_cursor;
use crate::{Local, values};

#[async_trait]
impl Schedules for Local {
    async fn schedules(&self, query: &PageQuery) -> service::Result<Page<Schedule>> {
        let setup = self.setup();
        let known = self.known_starts().await?;
        let mut shown = Vec::new();
        for one in &setup.loaded.automation.schedules {
            if self.shows_schedule(one).await? {
                shown.push(one);
            }
        }
        if let Some(after) = &query.cursor
            && !shown.iter().any(|one| *one.name == **after)
        {
            return Err(no_cursor(after).into());
        }
        let after = query.cursor.as_deref().unwrap_or_default();
        let left = shown.into_iter().filter(|one| *one.name > *after);
        let limit = Page::<()>::size(query.limit);
        let part = Page::first(left, limit, |last| last.name.to_string());
        let mut items = Vec::with_capacity(part.items.len());
        for one in part.items {
            let known = known.get(&of_schedule(&one.name));
            items.push(self.described(one, known).await);
        }
        Ok(Page {
            items,
            next: part.next,
        })
    }

    async fn run_schedule(&self, name: &str) -> service::Result<ScheduledTurn> {
        let setup = self.setup();
        let schedule = self.named(&setup.loaded.automation, name).await?;
        let start = self.begin_scheduled(schedule).await?;
        Ok(self.turn_of_start(&start).await)
    }

    async fn pause_schedule(&self, name: &str, paused: bool) -> service::Result<Schedule> {
        let setup = self.setup();
        let schedule = self.named(&setup.loaded.automation, name).await?;
        self.pause(schedule, paused).await?;
        let known = self.known_starts().await?;
        let known = known.get(&of_schedule(name));
        Ok(self.described(schedule, known).await)
    }
}

impl Local {
    /// The schedule of that name, if the caller sees it.
    async fn named<'a>(
        &self,
        automation: &'a automation::Automation,
        name: &str,
    ) -> Result<&'a automation::Schedule, Error> {
        if let Some(found) = automation.schedule(name)
            && self.shows_schedule(found).await?
        {
            return Ok(found);
        }
        let detail = format!(
            "schedule {name:?} does not exist; the settings define schedules as [schedules.NAME]"
        );
        Err(Error::new(Code::NotFound, detail))
    }

    /// Whether the caller sees a schedule. A caller with an owner sees the schedules of the owner's
    /// sessions: of a named session, or of sessions with the owner's label.
    async fn shows_schedule(&self, of: &automation::Schedule) -> Result<bool, Error> {
        let Some(owner) = self.journal().owner() else {
            return Ok(true);
        };
        match &of.task.session {
            Target::New => Ok(false),
            Target::Label { name, value } => Ok(**name == *OWNER && **value == **owner),
            Target::Id(session) => match session.parse() {
                Ok(session) => Ok(self.journal().exists(session).await?),
                Err(_) => Ok(false),
            },
        }
    }

    async fn described(&self, of: &automation::Schedule, known: Option<&Source>) -> Schedule {
        let new = Source::default();
        let known = known.unwrap_or(&new);
        let state = match (of.enabled, known.paused) {
            (false, _) => "off",
            (true, true) => "paused",
            (true, false) => "on",
        };
        let missed = match of.missed {
            MissedPolicy::Run => "run",
            MissedPolicy::Skip => "skip",
        };
        let last = match known.starts.last() {
            Some(start) => Some(self.turn_of_start(start).await),
            None => None,
        };
        let skipped = known.skipped.as_ref();
        Schedule {
            name: of.name.to_string(),
            rule: of.rule.to_string(),
            state: state.to_owned(),
            missed: missed.to_owned(),
            next_at: decide::next(of, known, clock::store_now(self.journal())).map(values::instant),
            last,
            skipped: skipped.map(|(at, reason)| SkippedTime {
                scheduled_at: values::instant(*at),
                reason: reason.to_string(),
            }),
        }
    }

    async fn turn_of_start(&self, start: &Start) -> ScheduledTurn {
        let session = start.session.to_string();
        let (turn, state, error) = match &start.progress {
            Progress::Intended => (None, "queued".to_owned(), None),
            Progress::Failed(reason) => (None, "refused".to_owned(), Some(reason.to_string())),
            Progress::Started(turn) => match self.turn(&session, &turn.to_string()).await {
                Ok(turn) => (
                    Some(turn.turn),
                    turn.state,
                    turn.error.map(|fault| fault.reason),
                ),
                Err(_) => (Some(turn.to_string()), "gone".to_owned(), None),
            },
        };
        ScheduledTurn {
            scheduled_at: start.scheduled.map(values::instant),
            started_at: values::instant(start.at),
            session,
            turn,
            state,
            error,
        }
    }
}
