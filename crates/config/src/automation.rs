//! Automatic turns: schedules start them at times, triggers on requests of other programs.
//!
//! [`Rule`] computes when a schedule is due, as a pure function of instants; the caller has the clock.

#[cfg_attr(not(feature = "cron"), path = "automation/no_cron.rs")]
mod cron;
mod rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Zoned;
use unisono_context::Timestamp;
use unisono_model::provider::Key;
use unisono_runtime::agent::template::Template;

pub use cron::{Cron, CronError, zone};
pub use rule::{DueTimes, Rule};

/// Maximum bytes of the name of a schedule or a trigger, which is a part of keys and labels.
pub const LONGEST_NAME: usize = 64;

/// All schedules and triggers.
#[derive(Clone, Debug, Default)]
pub struct Automation {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
    /// The triggers, by name.
    pub triggers: Vec<Trigger>,
}

impl Automation {
    /// The schedule with that name.
    pub fn schedule(&self, name: &str) -> Option<&Schedule> {
        self.schedules.iter().find(|one| &*one.name == name)
    }

    /// The trigger with that name.
    pub fn trigger(&self, name: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|one| &*one.name == name)
    }
}

/// A rule that starts turns at times.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: Arc<str>,
    /// When it is due.
    pub rule: Rule,
    /// The task of its turns.
    pub task: NewTask,
    /// What to do about times that passed while no program ran.
    pub missed: MissedPolicy,
    /// Whether it starts turns.
    pub enabled: bool,
}

/// A rule that starts turns on requests of another program.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Its name, which is a part of its address.
    pub name: Arc<str>,
    /// The secret that requests prove; none if its variable is not set, and then no request is
    /// accepted.
    pub secret: Option<Key>,
    /// The task of its turns.
    pub task: NewTask,
}

/// What a schedule does about times that passed while no program ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedPolicy {
    /// It runs once, for the newest time.
    Run,
    /// It skips them.
    Skip,
}

/// The task of an automatic turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// The session.
    pub session: Target,
    /// The branch it continues.
    pub branch: String,
    /// The lead; none for the configured one.
    pub lead: Option<String>,
    /// The delegates; none for the configured ones.
    pub agents: Option<Vec<String>>,
    /// The settings of its turns, by dotted key.
    pub settings: BTreeMap<String, String>,
    /// The text of the task.
    pub task: Template,
}

/// The session of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new session each time.
    New,
    /// The session with this id.
    Id(String),
    /// The newest session with this label, or a new one.
    Label {
        /// The label's name.
        name: String,
        /// Its value.
        value: String,
    },
}

impl NewTask {
    /// Renders the text of the task at a moment. `body` is the body of a trigger's request.
    ///
    /// # Errors
    /// The name of an unknown placeholder.
    pub fn fill(&self, name: &str, at: &Zoned, body: Option<&str>) -> Result<String, String> {
        self.task.fill(|place| match place {
            "name" => Some(name.to_owned()),
            "date" => Some(at.date().to_string()),
            "time" => Some(at.strftime("%H:%M").to_string()),
            "weekday" => Some(at.strftime("%A").to_string()),
            "scheduled" => Some(at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()),
            "body" => body.map(str::to_owned),
            _ => None,
        })
    }
}

/// The placeholders that a task may have. `body` is for triggers only.
pub(crate) const PLACES: [&str; 6] = ["name", "date", "time", "weekday", "scheduled", "body"];

/// An instant on the clocks of a time zone.
pub fn on_clock(at: Timestamp, zone: &jiff::tz::TimeZone) -> Zoned {
    // Every instant of a schedule or a clock is within the supported years.
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    at.to_zoned(zone.clone())
}
