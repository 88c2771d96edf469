//! A prompt is a turn: it is started, followed up to its end, and reported to the client.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;
use unisono_api::service::Service;
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_api::turn_event::TurnEvent;
use unisono_api::usage::UsageQuery;

use crate::client::{Client, Error};
use crate::commands::{self, Command};
use crate::content;
use crate::permission::Questions;
use crate::protocol::{Chunk, Prompt, StopReason, Update};
use crate::updates::Updates;

/// Begins a turn of the session. The turn continues if the client disconnects.
pub(crate) async fn run(
    service: Arc<dyn Service>,
    asked: Prompt,
    token: &CancellationToken,
    client: &Client,
) -> Result<StopReason, Error> {
    let session = asked.session_id.as_str();
    let (text, attachments) = (
        content::text(&asked.prompt)?,
        content::attachments(&asked.prompt),
    );
    if token.is_cancelled() {
        return Ok(StopReason::Cancelled);
    }
    let command = commands::read(&text).filter(|_| attachments.is_empty());
    let request = match command {
        Some(Command::Turn(request)) => *request,
        Some(Command::Context) => {
            let said = commands::context(&*service, session).await?;
            return say(session, said, client).await;
        }
        Some(Command::Agents) => {
            let said = commands::agents(&*service, session).await?;
            return say(session, said, client).await;
        }
        None => TurnRequest::Task(NewTurn {
            attachments,
            ..NewTurn::new(text)
        }),
    };
    let begun = service.begin(session, &request, None).await?;
    let updates = Updates::new(&begun.turn);
    follow(
        service,
        (session, &begun.turn),
        Some(0),
        updates,
        token,
        client,
    )
    .await
}

/// The outcome of a prompt. A cancelled prompt does not fail, whatever its cancellation interrupted.
pub(crate) fn outcome(
    ended: Result<StopReason, Error>,
    is_cancelled: bool,
) -> Result<StopReason, Error> {
    match ended {
        Err(error) if is_cancelled => {
            tracing::debug!(?error, "the error of a cancelled prompt");
            Ok(StopReason::Cancelled)
        }
        ended => ended,
    }
}

/// Follows a turn that another client began, or this one before it was restarted. Calls that wait
/// for a person are asked again. `is_whole`: its earlier updates are sent, too.
pub(crate) async fn join(
    service: Arc<dyn Service>,
    (session, turn): (&str, &str),
    is_whole: bool,
    token: &CancellationToken,
    client: &Client,
) {
    let after = is_whole.then_some(0);
    let updates = Updates::joined(turn);
    let ended = follow(service, (session, turn), after, updates, token, client).await;
    if let Err(error) = ended {
        tracing::info!(?error, turn, "a turn of a loaded session");
    }
}

/// Sends the result of a command, which is not part of the conversation.
async fn say(session: &str, text: String, client: &Client) -> Result<StopReason, Error> {
    let update = Update::AgentMessageChunk(Chunk {
        content: text.into(),
        message_id: client.message_id(),
    });
    client.notify(session, &update).await?;
    Ok(StopReason::EndTurn)
}

/// Follows a turn up to its end; `after`: see [`unisono_api::service::Turns::follow`].
async fn follow(
    service: Arc<dyn Service>,
    (session, turn): (&str, &str),
    after: Option<u64>,
    mut updates: Updates,
    token: &CancellationToken,
    client: &Client,
) -> Result<StopReason, Error> {
    let mut followed = service.follow(session, turn, after).await?;
    let mut questions = Questions::new(token);
    let mut is_stopping = false;
    loop {
        let update = tokio::select! {
            update = followed.next() => update,
            () = token.cancelled(), if !is_stopping => {
                is_stopping = true;
                if let Err(error) = service.cancel_turn(session, turn).await {
                    // It has ended just now.
                    tracing::debug!(%error, "the turn is not cancelled");
                }
                continue;
            }
        };
        let gone = || Error::internal("the session is gone");
        let mut event = update.ok_or_else(gone)??.event;
        updates.remove_others(&mut event);
        if let TurnEvent::Decided { call, .. } = &event {
            questions.withdraw(call);
        }
        let waiting = match &event {
            TurnEvent::Waiting { calls } => calls.clone(),
            TurnEvent::State(state) => state.waiting.clone(),
            _ => Vec::new(),
        };
        let (sent, ended) = match event {
            TurnEvent::Ended(end) => {
                let cost = session_cost(&*service, session).await;
                let (sent, ended) = updates.end(*end, cost);
                (sent, Some(ended))
            }
            event => (updates.take(event), None),
        };
        for update in &sent {
            client.notify(session, update).await?;
        }
        if let Some(ended) = ended {
            questions.close().await;
            return ended;
        }
        for call in waiting {
            questions.ask(&service, session, call, client);
        }
    }
}

/// The cost of a session up to now, in dollars; none if a price is unknown.
async fn session_cost(service: &dyn Service, session: &str) -> Option<f64> {
    let query = UsageQuery {
        session: Some(session.to_owned()),
        ..UsageQuery::default()
    };
    match service.usage(&query).await {
        Ok(usage) => usage.total.cost_usd,
        Err(error) => {
            tracing::debug!(%error, session, "the cost of the session is not known");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_prompt_does_not_fail() {
        let failed = || Err(Error::internal("model_failed: the connection was closed"));
        assert_eq!(outcome(failed(), true), Ok(StopReason::Cancelled));
        assert_eq!(outcome(failed(), false), failed());
        for reason in [StopReason::EndTurn, StopReason::Cancelled] {
            assert_eq!(outcome(Ok(reason), true), Ok(reason));
        }
    }
}
