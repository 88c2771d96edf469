//! Delivers callbacks: each change of a task's state and each question, until the task has ended.

use std::time::Duration;

use a2a::{StreamResponse, TaskPushNotificationConfig, TaskState};
use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use unisono::tasks::TaskId;
use unisono::{Callback, DeliveryError};
use unisono_api::turn_event::TurnEvent;
use unisono_context::Digest;
use unisono_context::digest::Hasher;
use unisono_runtime::clock;

use super::A2a;
use super::error::{Error, Kind};
use super::follow;
use super::http::JSON;
use super::operations::non_empty;
use super::task::Extent;

/// Maximum number of attempts per delivery.
const ATTEMPTS: u32 = 6;
/// Delay before the second attempt. It doubles with each further attempt.
const WAIT: Duration = Duration::from_millis(250);
/// Maximum delay that a receiver may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Period between reads of a task whose session another daemon owns, and of tokens after a failure.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The header of a client's own token.
const TOKEN: &str = "x-a2a-notification-token";
const ID_DIGITS: usize = 32;

#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) task: TaskId,
    pub(super) callback: Callback,
    pub(super) config: TaskPushNotificationConfig,
    /// Whether deliveries have the token; otherwise it only signs them.
    pub(super) is_token_sent: bool,
    /// The digest of the token that registered the callback, if one did.
    pub(super) registrant: Option<String>,
}

/// What was delivered last: the state of the task, and the id of its message, such as a question.
type Delivered = (TaskState, Option<String>);

