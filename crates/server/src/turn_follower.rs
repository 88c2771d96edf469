//! Follows a turn: live or, if the owner of its session cannot be asked, in the journal.
//!
//! The journal is read again each second: it has no progress, and another daemon writes it.

use std::time::Duration;

use axum::http::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;
use unisono::follow::{Follower, StoredFollower};
use unisono::{Error, Local};
use unisono_api::turn_event::TurnUpdate;
use unisono_context::{SessionId, TurnId};

use crate::forwarded::is_forwarded;

/// The pause between two reads of a journal if nothing is new.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Waits until the program stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A closed channel also means that the program stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

pub(crate) enum TurnFollower {
    /// This daemon works on the session.
    Live(Box<Follower>),
    /// Another daemon works on the session.
    Stored(Box<StoredFollower>, Pauses),
}

impl TurnFollower {
    /// Follows a turn. `after`: as for [`Local::follower`]. `pauses`: how the journal is read if another
    /// daemon owns the session; none: that is an error.
    ///
    /// # Errors
    /// As [`Local::open`] and [`Local::follower`].
    pub(crate) async fn open(
        local: &Local,
        (session, turn): (SessionId, TurnId),
        after: Option<u64>,
        pauses: Option<Pauses>,
    ) -> Result<TurnFollower, Error> {
        let Some(pauses) = pauses else {
            let handle = local.open(session).await?;
            return Ok(local.follower(handle, turn, after).await?.into());
        };
        if !is_of_a_command(local, session).await {
            match local.open(session).await {
                Ok(handle) => return Ok(local.follower(handle, turn, after).await?.into()),
                Err(error) if error.session_of_another().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let follower = local.stored_follower(session, turn, after).await?;
        Ok(TurnFollower::Stored(follower.into(), pauses))
    }

    /// Follows an open turn from its current state on, with its earlier calls and summaries and the texts
    /// so far: the client has nothing of it. `pauses`: as for [`TurnFollower::open`].
    ///
    /// # Errors
    /// As [`TurnFollower::open`].
    pub(crate) async fn rewound(
        local: &Local,
        (session, turn): (SessionId, TurnId),
        pauses: Option<Pauses>,
    ) -> Result<TurnFollower, Error> {
        let mut follower = TurnFollower::open(local, (session, turn), None, pauses).await?;
        match &mut follower {
            TurnFollower::Live(live) => live.rewind().await?,
            TurnFollower::Stored(stored, _) => {
                let whole = local.stored_follower(session, turn, Some(0)).await?;
                **stored = whole;
            }
        }
        Ok(follower)
    }

    /// As [`Follower::include_texts`]; a journal has no texts of current replies.
    pub(crate) fn include_texts(&mut self) {
        if let TurnFollower::Live(live) = self {
            live.include_texts();
        }
    }

    /// The next update; none after the end of the turn, or if the journal is not read any longer.
    ///
    /// # Errors
    /// The session is gone, or its journal cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<TurnUpdate>, Error> {
        let (follower, pauses) = match self {
            TurnFollower::Live(follower) => return follower.next().await,
            TurnFollower::Stored(follower, pauses) => (follower, pauses),
        };
        loop {
            if let Some(update) = follower.next().await? {
                return Ok(Some(update));
            }
            if follower.has_ended() || !pauses.wait().await {
                return Ok(None);
            }
        }
    }
}

/// Whether a live program without an address works on a session. It cannot be asked, and opening the session
/// would wait until it ends, or for a whole lease. False if the database does not respond: an own session may
/// be in memory.
pub(crate) async fn is_of_a_command(local: &Local, session: SessionId) -> bool {
    let owner = local.owner(session).await.ok().flatten();
    owner.is_some_and(|owner| owner.announced.address.is_none())
}

impl From<Follower> for TurnFollower {
    fn from(follower: Follower) -> TurnFollower {
        TurnFollower::Live(follower.into())
    }
}

/// The pauses between the reads of a journal, up to the end of its stream.
pub(crate) struct Pauses {
    ends: Option<Instant>,
    stopping: watch::Receiver<bool>,
}

impl Pauses {
    /// Pauses until the program stops or, with `ends_after`, until that time is over.
    pub(crate) fn new(stopping: &watch::Receiver<bool>, ends_after: Option<Duration>) -> Pauses {
        Pauses {
            ends: ends_after.map(|time| Instant::now() + time),
            stopping: stopping.clone(),
        }
    }

    /// The same for a request of a client. None if another daemon has forwarded the request: that one
    /// reads the journal.
    pub(crate) fn for_request(
        headers: &HeaderMap,
        stopping: &watch::Receiver<bool>,
        ends_after: Option<Duration>,
    ) -> Option<Pauses> {
        (!is_forwarded(headers)).then(|| Pauses::new(stopping, ends_after))
    }

    /// Waits until the journal is read again; false if the stream ends instead.
    pub(crate) async fn wait(&mut self) -> bool {
        if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(READ_EVERY) => true,
            () = stopped(&mut self.stopping) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;
    use unisono::{Ask, Completion, Conversation, LanguageModel, Reply, Request, Tokens};
    use unisono_api::turn_event::TurnEvent;

    use super::*;

    /// Says the second word when it may.
    struct Halting(Arc<Notify>);

    impl LanguageModel for Halting {
        fn window(&self) -> Tokens {
            Tokens(50_000)
        }

        fn complete(&self, request: Request) -> Completion<'_> {
            Box::pin(async move {
                request.listener.report_text("one ");
                self.0.notified().await;
                request.listener.report_text("two");
                Ok(Reply::text("one two"))
            })
        }
    }

    /// The next text; none if some was missed.
    async fn next_text(follower: &mut TurnFollower) -> Option<String> {
        loop {
            match follower.next().await.unwrap().unwrap().event {
                TurnEvent::Text { text, .. } => return Some(text),
                TurnEvent::Missed => return None,
                _ => {}
            }
        }
    }

    #[tokio::test]
    async fn an_open_turn_is_followed_with_the_text_so_far() {
        let directory = tempfile::tempdir().unwrap();
        let go = Arc::new(Notify::new());
        let local = Local::builder()
            .directory(directory.path())
            .default_model("own/halting", Halting(go.clone()))
            .in_memory();
        let local = local.start().await.unwrap();
        let session = Conversation::new("Slow").user("Hello.");
        let session = local.import(session).await.unwrap();
        let ask = Ask::new("Go on.").agents([""; 0]);
        let turn = local.begin(&session, &ask).await.unwrap();
        let of = (session.id(), turn);
        let mut early = TurnFollower::open(&local, of, Some(0), None).await.unwrap();
        assert_eq!(next_text(&mut early).await.as_deref(), Some("one "));
        let mut rewound = TurnFollower::rewound(&local, of, None).await.unwrap();
        let mut current = TurnFollower::open(&local, of, None, None).await.unwrap();
        current.include_texts();
        for late in [&mut rewound, &mut current] {
            let first = late.next().await.unwrap().unwrap().event;
            assert!(matches!(first, TurnEvent::State(_)), "{first:?}");
            assert_eq!(next_text(late).await.as_deref(), Some("one "));
        }
        go.notify_one();
        for follower in [&mut early, &mut rewound, &mut current] {
            assert_eq!(next_text(follower).await.as_deref(), Some("two"));
        }
    }
}
