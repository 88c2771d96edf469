//! The context object of an agent: frozen context, durable steps, cancellation, progress.

mod requests;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use unisono_context::attachment::Files;
use unisono_context::{RunId, Snapshot, Timestamp, Tokens};
use unisono_model::language::{self, LanguageModel, Models, Reply, Request, complete_up_to_stop};
use unisono_model::prompt::Prefix;
use unisono_session::Definition;
use unisono_session::assignment::RunAssignment;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::{AuxiliaryUsage, RunCause, Step, ToolResult, named_result};

use super::request::reply_count;
use super::spending::AuxiliaryUsageTotal;
use super::waiting::Waiting;
use crate::failure::{self, Failure};
use crate::reservation::{self, ReservedCall};
use crate::session_port::Port;

/// Maximum bytes of the result of a step, far below the largest event of a journal.
const MAX_STEP_BYTES: usize = 16 << 20;
/// The number of bytes of a reply between two progress reports.
const PROGRESS_EVERY: usize = 1_000;

/// The context object of an agent. Cheap to clone; all clones belong to the same attempt.
///
/// ```
/// # use unisono_runtime as unisono;
/// use unisono::{Agent, Answer, Ctx, Failure, Task};
///
/// struct Reviewer;
///
/// impl Agent for Reviewer {
///     async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
///         let read = ctx.snapshot().map_or(0, |snapshot| snapshot.entries().len());
///         let stock = ctx.call_tool("stock", r#"{"item":"tent"}"#).await?;
///         let reply = ctx.ask_model(format!("{}\nStock: {}", task.text, stock.content)).await?;
///         Ok(Answer::text(format!("Read {read} entries. {}", reply.text)))
///     }
/// }
/// # let _ = unisono::Extensions::default().agent("reviewer", Reviewer);
/// ```
#[derive(Clone, Debug)]
pub struct Ctx {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    assignment: RunAssignment,
    prefix: Prefix,
    cancelled: CancellationToken,
    port: Port,
    models: Models,
    waiting: Waiting,
    /// The number of model calls of this attempt, recorded replies included.
    calls: AtomicU32,
    /// The number of rounds that the author's code delegated in this attempt.
    rounds: AtomicU32,
    auxiliary: AuxiliaryUsageTotal,
    /// When the first piece of a reply came.
    first_token: OnceLock<Timestamp>,
    /// When the first wait for the provider's cache was over.
    cache_ready: OnceLock<Timestamp>,
    /// The files that the newest request was sent with.
    files: Mutex<Files>,
    /// Names of the steps that this attempt has begun.
    begun: Mutex<BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
pub(crate) struct PaidReply {
    pub(crate) reply: Reply,
    pub(crate) call: ReservedCall,
}

impl Ctx {
    pub(crate) fn new(
        assignment: RunAssignment,
        prefix: Prefix,
        cancelled: CancellationToken,
        port: Port,
        models: Models,
        waiting: Waiting,
    ) -> Ctx {
        let calls = AtomicU32::new(reply_count(&assignment.steps));
        let inner = Inner {
            calls,
            auxiliary: AuxiliaryUsageTotal::from_steps(&assignment.steps),
            assignment,
            prefix,
            cancelled,
            port,
            models,
            waiting,
            rounds: AtomicU32::new(0),
            first_token: OnceLock::new(),
            cache_ready: OnceLock::new(),
            begun: Mutex::default(),
            files: Mutex::default(),
        };
        Ctx {
            inner: Arc::new(inner),
        }
    }

    /// The id of the run, equal in all its attempts.
    pub fn run(&self) -> RunId {
        self.inner.assignment.run
    }

    /// The attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.assignment.attempt
    }

    /// The agent's definition, as recorded with the run.
    pub fn definition(&self) -> &Definition {
        &self.inner.assignment.definition
    }

    /// The complete input of the attempt.
    pub fn assignment(&self) -> &RunAssignment {
        &self.inner.assignment
    }

