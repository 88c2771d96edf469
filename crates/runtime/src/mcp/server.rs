//! The actor of one MCP server: connects on demand, and again after the connection is lost.
//!
//! Owns the connection, or its program. A caller requests the connection through
//! [`Servers`](super::Servers) and then uses it directly, so that calls do not wait for each other.
//! A lost server is connected again on demand, after a pause. A server that is lost too often is
//! suspended for a while, and its callers get an error at once. The number of waiting callers is
//! limited by the number of active runs. The actor ends with the supervisor, and the program with
//! the actor.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use unisono_context::Timestamp;

use super::connection::{self, Connection, ConnectionError, Opened};
use super::stdio::Program;
use super::{Server, ServerFault, ServerTransport, http, names, within};
use crate::address::ActorResult;
use crate::clock;
use crate::restart::{History, Intensity, Verdict};

pub(crate) type Reply = oneshot::Sender<Result<Connection, ServerFault>>;

pub(crate) enum Msg {
    /// Return the connection; connect if there is none.
    Connect(Reply),
    /// An attempt to connect has ended.
    Opened {
        attempt: u64,
        result: Result<Box<Opened>, ConnectFailure>,
    },
    Lost {
        attempt: u64,
    },
    PauseEnded,
}

pub(crate) struct ConnectFailure {
    reason: String,
    /// The server may accept the handshake of the previous revision.
    use_legacy_handshake: bool,
}

pub(crate) struct Args {
    pub(crate) server: Arc<Server>,
    pub(crate) intensity: Intensity,
}

pub(crate) struct ToolServer;

/// The state of the connection.
enum Phase {
    Idle,
    Opening,
    Live(Connection),
    /// Lost a moment ago.
    Pausing,
    /// Lost too often.
    Suspended {
        until: Timestamp,
        reason: String,
    },
}

pub(crate) struct State {
    args: Args,
    phase: Phase,
    waiting: Vec<Reply>,
    /// Cancels the connection, or the attempt to connect.
    guard: Option<DropGuard>,
    attempt: u64,
    history: History,
    /// It accepts only the handshake of the previous revision, as far as is known.
    use_legacy_handshake: bool,
}

impl State {
    fn on_connect(&mut self, myself: &ActorRef<Msg>, reply: Reply) {
        if let Phase::Suspended { until, reason } = &self.phase {
            if is_suspended(clock::now(), *until, self.args.intensity) {
                let fault = self.args.server.fault(reason.as_str());
                return drop(reply.send(Err(fault)));
            }
            self.phase = Phase::Idle;
        }
        match &self.phase {
            // The caller may have been cancelled.
            Phase::Live(connection) => drop(reply.send(Ok(connection.clone()))),
            Phase::Idle => {
                self.waiting.push(reply);
                self.open(myself);
            }
            Phase::Opening | Phase::Pausing | Phase::Suspended { .. } => self.waiting.push(reply),
        }
    }

    fn open(&mut self, myself: &ActorRef<Msg>) {
        self.phase = Phase::Opening;
        self.attempt += 1;
        let (attempt, use_legacy_handshake) = (self.attempt, self.use_legacy_handshake);
        let cancelled = CancellationToken::new();
        self.guard = Some(cancelled.clone().drop_guard());
        let server = self.args.server.clone();
        let myself = myself.clone();
        tokio::spawn(async move {
            let limit = server.start_timeout;
            let opening = open(&server, use_legacy_handshake, cancelled);
            let result = tokio::time::timeout(limit, opening).await;
            let result = result.unwrap_or_else(|_| {
                let limit = limit.as_secs_f64();
                Err((
                    format!("did not answer within {limit:.1} s of its start"),
                    false,
                ))
            });
            let result = result
                .map(Box::new)
                .map_err(|(reason, use_legacy_handshake)| ConnectFailure {
                    reason,
                    use_legacy_handshake,
                });
            // Without its actor the connection ends here.
            let _ = myself.send_message(Msg::Opened { attempt, result });
        });
    }

    fn on_opened(
        &mut self,
        myself: &ActorRef<Msg>,
        attempt: u64,
        result: Result<Box<Opened>, ConnectFailure>,
    ) {
        if attempt != self.attempt {
            return;
        }
        match result {
            Ok(opened) => {
                let (connection, service) = *opened;
                for reply in self.waiting.drain(..) {
                    let _ = reply.send(Ok(connection.clone()));
                }
                self.phase = Phase::Live(connection);
                let myself = myself.clone();
                tokio::spawn(async move {
                    // However it ended, it is lost.
                    let _ = service.waiting().await;
                    let _ = myself.send_message(Msg::Lost { attempt });
                });
            }
            Err(refused) if refused.use_legacy_handshake && !self.use_legacy_handshake => {
                self.use_legacy_handshake = true;
                self.open(myself);
            }
            Err(refused) => {
                // It accepts neither handshake now, so nothing is known about the next attempt.
                self.use_legacy_handshake = false;
                let fault = self.args.server.fault(refused.reason.as_str());
                for reply in self.waiting.drain(..) {
                    let _ = reply.send(Err(fault.clone()));
                }
                self.failed(myself, &refused.reason);
            }
        }
    }

