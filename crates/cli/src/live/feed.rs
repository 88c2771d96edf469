//! What happens in a session, whoever works on it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use unisono::Local;
use unisono_api::event::Progress as Said;
use unisono_client::{self as client, Client};
use unisono_context::SessionId;
use unisono_runtime::{Error, Events, Handle, Progress, SharedEvent};
use unisono_session::Event;
use unisono_session::state::EndedTurn;
use unisono_store::Journal;

use super::watch::Watch;
use crate::problem::{Problem, Result};
use crate::remote;

/// Events read from a daemon at a time.
const PAGE: usize = 1_024;

/// What comes next.
pub(super) enum Next {
    /// An event that is on disk.
    Event(Arc<SharedEvent>),
    /// What is being done.
    Said(Progress),
    /// Some of what was being done was missed.
    Missed,
}

/// What happens in a session from a place in its journal on.
pub(crate) struct Feed<'f>(Source<'f>);

enum Source<'f> {
    Here(Here<'f>),
    There(There<'f>),
}

impl Feed<'_> {
    /// Of a session that this process works on.
    pub(crate) async fn here<'f>(
        local: &'f Local,
        session: SessionId,
        watch: &mut Watch,
    ) -> Result<Feed<'f>> {
        let (session, turn) = (local.open(session).await?, watch.turn);
        let waiting = session.clone();
        let (events, progress) = match watch.followed.take() {
            Some(followed) => followed,
            None => session.follow(watch.events()).await?,
        };
        Ok(Feed(Source::Here(Here {
            local,
            events,
            progress,
            gone: Box::pin(async move { waiting.wait(turn).await }),
            ended: false,
            session,
        })))
    }

    /// Of a session that a daemon works on.
    pub(crate) fn there(client: &Client, session: SessionId) -> Feed<'_> {
        Feed(Source::There(There {
            client,
            journal: remote::journal(client.clone()),
            session,
            stream: None,
            last: 0,
            read: VecDeque::new(),
        }))
    }

    /// What comes next where so many events are known. Nothing is lost when it is not waited for
    /// to the end.
    pub(super) async fn next(&mut self, known: u64) -> Result<Next> {
        match &mut self.0 {
            Source::Here(here) => here.next(known).await,
            Source::There(there) => there.next(known).await,
        }
    }
}

struct Here<'f> {
    local: &'f Local,
    session: Handle,
    events: Events,
    progress: broadcast::Receiver<Progress>,
    /// Ends with the turn, or with the session.
    gone: Pin<Box<dyn Future<Output = Result<EndedTurn, Error>> + Send + 'f>>,
    ended: bool,
}

impl Here<'_> {
    /// What is told has ended, where the session is gone for good.
    async fn again(&mut self, known: u64) -> Result<()> {
        (self.events, self.progress) = self.session.follow(known).await?;
        Ok(())
    }

    async fn next(&mut self, known: u64) -> Result<Next> {
        loop {
            tokio::select! {
                // What is said before an event is shown before it.
                biased;
                said = self.progress.recv() => match said {
                    Ok(said) => return Ok(Next::Said(said)),
                    Err(RecvError::Lagged(_)) => return Ok(Next::Missed),
                    Err(RecvError::Closed) => self.again(known).await?,
                },
                event = self.events.next() => match event? {
                    Some((_, event)) => return Ok(Next::Event(event)),
                    None => self.again(known).await?,
                },
                // Only its error matters: the end itself comes with the events.
                result = &mut self.gone, if !self.ended => {
                    result?;
                    self.ended = true;
                }
                reason = self.local.failed() => {
                    return Err(Problem::failed(format!("the runtime gave up: {reason}")));
                }
            }
        }
    }
}

/// The daemon says when there is something new, and the journal says what.
struct There<'f> {
    client: &'f Client,
    journal: Journal,
    session: SessionId,
    stream: Option<client::Events>,
    /// The last event that it told of.
    last: u64,
    read: VecDeque<Event>,
}

impl There<'_> {
    async fn next(&mut self, known: u64) -> Result<Next> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(Next::Event(Arc::new(event.into())));
            }
            if self.last > known {
                // No more than was told of: what was said before the next one comes before it.
                let told = usize::try_from(self.last - known).unwrap_or(PAGE);
                let page = self.journal.read(self.session, known + 1, told.min(PAGE));
                let page = page.await?;
                if page.is_empty() {
                    return Err(Problem::failed(
                        "the daemon tells of events it does not have",
                    ));
                }
                self.read.extend(page.into_iter().map(|(_, event)| event));
                continue;
            }
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    let session = self.session.to_string();
                    none.insert(self.client.events(&session, known).await?)
                }
            };
            match stream.next().await? {
                Some(client::ServerEvent { seq: Some(seq), .. }) => self.last = self.last.max(seq),
                Some(client::ServerEvent { name, .. }) if name == "missed" => {
                    return Ok(Next::Missed);
                }
                Some(client::ServerEvent { name, data, .. }) => {
                    if let Some(said) = said(&name, &data) {
                        return Ok(Next::Said(said));
                    }
                }
                None => self.stream = None,
            }
        }
    }
}

/// What is being done, as the daemon tells it.
fn said(name: &str, data: &str) -> Option<Progress> {
    let Said {
        run,
        turn,
        text,
        trouble,
    } = serde_json::from_str(data).ok()?;
    let text: Arc<str> = text.into();
    match (name, run, turn) {
        ("piece", Some(run), _) => Some(Progress::Piece {
            run: run.parse().ok()?,
            text,
        }),
        ("progress", Some(run), _) => Some(Progress::Run {
            run: run.parse().ok()?,
            text,
        }),
        ("progress", None, Some(turn)) => Some(Progress::Compaction {
            turn: turn.parse().ok()?,
            text,
            trouble,
        }),
        _ => None,
    }
}