    /// The frozen context; none for an agent that gets only its task. All agents of the turn share
    /// one allocation.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.inner.assignment.snapshot.as_ref()
    }

    /// The rendered context that this agent shares with its siblings, byte for byte.
    pub fn prefix(&self) -> &Prefix {
        &self.inner.prefix
    }

    /// Triggered when the attempt ends: cancelled, timed out or finished. Its future is dropped as
    /// well; use this for work that runs elsewhere.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.inner.cancelled
    }

    /// Reports progress to followers. Not recorded; dropped if there are no followers.
    pub fn progress(&self, text: impl Into<Arc<str>>) {
        self.inner.waiting.watchdog.renew();
        self.inner.port.progress(self.run(), text.into());
    }

    /// When the first piece of a reply came in this attempt, if one did.
    pub(crate) fn first_token(&self) -> Option<Timestamp> {
        self.inner.first_token.get().copied()
    }

    /// When the first wait for the provider's cache was over in this attempt, if there was one.
    pub(crate) fn cache_ready(&self) -> Option<Timestamp> {
        self.inner.cache_ready.get().copied()
    }

    /// Whether its session is still active; otherwise the program ends, and the next process
    /// continues the run.
    pub(crate) async fn has_session(&self) -> bool {
        let known = self.inner.port.read_result(self.run(), String::new());
        known.await.is_ok()
    }

    /// Waits for a tool, which has its own time limit.
    pub(crate) async fn while_tools_work<T>(&self, tools: impl Future<Output = T>) -> T {
        let _pause = self.inner.waiting.watchdog.pause();
        tools.await
    }

    /// The model of its definition.
    ///
    /// # Errors
    /// The model is unknown.
    pub(crate) fn model(&self) -> Result<Arc<dyn LanguageModel>, Failure> {
        let model = self.inner.models.get(&self.definition().model);
        model.map_err(|error| Failure::new(RunCause::BadInput, error.to_string()))
    }

    /// Calls the definition's model with the shared prompt, the agent's instructions, then `task`.
    /// The reply is not recorded: another attempt calls the model again, unless the call is inside
    /// [`Ctx::step`].
    ///
    /// # Errors
    /// The model is unknown or fails, a budget does not allow the call, or the prompt differs from the
    /// recorded one.
    pub async fn ask_model(&self, task: impl Into<Arc<str>>) -> Result<Reply, Failure> {
        let asked = self.ask(self.request(task.into())).await?;
        let PaidReply { reply, call } = asked.map_err(|error| failure::model_failure(&error))?;
        call.settle(CallEnd::Used(reply.usage));
        Ok(reply)
    }

    /// Sends a request after comparing its prompt with the recorded one and reserving its maximum
    /// use.
    pub(crate) async fn ask(
        &self,
        mut request: Request,
    ) -> Result<Result<PaidReply, language::Error>, Failure> {
        let model = self.model()?;
        self.check_prefix()?;
        self.load_files(&mut request, model.accepts()).await?;
        let call = self.reserve(&request, &*model).await?;
        if let Some(why) = call.wrap_up() {
            request.wrap_up = Some(why.clone());
        }
        let (ctx, number) = (self.clone(), call.number());
        request.listener = request.listener.with_usage(move |usage, fallback| {
            ctx.report_spent(number, AuxiliaryUsage { usage, fallback });
        });
        self.progress(format!("asking {}", self.definition().model));
        // Until the reply begins, in each attempt of the model's client, the model's own timeouts limit
        // the wait. An agent may have several requests at once, and give one up.
        let waiting = Arc::new(Mutex::new(Some(self.inner.waiting.watchdog.pause())));
        let (ctx, begun) = (self.clone(), Arc::downgrade(&waiting));
        request.listener = request.listener.with_activity(move || {
            ctx.inner.waiting.watchdog.renew();
            drop(begun.upgrade().and_then(|waiting| lock(&waiting).take()));
        });
        let (ctx, again) = (self.clone(), Arc::downgrade(&waiting));
        request.listener = request.listener.with_restart(move || {
            if let Some(waiting) = again.upgrade() {
                *lock(&waiting) = Some(ctx.inner.waiting.watchdog.pause());
            }
        });
        let replied = complete_up_to_stop(&*model, request).await;
        drop(waiting);
        match replied {
            Ok(reply) => Ok(Ok(PaidReply { reply, call })),
            Err(error) => {
                call.settle(reservation::call_end(&error));
                Ok(Err(error))
            }
        }
    }

    pub(super) fn next_call(&self) -> u32 {
        self.inner.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn port(&self) -> &Port {
        &self.inner.port
    }

    pub(super) fn auxiliary_total(&self) -> &AuxiliaryUsageTotal {
        &self.inner.auxiliary
    }

    /// Waits for other agents, without using its time limit or its permit.
    pub(super) async fn while_waiting<T>(&self, others: impl Future<Output = T>) -> T {
        self.inner.waiting.while_waiting(others).await
    }

    /// Upper bounds of the tokens of texts for the definition's model.
    pub(crate) async fn count(&self, texts: Vec<String>) -> Vec<Tokens> {
        if texts.is_empty() {
            return Vec::new();
        }
        let encoding = self.definition().limits.encoding;
        let counts = self.inner.port.count(texts, encoding).await;
        counts.into_iter().map(|count| count.at_most).collect()
    }

    /// The number of the next round of calls by the author's code.
    pub(crate) fn next_round(&self) -> u32 {
        self.inner.rounds.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) async fn delegate_round(
        &self,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> Result<Vec<ToolResult>, Failure> {
        let (count, first) = match &calls[..] {
            [] => return Ok(Vec::new()),
            calls => (calls.len(), calls[0].agent.clone()),
        };
        self.progress(match count {
            1 => format!("waiting for {first}"),
            _ => format!("waiting for {count} agents"),
        });
        let delegated = self
            .inner
            .port
            .delegate(self.run(), self.attempt(), round, calls);
        let results = self.inner.waiting.while_waiting(delegated).await?;
        if results.len() == count {
            return Ok(results);
        }
        let recorded = results.len();
        let reason = format!(
            "round {round} was recorded with {recorded} calls, not {count}; do the same in every attempt"
        );
        Err(Failure::new(RunCause::BadInput, reason))
    }

    /// Calls tools with effects outside and waits for their results. The time limit is paused while
    /// a person must decide.
    pub(crate) async fn call_external_tools(
        &self,
        round: u32,
        calls: Vec<NewCall>,
    ) -> Result<Vec<ToolResult>, Failure> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let (sender, held) = watch::channel(false);
        let ids: Vec<Arc<str>> = calls.iter().map(|call| call.call_id.clone()).collect();
        let called = self
            .inner
            .port
            .call_tools(self.run(), self.attempt(), round, calls, sender);
        // Tools have their own time limits, so an agent that waits for one is not stuck.
        let _pause = self.inner.waiting.watchdog.pause();
        let results = self.inner.waiting.while_yielded(held, called).await?;
        if results.iter().map(|result| &result.call_id).eq(&ids) {
            return Ok(results);
        }
        let reason = format!(
            "round {round} was recorded with other calls; make the same calls in the same order in \
             every attempt"
        );
        Err(Failure::new(RunCause::BadInput, reason))
    }

    /// Ends the requests for permission in a round of [`Ctx::call_external_tools`]: the agent does not
    /// need them any more.
    pub(crate) fn withdraw_permissions(&self, round: u32) {
        let (run, attempt) = (self.run(), self.attempt());
        self.inner.port.withdraw_permissions(run, attempt, round);
    }

    /// A step with a journaled result: `f` runs until its result is on disk; after a crash or in
    /// another attempt the recorded result is returned instead. `name` is unique within the run and
    /// the same in every attempt.
    ///
    /// # Errors
    /// `f` failed, its result cannot be converted to or from JSON or is larger than 16 MiB, the name
    /// was used before, or the session is gone.
    pub async fn step<T, F>(&self, name: &str, f: F) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, Failure>>,
    {
        self.reserve_step_name(name)?;
        if let Some(result) = self.recorded(name) {
            let unreadable = |e| bad_step(name, "recorded result cannot be read", &e);
            return serde_json::from_str(&result).map_err(unreadable);
        }
        let value = f.await?;
        let json = serde_json::to_string(&value)
            .map_err(|e| bad_step(name, "result cannot be written as JSON", &e))?;
        if json.len() > MAX_STEP_BYTES {
            let reason = format!(
                "step {name:?}: the result has {} bytes as JSON; a result has at most {MAX_STEP_BYTES}",
                json.len()
            );
            return Err(Failure::new(RunCause::BadOutput, reason));
        }
        let step = Step::named(name, json);
        self.record(step).await?;
        Ok(value)
    }

    /// Hands the result of a step to the session and does not wait: the attempt ends now.
    pub(crate) fn leave_step(&self, name: &str, value: &impl Serialize) {
        let Ok(json) = serde_json::to_string(value) else {
            return;
        };
        let step = Step::named(name, json);
        let (run, attempt) = (self.run(), self.attempt());
        // It is sent already; the rest is the wait for the disk.
        drop(self.inner.port.step(run, attempt, step.into()));
    }

    /// Journals a step of this attempt; returns once it is on disk.
    pub(crate) async fn record(&self, step: impl Into<Arc<Step>>) -> Result<(), Failure> {
        self.inner.waiting.watchdog.renew();
        let (run, attempt) = (self.run(), self.attempt());
        self.inner.port.step(run, attempt, step.into()).await
    }

    /// Compares the bytes to be sent with the recorded digest of the run.
    pub(crate) fn check_prefix(&self) -> Result<(), Failure> {
        let (recorded, rendered) = (self.inner.assignment.prefix, self.inner.prefix.digest());
        if recorded == rendered {
            return Ok(());
        }
        let reason = format!(
            "the rendered context has digest {}, the run recorded {}",
            rendered.short(),
            recorded.short()
        );
        Err(Failure::new(RunCause::SnapshotMismatch, reason))
    }

    /// A name used for two steps would give the second step the result of the first after a crash.
    fn reserve_step_name(&self, name: &str) -> Result<(), Failure> {
        if lock(&self.inner.begun).insert(name.into()) {
            return Ok(());
        }
        let reason = format!("step {name:?} was run before; give each step its own name");
        Err(Failure::new(RunCause::BadInput, reason))
    }

    fn recorded(&self, name: &str) -> Option<Arc<str>> {
        named_result(&self.inner.assignment.steps, name).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad_step(name: &str, what: &str, error: &serde_json::Error) -> Failure {
    Failure::new(
        RunCause::BadOutput,
        format!("step {name:?}: {what}: {error}"),
    )
}
