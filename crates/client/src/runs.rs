//! Runs: their tasks, outcomes and requests.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::Page;
use unisono_api::run::{
    ListedRun, LookupQuery, LookupResult, Replay, RunDetail, RunQuery, Why, WhyQuery,
};
use unisono_api::service::{Result, Runs};

use crate::{Client, resource_path};

#[async_trait]
impl Runs for Client {
    async fn runs(&self, query: &RunQuery) -> Result<Page<ListedRun>> {
        let request = match (&query.session, &query.turn) {
            (Some(session), Some(_)) => {
                let of_session = RunQuery {
                    session: None,
                    ..query.clone()
                };
                let path = resource_path(["sessions", session.as_str(), "runs"]);
                self.request(Method::GET, &path).query(&of_session)
            }
            _ => self.request(Method::GET, "/v1/runs").query(query),
        };
        self.json(request).await
    }

    async fn run(&self, session: &str, run: &str) -> Result<RunDetail> {
        self.get(&resource_path(["sessions", session, "runs", run]))
            .await
    }

    async fn why(&self, session: &str, run: &str, query: &WhyQuery) -> Result<Why> {
        self.get_with(
            &resource_path(["sessions", session, "runs", run, "request"]),
            query,
        )
        .await
    }

    async fn replay(&self, session: &str, turn: &str) -> Result<Replay> {
        self.get(&resource_path([
            "sessions", session, "turns", turn, "replay",
        ]))
        .await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<LookupResult> {
        self.get_with("/v1/lookup", query).await
    }
}
