//! One client: its requests are answered in the order of their arrival. Prompts run concurrently,
//! so that they can be cancelled.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use unisono_api::service::Service;
use unisono_api::turn::Turn;

use crate::client::{
    CANCEL_REQUEST, Client, Disconnected, Error, INVALID_REQUEST, UNKNOWN_METHOD, UNREADABLE,
};
use crate::lines::Lines;
use crate::protocol::{OneSession, Prompt};
use crate::sessions::Sessions;
use crate::{commands, prompt};

const VERSION: u32 = 1;
/// Bytes of one message of a client at most.
pub const LONGEST_MESSAGE: usize = 32 << 20;
/// Maximum concurrent prompts of one client.
const PROMPTS: usize = 64;

/// Serves one client until its input ends, or until `stop` returns the time that its prompts have
/// to end. `directory` is the working directory. Open turns continue.
///
/// # Errors
///
/// The input cannot be read, or the output cannot be written.
pub async fn serve(
    service: Arc<dyn Service>,
    directory: PathBuf,
    input: impl AsyncRead,
    output: impl AsyncWrite,
    stop: impl Future<Output = Duration>,
) -> io::Result<()> {
    let (client, lines) = Client::new();
    let connection = Connection {
        sessions: Sessions::new(service.clone(), directory),
        service,
        client,
        is_initialized: false,
        working: JoinSet::new(),
        prompts: HashMap::new(),
        deadline: None,
    };
    let writing = write(lines, output);
    tokio::pin!(writing);
    tokio::select! {
        read = connection.read(input, stop) => read?,
        written = &mut writing => return written,
    }
    // Queued answers are written.
    writing.await
}

