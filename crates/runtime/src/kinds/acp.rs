//! A coding agent: a program that speaks the Agent Client Protocol (lines of JSON-RPC).
//!
//! ```text
//! worktree ─► start ─► initialize ─► session/new ─► session/prompt ─► answer
//!    └ journaled before it is made       journaled before it is sent ┘  └ journaled
//! ```
//!
//! The effects of an interrupted prompt are unknown. The contract decides: `idempotent` gives the
//! task again, `at_most_once` fails and names the working directory.

mod ending;
mod journaled;
mod open_calls;
mod options;
mod peer;
mod protocol;
mod report;
mod spending;
mod turn;
mod worktree;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use unisono_model::prompt::Prefix;
use unisono_session::agent::{Acp, Command};
use unisono_session::assignment::RunAssignment;
use unisono_session::run::{RunCause, ToolResult};

use crate::agent::{Agent, Answer, Ctx, Failure, Task, request};
use ending::FailedTry;
pub(crate) use journaled::is_prompt_begun;
use journaled::{AgentAnswer, NextAction, Place, Prompt};
use peer::Peer;
use protocol::{Message, PERMISSION, PROMPT, PromptTokens};
use spending::Spending;
use turn::{Effect, JOURNALED, PermissionRequest, Turn};
use worktree::Worktree;

/// The time for an agent to stop its work before it is killed.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Carries out definitions of kind `acp`.
#[derive(Clone, Debug)]
pub(crate) struct AcpAgent {
    acp: Acp,
}

impl AcpAgent {
    pub(crate) fn new(acp: Acp) -> AcpAgent {
        AcpAgent { acp }
    }
}

impl Agent for AcpAgent {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        ctx.check_prefix()?;
        let steps = &ctx.assignment().steps;
        // Worktrees of earlier tries are removed, or reported.
        let mut kept = Vec::new();
        for place in journaled::places(steps) {
            if let Some(worktree) = place.worktree {
                kept.extend(worktree.close().await);
            }
        }
        match journaled::next_action(steps, self.acp.contract) {
            NextAction::Answered(answered) => ending::answer(answered, &kept),
            NextAction::Doubt { place, failed } => Err(self.unknown_outcome(place, failed, &kept)),
            NextAction::Prompt(number) => {
                let place = self.prepare_place(&ctx, number).await?;
                let mut visit = RunningTry::new(ctx, place, number);
                let worked = visit.work(&self.acp).await;
                let left = visit.leave(worked).await;
                left.and_then(|(answered, left)| {
                    kept.extend(left);
                    ending::answer(answered, &kept)
                })
            }
        }
    }
}

impl AcpAgent {
    /// The working directory of a try. It is journaled, then created.
    async fn prepare_place(&self, ctx: &Ctx, number: u32) -> Result<Place, Failure> {
        let cwd = self.acp.command.cwd.as_deref().unwrap_or(".");
        let cwd = std::path::absolute(cwd).and_then(std::fs::canonicalize);
        let cwd: PathBuf = cwd.map_err(|error| {
            let cwd = self.acp.command.cwd.as_deref().unwrap_or(".");
            let reason = format!("cannot work in {cwd}: {error}");
            Failure::new(RunCause::BadInput, reason)
        })?;
        let (worktree, directory) = match self.acp.worktree {
            true => {
                let (worktree, directory) = Worktree::plan(&cwd, ctx.run(), number).await?;
                (Some(worktree), directory)
            }
            false => (None, cwd),
        };
        let place = Place {
            directory: directory.to_string_lossy().into_owned(),
            worktree,
        };
        let name = journaled::step_name("place", number);
        let place = ctx.step(&name, async { Ok(place) }).await?;
        if let Some(worktree) = &place.worktree {
            worktree.make().await?;
        }
        Ok(place)
    }

    /// The failure of a run whose task may have been done.
    fn unknown_outcome(
        &self,
        place: Option<Place>,
        failed: Option<String>,
        kept: &[String],
    ) -> Failure {
        let program = &self.acp.command.program;
        let why = failed
            .unwrap_or_else(|| "the attempt or the program ended while it worked on it".to_owned());
        let look = match (kept.is_empty(), place) {
            (false, _) => kept.join(" "),
            (
                true,
                Some(Place {
                    worktree: Some(_), ..
                }),
            ) => "Nothing changed in its git worktree, which is removed.".to_owned(),
            (true, Some(place)) => format!("Look at {}.", place.directory),
            (true, None) => String::new(),
        };
        let reason = format!(
            "`{program}` was given this task before, and nobody knows what it did: {why}. It is not \
             given it twice, because its contract is `at_most_once`. {look} Set `contract = \
             \"idempotent\"` if the task may be given again"
        );
        Failure::new(RunCause::BadInput, reason)
    }
}

