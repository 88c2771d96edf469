//! `/v1/sessions/{session}/events`: the events of a session as server-sent events.
//!
//! Each event of the journal is sent once, in order, with its sequence number as the id: a client
//! that reconnects with `Last-Event-ID` continues there, also after a restart. Progress and reloads
//! of agents (`agents`) have no id and are not stored; a `missed` event reports lost progress. A client
//! that comes in the middle of a reply gets its text so far (`text_so_far`), also after a `missed`. The
//! small pieces of a reply are joined ([`JoinedText`]). A slow client delays nothing else: events are
//! read from the journal when the client has room for them. The stream is not compressed: that would
//! take some 300 KiB of memory for each client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tokio::time::{Instant, sleep_until};
use unisono_api::Code;
use unisono_api::turn_event::TurnUpdate;
use unisono_context::{RunId, SessionId, TurnId};
use unisono_runtime::{BegunReplies, Events, Handle, Progress, ProgressUpdate, SharedEvent};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::past_events::PastEvents;
use super::problem::ApiError;
use super::{Shared, query_numbers, turns};
use crate::forwarded::is_forwarded;
use crate::turn_follower::{is_of_a_command, stopped};
use unisono::follow::{JoinedText, event_to_api, progress_to_api};
use unisono::local::Reload;
use unisono::service::agents::reload_to_api;

/// The idle time after which a comment is sent, so that a broken connection is detected.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time that an event waits for further ones, per follower of the session. With thousands of
/// followers each of them is then woken and written to once for many events.
const LATER_EACH: Duration = Duration::from_micros(20);
/// Nothing waits for less than this.
const LATER_LEAST: Duration = Duration::from_millis(2);
/// The header with the id of the last event that the client received.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(follow))
}

/// The position at which the stream starts.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StartPosition {
    /// Events after this sequence number; `Last-Event-ID` comes before it. Without both,
    /// as the address says.
    #[serde(default, deserialize_with = "query_numbers::some_number")]
    after: Option<u64>,
}

impl StartPosition {
    /// The event after which the stream starts, from the query or the header.
    pub(super) fn after(&self, headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
        let Some(text) = headers.get(LAST_EVENT_ID) else {
            return Ok(self.after);
        };
        let text = text.to_str().unwrap_or_default();
        let wrong = |_| {
            ApiError::new(
                Code::InvalidRequest,
                "Last-Event-ID is not a sequence number",
            )
        };
        text.trim().parse().map(Some).map_err(wrong)
    }
}

/// The events of a session; without `after` and `Last-Event-ID`, only new events.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/events", tag = "events",
    params(("session" = String, Path, description = "The session's id"), StartPosition,
           ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last received event")),
    responses((status = 200, body = String, content_type = "text/event-stream",
               description = "Server-sent events; the data of each is JSON. An event of the journal is \
                   named by its kind, has its sequence number as the id, and `seq`, `at`, `kind`, \
                   `turn`, `run`, `agent`, `text`. `progress`, `text_delta` and `text_so_far`, without an id: \
                   `run` or `turn`, `text`, `is_failure` if it is true. `missed`: an empty object. `agents`: what was read again"))
)]
async fn follow(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(from): Query<StartPosition>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (id, after) = (extract::id("session", &id)?, from.after(&headers)?);
    if !is_forwarded(&headers) && is_of_a_command(&shared.local, id).await {
        return past_events(shared, id, after).await;
    }
    let opened = shared.local.open(id).await;
    let session = match opened {
        Ok(session) => session,
        Err(error) if is_unreachable(&error, &headers) => {
            return past_events(shared, id, after).await;
        }
        Err(error) => return Err(error.into()),
    };
    let now = session.inspect(|state| state.events()).await?;
    let after = checked_start(after, now)?;
    let place = reserve_stream(&shared)?;
    Ok(Stream::new(shared, session, after, place)
        .await?
        .into_response())
}

