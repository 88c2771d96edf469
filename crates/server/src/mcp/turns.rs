//! Tools that start work in a session and report its progress.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{InputResponses, ProgressNotificationParam};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use unisono::Error;
use unisono::follow::Follower;
use unisono::labels::MCP_CHANNEL;
use unisono::turn_view;
use unisono_api::service::Sessions as _;
use unisono_api::token::Scope;
use unisono_api::turn::{Member, Turn};
use unisono_api::turn_event::TurnEvent;
use unisono_context::{CallId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::Refusal;
use unisono_session::machine::Import;
use unisono_session::run::calls::CallDecision;

use super::answer::TurnProgress;
use super::tools::{ASK, AskArgs, COMPACT, CompactArgs, DELEGATE, DelegateArgs, WAIT, WaitArgs};
use super::waiting::{self, QuestionMethod, Reply};
use super::{AnswerResult, Server, body_share, note, tasks};
use crate::waiting::refusal;
use unisono::Local;
use unisono::ask::Ask;
use unisono::service::requests;

/// Characters of a task that name a new session.
const TITLE_CHARS: usize = 60;
/// The time after which a client that wants progress gets a notification without news. Clients end calls
/// that are silent for some minutes.
pub const QUIET: Duration = Duration::from_secs(30);

pub(super) async fn ask(
    server: &Server,
    local: &Local,
    asked: AskArgs,
    context: &RequestContext<RoleServer>,
) -> AnswerResult {
    let task = filled("task", &asked.task)?;
    let ask = Ask::new(task).branch(asked.branch.as_str());
    let ask = match &asked.lead {
        Some(lead) => ask.lead(lead.as_str()),
        None => ask,
    };
    let ask = match &asked.agents {
        Some(agents) => ask.agents(agents.iter().map(String::as_str)),
        None => ask,
    };
    let session = session(local, asked.session.as_deref(), task, &ask).await?;
    drop(asked);
    let followed = begin(server, local, session, ask, context).await?;
    followed.into_answer(ASK)
}

/// Continues a turn after a question to the client's user. Without an answer the client is asked again.
pub(super) async fn go_on(
    server: &Server,
    local: &Local,
    (tool, state, answers): (&str, &str, Option<InputResponses>),
    context: &RequestContext<RoleServer>,
) -> AnswerResult {
    let (asked, call, reply) = waiting::decode_answer(state, answers)?;
    let session = open_session(local, &asked.session).await?;
    let turn = turn_id(&asked.turn)?;
    match reply {
        Some(Reply::Decided(decision)) => {
            local.check_scope(Scope::Approve).map_err(|error| {
                note(context).refused();
                error.to_string()
            })?;
            decide(local, &session, call, decision).await?;
        }
        Some(_) => {
            // The call may have been decided elsewhere.
            let waiting = waiting::waiting(&session, turn).await?;
            if !waiting.is_empty() {
                let now = read(local, &session, turn).await?;
                return TurnProgress::waiting(&session, (turn, now), &waiting).into_answer(tool);
            }
        }
        None => {}
    }
    let followed = join(local, &session, turn, tool != WAIT).await?;
    let progress = follow(server, local, &session, followed, context).await?;
    progress.into_answer(tool)
}

/// Decides about a call as the client's user did, unless another caller has decided first.
pub(super) async fn decide(
    local: &Local,
    session: &Handle,
    call: CallId,
    decision: CallDecision,
) -> Result<(), String> {
    match local.decide_in(session, call, decision).await {
        Ok(())
        | Err(Error::Runtime(RuntimeError::Refused(
            Refusal::AlreadyDecided(_) | Refusal::UnknownCall(_),
        ))) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Waits for the end of an existing turn. A cancelled call leaves the turn running.
pub(super) async fn wait(
    server: &Server,
    local: &Local,
    waited: WaitArgs,
    context: &RequestContext<RoleServer>,
) -> AnswerResult {
    let session = open_session(local, &waited.session).await?;
    let turn = turn_id(&waited.turn)?;
    let now = read(local, &session, turn).await?;
    if now.ended_at.is_some() {
        return TurnProgress::Ended(now).into_answer(WAIT);
    }
    let followed = join(local, &session, turn, false).await?;
    let progress = follow(server, local, &session, followed, context).await?;
    progress.into_answer(WAIT)
}

pub(super) fn turn_id(text: &str) -> Result<TurnId, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not the id of a turn"))
}

pub(super) async fn delegate(
    server: &Server,
    local: &Local,
    delegated: DelegateArgs,
    context: &RequestContext<RoleServer>,
) -> AnswerResult {
    if delegated.tasks.is_empty() {
        return Err("`tasks` is empty: name at least one agent".to_owned());
    }
    let mut lines = Vec::new();
    let mut agents = Vec::new();
    for assigned in &delegated.tasks {
        let agent = filled("agent", &assigned.agent)?;
        match &assigned.task {
            Some(task) => {
                let task = filled("task", task)?;
                lines.push(task.to_owned());
                agents.push((agent, Some(task)));
            }
            None => agents.push((agent, None)),
        }
    }
    let task = match &delegated.task {
        Some(task) => filled("task", task)?.to_owned(),
        None if lines.is_empty() => {
            return Err(
                "the request has no task: give each agent a task, or one task for all agents"
                    .to_owned(),
            );
        }
        None => lines.join("\n"),
    };
    let ask = Ask::delegation(&task, agents).branch(delegated.branch.as_str());
    let session = session(local, delegated.session.as_deref(), &task, &ask).await?;
    drop((delegated, task, lines));
    let followed = begin(server, local, session, ask, context).await?;
    followed.into_answer(DELEGATE)
}

pub(super) async fn compact(
    server: &Server,
    local: &Local,
    compacted: CompactArgs,
    context: &RequestContext<RoleServer>,
) -> AnswerResult {
    let session = compacted.session.clone();
    let ask = requests::compaction(compacted.into()).map_err(|error| error.to_string())?;
    let session = open_session(local, &session).await?;
    let followed = begin(server, local, (session, false), ask, context).await?;
    followed.into_answer(COMPACT)
}

fn filled<'t>(name: &str, text: &'t str) -> Result<&'t str, String> {
    match text.trim() {
        "" => Err(format!("`{name}` is empty")),
        text => Ok(text),
    }
}