/// The prompt in two pieces: the shared context in the same form as for all programs, then the
/// instructions and the task.
pub(crate) fn prompt(assignment: &RunAssignment, prefix: &Prefix) -> [Bytes; 2] {
    let heading = match &assignment.snapshot {
        Some(snapshot) => Some(format!(
            "The conversation so far, one JSON document (snapshot {}):\n",
            snapshot.id()
        )),
        None if assignment.results.is_empty() => None,
        None => Some("What other agents came back with, one JSON document:\n".to_owned()),
    };
    let (mut head, mut parts) = (String::new(), Vec::new());
    if let Some(heading) = heading {
        let [shared, own] = request::document(assignment, prefix);
        head = heading + &String::from_utf8_lossy(&shared);
        parts.push(String::from_utf8_lossy(&own).into_owned());
    }
    let instructions = assignment.definition.instructions.trim();
    if !instructions.is_empty() {
        parts.push(format!("Your instructions:\n{instructions}"));
    }
    parts.push(format!("Your task:\n{}", assignment.task));
    [head.into(), parts.join("\n\n").into()]
}

/// A running try: the program and its working directory. If it is dropped early, the agent's report
/// is journaled, and the agent is asked to stop, and killed.
struct RunningTry {
    ctx: Ctx,
    number: u32,
    place: Place,
    peer: Option<Peer>,
    /// The session with a prompt in progress.
    working: Option<String>,
    is_prompted: bool,
    /// What the agent reports, until that is journaled.
    turn: Option<Turn>,
    /// Its usage, until the end of the prompt.
    spending: Option<Spending>,
}

impl RunningTry {
    fn new(ctx: Ctx, place: Place, number: u32) -> RunningTry {
        RunningTry {
            ctx,
            number,
            place,
            peer: None,
            working: None,
            is_prompted: false,
            turn: None,
            spending: None,
        }
    }

    /// Sends the task to the agent, and follows it to the end.
    async fn work(&mut self, acp: &Acp) -> Result<AgentAnswer, FailedTry> {
        let command = Command {
            cwd: Some(self.place.directory.as_str().into()),
            ..acp.command.clone()
        };
        let spending = self.spending.insert(Spending::begin(&self.ctx).await?);
        self.ctx.progress(format!("running {}", command.program));
        let peer = self.peer.insert(Peer::start(&command)?);
        let session = peer.open(&self.place.directory, acp).await?;
        let assignment = self.ctx.assignment();
        let snapshot = assignment.snapshot.as_ref();
        let given = Prompt {
            snapshot: snapshot.map(|snapshot| snapshot.id().to_string()),
            shares: "text".to_owned(),
            mode: session.mode().map(str::to_owned),
        };
        let name = journaled::step_name("prompt", self.number);
        self.ctx.step(&name, async { Ok(given) }).await?;
        self.is_prompted = true;
        let text = prompt(assignment, self.ctx.prefix()).concat();
        let text = String::from_utf8_lossy(&text);
        let session = session.session_id;
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let id = peer.request(PROMPT, &params);
        self.working = Some(session.clone());
        let turn = self.turn.insert(Turn::new(session, acp));
        let response = follow(&self.ctx, self.number, peer, turn, spending, id).await;
        let turn = self.turn.take().unwrap_or_default();
        let report = turn.report();
        if let Some(spending) = self.spending.take() {
            let result = response.as_ref().ok().map(|response| &response.result);
            let tokens = result.and_then(PromptTokens::from_result);
            spending.end(report.usage.as_ref(), tokens);
        }
        if !report.is_empty() {
            let name = journaled::step_name("report", self.number);
            self.ctx.step(&name, async { Ok(report) }).await?;
        }
        let response = response?;
        self.working = None;
        let answered = ending::prompt_result(peer, &turn, response)?;
        let name = journaled::step_name("answer", self.number);
        Ok(self.ctx.step(&name, async { Ok(answered) }).await?)
    }

    /// Ends the program, and removes an unchanged worktree. Returns the result and the kept
    /// worktree.
    async fn leave(
        mut self,
        worked: Result<AgentAnswer, FailedTry>,
    ) -> Result<(AgentAnswer, Option<String>), Failure> {
        self.working = None;
        if let Some(peer) = self.peer.take() {
            peer.end().await;
        }
        let kept = match &self.place.worktree {
            Some(worktree) => worktree.close().await,
            None => None,
        };
        self.place.worktree = None;
        let FailedTry { failure, is_over } = match worked {
            Ok(answered) => return Ok((answered, kept)),
            Err(ended) => ended,
        };
        if self.is_prompted {
            let what = if is_over { "over" } else { "failed" };
            let name = journaled::step_name(what, self.number);
            let reason = failure.reason.to_string();
            self.ctx.step(&name, async { Ok(reason) }).await?;
        }
        Err(match kept {
            Some(kept) => Failure {
                reason: format!("{}. {}", failure.reason, kept.trim_end_matches('.')).into(),
                ..failure
            },
            None => failure,
        })
    }
}

