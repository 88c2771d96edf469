//! Messages of clients: a message begins a task, or answers waiting calls of a task.

use std::sync::Arc;

use a2a::{Message, SendMessageConfiguration, SendMessageRequest, TaskPushNotificationConfig};
use serde_json::Value;
use unisono::Local;
use unisono::fmt;
use unisono::tasks::{TaskId, Tasks};
use unisono_api::service::{Sessions as _, Turns};
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_context::digest::Hasher;
use unisono_context::{Digest, SessionId, TurnId};
use unisono_session::State;

use super::error::{Error, Kind};
use super::operations::{history, no_context, non_empty, task_ended};
use super::parts::SEPARATOR;
use super::{A2a, AGENTS, answered, card, message, parts, references};
use crate::turn_follower::{Pauses, TurnFollower};

/// Characters of a session's title.
const TITLE_CHARS: usize = 80;
/// Output modes that accept text of any type.
const ANY: [&str; 3] = [card::OUTPUT, "text/*", "*/*"];

/// A task that a message started or continued.
pub(super) struct TaskHandle {
    pub(super) id: TaskId,
    /// Its follower, if any; it started before the task continued.
    pub(super) follower: Option<TurnFollower>,
}

impl A2a {
    /// Takes a message to an agent, or to the team.
    pub(super) async fn send(
        self: &Arc<A2a>,
        agent: Option<&str>,
        request: SendMessageRequest,
        is_followed: bool,
    ) -> Result<TaskHandle, Error> {
        let message = &request.message;
        message::check(message)?;
        let configuration = request.configuration;
        if let Some(configuration) = &configuration {
            check_configuration(configuration)?;
        }
        let callback = configuration.and_then(|how| how.task_push_notification_config);
        if let Some(callback) = &callback {
            self.check_callback(callback, non_empty(&message.task_id).is_none())?;
        }
        let sent = match non_empty(&message.task_id) {
            Some(id) => self.answer(id, message, is_followed).await?,
            None => self.begin(agent, message, is_followed).await?,
        };
        if let Some(callback) = callback {
            self.add_callback(sent.id, callback).await?;
        }
        Ok(sent)
    }

    /// Registers the callback in a message. If the task has ended meanwhile, the response has the whole
    /// task.
    async fn add_callback(
        self: &Arc<A2a>,
        id: TaskId,
        callback: TaskPushNotificationConfig,
    ) -> Result<(), Error> {
        let config = TaskPushNotificationConfig {
            task_id: id.to_string(),
            ..callback
        };
        match self.create_callback(config).await {
            Err(error) if error.kind == Kind::UnsupportedOperation => Ok(()),
            created => created.map(drop),
        }
    }

    /// A task with its follower. `pauses`: as for [`TurnFollower::open`].
    pub(super) async fn task_handle(
        &self,
        id: TaskId,
        pauses: Option<Pauses>,
    ) -> Result<TaskHandle, Error> {
        let of = (id.session, id.turn);
        let mut follower = TurnFollower::open(&self.local, of, None, pauses).await?;
        follower.include_texts();
        Ok(TaskHandle {
            id,
            follower: Some(follower),
        })
    }

    /// A task, with its follower if it is followed.
    async fn handle_of(&self, id: TaskId, is_followed: bool) -> Result<TaskHandle, Error> {
        match is_followed {
            true => self.task_handle(id, None).await,
            false => Ok(TaskHandle { id, follower: None }),
        }
    }

    /// Decides about calls of a task that wait. The same message again decides nothing: other calls may
    /// wait then.
    async fn answer(
        &self,
        id: &str,
        message: &Message,
        is_followed: bool,
    ) -> Result<TaskHandle, Error> {
        let look = self.look_for(id).await?;
        let context = non_empty(&message.context_id);
        if context.is_some_and(|context| context != look.turn.session) {
            let why = format!("is not that of task {id}, which is {}", look.turn.session);
            return Err(Error::field("message.contextId", why));
        }
        let digest = answered::digest(look.id, message);
        if self.answered.contains(digest) {
            return self.handle_of(look.id, is_followed).await;
        }
        if look.status().is_ended() {
            return Err(task_ended(&look));
        }
        if look.waiting.is_empty() {
            let error = "the task is worked on and waits for nothing; a message with its contextId \
                         alone begins another one after it";
            return Err(Error::new(Kind::UnsupportedOperation, error).with_detail("taskId", id));
        }
        // Read after the calls: one that was decided meanwhile counts.
        let now = self.local.turn(&look.turn.session, &look.turn.turn).await?;
        let is_first = now.resumed_at.is_none();
        let answers = message::answers(message, &look.waiting, is_first)?;
        // The follower starts before the calls continue, so that their results are sent.
        let sent = self.handle_of(look.id, is_followed).await?;
        let handle = self.local.open(look.id.session).await?;
        self.answered.insert(digest);
        let answering = self.local.answer_calls(&handle, look.id.turn, &answers);
        if let Err(error) = answering.await {
            self.answered.remove(digest);
            return Err(error.into());
        }
        Ok(sent)
    }

