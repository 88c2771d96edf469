//! For tests: an attempt of a run whose session is a recording.

mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use unisono_context::alteration::Alterations;
use unisono_context::budget::Limits;
use unisono_context::call::ClientOptions;
use unisono_context::checkpoint::Checkpoints;
use unisono_context::message::NewMessage;
use unisono_context::snapshot::{Preamble, ToolSpec};
use unisono_context::tokens::Count;
use unisono_context::view::View;
use unisono_context::{
    AgentId, Digest, Encoding, Message, MessageId, Ordinal, Role, RunId, SessionId, Snapshot,
    Timestamp, Tokens, Tree, TurnId,
};
use unisono_model::language::Models;
use unisono_model::prompt::{self, Prefix};
use unisono_search::{Branch, Search};
use unisono_session::agent::{AgentKind, Command, ContextMode, OnFailure, PrefixMode};
use unisono_session::assignment::{DelegateResult, RunAssignment};
use unisono_session::budget::ReservationRequest;
use unisono_session::event::RunRole;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::calls::Permission;
use unisono_session::run::{AuxiliaryUsage, RunCause, Step, ToolResult};
use unisono_session::state::CallCap;
use unisono_session::{Definition, Event, Fact};
use unisono_store::{Journal, Memory};

use super::{Ctx, Failure, Task, Waiting, group};
use crate::limit::Limit;
use crate::session_port::{MessagePlace, Port, PortFuture, PortResult, RecallResults, SessionPort};
use crate::watchdog::Watchdog;

pub(crate) use turns::{answering, conversation, turn, until};

const SESSION: SessionId = SessionId::from_u128(1);

/// The parts of an attempt; tests change those that they need.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) definition: Definition,
    pub(crate) tree: Tree,
    pub(crate) steps: Vec<Arc<Step>>,
    pub(crate) tamper: bool,
    pub(crate) models: Models,
    pub(crate) session: Session,
    pub(crate) colleagues: Vec<Arc<Definition>>,
    pub(crate) room: Tokens,
    pub(crate) bounded: bool,
    pub(crate) wrapped_up: Option<(usize, Arc<str>)>,
    pub(crate) client_options: ClientOptions,
    pub(crate) call_cap: CallCap,
    pub(crate) results: Vec<DelegateResult>,
    pub(crate) limit: Limit,
    pub(crate) watchdog: Watchdog,
}

/// A session port that records its calls.
#[derive(Clone, Default)]
pub(crate) struct Session(Arc<Record>);

#[derive(Default)]
struct Record {
    steps: Mutex<Vec<Arc<Step>>>,
    progress: Mutex<Vec<Arc<str>>>,
    messages: Mutex<Vec<Arc<Message>>>,
    acts: Mutex<BTreeMap<Ordinal, Vec<Arc<Step>>>>,
    results: Mutex<BTreeMap<String, Arc<str>>>,
    refuses: Mutex<Option<Failure>>,
    rounds: Mutex<Vec<(u32, Vec<DelegateCall>)>>,
    called: Mutex<Vec<(u32, NewCall)>>,
    budget: Mutex<VecDeque<Result<Option<Arc<str>>, Failure>>>,
    holds_budget: AtomicBool,
    asked: Mutex<Vec<ReservationRequest>>,
    settled: Mutex<Vec<(u32, CallEnd)>>,
    spent: Mutex<Vec<Option<u32>>>,
}

impl Session {
    pub(crate) fn steps(&self) -> Vec<Arc<Step>> {
        self.0.steps.lock().unwrap().clone()
    }

    pub(crate) fn progress(&self) -> Vec<Arc<str>> {
        self.0.progress.lock().unwrap().clone()
    }

    pub(crate) fn rounds(&self) -> Vec<(u32, Vec<DelegateCall>)> {
        self.0.rounds.lock().unwrap().clone()
    }

    pub(crate) fn called(&self) -> Vec<(u32, NewCall)> {
        self.0.called.lock().unwrap().clone()
    }

    /// Gives its agent this result.
    pub(crate) fn handed(&self, name: &str, text: &str) {
        let mut results = self.0.results.lock().unwrap();
        results.insert(name.to_owned(), text.into());
    }