/// The session with this id, or a new one, and whether it is new. If the agents do not fit, no session
/// is created.
async fn session(
    local: &Local,
    id: Option<&str>,
    task: &str,
    ask: &Ask,
) -> Result<(Handle, bool), String> {
    let known = match id {
        Some(id) => Some(open_session(local, id).await?),
        None => None,
    };
    let setup = match &known {
        Some(session) => local.setup_of(session).await,
        None => Ok(local.setup()),
    };
    let setup = setup.map_err(|error| error.to_string())?;
    ask.team(&setup).map_err(|error| error.to_string())?;
    match known {
        Some(session) => Ok((session, false)),
        None => {
            let words = task.split_whitespace().collect::<Vec<_>>().join(" ");
            let title: String = words.chars().take(TITLE_CHARS).collect();
            let import = Import {
                title: title.into(),
                labels: [(MCP_CHANNEL.0.into(), MCP_CHANNEL.1.into())].into(),
                ..Import::default()
            };
            let made = local.import(import).await;
            Ok((made.map_err(|error| error.to_string())?, true))
        }
    }
}

pub(super) async fn open_session(local: &Local, id: &str) -> Result<Handle, String> {
    let id = id
        .parse()
        .map_err(|_| format!("{id:?} is not the id of a session"))?;
    local.open(id).await.map_err(|error| error.to_string())
}

/// Gives a session a turn and follows it. A turn that would wait for a person's decision about
/// another turn is refused. A new session whose turn does not begin is deleted.
async fn begin(
    server: &Server,
    local: &Local,
    (session, is_new): (Handle, bool),
    ask: Ask,
    context: &RequestContext<RoleServer>,
) -> Result<TurnProgress, String> {
    let refusal = refusal(&session, ask.on_branch()).await;
    if let Some(reason) = refusal.map_err(|error| error.to_string())? {
        return Err(reason);
    }
    let (turn, follower) = match local.begin_followed(&session, &ask).await {
        Ok(begun) => begun,
        Err(error) => {
            let name = session.id().to_string();
            if is_new && let Err(error) = local.delete_session(&name, false).await {
                tracing::debug!(session = %name, %error, "a session without a turn is left");
            }
            return Err(error.to_string());
        }
    };
    drop(ask);
    let followed = FollowedTurn {
        turn,
        follower,
        cancels: true,
    };
    follow(server, local, &session, followed, context).await
}

/// Follows a turn that has begun before, from its current state on.
async fn join(
    local: &Local,
    session: &Handle,
    turn: TurnId,
    cancels: bool,
) -> Result<FollowedTurn, String> {
    let follower = local.follower(session.clone(), turn, None).await;
    Ok(FollowedTurn {
        turn,
        follower: follower.map_err(|error| error.to_string())?,
        cancels,
    })
}

struct FollowedTurn {
    turn: TurnId,
    follower: Follower,
    /// Whether a client that takes its request back cancels it.
    cancels: bool,
}

