//! A worker actor: one attempt of one run at a time, from its assignment to its end.
//!
//! Owns the attempt's assignment and context; its pool starts it, linked, and sends it another
//! attempt after the end of one. A panic of the agent ends the worker; the pool notices that and
//! reports the attempt as lost.
//!
//! For an agent kind that is an actor of its author
//! ([`Extensions::actor`](crate::Extensions::actor)), the worker of each attempt sends [`Msg`] and
//! enforces time limit and cancellation.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tracing::{Instrument as _, Span};
use unisono_context::Timestamp;
use unisono_session::agent::AgentKind;
use unisono_session::assignment::RunAssignment;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::{AttemptTimes, RunCause};

use crate::address::ActorResult;
use crate::agent::{Answer, AnyAgent, Ctx, Failure, Task, Waiting};
use crate::clock;
use crate::concurrency::RunPermits;
use crate::env::Env;
use crate::kinds::a2a::A2aAgent;
use crate::kinds::acp::AcpAgent;
use crate::kinds::command::{CommandAgent, MAX_OUTPUT_BYTES};
use crate::kinds::http::HttpAgent;
use crate::kinds::llm::LlmAgent;
use crate::kinds::pipeline::PipelineAgent;
use crate::limit::Limit;
use crate::pool_port::{self, Attempt, PoolPermit, cancelled_end};
use crate::watchdog::Watchdog;

pub use crate::agent::{Job, Msg};

/// The message to a worker: an attempt, and its number in the pool.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) ticket: u64,
    pub(crate) attempt: Box<Attempt>,
}

pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    pub(crate) pool: ActorRef<pool_port::Msg>,
}

pub(crate) struct Worker;

impl Actor for Worker {
    type Msg = Start;
    type State = Args;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Start>, args: Args) -> ActorResult<Args> {
        Ok(args)
    }

    async fn handle(
        &self,
        _: ActorRef<Start>,
        Start { ticket, attempt }: Start,
        Args { env, pool }: &mut Args,
    ) -> ActorResult {
        let place = PoolPermit {
            pool: pool.clone(),
            ticket,
        };
        let span = span(&attempt.assignment);
        let end = carry_out(*attempt, place, env).instrument(span).await;
        pool.send_message(pool_port::Msg::Ended { ticket, end })?;
        Ok(())
    }
}

/// The tracing span of everything that is logged during the attempt, at every level.
fn span(assignment: &RunAssignment) -> Span {
    let RunAssignment {
        session, turn, run, ..
    } = assignment;
    let (agent, attempt) = (&assignment.definition.id, assignment.attempt);
    tracing::error_span!("run", %session, %turn, %run, %agent, attempt)
}

/// Runs the agent until it ends, is cancelled or times out.
async fn carry_out(attempt: Attempt, place: PoolPermit, env: &Env) -> AttemptEnd {
    let definition = attempt.assignment.definition.clone();
    let limit = Duration::from_millis(definition.timeout_ms);
    let agent = match agent_for(&attempt.assignment, env) {
        Ok(agent) => agent,
        Err(failure) => return ended(Err(failure)),
    };
    let task = Task {
        text: attempt.assignment.task.clone(),
        results: attempt.assignment.results.clone(),
    };
    let cancelled = attempt.cancelled.clone();
    // Work of the agent elsewhere is notified of any end of the attempt.
    let over = cancelled.child_token();
    let _tell = over.clone().drop_guard();
    let permits = RunPermits::default();
    let _held = HeldPermits([permits.clone(), attempt.turn_permits.clone()]);
    let entered = permits.begin(env.concurrency.as_slice(), attempt.assignment.session);
    if cancelled.run_until_cancelled(entered).await.is_none() {
        return cancelled_end();
    }
    let began = clock::now();
    let (time, watchdog) = (Limit::new(), Watchdog::new());
    let ctx = Ctx::new(
        attempt.assignment,
        attempt.prefix,
        over,
        attempt.port,
        env.models.clone(),
        Waiting::new(
            time.clone(),
            watchdog.clone(),
            Some(place),
            (attempt.turn_permits, permits),
        ),
    );
    let known = ctx.clone();
    if let Err(failure) = ctx.check_prefix() {
        return ended(Err(failure));
    }
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(Failure::new(RunCause::Timeout, "cancelled")),
        result = agent.run_boxed(task, ctx) => result,
        () = time.exceeded(limit) => {
            let reason = format!("no answer within {:.1} s", limit.as_secs_f64());
            Err(Failure::new(RunCause::Timeout, reason))
        }
        () = wait_until_stuck(&definition.kind, &watchdog, env.options.stuck_after) => {
            let reason = format!(
                "stuck: no progress for {:.1} s",
                env.options.stuck_after.as_secs_f64()
            );
            Err(Failure::new(RunCause::Stuck, reason))
        }
    };
    answered(result.and_then(checked), &known, began)
}