    /// Sets the steps of the agent that wrote this message.
    pub(crate) fn acted(&self, n: u32, steps: Vec<Step>) {
        let steps = steps.into_iter().map(Arc::new).collect();
        self.0.acts.lock().unwrap().insert(Ordinal(n), steps);
    }

    /// The answers to reservations, in order.
    pub(crate) fn budget(
        &self,
        answers: impl IntoIterator<Item = Result<Option<Arc<str>>, Failure>>,
    ) {
        self.0.budget.lock().unwrap().extend(answers);
    }

    /// Leaves all later reservations without an answer.
    pub(crate) fn hold_budget(&self) {
        self.0.holds_budget.store(true, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> (Vec<ReservationRequest>, Vec<(u32, CallEnd)>) {
        let asked = self.0.asked.lock().unwrap().clone();
        (asked, self.0.settled.lock().unwrap().clone())
    }

    /// The calls with costs in addition to their replies.
    pub(crate) fn prepaid(&self) -> Vec<Option<u32>> {
        self.0.spent.lock().unwrap().clone()
    }

    /// Makes all later steps fail.
    pub(crate) fn refuse(&self, failure: Failure) {
        *self.0.refuses.lock().unwrap() = Some(failure);
    }
}

impl SessionPort for Session {
    fn step(&self, _: RunId, _: u32, step: Arc<Step>) -> PortResult<'_, ()> {
        let refused = self.0.refuses.lock().unwrap().clone();
        if refused.is_none() {
            self.0.steps.lock().unwrap().push(step);
        }
        Box::pin(async { refused.map_or(Ok(()), Err) })
    }

    /// Every agent except `nobody` did its task.
    fn delegate(
        &self,
        _: RunId,
        _: u32,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> PortResult<'_, Vec<ToolResult>> {
        let results = calls.iter().map(|call| {
            let is_error = call.agent.as_str() == "nobody";
            let content = if is_error {
                "[refused: there is no agent `nobody`]".to_owned()
            } else {
                format!("{} did: {}", call.agent, call.task)
            };
            ToolResult::new(call.call_id.clone(), content, is_error)
        });
        let results = results.collect();
        self.0.rounds.lock().unwrap().push((round, calls));
        Box::pin(async { Ok(results) })
    }

    /// As the test prepared; without a prepared answer, every call is the last.
    fn reserve(
        &self,
        _: RunId,
        _: u32,
        ask: ReservationRequest,
    ) -> PortResult<'_, Option<Arc<str>>> {
        let answer = self.0.budget.lock().unwrap().pop_front();
        self.0.asked.lock().unwrap().push(ask);
        if self.0.holds_budget.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { answer.unwrap_or_else(|| Ok(Some("budget_exceeded".into()))) })
    }

    fn settle(&self, _: RunId, _: u32, call: u32, end: CallEnd) {
        self.0.settled.lock().unwrap().push((call, end));
    }

    fn spent(&self, _: RunId, _: u32, call: Option<u32>, spent: AuxiliaryUsage) {
        self.0.spent.lock().unwrap().push(call);
        let step = Arc::new(Step::Spent(spent));
        self.0.steps.lock().unwrap().push(step);
    }

    /// One token per byte.
    fn call_tools(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<NewCall>,
        _: tokio::sync::watch::Sender<bool>,
    ) -> PortResult<'_, Vec<ToolResult>> {
        assert_eq!((run, attempt), (RunId::from_u128(3), 1));
        let asked = calls.iter().map(|call| (round, call.clone()));
        self.0.called.lock().unwrap().extend(asked);
        let results = calls.into_iter().map(|call| {
            let is_error = matches!(
                call.permission,
                Some(Permission::Unlisted | Permission::Denied)
            );
            let content = match is_error {
                true => "[refused]".to_owned(),
                false => format!("{} says {}", call.tool, call.arguments),
            };
            ToolResult::new(call.call_id, content, is_error)
        });
        Box::pin(std::future::ready(Ok(results.collect())))
    }

    /// Every call has ended at once.
    fn withdraw_permissions(&self, _: RunId, _: u32, _: u32) {}

    fn count(&self, texts: Vec<String>, _: Encoding) -> PortFuture<'_, Vec<Count>> {
        let counts = texts.iter().map(|text| Count::exact(text.len() as u64));
        let counts = counts.collect();
        Box::pin(async { counts })
    }

    fn read_message(&self, _: MessageId, ordinal: Ordinal) -> PortResult<'_, Option<Arc<Message>>> {
        let messages = self.0.messages.lock().unwrap();
        let found = messages.iter().find(|m| m.ordinal == ordinal).cloned();
        Box::pin(async { Ok(found) })
    }

    fn read_result(&self, _: RunId, name: String) -> PortResult<'_, Option<Arc<str>>> {
        let results = self.0.results.lock().unwrap();
        let found = results.get(&name).cloned();
        Box::pin(async { Ok(found) })
    }

    fn read_steps(&self, _: MessageId, ordinal: Ordinal) -> PortResult<'_, Vec<Arc<Step>>> {
        let acts = self.0.acts.lock().unwrap();
        let steps = acts.get(&ordinal).cloned().unwrap_or_default();
        Box::pin(async { Ok(steps) })
    }

    fn recall(
        &self,
        head: MessageId,
        text: String,
        limit: usize,
    ) -> PortResult<'_, Result<RecallResults, String>> {
        let messages = self.0.messages.lock().unwrap().clone();
        Box::pin(async move {
            let (journal, tree) = journaled(&messages).await;
            let branch = Branch::new(SESSION, &tree, head);
            let search = Search::in_memory(journal);
            let found = search.recall(&branch, &text, limit).await;
            let found = found.map(|on_branch| RecallResults {
                on_branch,
                elsewhere: Vec::new(),
            });
            Ok(found.map_err(|error| error.to_string()))
        })
    }

    fn read_outside_message(
        &self,
        _: MessagePlace,
    ) -> PortResult<'_, Result<Arc<Message>, String>> {
        Box::pin(async { Ok(Err("only the branch can be read".to_owned())) })
    }

    fn read_content(&self, digest: Digest) -> PortResult<'_, Arc<[u8]>> {
        let lost = Failure::new(RunCause::Panic, format!("{digest} is not stored"));
        Box::pin(std::future::ready(Err(lost)))
    }

    fn progress(&self, _: RunId, text: Arc<str>) {
        self.0.progress.lock().unwrap().push(text);
    }

    fn pause(&self, _: RunId, _: Timestamp, reason: &str) {
        self.0.progress.lock().unwrap().push(reason.into());
    }

    fn text_delta(&self, _: RunId, _: &str) {}
}