    /// Begins a task. The same message again is the same task.
    async fn begin(
        &self,
        agent: Option<&str>,
        message: &Message,
        is_followed: bool,
    ) -> Result<TaskHandle, Error> {
        let text = message::task(message)?;
        let setup = self.local.setup();
        let hosts = &setup.loaded.config.attachments.allowed_hosts;
        let attachments = message::attachments(message, hosts)?;
        let key = key(agent, &message.message_id, &text);
        let (session, is_new) = self.session(message, key, &text).await?;
        let new = NewTurn {
            lead: agent.map(str::to_owned),
            // A directly addressed agent works without delegates.
            agents: agent.map(|_| Vec::new()),
            attachments,
            client_message_id: Some(message.message_id.clone()),
            client_parts: parts::layout(message),
            ..NewTurn::new(text)
        };
        let key = format!("a2a-{key}");
        let begun = self.begin_turn(session, message, new, &key).await;
        let turn = match begun {
            Ok(turn) => turn,
            Err(error) => {
                let name = session.to_string();
                if is_new && let Err(error) = self.local.delete_session(&name, false).await {
                    tracing::debug!(%session, %error, "a session without a turn is left");
                }
                return Err(error);
            }
        };
        self.handle_of(TaskId { session, turn }, is_followed).await
    }

    /// Begins the turn of a message in its session. A repeated message is the first one's turn, whatever
    /// has become of the tasks to which it refers.
    async fn begin_turn(
        &self,
        session: SessionId,
        message: &Message,
        new: NewTurn,
        key: &str,
    ) -> Result<TurnId, Error> {
        if !references::of_message(message).is_empty() {
            let (handle, key) = (self.local.open(session).await?, key.to_owned());
            let look = move |state: &State| state.turn_by_key(&key);
            if let Some((_, known)) = handle.inspect(look).await? {
                return Ok(known);
            }
        }
        let session = session.to_string();
        let references = self.references(message, &session).await?;
        let task = match (new.task.trim().is_empty(), references.is_empty()) {
            (_, true) => new.task,
            (true, false) => references,
            (false, false) => new.task + SEPARATOR + &references,
        };
        let asked = TurnRequest::Task(NewTurn { task, ..new });
        let begun = Turns::begin(&*self.local, &session, &asked, Some(key)).await?;
        let no_id = |_| Error::new(Kind::Internal, format!("{:?} is not a turn", begun.turn));
        begun.turn.parse().map_err(no_id)
    }

    /// The session of a message, and whether it was created for the message.
    async fn session(
        &self,
        message: &Message,
        key: Digest,
        text: &str,
    ) -> Result<(SessionId, bool), Error> {
        let Some(context) = non_empty(&message.context_id) else {
            let title = fmt::line(text, TITLE_CHARS);
            let (session, is_new) = self.tasks.session(&self.local, key, &title).await?;
            return Ok((session.id(), is_new));
        };
        let missing = || no_context("message.contextId", context);
        let session = context.parse().map_err(|_| missing())?;
        match self.local.open(session).await {
            Ok(handle) => Ok((handle.id(), false)),
            Err(error) => Err(Error::from(error).or_missing(missing)),
        }
    }
}

/// The session that the first message to an address began, here or at another daemon. None if the
/// body does not identify the message.
pub(crate) async fn session_of_message(
    local: &Local,
    path: &str,
    body: &[u8],
) -> Result<Option<SessionId>, unisono::Error> {
    match first_message(path, body) {
        Some(message) => Tasks::session_of_message(local, message).await,
        None => Ok(None),
    }
}