/// Follows a prompt to its response. Requests for permission wait beside it.
async fn follow(
    ctx: &Ctx,
    number: u32,
    peer: &mut Peer,
    turn: &mut Turn,
    spending: &mut Spending,
    id: u64,
) -> Result<Message, Failure> {
    let mut asked: JoinSet<Answered> = JoinSet::new();
    // By the numbers of the requests.
    let mut withdrawals: HashMap<u32, CancellationToken> = HashMap::new();
    loop {
        let message = tokio::select! {
            Some(decided) = asked.join_next() => {
                match decided {
                    Ok(Ok((request, answer))) => {
                        withdrawals.remove(&request.number);
                        let (progress, reply) = turn.decided(&request, &answer);
                        ctx.progress(progress);
                        peer.reply(&reply)?;
                    }
                    // The run has ended, and this attempt is cancelled as soon as its worker knows.
                    Ok(Err(_)) | Err(_) => {
                        turn.cancel().iter().try_for_each(|reply| peer.reply(reply))?;
                    }
                }
                continue;
            }
            message = peer.message() => message?,
        };
        if message.method.is_none() {
            if message.id.as_ref().and_then(Value::as_u64) == Some(id) {
                return Ok(message);
            }
            continue;
        }
        let effects = turn.take(message);
        let effects = effects.map_err(|wrong| peer.failure(RunCause::BadOutput, &wrong))?;
        for effect in effects {
            match effect {
                Effect::Progress(text) => ctx.progress(text),
                Effect::Count(usage) => spending.count(&usage).await?,
                Effect::Reply(reply) => peer.reply(&reply)?,
                Effect::Called(index, called) => {
                    let name = journaled::indexed_step_name("call", number, index);
                    ctx.step(&name, async { Ok(called) }).await?;
                }
                Effect::Ask(request) => {
                    let withdrawn = CancellationToken::new();
                    withdrawals.insert(request.number, withdrawn.clone());
                    asked.spawn(permission(ctx.clone(), number, request, withdrawn));
                }
                Effect::Withdraw(request) => {
                    let withdrawn = withdrawals.remove(&request);
                    withdrawn.iter().for_each(CancellationToken::cancel);
                }
            }
        }
    }
}

type Answered = Result<(Box<PermissionRequest>, ToolResult), Failure>;

/// Asks the session for permission, and a person if a rule says so, until the request is withdrawn.
async fn permission(
    ctx: Ctx,
    number: u32,
    request: Box<PermissionRequest>,
    withdrawn: CancellationToken,
) -> Answered {
    // Rounds of an earlier try stay as they are.
    let round = (number - 1) * JOURNALED + request.number;
    let answers = ctx.call_external_tools(round, vec![request.call.clone()]);
    tokio::pin!(answers);
    let answered = tokio::select! {
        // The session gets the request before its withdrawal.
        biased;
        answered = &mut answers => answered,
        () = withdrawn.cancelled() => {
            ctx.withdraw_permissions(round);
            answers.await
        }
    };
    let answer = answered?.pop();
    let answer =
        answer.ok_or_else(|| Failure::new(RunCause::Panic, "no answer to a permission"))?;
    Ok((request, answer))
}

/// Asks an agent to stop, cancels its requests for permission, and waits for it for a short time.
async fn stop(peer: &mut Peer, session: &str, cancelled: Vec<Value>) {
    peer.send(&protocol::cancel(session));
    cancelled.iter().for_each(|response| peer.send(response));
    let stopped = async {
        // The only outstanding response is that of the prompt.
        while let Ok(Message {
            method: Some(method),
            id,
            ..
        }) = peer.message().await
        {
            match id {
                Some(id) if method == PERMISSION => peer.send(&protocol::chosen(&id, None)),
                _ => {}
            }
        }
    };
    if tokio::time::timeout(CANCEL_GRACE, stopped).await.is_err() {
        tracing::debug!("a coding agent does not stop, and is ended");
    }
}

impl Drop for RunningTry {
    fn drop(&mut self) {
        let (peer, session) = (self.peer.take(), self.working.take());
        let worktree = self.place.worktree.take();
        let mut turn = self.turn.take();
        let cancelled = turn.as_mut().map(Turn::cancel).unwrap_or_default();
        let report = turn.map(|turn| turn.report());
        if let Some(spending) = self.spending.take() {
            let usage = report.as_ref().and_then(|report| report.usage.as_ref());
            spending.end(usage, None);
        }
        if let Some(report) = report.filter(|report| !report.is_empty()) {
            let name = journaled::step_name("report", self.number);
            self.ctx.leave_step(&name, &report);
        }
        // Without a runtime the program is killed when the value is dropped.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            if let Some(mut peer) = peer {
                if let Some(session) = session {
                    stop(&mut peer, &session, cancelled).await;
                }
                peer.end().await;
            }
            if let Some(worktree) = worktree {
                worktree.close().await;
            }
        });
    }
}

#[cfg(test)]
mod tests;
