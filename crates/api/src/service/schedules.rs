//! Turns that begin at times.

use async_trait::async_trait;

use super::Result;
use crate::schedule::{Schedule, ScheduledTurn};
use crate::{Page, PageQuery};

/// Turns that begin at times.
#[async_trait]
pub trait Schedules {
    /// The schedules of the settings, by name.
    ///
    /// # Errors
    /// The store fails.
    async fn schedules(&self, query: &PageQuery) -> Result<Page<Schedule>>;

    /// Begins the turn of a schedule now. It does not change when it is due.
    ///
    /// # Errors
    /// `not_found`; `conflict`: its turn before has not ended; `refused`.
    async fn run_schedule(&self, name: &str) -> Result<ScheduledTurn>;

    /// Pauses or resumes a schedule; skipped times count as past.
    ///
    /// # Errors
    /// `not_found`.
    async fn pause_schedule(&self, name: &str, paused: bool) -> Result<Schedule>;
}