/// The key of a message that begins a session; none if it continues one.
fn first_message(path: &str, body: &[u8]) -> Option<Digest> {
    // The operation refuses an unreadable message.
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let places = ["/message", "/params/message"];
    let is_there = |at: &&str| body.pointer(at).is_some_and(Value::is_object);
    let at = places.into_iter().find(is_there)?;
    let message = message::parse(body.pointer_mut(at)?.take())?;
    let is_first =
        non_empty(&message.context_id).is_none() && non_empty(&message.task_id).is_none();
    let agent = path
        .strip_prefix(AGENTS)
        .and_then(|below| below.strip_prefix('/'))
        .and_then(|below| below.split('/').next());
    let text = message::task(&message).ok()?;
    is_first.then(|| key(agent, &message.message_id, &text))
}

fn check_configuration(configuration: &SendMessageConfiguration) -> Result<(), Error> {
    history(configuration.history_length)?;
    let modes = configuration.accepted_output_modes.iter().flatten();
    let modes: Vec<&str> = modes.map(String::as_str).collect();
    let is_taken = |mode: &&str| {
        // A media type may have parameters, such as a character set.
        let essence = mode.split(';').next().unwrap_or_default().trim();
        ANY.iter().any(|any| essence.eq_ignore_ascii_case(any))
    };
    if !modes.is_empty() && !modes.iter().any(is_taken) {
        let error = format!(
            "answers are {}; the client takes {modes:?} alone",
            card::OUTPUT
        );
        return Err(Error::new(Kind::ContentTypeNotSupported, error));
    }
    Ok(())
}

/// The same for the same message to the same agent, and for no other one: a client that uses an id
/// again for another text sends another message.
fn key(agent: Option<&str>, message: &str, text: &str) -> Digest {
    let mut hasher = Hasher::new("unisono/a2a-message", 1);
    hasher
        .bytes(agent.unwrap_or_default().as_bytes())
        .bytes(message.as_bytes())
        .bytes(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_text_in_any_words() {
        let check = |modes: &[&str]| {
            let configuration = serde_json::json!({"acceptedOutputModes": modes});
            check_configuration(&serde_json::from_value(configuration).unwrap())
        };
        let taken: [&[&str]; 5] = [
            &[],
            &["text/plain"],
            &["image/png", "text/*"],
            &["Text/Plain; charset=utf-8"],
            &["*/* ;q=0.1"],
        ];
        for modes in taken {
            check(modes).unwrap();
        }
        let refused: [&[&str]; 2] = [&["image/png; text/plain"], &["text/html", ""]];
        for modes in refused {
            let error = check(modes).unwrap_err();
            assert_eq!(error.kind, Kind::ContentTypeNotSupported, "{modes:?}");
        }
    }

    #[test]
    fn a_first_message_is_known_by_its_id_and_its_agent() {
        let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"When?"}]}"#;
        let rpc = format!(r#"{{"method":"SendMessage","params":{{"message":{message}}}}}"#);
        let rest = format!(r#"{{"message":{message}}}"#);
        let of_team = Some(key(None, "m", "When?"));
        assert_eq!(first_message("/a2a", rpc.as_bytes()), of_team);
        assert_eq!(first_message("/a2a/", rpc.as_bytes()), of_team);
        assert_eq!(first_message("/a2a/message:send", rest.as_bytes()), of_team);
        let lead = Some(key(Some("lead"), "m", "When?"));
        for (path, body) in [
            ("/a2a/agents/lead", &rpc),
            ("/a2a/agents/lead/message:send", &rest),
        ] {
            assert_eq!(first_message(path, body.as_bytes()), lead);
        }
        let within = |field: &str| rest.replace("\"role\"", &format!("{field}, \"role\""));
        let file =
            |raw: &str| rest.replace(r#"{"text""#, &format!(r#"{{"raw":"{raw}"}},{{"text""#));
        let of_file = first_message("/a2a", file("-_8").as_bytes());
        assert_eq!(of_file, first_message("/a2a", file("+/8=").as_bytes()));
        assert!(of_file.is_some());
        for other in [
            within("\"contextId\": \"c\""),
            within("\"taskId\": \"t\""),
            r#"{"params":{"id":"t"}}"#.to_owned(),
            "{".to_owned(),
        ] {
            assert_eq!(first_message("/a2a", other.as_bytes()), None, "{other}");
        }
    }
}