/// Delivers each state of a task, and each question, to a callback, until the task has ended, or the
/// token that registered the callback is revoked or expires.
pub(super) async fn deliver_all(a2a: &A2a, delivery: Delivery) {
    let Some(registrant) = &delivery.registrant else {
        return deliver_until_ended(a2a, &delivery).await;
    };
    let task = delivery.task;
    // Another program may have created or revoked the token.
    while let Err(error) = a2a.local.take_tokens().await {
        tracing::warn!(%task, %error, "the tokens cannot be read now; the deliveries to a callback wait");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // No token has an unreadable digest.
    let Ok(token) = registrant.parse::<Digest>() else {
        return;
    };
    tokio::select! {
        biased;
        () = a2a.local.wait_until_invalid(token) => {
            tracing::info!(%task, "the deliveries to a callback end with the token that registered it");
        }
        () = deliver_until_ended(a2a, &delivery) => {}
    }
}

async fn deliver_until_ended(a2a: &A2a, delivery: &Delivery) {
    let mut last = None;
    loop {
        match follow(a2a, delivery, &mut last).await {
            Ok(()) => return,
            // Another daemon owns the session, or the store is unavailable.
            Err(error) if error.kind == Kind::Unavailable => tokio::time::sleep(LOOK_EVERY).await,
            Err(error) => {
                let task = delivery.task;
                tracing::warn!(%task, %error, "the deliveries to a callback end");
                return;
            }
        }
    }
}

async fn follow(a2a: &A2a, delivery: &Delivery, last: &mut Option<Delivered>) -> Result<(), Error> {
    // The state on disk is delivered even if another daemon owns the session.
    if look(a2a, delivery, last).await?.is_terminal() {
        return Ok(());
    }
    let mut follower = follow::follower(&a2a.local, delivery.task).await?;
    loop {
        let state = look(a2a, delivery, last).await?;
        if state.is_terminal() {
            return Ok(());
        }
        loop {
            let Some(event) = follow::next(&a2a.local, &mut follower).await? else {
                let message = "this daemon does not own the session any more";
                return Err(Error::new(Kind::Unavailable, message));
            };
            if may_change(&event, &state) {
                break;
            }
        }
    }
}

/// Reads the state of a task, and delivers it if it, or its message, differs from the last one.
async fn look(
    a2a: &A2a,
    delivery: &Delivery,
    last: &mut Option<Delivered>,
) -> Result<TaskState, Error> {
    let look = a2a.look(delivery.task).await?;
    let task = look.task(Extent::all(&a2a.public_url));
    let state = task.status.state.clone();
    let message = task.status.message.as_ref();
    let delivered = (
        state.clone(),
        message.map(|message| message.message_id.clone()),
    );
    if last.as_ref() != Some(&delivered) {
        let changed = task.status.timestamp.map(|at| at.timestamp_millis());
        let id = id(delivery, &delivered, changed.unwrap_or_default());
        // Serialising a task does not fail.
        let body = serde_json::to_vec(&StreamResponse::Task(task)).unwrap_or_default();
        send(delivery, &id, body.into()).await;
        *last = Some(delivered);
    }
    Ok(state)
}

fn may_change(event: &TurnEvent, state: &TaskState) -> bool {
    match event {
        TurnEvent::Waiting { .. } | TurnEvent::Decided { .. } | TurnEvent::Ended(_) => true,
        TurnEvent::Frozen { .. } | TurnEvent::Runs { .. } => *state == TaskState::Submitted,
        _ => false,
    }
}

/// Sends a body until the callback accepts it or the attempts are used up.
async fn send(delivery: &Delivery, id: &str, body: Bytes) {
    let mut wait = WAIT;
    for attempt in 1..=ATTEMPTS {
        let seconds = clock::now().0 / 1_000;
        let headers = headers(delivery, id, seconds, &body);
        let task = delivery.task;
        let Err(error) = delivery.callback.send(&headers, body.clone()).await else {
            return;
        };
        match pause(&error, wait).filter(|_| attempt < ATTEMPTS) {
            Some(pause) => {
                tracing::debug!(%task, %error, attempt, "a delivery to a callback failed; it is tried again");
                tokio::time::sleep(pause).await;
                wait *= 2;
            }
            None => {
                tracing::warn!(%task, %error, attempt, "a delivery to a callback failed; the callback misses this state");
                return;
            }
        }
    }
}

/// The delay before the next attempt; none after a permanent error.
fn pause(error: &DeliveryError, usual: Duration) -> Option<Duration> {
    match error {
        DeliveryError::Refused(_) => None,
        DeliveryError::Failed(_) => Some(usual),
        DeliveryError::Later(_, asked) => Some((*asked).min(LONGEST_WAIT).max(usual)),
    }
}

/// The id of a delivery. Repeated deliveries of the same state have the same id. Two questions may have
/// been asked at the same time.
fn id(delivery: &Delivery, (state, message): &Delivered, changed_ms: i64) -> String {
    let mut hasher = Hasher::new("unisono/a2a-notification", 2);
    let callback = delivery.config.id.as_deref().unwrap_or_default();
    let state = serde_json::to_string(state).unwrap_or_default();
    hasher
        .bytes(delivery.task.to_string().as_bytes())
        .bytes(callback.as_bytes())
        .bytes(state.as_bytes())
        .bytes(message.as_deref().unwrap_or_default().as_bytes())
        .bytes(&changed_ms.to_be_bytes());
    let mut id = hasher.finish().to_string();
    id.truncate(ID_DIGITS);
    id
}

/// The headers of a delivery: the token of the client, and a signature by Standard Webhooks.
fn headers(
    delivery: &Delivery,
    id: &str,
    seconds: i64,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    let config = &delivery.config;
    let token = non_empty(&config.token).unwrap_or_default();
    let mut headers = vec![
        ("content-type", JSON.to_owned()),
        ("a2a-version", a2a::VERSION.to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", signature(token, id, seconds, body)),
    ];
    if delivery.is_token_sent {
        headers.push((TOKEN, token.to_owned()));
    }
    if let Some(how) = &config.authentication {
        let credentials = non_empty(&how.credentials).unwrap_or_default();
        let value = format!("{} {credentials}", how.scheme);
        headers.push(("authorization", value.trim_end().to_owned()));
    }
    headers
}

fn signature(secret: &str, id: &str, seconds: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut signing = hmac::Context::with_key(&key);
    signing.update(format!("{id}.{seconds}.").as_bytes());
    signing.update(body);
    format!("v1,{}", STANDARD.encode(signing.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause() {
        let why = || "it was answered with status 503".to_owned();
        for (error, expected) in [
            (DeliveryError::Refused(why()), None),
            (DeliveryError::Failed(why()), Some(WAIT)),
            (DeliveryError::Later(why(), Duration::ZERO), Some(WAIT)),
            (DeliveryError::Later(why(), WAIT * 3), Some(WAIT * 3)),
            (
                DeliveryError::Later(why(), Duration::MAX),
                Some(LONGEST_WAIT),
            ),
        ] {
            assert_eq!(pause(&error, WAIT), expected, "{error:?}");
        }
    }

    /// The value is that of `printf 'msg_1.1614265330.{"test": 2432232314}' | openssl dgst -sha256
    /// -hmac secret -binary | base64`.
    #[test]
    fn what_is_told_is_signed_over_its_id_its_time_and_its_body() {
        let body = br#"{"test": 2432232314}"#;
        let signed = signature("secret", "msg_1", 1_614_265_330, body);
        assert_eq!(signed, "v1,T49pOLi9Y59Pd0W8q5zvP9qTIc61pr4XaCUOi3i6Wj4=");
        assert_ne!(signed, signature("secret", "msg_2", 1_614_265_330, body));
        assert_ne!(signed, signature("secret", "msg_1", 1_614_265_331, body));
        assert_ne!(signed, signature("other", "msg_1", 1_614_265_330, body));
    }
}