/// The answer, unless it is larger than that of a program may be: a journal could not keep it.
fn checked(answer: Answer) -> Result<Answer, Failure> {
    let bytes = answer.text.len();
    if bytes <= MAX_OUTPUT_BYTES {
        return Ok(answer);
    }
    let reason = format!("the answer has {bytes} bytes; an answer has at most {MAX_OUTPUT_BYTES}");
    Err(Failure::new(RunCause::BadOutput, reason))
}

/// The permits of an attempt. After its end, also by a panic, remaining work of its agent elsewhere
/// holds none.
struct HeldPermits([RunPermits; 2]);

impl Drop for HeldPermits {
    fn drop(&mut self) {
        self.0.iter().for_each(RunPermits::yield_permits);
    }
}

/// The end of an attempt whose agent started at `began`, with the usage of all its model calls.
fn answered(result: Result<Answer, Failure>, known: &Ctx, began: Timestamp) -> AttemptEnd {
    let besides = known.auxiliary_usage();
    let mut end = ended(result.map(|answer| Answer {
        usage: answer.usage + besides,
        ..answer
    }));
    if let AttemptEnd::Finished { attempt_times, .. } = &mut end {
        *attempt_times = AttemptTimes {
            began: Some(began),
            first_token: known.first_token(),
            cache_ready: known.cache_ready(),
        };
    }
    end
}

/// Completes when an agent makes no progress. Programs and servers report none while they work:
/// only their time limit applies to them.
async fn wait_until_stuck(kind: &AgentKind, watchdog: &Watchdog, length: Duration) {
    match kind {
        AgentKind::Llm | AgentKind::Custom(_) | AgentKind::Pipeline => {
            watchdog.expired(length).await
        }
        AgentKind::Command(_) | AgentKind::Http(_) | AgentKind::A2a(_) | AgentKind::Acp(_) => {
            std::future::pending().await
        }
    }
}

fn agent_for(assignment: &RunAssignment, env: &Env) -> Result<Arc<dyn AnyAgent>, Failure> {
    match &assignment.definition.kind {
        AgentKind::Llm => Ok(Arc::new(LlmAgent)),
        AgentKind::Command(command) => Ok(Arc::new(CommandAgent::new(command.clone()))),
        AgentKind::Http(http) => Ok(Arc::new(HttpAgent::new(http.clone()))),
        AgentKind::A2a(remote) => Ok(Arc::new(A2aAgent::new(remote.clone()))),
        AgentKind::Acp(program) => Ok(Arc::new(AcpAgent::new(program.clone()))),
        AgentKind::Pipeline => Ok(Arc::new(PipelineAgent)),
        AgentKind::Custom(kind) => env.extensions.kind(kind).ok_or_else(|| {
            let reason = format!("no agent kind {kind:?} is registered in this program");
            Failure::new(RunCause::BadInput, reason)
        }),
    }
}

fn ended(result: Result<Answer, Failure>) -> AttemptEnd {
    match result {
        Ok(Answer {
            text,
            calls,
            partial,
            usage,
        }) => AttemptEnd::Finished {
            text,
            calls,
            partial,
            usage,
            attempt_times: AttemptTimes::default(),
        },
        Err(Failure {
            cause,
            reason,
            wait_ms,
        }) => AttemptEnd::Failed {
            cause,
            reason,
            wait_ms,
            // The session knows what was said.
            text: None,
        },
    }
}