/// Whether a session cannot be opened because another daemon owns it, which cannot be asked for it.
fn is_unreachable(error: &unisono::Error, headers: &HeaderMap) -> bool {
    error.session_of_another().is_some() && !is_forwarded(headers)
}

/// The events of a session that another daemon owns and cannot be asked for.
async fn past_events(
    shared: Arc<Shared>,
    session: SessionId,
    after: Option<u64>,
) -> Result<Response, ApiError> {
    let known = shared.local.journal().session(session).await?;
    let known = known.ok_or_else(|| unisono::Error::not_found("session", session))?;
    let after = checked_start(after, known.last_seq)?;
    let place = reserve_stream(&shared)?;
    Ok(PastEvents::new(shared, session, after, place).into_response())
}

/// The event after which a stream starts; without a number, `now`, which is the last event.
fn checked_start(after: Option<u64>, now: u64) -> Result<u64, ApiError> {
    let after = after.unwrap_or(now);
    if after > now {
        let detail = format!("event {after} has not happened; the last one is {now}");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    Ok(after)
}

/// Takes a permit for a stream, or fails.
pub(super) fn reserve_stream(shared: &Shared) -> Result<OwnedSemaphorePermit, ApiError> {
    shared.streams.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            Code::Busy,
            "as many streams as `server.streams` allows are open",
        )
    })
}

/// The events of a session from a cursor on.
pub(super) struct Stream {
    shared: Arc<Shared>,
    session: Handle,
    after: u64,
    events: Events,
    progress: broadcast::Receiver<ProgressUpdate>,
    /// The texts of replies that began before, which are not sent yet.
    begun: BegunReplies,
    /// Progress that belongs after events that are not sent yet.
    delayed: Option<ProgressUpdate>,
    /// Whether progress was missed, which is not sent yet.
    missed: bool,
    /// Pieces of replies that are sent together.
    texts: JoinedText,
    /// An item that is sent after all pieces.
    after_texts: Option<Next>,
    reloads: watch::Receiver<Option<Arc<Reload>>>,
    stopping: watch::Receiver<bool>,
    until: Option<TurnId>,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

enum Next {
    Recorded(u64, Arc<SharedEvent>),
    /// The text of a reply that began before.
    Begun(Progress),
    Progress(Progress),
    Missed,
    Agents(Arc<Reload>),
}

impl Stream {
    pub(super) async fn new(
        shared: Arc<Shared>,
        session: Handle,
        after: u64,
        place: OwnedSemaphorePermit,
    ) -> Result<Stream, ApiError> {
        let (mut events, progress) = session.follow(after).await?;
        Ok(Stream {
            begun: events.take_begun(),
            reloads: shared.local.reloads(),
            stopping: shared.stopping.clone(),
            shared,
            session,
            after,
            events,
            progress,
            delayed: None,
            missed: false,
            texts: JoinedText::default(),
            after_texts: None,
            until: None,
            ended: false,
            _place: place,
        })
    }

    /// Ends with the end of that turn; the turn itself comes last.
    pub(super) fn until(mut self, turn: TurnId) -> Stream {
        self.until = Some(turn);
        self
    }

    /// The next item; none if the session was deleted, or if the program stops and the stream waits
    /// for no turn. With many followers the first event waits for further ones, so that all are one
    /// write. Not cancellation safe: a dropped call can lose an event.
    async fn next(&mut self) -> Option<Next> {
        if self.has_more() {
            return self.next_ready().await;
        }
        let next = self.next_ready().await;
        let later = batch_delay(self.events.followers());
        if later >= LATER_LEAST {
            // No event can wake it meanwhile.
            tokio::time::sleep(later).await;
        }
        next
    }

    /// Whether something is there already.
    fn has_more(&self) -> bool {
        self.events.is_behind()
            || !self.begun.texts.is_empty()
            || self.delayed.is_some()
            || self.missed
            || self.after_texts.is_some()
            || !self.progress.is_empty()
    }

