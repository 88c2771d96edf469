//! `/v1/sessions/{session}/events`: the events of a session as server-sent events.
//!
//! Each event of the journal is sent once, in order, with its sequence number as the id: a client
//! that reconnects with `Last-Event-ID` continues there, also after a restart. Progress and reloads
//! of agents (`agents`) have no id and are not stored; a `missed` event reports lost progress. The
//! small pieces of a reply are joined ([`JoinedText`]). A slow client delays nothing else: events are
//! read from the journal when the client has room for them. The stream is not compressed: that would
//! take some 300 KiB of memory for each client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use unisono::values;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tokio::time::Instant;
use unisono_api::Code;
use unisono_api::event::{Event, Progress};
use unisono_context::{RunId, TurnId};
use unisono_runtime::{Events, Handle, Progress as Doing, ProgressUpdate, SharedEvent};
use unisono_session::{Event as Recorded, Fact};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Path, Query};
use super::problem::ApiError;
use super::{Shared, query_numbers, sessions, turns};
use unisono::follow::JoinedText;
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
           ("Last-Event-ID" = Option<u64>, Header, description = "The last event that came")),
    responses((status = 200, body = String, content_type = "text/event-stream",
               description = "Server-sent events; the data of each is JSON. An event of the journal is \
                   named by its kind, has its sequence number as the id, and `seq`, `at`, `kind`, \
                   `turn`, `run`, `agent`, `text`. `progress` and `text_delta`, without an id: `run` or \
                   `turn`, `text`, `is_failure` if it is true. `missed`: an empty object. `agents`: what was read again"))
)]
async fn follow(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(from): Query<StartPosition>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let session = sessions::open(&shared, &id).await?;
    let now = session.inspect(|state| state.events()).await?;
    let after = from.after(&headers)?.unwrap_or(now);
    if after > now {
        let detail = format!("event {after} has not happened; the last one is {now}");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    let place = reserve_stream(&shared)?;
    Ok(Stream::new(shared, session, after, place)
        .await?
        .into_response())
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
    /// Progress that belongs after events that are not sent yet.
    delayed: Option<ProgressUpdate>,
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

/// The next item of a stream.
pub(super) enum Next {
    /// An event of the journal.
    Recorded(u64, Arc<SharedEvent>),
    /// Progress.
    Progress(Doing),
    /// Progress was missed.
    Missed,
    /// Agent definitions were reloaded.
    Agents(Arc<Reload>),
}

impl Stream {
    pub(super) async fn new(
        shared: Arc<Shared>,
        session: Handle,
        after: u64,
        place: OwnedSemaphorePermit,
    ) -> Result<Stream, ApiError> {
        let (events, progress) = session.follow(after).await?;
        Ok(Stream {
            reloads: shared.local.reloads(),
            stopping: shared.stopping.clone(),
            shared,
            session,
            after,
            events,
            progress,
            delayed: None,
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
    pub(super) async fn next(&mut self) -> Option<Next> {
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
            || self.delayed.is_some()
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
            let due = self.texts.due();
            let item = tokio::select! {
                biased;
                item = self.next_item() => item,
                () = sleep_until(due) => continue,
            };
            match item {
                Some(Next::Progress(Doing::TextDelta { run, text })) => {
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
            let sent = self.after;
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
                    Err(broadcast::error::RecvError::Lagged(_)) => return Some(Next::Missed),
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

    /// Subscribes again after the end of a subscription. None: the session is deleted, or another daemon
    /// owns it; the client learns that when it reconnects.
    async fn resubscribe(&mut self) -> Option<()> {
        let owner = self.shared.local.owner(Some(self.session.id())).await;
        if owner.ok()?.is_some() {
            return None;
        }
        (self.events, self.progress) = self.session.follow(self.after).await.ok()?;
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
                let ends = matches!(&event.fact, Fact::TurnEnded { turn, .. } if Some(*turn) == self.until);
                self.ended = ends;
                let data = event.text(|event| json(&to_api(seq, event)));
                let named = sse::Event::default().event(event.fact.name());
                named.data(data).id(seq.to_string())
            }
            Next::Progress(said @ Doing::TextDelta { .. }) => named("text_delta", &progress(&said)),
            Next::Progress(said) => named("progress", &progress(&said)),
            Next::Missed => sse::Event::default().event("missed").data("{}"),
            Next::Agents(reload) => named("agents", &reload_to_api(&reload)),
        };
        Some((event, self))
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn text_delta((run, text): (RunId, String)) -> Next {
    let text = text.into();
    Next::Progress(Doing::TextDelta { run, text })
}

/// The time that an event waits for further ones, for this number of followers.
fn batch_delay(followers: usize) -> Duration {
    LATER_EACH.saturating_mul(u32::try_from(followers).unwrap_or(u32::MAX))
}

pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A closed channel also means that the program stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
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

fn named(name: &str, data: &impl Serialize) -> sse::Event {
    sse::Event::default().event(name).data(json(data))
}

pub(super) fn json(data: &impl Serialize) -> String {
    // Serialising these types does not fail.
    serde_json::to_string(data).unwrap_or_default()
}

fn progress(said: &Doing) -> Progress {
    match said {
        Doing::Run { run, text } | Doing::TextDelta { run, text } => Progress {
            run: Some(run.to_string()),
            turn: None,
            text: text.to_string(),
            is_failure: false,
        },
        Doing::Pause { run, until, reason } => {
            let until = values::instant(*until);
            Progress {
                run: Some(run.to_string()),
                turn: None,
                text: format!("{reason}; the next request is not before {until}"),
                is_failure: false,
            }
        }
        Doing::Compaction {
            turn,
            text,
            is_failure,
        } => Progress {
            run: None,
            turn: Some(turn.to_string()),
            text: text.to_string(),
            is_failure: *is_failure,
        },
    }
}

/// Converts an event to its API type.
fn to_api(seq: u64, event: &Recorded) -> Event {
    let (turn, run) = (event.fact.turn(), event.fact.run());
    let agent = match &event.fact {
        Fact::RunOpened { run } => Some(run.agent.to_string()),
        _ => None,
    };
    Event {
        seq,
        at: values::instant(event.at),
        kind: event.fact.name().to_owned(),
        turn: turn.map(|turn| turn.to_string()),
        run: run.map(|run| run.to_string()),
        agent,
        text: event.fact.to_string(),
    }
}