/// Waits for the end of a turn, or for a call that waits for a person whom the client cannot ask at
/// once, and reports progress to the client. When the program stops, it waits for the drain time. It
/// returns the room of the request's body: the turn has the content, and the caller has dropped it.
async fn follow(
    server: &Server,
    local: &Local,
    session: &Handle,
    FollowedTurn {
        turn,
        mut follower,
        cancels,
    }: FollowedTurn,
    context: &RequestContext<RoleServer>,
) -> Result<TurnProgress, String> {
    body_share(context).release();
    let knows_tasks = tasks::are_known(context);
    let (drained, task_after) = (server.drained(), tokio::time::sleep(server.task_after));
    tokio::pin!(drained, task_after);
    let mut teller = ProgressNotifier::new(context);
    let mut cancelled = false;
    let mut may_wait = true;
    loop {
        if std::mem::take(&mut may_wait)
            && !cancelled
            && let Some(followed) = held(server, local, session, turn, &mut teller).await?
        {
            return Ok(followed);
        }
        tokio::select! {
            update = follower.next() => {
                let update = update.map_err(|error| error.to_string())?;
                let update = update.ok_or_else(|| format!("turn {turn} has ended before"))?;
                for line in progress_lines(&update.event) {
                    teller.notify(Some(&line)).await;
                }
                match update.event {
                    TurnEvent::Ended(end) => return Ok(TurnProgress::Ended(end.turn)),
                    TurnEvent::Waiting { .. } => may_wait = true,
                    _ => {}
                }
            }
            () = context.ct.cancelled(), if !cancelled => {
                if !cancels {
                    return Err("the call was cancelled; the turn continues".to_owned());
                }
                cancelled = true;
                cancel(session, turn).await;
            }
            () = task_after.as_mut(), if knows_tasks && !cancelled => {
                return Ok(TurnProgress::Task(read(local, session, turn).await?));
            }
            () = sleep_until(teller.next_due()), if teller.is_wanted() => teller.notify(None).await,
            () = drained.as_mut() => return Err(is_stopping(session, turn)),
        }
    }
}

/// The result for a client whose turn is still open when the program stops.
fn is_stopping(session: &Handle, turn: TurnId) -> String {
    let session = session.id();
    format!("the program is stopping; turn {turn} of session {session} continues after its restart")
}

/// Has the client ask a person about the calls that wait, as it can. None: none waits any more, or
/// the request was cancelled.
async fn held(
    server: &Server,
    local: &Local,
    session: &Handle,
    turn: TurnId,
    teller: &mut ProgressNotifier<'_>,
) -> Result<Option<TurnProgress>, String> {
    let context = teller.context;
    loop {
        let waiting = waiting::waiting(session, turn).await?;
        if waiting.is_empty() {
            return Ok(None);
        }
        let may_decide = local.caller().allows(Scope::Approve);
        if let Some(call) = waiting::askable(&waiting).filter(|_| may_decide) {
            match QuestionMethod::open_to(server, context) {
                QuestionMethod::Answer => {
                    let asks = waiting::ask_by_answer((session.id(), turn), call);
                    return Ok(Some(TurnProgress::Asks(asks)));
                }
                QuestionMethod::Request => {
                    let given_up = async {
                        tokio::select! {
                            () = context.ct.cancelled() => {}
                            () = server.drained() => {}
                        }
                    };
                    let asking = waiting::ask_by_request(session, call, context, given_up);
                    match teller.notify_until(asking).await {
                        Reply::Decided(decision) => {
                            if let Err(error) = decide(local, session, call.id, decision).await {
                                tracing::debug!(call = %call.id, %error, "a call is not decided");
                            }
                            continue;
                        }
                        Reply::Settled => continue,
                        Reply::GivenUp if context.ct.is_cancelled() => return Ok(None),
                        Reply::GivenUp => return Err(is_stopping(session, turn)),
                        Reply::Nobody => {}
                    }
                }
                QuestionMethod::No => {}
            }
        }
        let now = read(local, session, turn).await?;
        let progress = TurnProgress::waiting(session, (turn, now), &waiting);
        return Ok(Some(progress));
    }
}

pub(super) async fn read(local: &Local, session: &Handle, turn: TurnId) -> Result<Turn, String> {
    let found = turn_view::turn(local.journal(), session, turn).await;
    let found = found.map_err(|error| error.to_string())?;
    found.ok_or_else(|| format!("there is no turn {turn}"))
}

async fn cancel(session: &Handle, turn: TurnId) {
    // A turn that ended meanwhile needs no cancellation.
    if let Err(error) = session.cancel(turn).await {
        tracing::debug!(session = %session.id(), %turn, %error, "the turn is not cancelled");
    }
}