/// A session with these messages, and its tree.
async fn journaled(messages: &[Arc<Message>]) -> (Journal, Tree) {
    let (journal, mut tree) = (Journal::new(Arc::new(Memory::new())), Tree::default());
    let event = |fact| Event {
        at: Timestamp(0),
        fact,
    };
    let mut events = vec![event(Fact::Created {
        session: SESSION,
        title: "".into(),
        system: "".into(),
        labels: BTreeMap::new(),
    })];
    for message in messages {
        tree.append(message.parent, message.to_new()).unwrap();
        events.push(event(Fact::Appended {
            branch: Some("main".into()),
            parent: message.parent,
            message: message.to_new(),
        }));
    }
    let epoch = journal.claim(SESSION).await.unwrap().epoch;
    journal.append(SESSION, epoch, 0, &events, 0).await.unwrap();
    (journal, tree)
}

impl Attempt {
    /// An attempt of an agent of this kind on a conversation of these texts, alternately by user
    /// and assistant.
    pub(crate) fn new(kind: AgentKind, texts: &[&str]) -> Attempt {
        let mut tree = Tree::default();
        for (index, text) in texts.iter().enumerate() {
            let role = if index % 2 == 0 {
                Role::User
            } else {
                Role::Assistant
            };
            let id = MessageId::from_u128(index as u128 + 1);
            let parent = (index > 0).then(|| MessageId::from_u128(index as u128));
            tree.append(parent, NewMessage::text(id, role, *text, Timestamp(0)))
                .unwrap();
        }
        Attempt {
            definition: definition(kind),
            tree,
            steps: Vec::new(),
            tamper: false,
            models: Models::default(),
            session: Session::default(),
            colleagues: Vec::new(),
            room: Tokens(u64::MAX),
            bounded: false,
            wrapped_up: None,
            client_options: ClientOptions::default(),
            call_cap: CallCap::default(),
            results: Vec::new(),
            limit: Limit::new(),
            watchdog: Watchdog::new(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let (checkpoints, alterations) = (Checkpoints::default(), Alterations::default());
        let pinned = BTreeSet::new();
        let head = MessageId::from_u128(self.tree.len() as u128);
        let view = View::new(&self.tree, &checkpoints, &alterations, &pinned, head, false);
        Snapshot::freeze(
            &view.unwrap(),
            Preamble::new("be brief", crate::tools::specs(crate::RecallScope::Branch)),
        )
    }

    /// The built-in tools, and the client tools, which accept any arguments.
    fn tools(&self) -> Vec<ToolSpec> {
        let client_options = self
            .client_options
            .tools
            .iter()
            .map(|name| ToolSpec::new(name.clone(), "", r#"{"type":"object"}"#));
        crate::tools::specs(crate::RecallScope::Branch)
            .into_iter()
            .chain(client_options)
            .collect()
    }

    /// The context object of its agent.
    pub(crate) fn ctx(&self) -> Ctx {
        let snapshot = Arc::new(self.snapshot());
        let prefix = prompt::render(Some(&snapshot), &group(&self.definition));
        let messages = self.tree.iter().map(|node| node.message.clone());
        *self.session.0.messages.lock().unwrap() = messages.collect();
        let assignment = RunAssignment {
            definition_digest: self.definition.digest(),
            session: SESSION,
            turn: TurnId::from_u128(2),
            run: RunId::from_u128(3),
            attempt: 1,
            role: RunRole::Delegate { index: 0 },
            definition: Arc::new(self.definition.clone()),
            task: "list the risks".into(),
            results: self.results.clone(),
            colleagues: self.colleagues.clone(),
            prefix: prefix.digest(),
            headroom: self.room,
            results_reserve: Tokens(self.room.0 / 10),
            context: Tokens::ZERO,
            calibration: None,
            bounded: self.bounded,
            shared_headroom: true,
            wrapped_up: self.wrapped_up.clone(),
            steps: self.steps.clone(),
            head: Some(snapshot.manifest().head),
            snapshot: (self.definition.context == ContextMode::Snapshot).then_some(snapshot),
            tools: self.tools().into(),
            call_cap: self.call_cap,
            client_options: self.client_options.clone(),
            has_peers: false,
            sibling_index: 0,
        };
        let sent = if self.tamper {
            Prefix::new("{\"unisono\":1")
        } else {
            prefix
        };
        let port = Port::new(self.session.clone());
        Ctx::new(
            assignment,
            sent,
            CancellationToken::new(),
            port,
            self.models.clone(),
            Waiting::new(
                self.limit.clone(),
                self.watchdog.clone(),
                None,
                Default::default(),
            ),
        )
    }
}

/// A shell that runs a script.
pub(crate) fn sh(script: &str) -> Command {
    Command {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: BTreeMap::new(),
        cwd: None,
        env_pass: Vec::new(),
    }
}

/// The answer of an agent to the task; a wait of a minute is a failure.
pub(crate) async fn run_in_time(
    agent: &impl super::Agent,
    attempt: &Attempt,
) -> Result<super::Answer, Failure> {
    let minute = std::time::Duration::from_secs(60);
    let asked = tokio::time::timeout(minute, agent.run(task(), attempt.ctx()));
    asked.await.expect("it ends")
}

pub(crate) fn task() -> Task {
    Task {
        text: "list the risks".into(),
        results: Vec::new(),
    }
}

pub(crate) fn definition(kind: AgentKind) -> Definition {
    Definition {
        id: AgentId::new("risks"),
        description: "finds risks".into(),
        instructions: "Name every risk.".into(),
        kind,
        model: "test/scripted".into(),
        limits: Limits {
            window: Tokens(128_000),
            max_output: Tokens(4_096),
            encoding: Encoding::O200kBase,
            per_message: Tokens(4),
            files: Default::default(),
        },
        tools: vec!["read_message".into(), "recall".into()],
        max_model_calls: 8,
        timeout_ms: 60_000,
        retries: 0,
        max_concurrent: 1,
        context: ContextMode::Snapshot,
        prefix: PrefixMode::Shared,
        output_schema: None,
        temperature_milli: None,
        cache_warm: Default::default(),
        on_failure: OnFailure::Continue,
        delegates: Vec::new(),
        pipeline: Vec::new(),
        tags: Vec::new(),
    }
}
