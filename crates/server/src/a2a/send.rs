//! Messages of clients: each begins a task, or answers calls of one that wait.

use std::sync::Arc;

use a2a::{Message, SendMessageConfiguration, SendMessageRequest, TaskPushNotificationConfig};
use unisono::follow::Follower;
use unisono::short;
use unisono::tasks::TaskId;
use unisono_api::Code;
use unisono_api::service::{Sessions as _, Turns};
use unisono_api::turn::{Asked, NewTurn};
use unisono_context::digest::Hasher;
use unisono_context::{Digest, SessionId};

use super::error::{Error, Kind};
use super::operations::{check_tenant, ended, history, no_context, set};
use super::{Door, card, message};

/// Characters of a session's title.
const TITLE_CHARS: usize = 80;
/// What is taken as a wish for text, whatever its type.
const ANY: [&str; 3] = [card::OUTPUT, "text/*", "*/*"];

/// A task that was begun, or goes on.
pub(super) struct Sent {
    pub(super) id: TaskId,
    /// Who follows it, where somebody does: from before it went on.
    pub(super) follower: Option<Follower>,
    /// Whether it was begun before, so that some of what its agents say has come already.
    pub(super) from_middle: bool,
}

impl Door {
    /// Takes a message to an agent, or to the team.
    pub(super) async fn send(
        self: &Arc<Door>,
        agent: Option<&str>,
        request: SendMessageRequest,
        is_followed: bool,
    ) -> Result<Sent, Error> {
        check_tenant(request.tenant.as_deref())?;
        let message = &request.message;
        message::check(message)?;
        let configuration = request.configuration;
        if let Some(configuration) = &configuration {
            check_configuration(configuration)?;
        }
        let callback = configuration.and_then(|how| how.task_push_notification_config);
        if let Some(callback) = &callback {
            self.check_callback(callback)?;
        }
        let sent = match set(&message.task_id) {
            Some(id) => self.answer(id, message, is_followed).await?,
            None => self.begin(agent, message, is_followed).await?,
        };
        if let Some(callback) = callback {
            self.add_callback(sent.id, callback).await?;
        }
        Ok(sent)
    }

    /// Keeps the callback that a message brings along. A task that has ended meanwhile is told whole
    /// in the response.
    async fn add_callback(
        self: &Arc<Door>,
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

    /// A task, with who follows it.
    pub(super) async fn followed(&self, id: TaskId, from_middle: bool) -> Result<Sent, Error> {
        let handle = self.local.open(id.session).await?;
        let follower = self.local.follower(handle, id.turn, None).await?;
        Ok(Sent {
            id,
            follower: Some(follower),
            from_middle,
        })
    }

    /// Decides about calls of a task that wait.
    async fn answer(&self, id: &str, message: &Message, is_followed: bool) -> Result<Sent, Error> {
        let look = self.look_for(id).await?;
        let context = set(&message.context_id);
        if context.is_some_and(|context| context != look.turn.session) {
            let why = format!("is not that of task {id}, which is {}", look.turn.session);
            return Err(Error::field("message.contextId", why));
        }
        if look.status().is_ended() {
            return Err(ended(&look));
        }
        if look.waiting.is_empty() {
            let error = "the task is worked on and waits for nothing; a message with its contextId \
                         alone begins another one after it";
            return Err(Error::new(Kind::UnsupportedOperation, error).about("taskId", id));
        }
        let answers = message::answers(message, &look.waiting)?;
        // Before the calls go on, so that what they come back with is told.
        let sent = match is_followed {
            true => self.followed(look.id, true).await?,
            false => Sent {
                id: look.id,
                follower: None,
                from_middle: true,
            },
        };
        let handle = self.local.open(look.id.session).await?;
        self.local
            .answer_calls(&handle, look.id.turn, &answers)
            .await?;
        Ok(sent)
    }

    /// Begins a task. The same message again is the same task.
    async fn begin(
        &self,
        agent: Option<&str>,
        message: &Message,
        is_followed: bool,
    ) -> Result<Sent, Error> {
        let text = message::task(message)?;
        let attachments = message::attachments(message)?;
        let key = key(agent, &message.message_id);
        let (session, is_new) = self.session(message, key, &text).await?;
        let asked = Asked::Task(NewTurn {
            lead: agent.map(str::to_owned),
            // An agent that is asked by itself works alone.
            agents: agent.map(|_| Vec::new()),
            attachments,
            ..NewTurn::new(text)
        });
        let name = session.to_string();
        let begun = Turns::begin(&*self.local, &name, &asked, Some(&format!("a2a-{key}"))).await;
        let turn = match begun {
            Ok(turn) => turn,
            Err(error) => {
                if is_new && let Err(error) = self.local.delete_session(&name, false).await {
                    tracing::debug!(%session, %error, "a session without a turn is left");
                }
                return Err(match error.code() {
                    Code::KeyReused => Error::field("message.messageId", "another message had it"),
                    _ => error.into(),
                });
            }
        };
        let no_id = |_| Error::new(Kind::Internal, format!("{:?} is no turn", turn.turn));
        let id = TaskId {
            session,
            turn: turn.turn.parse().map_err(no_id)?,
        };
        match is_followed {
            true => self.followed(id, false).await,
            false => Ok(Sent {
                id,
                follower: None,
                from_middle: false,
            }),
        }
    }

    /// The session of a message, and whether that was made for it.
    async fn session(
        &self,
        message: &Message,
        key: Digest,
        text: &str,
    ) -> Result<(SessionId, bool), Error> {
        let Some(context) = set(&message.context_id) else {
            let title = short::line(text, TITLE_CHARS);
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

fn check_configuration(configuration: &SendMessageConfiguration) -> Result<(), Error> {
    history(configuration.history_length)?;
    let modes = configuration.accepted_output_modes.iter().flatten();
    let modes: Vec<&str> = modes.map(String::as_str).collect();
    let is_taken = |mode: &&str| ANY.iter().any(|any| mode.eq_ignore_ascii_case(any));
    if !modes.is_empty() && !modes.iter().any(is_taken) {
        let error = format!(
            "answers are {}; the client takes {modes:?} alone",
            card::OUTPUT
        );
        return Err(Error::new(Kind::ContentTypeNotSupported, error));
    }
    Ok(())
}

/// The same for the same message to the same agent, and for no other one.
fn key(agent: Option<&str>, message: &str) -> Digest {
    let mut hasher = Hasher::new("unisono/a2a-message", 1);
    hasher
        .bytes(agent.unwrap_or_default().as_bytes())
        .bytes(message.as_bytes());
    hasher.finish()
}