/// The notifications about an update.
fn progress_lines(event: &TurnEvent) -> Vec<String> {
    match event {
        TurnEvent::Compacted { checkpoint } => {
            let (before, after) = (checkpoint.tokens_before, checkpoint.tokens_after);
            let number = checkpoint.number;
            vec![format!("checkpoint {number}: {before} → {after} tokens")]
        }
        TurnEvent::StepFailed { reason, .. } => vec![format!("a compaction step failed: {reason}")],
        TurnEvent::Frozen { context } => vec![format!(
            "snapshot {}, {} tokens",
            context.snapshot, context.tokens
        )],
        TurnEvent::Runs { agents } => {
            let line = |agent: &Member| format!("{}: {}", agent.agent, agent.state);
            agents.iter().map(line).collect()
        }
        TurnEvent::RunRetried { agent, reason } => {
            vec![format!("{}: {reason}", agent.agent)]
        }
        TurnEvent::Progress { text, .. } | TurnEvent::CompactionProgress { text, .. } => {
            vec![text.clone()]
        }
        _ => Vec::new(),
    }
}

/// Sends progress notifications for a request.
struct ProgressNotifier<'c> {
    context: &'c RequestContext<RoleServer>,
    count: f64,
    /// When the last one was sent, or the request came.
    sent: Instant,
}

impl<'c> ProgressNotifier<'c> {
    fn new(context: &'c RequestContext<RoleServer>) -> ProgressNotifier<'c> {
        ProgressNotifier {
            context,
            count: 0.0,
            sent: Instant::now(),
        }
    }

    fn is_wanted(&self) -> bool {
        self.context.meta.get_progress_token().is_some()
    }

    /// When the next one is due, whether or not there is news.
    fn next_due(&self) -> Instant {
        self.sent + QUIET
    }

    /// Waits for a future, and sends the notifications that are due meanwhile.
    async fn notify_until<T>(&mut self, done: impl Future<Output = T>) -> T {
        tokio::pin!(done);
        loop {
            tokio::select! {
                output = &mut done => return output,
                () = sleep_until(self.next_due()) => self.notify(None).await,
            }
        }
    }

    async fn notify(&mut self, text: Option<&str>) {
        self.sent = Instant::now();
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        self.count += 1.0;
        let mut notice = ProgressNotificationParam::new(token, self.count);
        notice.message = text.map(str::to_owned);
        // A client that does not listen any more still gets its answer.
        if let Err(error) = self.context.peer.notify_progress(notice).await {
            tracing::debug!(%error, "a progress notification cannot be sent");
        }
    }
}

/// A message of the outcome as JSON.
pub(super) fn value(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::ServiceExt as _;
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::sync::Notify;
    use unisono::{Completion, LanguageModel, Reply, Request, Tokens};

    use super::*;
    use crate::http;

    /// Answers when it may.
    struct Silent(Arc<Notify>);

    impl LanguageModel for Silent {
        fn window(&self) -> Tokens {
            Tokens(50_000)
        }

        fn complete(&self, _: Request) -> Completion<'_> {
            Box::pin(async move {
                self.0.notified().await;
                Ok(Reply::text("Done."))
            })
        }
    }

    #[tokio::test]
    async fn a_client_is_notified_while_its_turn_is_silent() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let go = Arc::new(Notify::new());
        let local = Local::builder()
            .directory(directory.path())
            .default_model("own/silent", Silent(go.clone()))
            .set("server.bind", "127.0.0.1:0")
            .set("server.token_file", path("token"))
            .set("store.path", path("store"))
            .in_memory();
        let daemon = http::Server::bind(local.start().await.unwrap());
        let daemon = daemon.await.unwrap();
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = daemon.mcp();
        let served = tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        let (read, mut write) = tokio::io::split(near);
        let mut lines = BufReader::new(read).lines();
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let call = json!({"name": ASK, "_meta": {"progressToken": "p"},
            "arguments": {"task": "Wait.", "agents": []}});
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
        ] {
            write
                .write_all(format!("{message}\n").as_bytes())
                .await
                .unwrap();
        }
        let mut next = async || -> Value {
            let line = lines.next_line().await.unwrap().unwrap();
            serde_json::from_str(&line).unwrap()
        };
        while !next().await.to_string().contains("running") {}
        tokio::time::pause();
        let mut without_news = Vec::new();
        while without_news.len() < 2 {
            tokio::time::advance(QUIET).await;
            let told = next().await;
            assert_eq!(told["method"], "notifications/progress", "{told}");
            if told["params"].get("message").is_none() {
                without_news.push(told["params"]["progress"].as_f64().unwrap());
            }
        }
        assert!(without_news[0] < without_news[1], "{without_news:?}");
        tokio::time::resume();
        go.notify_one();
        let answer = loop {
            let told = next().await;
            if told["id"] == 2 {
                break told;
            }
        };
        assert_eq!(answer["result"]["content"][0]["text"], "Done.", "{answer}");
        drop((lines, write));
        served.await.unwrap().unwrap();
    }
}
