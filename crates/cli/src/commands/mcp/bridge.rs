//! The Model Context Protocol on standard input and output, where a daemon has the store open: each
//! message goes to the daemon's own server of it, and what that says comes back.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use unisono_client::{Client, Error};

use crate::live::Interrupts;
use crate::output::Out;
use crate::problem::{Problem, Result};

/// Lines that may wait to be read.
const LINES: usize = 64;
/// The code of a message that cannot be read.
const UNREADABLE: i64 = -32_700;
/// The code of one that could not be answered.
const FAILED: i64 = -32_603;

/// Passes messages on until there are no more, the program is stopped, or the daemon is gone.
pub(super) async fn run(out: &Out, client: Client, interrupts: &mut Interrupts) -> Result<()> {
    let (say, mut said) = mpsc::channel(LINES);
    let mut lines = lines();
    let mut bridge = Bridge {
        client: Arc::new(client),
        say,
        asked: JoinSet::new(),
        open: HashMap::new(),
        revision: None,
    };
    let mut reading = true;
    // Once nobody asks any more, what was asked is answered.
    while reading || !bridge.asked.is_empty() {
        tokio::select! {
            biased;
            _ = interrupts.next() => return Ok(()),
            Some(text) = said.recv() => out.data(text),
            Some(done) = bridge.asked.join_next(), if !bridge.asked.is_empty() => gone(done)?,
            line = lines.recv(), if reading => match line {
                Some(line) => bridge.take(&line).await?,
                None => reading = false,
            },
        }
    }
    while let Ok(text) = said.try_recv() {
        out.data(text);
    }
    Ok(())
}

/// The lines of standard input, read on a thread that the program does not wait for.
fn lines() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        let stdin = std::io::stdin().lock().lines();
        for line in stdin.map_while(std::io::Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Ends the program where the daemon is gone.
fn gone(done: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<()> {
    match done {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(())) => Ok(()),
        Err(error) if error.is_cancelled() => Ok(()),
        Err(error) => Err(Problem::failed(error)),
    }
}

/// A client of this program, and what it asked.
struct Bridge {
    client: Arc<Client>,
    /// What the client of this program is told.
    say: mpsc::Sender<Value>,
    asked: JoinSet<Result<(), Error>>,
    /// By the id of the request.
    open: HashMap<String, AbortHandle>,
    /// The revision that was agreed on.
    revision: Option<Arc<str>>,
}

impl Bridge {
    async fn take(&mut self, line: &str) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => {
                let refusal = refused(&Value::Null, UNREADABLE, &error.to_string());
                return self.say.send(refusal).await.map_err(Problem::failed);
            }
        };
        let revision = self.revision.clone();
        match message["method"].as_str() {
            Some("initialize") => {
                let answer = passed(&self.say, &self.client, &message, None).await?;
                self.revision = answer.and_then(|answer| {
                    let revision = answer.pointer("/result/protocolVersion")?.as_str()?;
                    Some(Arc::from(revision))
                });
            }
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].to_string();
                if let Some(request) = self.open.remove(&id) {
                    request.abort();
                }
            }
            _ if message.get("id").is_none() => {
                passed(&self.say, &self.client, &message, revision.as_deref()).await?;
            }
            _ => {
                let (client, say) = (self.client.clone(), self.say.clone());
                let id = message["id"].to_string();
                self.open.retain(|_, request| !request.is_finished());
                let request = self.asked.spawn(async move {
                    let answer = passed(&say, &client, &message, revision.as_deref());
                    answer.await.map(|_| ())
                });
                self.open.insert(id, request);
            }
        }
        Ok(())
    }
}

/// Passes a message on and tells what comes back; gives the last of it. What the daemon refuses is
/// the answer; an error is that it is gone.
async fn passed(
    say: &mpsc::Sender<Value>,
    client: &Client,
    message: &Value,
    revision: Option<&str>,
) -> Result<Option<Value>, Error> {
    let told = async {
        let mut messages = client.mcp(message, revision).await?;
        let mut last = None;
        while let Some(text) = messages.next().await? {
            // A stream begins with an event that says nothing.
            if let Ok(said) = serde_json::from_str::<Value>(&text) {
                // Whoever would print it is gone with the program.
                let _ = say.send(said.clone()).await;
                last = Some(said);
            }
        }
        Ok::<_, Error>(last)
    };
    match told.await {
        Ok(last) => Ok(last),
        Err(error) => {
            if let Some(id) = message.get("id") {
                let _ = say.send(refused(id, FAILED, &error.to_string())).await;
            }
            match error {
                Error::Unreachable { .. } => Err(error),
                _ => Ok(None),
            }
        }
    }
}

fn refused(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
