//! A prompt is a turn: it is started, followed up to its end, and reported to the client.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use unisono_api::service::Service;
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_api::turn_event::TurnEvent;

use crate::client::{Client, Error};
use crate::protocol::{Prompt, StopReason};
use crate::updates::Updates;
use crate::{content, permission};

/// Asks the session. The turn goes on where the client leaves.
pub(crate) async fn run(
    service: Arc<dyn Service>,
    asked: Prompt,
    token: &CancellationToken,
    client: &Client,
) -> Result<StopReason, Error> {
    let session = asked.session_id.as_str();
    let new = NewTurn {
        attachments: content::attachments(&asked.prompt),
        ..NewTurn::new(content::text(&asked.prompt)?)
    };
    if token.is_cancelled() {
        return Ok(StopReason::Cancelled);
    }
    let begun = service
        .begin(session, &TurnRequest::Task(new), None)
        .await?;
    let mut followed = service.follow(session, &begun.turn, Some(0)).await?;
    let mut updates = Updates::new(&begun.turn);
    // What is asked is taken back with the end of the turn.
    let mut asking = JoinSet::new();
    let mut is_stopping = false;
    loop {
        let update = tokio::select! {
            update = followed.next() => update,
            () = token.cancelled(), if !is_stopping => {
                is_stopping = true;
                if let Err(error) = service.cancel_turn(session, &begun.turn).await {
                    // It has ended just now.
                    tracing::debug!(%error, "the turn is not cancelled");
                }
                continue;
            }
        };
        let gone = || Error::internal("the session is gone");
        let event = update.ok_or_else(gone)??.event;
        let waiting = match &event {
            TurnEvent::Waiting { calls } => calls.clone(),
            TurnEvent::State(state) => state.waiting.clone(),
            _ => Vec::new(),
        };
        let (sent, ended) = match event {
            TurnEvent::Ended(end) => {
                let (sent, ended) = updates.end(*end);
                (sent, Some(ended))
            }
            event => (updates.take(event), None),
        };
        for update in &sent {
            client.tell(session, update).await?;
        }
        if let Some(ended) = ended {
            return ended;
        }
        for call in waiting {
            let (service, client) = (service.clone(), client.clone());
            asking.spawn(permission::ask(service, session.to_owned(), call, client));
        }
    }
}
