//! Turns of sessions and their updates.

use async_trait::async_trait;
use futures_util::stream;
use reqwest::{Method, header};
use unisono_api::service::{Result, TurnUpdates, Turns};
use unisono_api::session::EndedTurn;
use unisono_api::timeline::Timeline;
use unisono_api::turn::{NewTurn, Turn, TurnEstimate, TurnRequest};
use unisono_api::turn_event::{TurnEvent, TurnUpdate};
use unisono_api::{Page, PageQuery};

use crate::events::Events;
use crate::{Client, resource_path};

#[async_trait]
impl Turns for Client {
    async fn begin(&self, session: &str, request: &TurnRequest, key: Option<&str>) -> Result<Turn> {
        let mut request = request.waited_for(false);
        if let Some(settings) = request.settings_mut() {
            *settings = self.with_flags(settings);
        }
        let mut call = self.post(&route_of(&request, session), &request);
        if let Some(key) = key {
            call = call.header("idempotency-key", key);
        }
        self.json(call).await
    }

    async fn estimate_turn(&self, session: &str, new: &NewTurn) -> Result<TurnEstimate> {
        let new = NewTurn {
            settings: self.with_flags(&new.settings),
            ..new.clone()
        };
        let path = resource_path(["sessions", session, "turns", "estimate"]);
        self.json(self.post(&path, &new)).await
    }

    async fn turns(&self, session: &str, query: &PageQuery) -> Result<Page<Turn>> {
        self.get_with(&resource_path(["sessions", session, "turns"]), query)
            .await
    }

    async fn ended_turns(&self, session: &str, query: &PageQuery) -> Result<Page<EndedTurn>> {
        self.get_with(&resource_path(["sessions", session, "ended-turns"]), query)
            .await
    }

    async fn turn(&self, session: &str, turn: &str) -> Result<Turn> {
        self.get(&resource_path(["sessions", session, "turns", turn]))
            .await
    }

    async fn timeline(&self, session: &str, turn: &str) -> Result<Timeline> {
        self.get(&resource_path([
            "sessions", session, "turns", turn, "timeline",
        ]))
        .await
    }

    async fn follow(
        &self,
        session: &str,
        turn: &str,
        after: Option<u64>,
    ) -> Result<TurnUpdates<'_>> {
        let path = resource_path(["sessions", session, "turns", turn, "events"]);
        let following = FollowedTurn {
            events: self.turn_events(&path, after).await?,
            client: self,
            path,
            after,
        };
        Ok(Box::pin(stream::unfold(Some(following), step)))
    }

    async fn cancel_turn(&self, session: &str, turn: &str) -> Result<Turn> {
        let path = resource_path(["sessions", session, "turns", turn, "cancel"]);
        self.json(self.request(Method::POST, &path)).await
    }

    async fn cancel_run(&self, session: &str, run: &str) -> Result<Turn> {
        let path = resource_path(["sessions", session, "runs", run, "cancel"]);
        self.json(self.request(Method::POST, &path)).await
    }
}

fn route_of(request: &TurnRequest, session: &str) -> String {
    let of = |checkpoint: &str, what: &str| {
        resource_path(["sessions", session, "checkpoints", checkpoint, what])
    };
    match request {
        TurnRequest::Task(_) => resource_path(["sessions", session, "turns"]),
        TurnRequest::Compact(_) => resource_path(["sessions", session, "compactions"]),
        TurnRequest::Edit { checkpoint, .. } => of(checkpoint, "edit"),
        TurnRequest::Regenerate { checkpoint, .. } => of(checkpoint, "regenerate"),
        TurnRequest::Revert { checkpoint, .. } => of(checkpoint, "revert"),
        TurnRequest::RetryCompaction { turn, .. } => {
            resource_path(["sessions", session, "turns", turn.as_str(), "retry"])
        }
    }
}

struct FollowedTurn<'c> {
    client: &'c Client,
    path: String,
    /// The last update of the journal that came, or the one to begin after.
    after: Option<u64>,
    events: Events,
}

/// The next update, and the state after it; none after the last one.
async fn step(
    following: Option<FollowedTurn<'_>>,
) -> Option<(Result<TurnUpdate>, Option<FollowedTurn<'_>>)> {
    let mut following = following?;
    let update = following.next().await;
    let last = match &update {
        Ok(update) => matches!(update.event, TurnEvent::Ended(_)),
        Err(_) => true,
    };
    Some((update, (!last).then_some(following)))
}

impl FollowedTurn<'_> {
    /// The next update. If the stream ends before the turn, a new stream continues after the last
    /// update of the journal, unless nothing came on the one that ended: a turn may wait for longer than
    /// a proxy leaves a stream open.
    async fn next(&mut self) -> Result<TurnUpdate> {
        loop {
            let ended = match self.events.next().await {
                Ok(Some(event)) => {
                    let update: TurnUpdate = serde_json::from_str(&event.data)
                        .map_err(|error| self.events.wrong(&error.to_string()))?;
                    self.after = update.seq.or(self.after);
                    return Ok(update);
                }
                Ok(None) => self.events.wrong("a stream that ends before its turn"),
                Err(error) => error,
            };
            if !self.events.has_come() {
                return Err(ended);
            }
            self.events = self.client.turn_events(&self.path, self.after).await?;
        }
    }
}

impl Client {
    async fn turn_events(&self, path: &str, after: Option<u64>) -> Result<Events> {
        let request = self.request(Method::GET, path).query(&[("after", after)]);
        let request = request.header(header::ACCEPT, "text/event-stream");
        Ok(Events::new(self.url.clone(), self.send(request).await?))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;

    use super::*;
    use crate::fixture::answering;

    fn line(seq: u64, event: TurnEvent) -> String {
        let seq = Some(seq);
        let data = serde_json::to_string(&TurnUpdate { seq, event }).unwrap();
        format!("data: {data}\n\n")
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_goes_on_behind_the_last_update() {
        let stepped = |run: &str| TurnEvent::RunStepped {
            run: run.to_owned(),
        };
        let silent = ":\n\n".to_owned();
        let last = line(5, stepped("b"));
        let bodies = vec![line(3, stepped("a")), silent, last, String::new()];
        let (url, asked) = answering(bodies);
        let client = Client::new(url, "token").unwrap();
        let mut updates = client.follow("s", "t", Some(0)).await.unwrap();
        for seq in [3, 5] {
            assert_eq!(updates.try_next().await.unwrap().unwrap().seq, Some(seq));
        }
        // The last stream has nothing, not even a comment: it is not retried forever.
        updates.try_next().await.unwrap_err();
        assert_eq!(updates.try_next().await.unwrap(), None);
        let path = "/v1/sessions/s/turns/t/events";
        let expected = [0, 3, 3, 5].map(|after| format!("GET {path}?after={after} HTTP/1.1"));
        assert_eq!(asked.join().unwrap(), expected);
    }
}