async fn write(mut lines: mpsc::Receiver<String>, output: impl AsyncWrite) -> io::Result<()> {
    tokio::pin!(output);
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        if lines.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

struct Connection {
    service: Arc<dyn Service>,
    sessions: Sessions,
    client: Client,
    is_initialized: bool,
    working: JoinSet<()>,
    /// The current prompts and joined turns, by session.
    prompts: HashMap<String, Vec<Current>>,
    /// The end of the time for prompts, once the program is about to stop.
    deadline: Option<Instant>,
}

/// A current prompt, or a turn that was joined.
struct Current {
    /// The id of the request; null for a turn.
    request: Value,
    /// Cancels it.
    token: CancellationToken,
}

impl Connection {
    async fn read(
        mut self,
        input: impl AsyncRead,
        stop: impl Future<Output = Duration>,
    ) -> io::Result<()> {
        tokio::pin!(input, stop);
        let mut lines = Lines::new(input, LONGEST_MESSAGE);
        while self.deadline.is_none() || !self.working.is_empty() {
            let deadline = self.deadline.unwrap_or_else(Instant::now);
            let line = tokio::select! {
                line = lines.next() => line?,
                drain = &mut stop, if self.deadline.is_none() => {
                    self.deadline = Some(Instant::now() + drain);
                    continue;
                }
                Some(_) = self.working.join_next() => continue,
                () = tokio::time::sleep_until(deadline), if self.deadline.is_some() => {
                    tracing::warn!("prompts were not finished in time");
                    break;
                }
            };
            let taken = match line {
                Some(Ok(line)) => self.take(&line).await,
                Some(Err(bad)) => {
                    let error = Error::new(bad.code(), bad.to_string());
                    self.client.answer(&Value::Null, Err(error)).await
                }
                None => break,
            };
            if taken.is_err() {
                break;
            }
        }
        self.client.close();
        Ok(())
    }

    async fn take(&mut self, line: &str) -> Result<(), Disconnected> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(wrong) => {
                let error = Error::new(UNREADABLE, wrong.to_string());
                return self.client.answer(&Value::Null, Err(error)).await;
            }
        };
        if let Err(wrong) = check(&message) {
            let error = Error::new(INVALID_REQUEST, wrong);
            // An id that is none cannot be returned.
            let id = message.get("id").filter(|id| is_id(id));
            let id = id.cloned().unwrap_or_default();
            return self.client.answer(&id, Err(error)).await;
        }
        // An id that is null is an id: only a message without one is a notification.
        let id = message.get("id").cloned();
        let params = message.get("params").filter(|params| !params.is_null());
        let params = params.cloned().unwrap_or(json!({}));
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) if !self.is_initialized && method != "initialize" => {
                let wrong = "the first request must be `initialize`";
                let error = Error::new(INVALID_REQUEST, wrong);
                self.client.answer(&id, Err(error)).await
            }
            // Some clients write an id that is null into notifications.
            (Some("session/cancel"), None | Some(Value::Null)) => {
                if let Ok(OneSession { session_id }) = read(params) {
                    self.cancel(&session_id);
                }
                Ok(())
            }
            (Some(CANCEL_REQUEST), None | Some(Value::Null)) => {
                self.cancel_request(&params["requestId"]);
                Ok(())
            }
            (Some("session/prompt"), Some(id)) => self.prompt(id, params).await,
            (Some(method), Some(id)) => self.request(method, &id, params).await,
            (Some(_), None) => Ok(()),
            (None, Some(id))
                if message.get("result").is_some() || message.get("error").is_some() =>
            {
                self.client.resolve(&id, message);
                Ok(())
            }
            (None, id) => {
                let error = Error::new(INVALID_REQUEST, "a message has a method or a result");
                let id = id.unwrap_or_default();
                self.client.answer(&id, Err(error)).await
            }
        }
    }

    /// Answers a request other than a prompt. After a session is opened, its open turns are followed.
    async fn request(
        &mut self,
        method: &str,
        id: &Value,
        params: Value,
    ) -> Result<(), Disconnected> {
        let named = params["sessionId"].as_str().map(str::to_owned);
        let opened = named.clone();
        let opened = opened.filter(|_| matches!(method, "session/load" | "session/resume"));
        let open = match &opened {
            Some(session) => self.open_turns(session).await,
            None => Vec::new(),
        };
        // A turn without an input, such as a compaction, repeats no message.
        let has_input = |turn: &Turn| turn.task.is_some() && turn.state != "queued";
        let answer = self
            .answer(method, params, open.iter().any(has_input))
            .await;
        let opened = opened.filter(|_| answer.is_ok());
        self.answered((method, named), id, answer).await?;
        if let Some(session) = opened {
            self.join(&session, open, method == "session/load");
        }
        Ok(())
    }

    /// The turns that are followed when a session is opened: none if a prompt already follows them.
    async fn open_turns(&self, session: &str) -> Vec<Turn> {
        let mut current = self.prompts.get(session).into_iter().flatten();
        let is_followed = current.any(|one| !one.token.is_cancelled());
        match is_followed {
            true => Vec::new(),
            false => self.sessions.open_turns(session).await,
        }
    }

    /// Follows open turns of a session that was opened, up to the limit of prompts.
    fn join(&mut self, session: &str, turns: Vec<Turn>, is_whole: bool) {
        for Turn { turn, .. } in turns {
            if self.admitted().is_err() {
                tracing::warn!(turn, "too many turns are followed: this one is not");
                return;
            }
            let token = self.register(session, Value::Null);
            let (service, client) = (self.service.clone(), self.client.clone());
            let session = session.to_owned();
            self.working.spawn(async move {
                let place = (&*session, &*turn);
                prompt::join(service, place, is_whole, &token, &client).await;
                token.cancel();
            });
        }
    }

    async fn answer(
        &mut self,
        method: &str,
        params: Value,
        has_open_turn: bool,
    ) -> Result<Value, Error> {
        let sessions = &mut self.sessions;
        match method {
            "initialize" => {
                self.is_initialized = true;
                Ok(initialized())
            }
            "session/new" => sessions.create(read(params)?).await,
            "session/load" => {
                let client = &self.client;
                sessions.load(read(params)?, has_open_turn, client).await
            }
            "session/resume" => sessions.resume(read(params)?).await,
            "session/list" => sessions.list(read(params)?).await,
            "session/set_config_option" => sessions.set(read(params)?).await,
            "session/close" => {
                let OneSession { session_id } = read(params)?;
                sessions.close(&session_id);
                self.cancel(&session_id);
                Ok(json!({}))
            }
            _ => Err(Error::new(
                UNKNOWN_METHOD,
                format!("there is no method {method:?}"),
            )),
        }
    }

    /// Writes an answer. When a session is opened, it also sends the list of commands: after the
    /// answer, because a client may not know the session before it, but with the replay of a
    /// loaded one.
    async fn answered(
        &self,
        (method, named): (&str, Option<String>),
        id: &Value,
        answer: Result<Value, Error>,
    ) -> Result<(), Disconnected> {
        let session = match (method, &answer) {
            ("session/new", Ok(answer)) => answer["sessionId"].as_str().map(str::to_owned),
            ("session/load" | "session/resume", Ok(_)) => named,
            _ => None,
        };
        let Some(session) = session else {
            return self.client.answer(id, answer).await;
        };
        if method == "session/load" {
            self.client.notify(&session, &commands::available()).await?;
            return self.client.answer(id, answer).await;
        }
        self.client.answer(id, answer).await?;
        self.client.notify(&session, &commands::available()).await
    }

    async fn prompt(&mut self, id: Value, params: Value) -> Result<(), Disconnected> {
        let asked = match self.admitted().and_then(|()| self.prompted(params)) {
            Ok(asked) => asked,
            Err(error) => return self.client.answer(&id, Err(error)).await,
        };
        // Registered before the next message is read, because that message may cancel it.
        let token = self.register(&asked.session_id, id.clone());
        let (service, client) = (self.service.clone(), self.client.clone());
        self.working.spawn(async move {
            let stopped = prompt::run(service, asked, &token, &client).await;
            let stopped = prompt::outcome(stopped, token.is_cancelled());
            token.cancel();
            let answer = stopped.map(|reason| json!({"stopReason": reason}));
            // The client may have left.
            let _ = client.answer(&id, answer).await;
        });
        Ok(())
    }

    fn prompted(&self, params: Value) -> Result<Prompt, Error> {
        let asked: Prompt = read(params)?;
        self.sessions.check_open(&asked.session_id)?;
        Ok(asked)
    }

    /// A token by which the client cancels work on a session. `request`: see [`Current::request`].
    fn register(&mut self, session: &str, request: Value) -> CancellationToken {
        let token = CancellationToken::new();
        self.prompts.retain(|_, current| {
            current.retain(|one| !one.token.is_cancelled());
            !current.is_empty()
        });
        let of_session = self.prompts.entry(session.to_owned());
        of_session.or_default().push(Current {
            request,
            token: token.clone(),
        });
        token
    }

    /// Whether another prompt can be worked on.
    fn admitted(&self) -> Result<(), Error> {
        if self.deadline.is_some() {
            let wrong = "the program is stopping: ask again when it is back";
            return Err(Error::internal(wrong));
        }
        if self.working.len() >= PROMPTS {
            let wrong = format!("{PROMPTS} prompts are worked on: wait for one to end");
            return Err(Error::internal(wrong));
        }
        Ok(())
    }

    fn cancel(&mut self, session: &str) {
        for current in self.prompts.remove(session).unwrap_or_default() {
            current.token.cancel();
        }
    }

    /// Cancels the prompt with this id of its request. Other requests are answered at once.
    fn cancel_request(&self, id: &Value) {
        let current = self.prompts.values().flatten();
        for one in current.filter(|one| !id.is_null() && one.request == *id) {
            one.token.cancel();
        }
    }
}

/// Whether a message has the form of JSON-RPC.
fn check(message: &Value) -> Result<(), &'static str> {
    if message["jsonrpc"] != "2.0" {
        return Err("a message is an object with `jsonrpc`: \"2.0\"");
    }
    match message.get("id") {
        Some(id) if !is_id(id) => Err("`id` must be a number, a text or null"),
        _ => Ok(()),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_number() || id.is_string() || id.is_null()
}

fn initialized() -> Value {
    json!({
        "protocolVersion": VERSION,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "authMethods": [],
        "agentInfo": {"name": "unisono", "title": "unisono", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    serde_json::from_value(params).map_err(|wrong| Error::invalid(wrong.to_string()))
}
