//! Turns that begin at times.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::schedule::{Schedule, ScheduledTurn};
use unisono_api::service::{Result, Schedules};
use unisono_api::{Page, PageQuery};

use crate::{Client, resource_path};

#[async_trait]
impl Schedules for Client {
    async fn schedules(&self, query: &PageQuery) -> Result<Page<Schedule>> {
        self.get_with("/v1/schedules", query).await
    }

    async fn run_schedule(&self, name: &str) -> Result<ScheduledTurn> {
        let path = resource_path(["schedules", name, "runs"]);
        self.json(self.request(Method::POST, &path)).await
    }

    async fn pause_schedule(&self, name: &str, paused: bool) -> Result<Schedule> {
        let what = if paused { "pause" } else { "resume" };
        let path = resource_path(["schedules", name, what]);
        self.json(self.request(Method::POST, &path)).await
    }
}