    /// The next item after the pieces of replies before it.
    async fn next_ready(&mut self) -> Option<Next> {
        loop {
            if self.after_texts.is_some() {
                let text = self.texts.pop_any().map(text_delta);
                return text.or_else(|| self.after_texts.take());
            }
            if let Some(text) = self.texts.pop(Instant::now()) {
                return Some(text_delta(text));
            }
            let due = self.texts.next_due();
            let item = tokio::select! {
                biased;
                item = self.next_item() => item,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => continue,
            };
            match item {
                Some(Next::Progress(Progress::TextDelta { run, text })) => {
                    self.texts.push(run, &text, Instant::now());
                }
                Some(item) => self.after_texts = Some(item),
                None => return self.texts.pop_any().map(text_delta),
            }
        }
    }

    /// The next item as it comes. A dropped call loses nothing.
    async fn next_item(&mut self) -> Option<Next> {
        loop {
            if self.missed {
                // The texts so far of the current replies have what was missed.
                self.resubscribe().await?;
                self.missed = false;
                return Some(Next::Missed);
            }
            let sent = self.after;
            if self.begun.after <= sent
                && let Some((run, text)) = self.begun.texts.pop()
            {
                return Some(Next::Begun(Progress::TextDelta { run, text }));
            }
            if let Some(said) = self.delayed.take_if(|said| said.after <= sent) {
                return Some(Next::Progress(said.progress));
            }
            tokio::select! {
                biased;
                // A stream of one turn continues while the program finishes current work.
                () = stopped(&mut self.stopping), if self.until.is_none() => return None,
                // Progress before an event is sent before the event.
                said = self.progress.recv(), if self.delayed.is_none() => match said {
                    Ok(said) => self.delayed = Some(said),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.missed = true,
                    Err(broadcast::error::RecvError::Closed) => self.resubscribe().await?,
                },
                event = self.events.next() => match event {
                    Ok(Some((seq, event))) => {
                        self.after = seq;
                        return Some(Next::Recorded(seq, event));
                    }
                    Ok(None) => self.resubscribe().await?,
                    Err(error) => {
                        tracing::warn!(%error, "a stream of events ends early");
                        return None;
                    }
                },
                // This stream keeps the daemon alive, which sends the events.
                Ok(()) = self.reloads.changed() => {
                    if let Some(reload) = self.reloads.borrow_and_update().clone() {
                        return Some(Next::Agents(reload));
                    }
                }
            }
        }
    }

    /// Subscribes again, after the end of a subscription or after missed progress. None: the session is
    /// deleted, or another daemon owns it; the client learns that when it reconnects.
    async fn resubscribe(&mut self) -> Option<()> {
        let owner = self.shared.local.owner(self.session.id()).await;
        if owner.ok()?.is_some() {
            return None;
        }
        (self.events, self.progress) = self.session.follow(self.after).await.ok()?;
        self.begun = self.events.take_begun();
        Some(())
    }

    async fn event(mut self) -> Option<(sse::Event, Stream)> {
        if self.ended {
            let turn = self.until.take()?;
            let turn = turns::read(&self.shared, &self.session, turn).await.ok()?;
            return Some((named("turn", &turn), self));
        }
        let event = match self.next().await? {
            Next::Recorded(seq, event) => {
                self.ended = self.until.is_some_and(|turn| event.fact.ends(turn));
                recorded_event(seq, &event)
            }
            Next::Begun(said) => named("text_so_far", &progress_to_api(&said)),
            Next::Progress(said) => {
                let name = match said {
                    Progress::TextDelta { .. } => "text_delta",
                    _ => "progress",
                };
                named(name, &progress_to_api(&said))
            }
            Next::Missed => sse::Event::default().event("missed").data("{}"),
            Next::Agents(reload) => named("agents", &reload_to_api(&reload)),
        };
        Some((event, self))
    }
}

fn text_delta((run, text): (RunId, String)) -> Next {
    let text = text.into();
    Next::Progress(Progress::TextDelta { run, text })
}

/// The time that an event waits for further ones, for this number of followers.
fn batch_delay(followers: usize) -> Duration {
    LATER_EACH.saturating_mul(u32::try_from(followers).unwrap_or(u32::MAX))
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let events = stream::unfold(Some(self), |stream| async {
            let (event, stream) = stream?.event().await?;
            Some((Ok::<_, Infallible>(event), Some(stream)))
        });
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        Sse::new(events).keep_alive(keep_alive).into_response()
    }
}