    fn on_lost(&mut self, myself: &ActorRef<Msg>, attempt: u64) {
        if attempt != self.attempt {
            return;
        }
        if let Phase::Live(connection) = &self.phase {
            let reason = connection.error_text();
            self.failed(myself, &reason);
        }
    }

    /// Records a failure: no connection for a while.
    fn failed(&mut self, myself: &ActorRef<Msg>, reason: &str) {
        self.guard = None;
        let server = &self.args.server.name;
        tracing::warn!(%server, reason, "a tool server was lost");
        let (now, jitter) = (clock::now(), clock::new_id() as u64);
        let intensity = self.args.intensity;
        match self.history.failed(intensity, now, jitter) {
            Verdict::After { pause_ms } => {
                self.phase = Phase::Pausing;
                let myself = myself.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    let _ = myself.send_message(Msg::PauseEnded);
                });
            }
            Verdict::GiveUp => {
                let (times, ms) = (intensity.max + 1, intensity.within_ms);
                let seconds = ms / 1_000;
                let reason = format!(
                    "failed {times} times within {seconds} s and is left alone for a while; the \
                     last time it {reason}"
                );
                let until = now.plus_ms(ms);
                self.phase = Phase::Suspended { until, reason };
            }
        }
    }

    fn on_pause_ended(&mut self, myself: &ActorRef<Msg>) {
        if matches!(self.phase, Phase::Pausing) {
            self.phase = Phase::Idle;
            if !self.waiting.is_empty() {
                self.open(myself);
            }
        }
    }
}

/// Whether a suspension lasts. A longer one than there is means that the clock was set back.
fn is_suspended(now: Timestamp, until: Timestamp, intensity: Intensity) -> bool {
    (1..=intensity.within_ms).contains(&until.ms_since(now))
}

async fn open(
    server: &Server,
    use_legacy_handshake: bool,
    cancelled: CancellationToken,
) -> Result<Opened, (String, bool)> {
    let trouble = ConnectionError::default();
    match &server.transport {
        ServerTransport::Program(command) => {
            let program = Program::start(command, trouble.clone());
            let program = program.map_err(|reason| (reason, false))?;
            connection::open(program, trouble, use_legacy_handshake, cancelled).await
        }
        ServerTransport::Address {
            url,
            headers,
            token,
        } => {
            let way = (url, &headers[..], token.as_ref());
            http::open(way, trouble, use_legacy_handshake, cancelled).await
        }
        ServerTransport::Unset { reason } => Err((format!("cannot be used: {reason}"), false)),
    }
}

/// Connects to a server, lists its tools and closes the connection.
pub(super) async fn list_once(server: &Server) -> Result<usize, String> {
    let limit = server.start_timeout;
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    let opening = async {
        match open(server, false, cancelled.clone()).await {
            Err((_, true)) => open(server, true, cancelled.clone()).await,
            opened => opened,
        }
        .map_err(|(reason, _)| reason)
    };
    let (connection, _service) = within(limit, "did not answer", opening).await?;
    let tools = within(limit, "did not list its tools", connection.list(server)).await?;
    Ok(names::offers(server, &tools).len())
}

impl Actor for ToolServer {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        Ok(State {
            args,
            phase: Phase::Idle,
            waiting: Vec::new(),
            guard: None,
            attempt: 0,
            history: History::default(),
            use_legacy_handshake: false,
        })
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        match message {
            Msg::Connect(reply) => state.on_connect(&myself, reply),
            Msg::Opened { attempt, result } => state.on_opened(&myself, attempt, result),
            Msg::Lost { attempt } => state.on_lost(&myself, attempt),
            Msg::PauseEnded => state.on_pause_ended(&myself),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::fixture::sh;

    /// A server that logs the first line that it gets, and ends.
    fn dying(log: &str) -> Server {
        Server {
            name: "files".into(),
            transport: ServerTransport::Program(sh(&format!("head -n 1 >> '{log}'"))),
            start_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            tools: Vec::new(),
            contracts: Vec::new(),
            skills: false,
        }
    }

    #[test]
    fn a_clock_that_was_set_back_ends_a_suspension() {
        let intensity = Intensity {
            within_ms: 60_000,
            ..Intensity::default()
        };
        let until = Timestamp(100_000);
        for (now, expected) in [
            (40_000, true),
            (99_999, true),
            (100_000, false),
            (39_999, false),
        ] {
            assert_eq!(
                is_suspended(Timestamp(now), until, intensity),
                expected,
                "{now}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_that_ended_at_its_start_is_asked_again_for_its_revisions() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let args = Args {
            server: Arc::new(dying(log.to_str().unwrap())),
            intensity: Intensity::default(),
        };
        let (actor, _) = ToolServer::spawn(None, ToolServer, args).await.unwrap();
        for _ in 0..2 {
            let (reply, connected) = oneshot::channel();
            assert!(actor.send_message(Msg::Connect(reply)).is_ok());
            connected.await.unwrap().unwrap_err();
        }
        actor.stop(None);
        let log = std::fs::read_to_string(log).unwrap();
        let methods = log.lines().map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["method"].as_str().unwrap().to_owned()
        });
        let methods: Vec<String> = methods.collect();
        let once = ["server/discover", "initialize"];
        assert_eq!(methods, [once, once].concat());
    }
}
