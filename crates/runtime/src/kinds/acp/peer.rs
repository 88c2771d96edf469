//! The program of a coding agent, which communicates in lines of JSON.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::time::timeout;
use unisono_model::client::SurrogateJoiner;
use unisono_session::agent::{Acp, Command};
use unisono_session::run::RunCause;

use super::options::NewSession;
use super::protocol::{self, AUTH_REQUIRED, AuthMethod, Initialized, Message, RpcError, VERSION};
use crate::agent::Failure;
use crate::kinds::command;
use crate::process::lines::{Lines, NoLine, preview};

/// The timeout for starting an agent and opening a session; some agents are downloaded first.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of consecutive lines that are not messages.
const NOISE_LINES_MAX: u32 = 100;
/// The maximum number of characters of a reason, which may contain text of the agent.
const REASON_CHARS: usize = 4_000;
/// The maximum number of methods to log in of a reason.
const LOGINS_SHOWN: usize = 5;
/// The maximum number of bytes that an agent leaves unread.
const UNREAD_BYTES_MAX: usize = 1024 * 1024;

/// A coding agent.
pub(super) struct Peer {
    program: Arc<str>,
    lines: Lines,
    surrogates: SurrogateJoiner,
    stdin: ChildStdin,
    /// Bytes to write, and the number of written ones.
    out: Vec<u8>,
    written: usize,
    /// The maximum number of bytes to write.
    most: usize,
    requests: u64,
    chatter: u32,
    /// The last line that was not a message.
    last_noise: Option<String>,
    logins: Vec<AuthMethod>,
}