pub(super) fn recorded_event(seq: u64, event: &SharedEvent) -> sse::Event {
    let data = event.text(|event| json(&event_to_api(seq, event)));
    let named = sse::Event::default().event(event.fact.name());
    named.data(data).id(seq.to_string())
}

pub(super) fn turn_update(update: &TurnUpdate) -> sse::Event {
    let event = named(update.event.name(), update);
    match update.seq {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    }
}

fn named(name: &str, data: &impl Serialize) -> sse::Event {
    sse::Event::default().event(name).data(json(data))
}

pub(super) fn json(data: &impl Serialize) -> String {
    // Serialising these types does not fail.
    serde_json::to_string(data).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;
    use unisono::{Ask, Completion, Conversation, LanguageModel, Local, Reply, Request, Tokens};

    use super::*;
    use crate::http::Server;

    /// More pieces than are kept for a slow client.
    const PIECES: usize = 1_000;

    /// Says many pieces at once, and the last one when it may.
    struct Hasty {
        spoke: Arc<Notify>,
        go: Arc<Notify>,
    }

    impl LanguageModel for Hasty {
        fn window(&self) -> Tokens {
            Tokens(50_000)
        }

        fn complete(&self, request: Request) -> Completion<'_> {
            Box::pin(async move {
                for _ in 0..PIECES {
                    request.listener.report_text("word ");
                }
                self.spoke.notify_one();
                self.go.notified().await;
                request.listener.report_text("end");
                Ok(Reply::text("word ".repeat(PIECES) + "end"))
            })
        }
    }

    #[tokio::test]
    async fn a_client_that_was_too_slow_gets_the_text_so_far_of_a_current_reply() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (spoke, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let model = Hasty {
            spoke: spoke.clone(),
            go: go.clone(),
        };
        let local = Local::builder()
            .directory(directory.path())
            .default_model("own/hasty", model)
            .set("server.bind", "127.0.0.1:0")
            .set("server.token_file", path("token"))
            .set("store.path", path("store"))
            .in_memory();
        let server = Server::bind(local.start().await.unwrap()).await.unwrap();
        let shared = server.shared.clone();
        let session = Conversation::new("Slow").user("Hello.");
        let session = shared.local.import(session).await.unwrap();
        let last = session.inspect(|state| state.events()).await.unwrap();
        let place = shared.streams.clone().try_acquire_owned().unwrap();
        let stream = Stream::new(shared.clone(), session.clone(), last, place);
        let Ok(mut stream) = stream.await else {
            panic!("it cannot be followed");
        };
        let ask = Ask::new("Go on.").agents([""; 0]);
        shared.local.begin(&session, &ask).await.unwrap();
        spoke.notified().await;

        let mut missed = 0;
        let begun = loop {
            match stream.next().await.unwrap() {
                Next::Missed => missed += 1,
                Next::Begun(Progress::TextDelta { text, .. }) => break text,
                Next::Progress(Progress::TextDelta { text, .. }) => {
                    panic!("{text:?} without the text before it")
                }
                _ => {}
            }
        };
        assert_eq!((missed, &*begun), (1, &*"word ".repeat(PIECES)));
        go.notify_one();
        let rest = loop {
            if let Next::Progress(Progress::TextDelta { text, .. }) = stream.next().await.unwrap() {
                break text;
            }
        };
        assert_eq!(&*rest, "end");
    }
}
