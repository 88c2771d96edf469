//! One connection: reads a request, asks the script, carries out the plan, and again.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::act::{Act, Stage};
use crate::answer::{Answer, Usage};
use crate::cache::{CacheSim, Writes};
use crate::dialect::{Dialect, Endpoint, Mode};
use crate::http::{Broken, Wire};
use crate::plan::{Fate, Plan, Step};
use crate::recorded::{Log, Number, Recorded};
use crate::refusal::Refusal;
use crate::reply::{Asked, no_such_path, page_of, reply};
use crate::script::Script;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Log,
    pub(crate) script: std::sync::RwLock<Script>,
    /// Answers requests for a number of tokens; none: a token for every four bytes.
    pub(crate) counts: Option<Script>,
    pub(crate) cache: Option<CacheSim>,
    /// Documents by path, for those who look at the server.
    pub(crate) pages: std::collections::BTreeMap<String, String>,
    /// Whether the script is played for every method and path.
    pub(crate) every_path: bool,
}

/// The endpoint of a request to a server that is no provider.
const ANY: Endpoint = Endpoint {
    dialect: Dialect::OpenAiChat,
    mode: Mode::Whole,
    stream_usage: false,
};

/// The client has gone.
struct Gone;

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Gone {
        Gone
    }
}

/// A response under way; its end is noted when this is dropped.
struct Flight<'a>(&'a Log);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, socket: TcpStream, connection: u64) {
    if shared.script().hangs_up(Stage::Accept) {
        return;
    }
    let mut wire = Wire::new(socket);
    loop {
        let request = match wire.head().await {
            Ok(head) => Recorded { connection, ..head },
            Err(Broken::Gone) => return,
            Err(Broken::Malformed(reason)) => return malformed(&mut wire, reason).await,
        };
        match exchange(&shared, &mut wire, request).await {
            Ok(Fate::KeepAlive) => {}
            Ok(Fate::Close | Fate::Silence) => return,
            Ok(Fate::Reset) => {
                // A socket that is closed without lingering is reset.
                let _ = wire.socket.set_zero_linger();
                return;
            }
            Err(Gone) => return shared.log.abandoned(),
        }
    }
}

/// One request and its response.
async fn exchange(shared: &Shared, wire: &mut Wire, mut request: Recorded) -> Result<Fate, Gone> {
    // Who only looks at the server asks no model: it is not told of.
    let looks = request.method == "GET" || request.path.ends_with("/api/show");
    if looks && !shared.every_path {
        let page = shared.pages.get(&request.path);
        let plan = page.map(|body| page_of(body));
        let plan = plan.unwrap_or_else(|| no_such_path(&request.method, &request.path));
        return match wire.body(&mut request).await {
            Ok(()) => shared.perform(wire, plan, None).await,
            Err(_) => Err(Gone),
        };
    }
    let number = shared.log.begun(&request);
    let _flight = Flight(&shared.log);
    if shared.script().hangs_up(Stage::Headers) {
        shared.log.received(number, &request);
        return Ok(Fate::Close);
    }
    let outcome = wire.body(&mut request).await;
    shared.log.received(number, &request);
    match outcome {
        Ok(()) => {}
        Err(Broken::Gone) => return Err(Gone),
        Err(Broken::Malformed(reason)) => {
            malformed(wire, reason).await;
            return Ok(Fate::Close);
        }
    }
    let (plan, writes) = shared.plan(number, &request);
    let fate = shared.perform(wire, plan, writes.as_ref()).await?;
    let last = request.header("connection") == Some("close");
    Ok(if last && fate == Fate::KeepAlive {
        Fate::Close
    } else {
        fate
    })
}

impl Shared {
    fn script(&self) -> Script {
        let script = self.script.read();
        script
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// The plan for a request, and what it writes to the cache once its answer begins.
    fn plan(&self, number: Number, request: &Recorded) -> (Plan, Option<Writes>) {
        let endpoint = match self.every_path {
            true => Some(ANY),
            false => request.endpoint().filter(|_| request.method == "POST"),
        };
        let Some(endpoint) = endpoint else {
            return (no_such_path(&request.method, &request.path), None);
        };
        let act = match (&self.counts, endpoint.mode) {
            (Some(counts), Mode::Count) => counts.act(request),
            (None, Mode::Count) => counted(request),
            _ => self.script().act(request),
        };
        let cache = self.cache.as_ref().filter(|_| endpoint.mode != Mode::Count);
        let admitted = cache.map(|cache| {
            let Endpoint { dialect, .. } = endpoint;
            cache.admit(number.0, dialect, &request.path, &request.body)
        });
        let (used, writes) = admitted.unzip();
        let asked = Asked {
            endpoint,
            number: number.0,
            cache: used,
            now: SystemTime::now(),
        };
        (reply(&act, &asked), writes.filter(|_| act.is_answer()))
    }

    /// Carries out a plan.
    async fn perform(
        &self,
        wire: &mut Wire,
        plan: Plan,
        writes: Option<&Writes>,
    ) -> Result<Fate, Gone> {
        for step in plan.steps {
            match step {
                Step::Write(bytes) => {
                    wire.socket.write_all(&bytes).await?;
                    // Gives the client, which may share the thread, a chance to read it alone.
                    tokio::task::yield_now().await;
                }
                Step::Repeat { block, times } => {
                    for _ in 0..times {
                        wire.socket.write_all(&block).await?;
                    }
                }
                Step::Wait(gate) if gate.is_open() => gate.pass().await,
                Step::Wait(gate) => while_there(wire, gate.pass()).await?,
                Step::Pause(pause) => while_there(wire, tokio::time::sleep(pause)).await?,
                Step::Begin => {
                    if let (Some(cache), Some(writes)) = (&self.cache, writes) {
                        cache.begin(writes);
                    }
                }
            }
        }
        match plan.fate {
            Fate::Silence => while_there(wire, std::future::pending())
                .await
                .map(|()| Fate::Silence),
            fate => Ok(fate),
        }
    }
}

/// Waits, unless the client leaves.
async fn while_there(wire: &mut Wire, wait: impl Future<Output = ()>) -> Result<(), Gone> {
    tokio::select! {
        biased;
        () = wait => Ok(()),
        () = wire.gone() => Err(Gone),
    }
}

/// The number of tokens of a request: one for every four bytes.
fn counted(request: &Recorded) -> Act {
    let tokens = request.body.len().div_ceil(4) as u64;
    Act::answer(Answer::empty().usage(Usage::new(tokens, 0)))
}

async fn malformed(wire: &mut Wire, reason: &str) {
    let refusal = Refusal::BadRequest(reason.to_owned());
    let body = refusal.body(Dialect::OpenAiChat);
    let length = body.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    // Nobody is left to tell if this fails.
    let _ = wire.socket.write_all(response.as_bytes()).await;
}