impl Peer {
    /// Starts the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(command: &Command) -> Result<Peer, Failure> {
        let (lines, stdin) = Lines::start(command).map_err(command::failure)?;
        Ok(Peer {
            program: command.program.clone(),
            lines,
            surrogates: SurrogateJoiner::default(),
            stdin,
            out: Vec::new(),
            written: 0,
            most: 0,
            requests: 0,
            chatter: 0,
            last_noise: None,
            logins: Vec::new(),
        })
    }

    /// Opens a session in this directory, and sets its options.
    ///
    /// # Errors
    /// The agent does not answer, speaks another version, wants a login, or has other options.
    pub(super) async fn open(&mut self, directory: &str, acp: &Acp) -> Result<NewSession, Failure> {
        self.initialize().await?;
        let mut session = self.new_session(directory, acp.login.as_deref()).await?;
        for (option, value) in &acp.options {
            let set = session.request(option, value);
            let set = set.map_err(|wrong| self.failure(RunCause::BadInput, &wrong))?;
            let result: Value = self.ask(set.method, &set.params).await?;
            session.set(&set, result);
        }
        Ok(session)
    }

    async fn initialize(&mut self) -> Result<(), Failure> {
        let us = json!({"name": "unisono", "version": env!("CARGO_PKG_VERSION")});
        let capabilities =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let params = json!({"protocolVersion": VERSION, "clientCapabilities": capabilities,
            "clientInfo": us});
        let initialized: Initialized = self.ask("initialize", &params).await?;
        let version = initialized.protocol_version;
        if version != VERSION {
            let what = format!(
                "speaks version {version} of the Agent Client Protocol; only version {VERSION} is supported"
            );
            return Err(self.failure(RunCause::Rejected, &what));
        }
        self.logins = initialized.auth_methods.unwrap_or_default();
        Ok(())
    }

    /// Opens a session; logs in by the method `login` if the agent requires it.
    async fn new_session(
        &mut self,
        directory: &str,
        login: Option<&str>,
    ) -> Result<NewSession, Failure> {
        let params = json!({"cwd": directory, "mcpServers": []});
        match (self.answer("session/new", &params).await?, login) {
            (Err(error), Some(login)) if error.code == AUTH_REQUIRED => {
                self.log_in(login).await?;
                self.ask("session/new", &params).await
            }
            (Err(error), _) => Err(self.refusal("session/new", &error)),
            (Ok(result), _) => self.read("session/new", result),
        }
    }

    async fn log_in(&mut self, login: &str) -> Result<(), Failure> {
        if !self.logins.iter().any(|offered| offered.id == login) {
            let what = format!("has no login `{login}`; it has {}", self.describe_logins());
            return Err(self.failure(RunCause::BadInput, &what));
        }
        let params = json!({"methodId": login});
        let result = self.answer("authenticate", &params).await?;
        match result {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refusal("authenticate", &error)),
        }
    }

    /// Sends a request and returns its result.
    async fn ask<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, Failure> {
        match self.answer(method, params).await? {
            Ok(result) => self.read(method, result),
            Err(error) => Err(self.refusal(method, &error)),
        }
    }

    /// Sends a request and returns its result or its error. Requests of the agent are refused
    /// meanwhile.
    async fn answer(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, RpcError>, Failure> {
        let id = self.request(method, params);
        let answer = async {
            loop {
                let message = self.message().await?;
                match (message.method, message.id) {
                    (None, Some(Value::Number(answered))) if answered.as_u64() == Some(id) => {
                        return Ok((message.result, message.error));
                    }
                    (Some(method), Some(id)) => self.reply(&protocol::unknown(&id, &method))?,
                    _ => {}
                }
            }
        };
        let answer = timeout(START_TIMEOUT, answer).await;
        let (result, error) = answer.unwrap_or_else(|_| {
            let wait = START_TIMEOUT.as_secs();
            let noise = self.describe_noise();
            let what = format!("did not answer `{method}` within {wait} s{noise}");
            Err(self.failure(RunCause::Timeout, &what))
        })?;
        Ok(match error {
            Some(error) => Err(error),
            None => Ok(result),
        })
    }

    /// Parses the result of a request.
    ///
    /// # Errors
    /// The result does not follow the protocol.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        method: &str,
        result: Value,
    ) -> Result<T, Failure> {
        serde_json::from_value(result).map_err(|error| {
            let what = format!("answered `{method}` with an invalid result: {error}");
            self.failure(RunCause::BadOutput, &what)
        })
    }

    pub(super) fn refusal(&self, method: &str, error: &RpcError) -> Failure {
        if error.code != AUTH_REQUIRED {
            let what = format!("refuses `{method}`: {}", error.text());
            return self.failure(RunCause::Rejected, &what);
        }
        let methods = match self.logins.is_empty() {
            true => String::new(),
            false => {
                let logins = self.describe_logins();
                format!(" and set `login` to one of its methods ({logins})")
            }
        };
        let what = format!(
            "wants a login: run it by hand once and log in, or pass its key on by name with \
             `env_pass`{methods}; it says: {}",
            error.text()
        );
        self.failure(RunCause::Rejected, &what)
    }

    /// The methods by which a client can log in, for an error text.
    fn describe_logins(&self) -> String {
        let each = self.logins.iter().take(LOGINS_SHOWN);
        let each = each.map(|login| format!("`{}`: {}", login.id, login.name));
        let each: Vec<String> = each.collect();
        match each.is_empty() {
            true => "none".to_owned(),
            false => each.join(", "),
        }
    }

    /// Queues a request; returns its number.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        self.send(&protocol::request(self.requests, method, params));
        self.most = self.out.len() + UNREAD_BYTES_MAX;
        self.requests
    }

    /// Writes a response.
    ///
    /// # Errors
    /// The agent does not read its input.
    pub(super) fn reply(&mut self, response: &Value) -> Result<(), Failure> {
        if self.out.len() > self.most {
            let what = "does not read the responses to its requests";
            return Err(self.failure(RunCause::BadOutput, what));
        }
        self.send(response);
        Ok(())
    }

    /// Queues a line, which is written while the next message is awaited.
    pub(super) fn send(&mut self, message: &Value) {
        self.out.extend(message.to_string().into_bytes());
        self.out.push(b'\n');
    }

    /// The next message. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The program has ended, or it does not follow the protocol.
    pub(super) async fn message(&mut self) -> Result<Message, Failure> {
        loop {
            let line = tokio::select! {
                wrote = self.stdin.write(&self.out[self.written..]), if !self.out.is_empty() => {
                    self.wrote(wrote.ok());
                    continue;
                }
                line = self.lines.next() => line,
            };
            let line = line.map_err(|silent| self.no_message(&silent))?;
            if let Some(message) = self.parse(&line)? {
                return Ok(message);
            }
        }
    }

    /// An agent that does not read has ended, or will time out.
    fn wrote(&mut self, bytes: Option<usize>) {
        self.written += bytes.unwrap_or_default();
        if bytes.is_none_or(|bytes| bytes == 0) || self.written >= self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// The message in a line. Other lines, such as output of a library or of a program that starts
    /// the agent, are ignored, also if they only begin like a message, or are a log in JSON.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Message>, Failure> {
        if let Some(object) = self.object(line) {
            let is_message = object.get("jsonrpc").is_some();
            match serde_json::from_value(object) {
                Ok(message) => {
                    self.chatter = 0;
                    return Ok(Some(message));
                }
                Err(error) if is_message => {
                    let what = format!(
                        "sent a line that is not JSON-RPC ({error}): {}",
                        preview(line)
                    );
                    return Err(self.failure(RunCause::BadOutput, &what));
                }
                Err(_) => {}
            }
        }
        if !line.is_empty() {
            self.chatter += 1;
            self.last_noise = Some(preview(line));
        }
        match self.chatter > NOISE_LINES_MAX {
            true => {
                let what = format!(
                    "does not speak the Agent Client Protocol{}",
                    self.describe_noise()
                );
                Err(self.failure(RunCause::BadOutput, &what))
            }
            false => Ok(None),
        }
    }

    /// The JSON object in a line, with whole characters.
    fn object(&mut self, line: &[u8]) -> Option<Value> {
        if !line.starts_with(b"{") {
            return None;
        }
        let text = String::from_utf8_lossy(line);
        serde_json::from_str(&self.surrogates.join_halves(&text)).ok()
    }

    /// The lines that were not messages, for an error text.
    fn describe_noise(&self) -> String {
        let stderr = self.lines.stderr_tail();
        let noise = self.last_noise.as_ref();
        let noise = noise.map_or_else(String::new, |noise| {
            format!("; it wrote no message: {noise}")
        });
        match &*stderr {
            "" => noise,
            stderr => format!("{noise}; its standard error ends: {stderr}"),
        }
    }

    fn no_message(&self, end: &NoLine) -> Failure {
        let cause = match end {
            NoLine::Long => RunCause::BadOutput,
            NoLine::Ended(_) | NoLine::Lost(_) => RunCause::Exit,
        };
        let noise = self.last_noise.as_ref();
        let noise = noise.map_or_else(String::new, |noise| {
            format!("; it wrote no message: {noise}")
        });
        self.failure(cause, &format!("{end}{noise}"))
    }

    pub(super) fn failure(&self, cause: RunCause, what: &str) -> Failure {
        let what: String = what.chars().take(REASON_CHARS).collect();
        Failure::new(cause, format!("`{}` {what}", self.program))
    }

    /// Kills the program and its descendants.
    pub(super) async fn end(self) {
        drop(self.stdin);
        self.lines.end().await;
    }
}
