//! Turns that nobody types: at times (schedules), and when other programs ask (triggers).
//!
//! [`Rule`] says when a schedule is due, as a pure function of instants: whoever asks has the clock.

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
pub use rule::{Rule, When};

/// The longest name of a schedule or a trigger, in bytes: it is a part of keys and labels.
pub const LONGEST_NAME: usize = 64;

/// All turns that begin by themselves.
#[derive(Clone, Debug, Default)]
pub struct Automation {
    /// At times, by name.
    pub schedules: Vec<Schedule>,
    /// When other programs ask, by name.
    pub triggers: Vec<Trigger>,
}

impl Automation {
    /// The schedule of that name.
    pub fn schedule(&self, name: &str) -> Option<&Schedule> {
        self.schedules.iter().find(|one| &*one.name == name)
    }

    /// The trigger of that name.
    pub fn trigger(&self, name: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|one| &*one.name == name)
    }
}

/// A turn that begins at times.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: Arc<str>,
    /// When it is due.
    pub rule: Rule,
    /// What begins then.
    pub task: NewTask,
    /// What becomes of a time that passed while nothing worked.
    pub missed: Missed,
    /// Whether it begins turns by itself.
    pub enabled: bool,
}

/// A turn that begins when another program asks for it.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Its name, which is in its address.
    pub name: Arc<str>,
    /// What the program proves to know.
    pub secret: Key,
    /// What begins then.
    pub task: NewTask,
}

/// What becomes of the times of a schedule that passed while nothing worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// It runs once, for the newest of them.
    Run,
    /// It does not.
    Skip,
}

/// A task that is given to a session by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// The session.
    pub session: Target,
    /// The branch it continues.
    pub branch: String,
    /// The agent that answers; none: as configured.
    pub lead: Option<String>,
    /// The agents that work before it; none: as configured.
    pub agents: Option<Vec<String>>,
    /// Settings for its turns alone, by dotted key.
    pub settings: BTreeMap<String, String>,
    /// What is to be done.
    pub task: Template,
}

/// The session that a task is given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one each time.
    New,
    /// That of this id.
    Id(String),
    /// The newest with this label; where there is none, one is made.
    Label {
        /// The label's name.
        name: String,
        /// Its value.
        value: String,
    },
}

impl NewTask {
    /// The text of the task at that moment. `body` is what a request brought.
    ///
    /// # Errors
    /// The name of a place that nothing stands for.
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

/// The places that a task may have, with a body or without one.
pub(crate) const PLACES: [&str; 6] = ["name", "date", "time", "weekday", "scheduled", "body"];

/// An instant on the clocks of a time zone.
pub fn on_clock(at: Timestamp, zone: &jiff::tz::TimeZone) -> Zoned {
    // Every instant that a schedule or a clock gives is within the years that are known.
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    at.to_zoned(zone.clone())
}
