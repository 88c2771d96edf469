//! A shell that immediately and correctly does everything that a test does not do itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::budget::Limits;
use unisono_context::checkpoint::{Body, Writer};
use unisono_context::compaction::Step as PlanStep;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::tokens::{Count, Counts};
use unisono_context::{
    AgentId, CallId, Digest, Encoding, MessageId, Ppm, RunId, SessionId, Timestamp, Tokens, TurnId,
};
use unisono_session::agent::{
    AgentKind, Assignment, ContextMode, Definition, OnFailure, PrefixMode, Team,
};
use unisono_session::assignment::{CompactionJob, RunAssignment};
use unisono_session::budget::{Amount, ReservationRequest};
use unisono_session::event::{Outcome, RequestKey, SummaryOptions, Work};
use unisono_session::machine::{
    Append, AttemptEnd, Counted, Import, NewTurn, Reaction, StepResult, WrittenSummary,
};
use unisono_session::measure::MeasureRequest;
use unisono_session::pending_effects::{CountRequest, RenderRequest};
use unisono_session::run::{RunCause, Step, ToolCall, Usage};
use unisono_session::{Effect, Event, Fact, Input, Machine, Refusal, State, Trace};

pub struct Shell {
    pub machine: Machine,
    pub journal: Vec<Event>,
    pub now: Timestamp,
    /// Effects that are not carried out yet.
    pub waiting: Vec<Effect>,
}

/// The texts of the results on the branch.
pub fn result_texts(shell: &Shell) -> Vec<String> {
    let nodes = shell.state().tree().iter();
    let parts = nodes.flat_map(|node| node.message.parts.clone());
    let results = parts.filter_map(|part| match part {
        Part::ToolResult { content, .. } => Some(content.to_string()),
        _ => None,
    });
    results.collect()
}

impl Shell {
    /// A session whose `main` has this number of messages of about ten tokens each.
    pub fn with(messages: u64) -> Shell {
        Shell::from_import(conversation(messages))
    }

    pub fn from_import(import: Import) -> Shell {
        let mut shell = Shell {
            machine: Machine::new(),
            journal: Vec::new(),
            now: Timestamp(1_000),
            waiting: Vec::new(),
        };
        shell.feed(Input::Import(import)).unwrap();
        shell
    }

    pub fn state(&self) -> &State {
        self.machine.state()
    }

    pub fn feed(&mut self, input: Input) -> Result<(), Refusal> {
        let reaction = self.machine.handle(input, self.now)?;
        self.absorb(reaction);
        Ok(())
    }

    pub fn absorb(&mut self, reaction: Reaction) {
        self.journal.extend(reaction.events);
        self.waiting.extend(reaction.effects);
    }

    pub fn accept(&mut self, turn: NewTurn) {
        self.feed(Input::Accept(Box::new(turn))).unwrap();
    }

    /// Accepts a turn and prepares it.
    pub fn begin(&mut self, turn: NewTurn) {
        self.accept(turn);
        self.prepare();
    }

    /// Accepts a turn and takes the agents to start.
    pub fn dispatch(&mut self, turn: NewTurn) -> Vec<RunAssignment> {
        self.accept(turn);
        self.dispatched()
    }

    /// Counts, compacts and renders until only agents, clocks and cancellations are left.
    pub fn prepare(&mut self) {
        while let Some(at) = self.waiting.iter().position(is_preparation) {
            let input = match self.waiting.remove(at) {
                Effect::Count(request) => count(&request),
                Effect::Measure(request) => measured(&request, None),
                Effect::Compact(job) => compact(&job),
                Effect::Render(request) => render(&request),
                _ => unreachable!(),
            };
            self.feed(input).unwrap();
        }
    }

    /// Takes the agents to start, in order.
    pub fn dispatched(&mut self) -> Vec<RunAssignment> {
        self.prepare();
        let mut briefs = Vec::new();
        for effect in std::mem::take(&mut self.waiting) {
            match effect {
                Effect::Dispatch(assignment) => briefs.push(*assignment),
                other => self.waiting.push(other),
            }
        }
        briefs
    }

    /// Takes the compaction step to carry out.
    pub fn job(&mut self) -> CompactionJob {
        loop {
            let at = self.waiting.iter().position(is_preparation).expect("a job");
            match self.waiting.remove(at) {
                Effect::Compact(job) => return *job,
                Effect::Count(request) => self.feed(count(&request)).unwrap(),
                _ => panic!("the context is frozen"),
            }
        }
    }

    pub fn step(&mut self, assignment: &RunAssignment, step: impl Into<Arc<Step>>) {
        let (run, attempt, step) = (assignment.run, assignment.attempt, step.into());
        self.feed(Input::RunStepped { run, attempt, step }).unwrap();
    }

    pub fn finish(&mut self, assignment: &RunAssignment, text: &str) {
        self.end(assignment, finished(text, Vec::new(), Usage::default()));
    }

    pub fn fail(&mut self, assignment: &RunAssignment, cause: RunCause) {
        self.end(assignment, AttemptEnd::failed(cause, "it went wrong"));
    }

    pub fn end(&mut self, assignment: &RunAssignment, end: AttemptEnd) {
        let (run, attempt) = (assignment.run, assignment.attempt);
        self.feed(Input::RunEnded { run, attempt, end }).unwrap();
    }

    /// Ends a step of a compaction with this summary.
    pub fn write(&mut self, job: &CompactionJob, written: WrittenSummary) {
        let (turn, step, result) = (job.turn, job.step, StepResult::Written(written));
        self.feed(Input::StepDone { turn, step, result }).unwrap();
    }

    pub fn fail_step(&mut self, job: &CompactionJob, reason: &str, is_retryable: bool) {
        let failed = Input::StepFailed {
            turn: job.turn,
            step: job.step,
            reason: reason.into(),
            is_retryable,
        };
        self.feed(failed).unwrap();
    }

    /// Sets the clock forward by this many milliseconds.
    pub fn tick(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        self.feed(Input::Tick).unwrap();
    }

    /// The session recovered from its journal, with nothing in progress.
    pub fn recovered(self) -> Shell {
        let (machine, reaction) = Machine::recover(&self.journal, self.now).unwrap();
        let mut shell = Shell {
            machine,
            waiting: Vec::new(),
            ..self
        };
        shell.absorb(reaction);
        shell
    }

    pub fn outcome(&self, turn: u64) -> &Outcome {
        &self
            .state()
            .ended_turn(turn_id(turn))
            .expect("it ended")
            .outcome
    }

    /// The code and the reason of a failed turn.
    pub fn failure(&self, turn: u64) -> (&str, &str) {
        match self.outcome(turn) {
            Outcome::Failed { code, reason } => (code, reason),
            other => panic!("{other}"),
        }
    }

    pub fn trace(&self) -> Trace {
        let mut trace = Trace::default();
        self.journal.iter().for_each(|event| trace.take(event));
        trace
    }

    /// The calls that wait for a person.
    pub fn waiting_calls(&self) -> Vec<CallId> {
        self.state().waiting_calls().map(|call| call.id).collect()
    }

    /// The position of the first fact of this name.
    pub fn first(&self, name: &str) -> usize {
        let mut events = self.journal.iter();
        events.position(|event| event.fact.name() == name).unwrap()
    }

    /// The texts of `main` after the first messages.
    pub fn texts_after(&self, first: usize) -> Vec<String> {
        let tree = self.state().tree();
        let path = tree.head("main").into_iter();
        let path = path.flat_map(|head| tree.path(head));
        let mut path: Vec<String> = path.map(|node| node.message.countable_text()).collect();
        path.reverse();
        path.split_off(first)
    }

    pub fn facts(&self, name: &str) -> Vec<&Fact> {
        let facts = self.journal.iter().map(|event| &event.fact);
        facts.filter(|fact| fact.name() == name).collect()
    }

    pub fn cancelled(&self) -> Vec<RunId> {
        let runs = self.waiting.iter().filter_map(|effect| match effect {
            Effect::CancelRun(run) => Some(*run),
            _ => None,
        });
        runs.collect()
    }
}

fn is_preparation(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Count(_) | Effect::Measure(_) | Effect::Compact(_) | Effect::Render(_)
    )
}

/// The provider's count.
pub fn measured(request: &MeasureRequest, reported: Option<u64>) -> Input {
    Input::Measured {
        turn: request.turn,
        model: request.agent.model.clone(),
        estimated: request.estimated,
        reported: reported.map(Tokens),
    }
}

pub fn count(request: &CountRequest) -> Input {
    let counted = |text: &str| Count::exact(text.len() as u64 / 4 + 1);
    let messages = request.messages.iter().map(|message| {
        let texts = message.parts.iter().map(|part| part.countable_text());
        let text: String = texts.collect();
        (message.id, counted(&text))
    });
    let texts = request.texts.iter();
    Input::Counted(Counted {
        turn: request.turn,
        encoding: request.encoding,
        texts: texts.map(|(name, text)| (*name, counted(text))).collect(),
        messages: messages.collect(),
    })
}

pub fn compact(job: &CompactionJob) -> Input {
    let result = match &job.plan.step {
        PlanStep::Mask(_) | PlanStep::Cut { .. } | PlanStep::Truncate { .. } => {
            let forms = job.plan.step.forms().into_iter();
            let altered = forms.map(|(message, ordinal, form)| Alteration {
                message,
                ordinal,
                form,
                counts: counts(8, &job.encodings),
            });
            StepResult::Altered(altered.collect())
        }
        PlanStep::Summarise { .. } | PlanStep::Regenerate { .. } => {
            StepResult::Written(summary(20, &job.encodings))
        }
        PlanStep::Drop { .. } => StepResult::Written(WrittenSummary {
            body: Body::Tombstone,
            ..summary(12, &job.encodings)
        }),
    };
    let (turn, step) = (job.turn, job.step);
    Input::StepDone { turn, step, result }
}

fn counts(tokens: u64, encodings: &[Encoding]) -> Counts {
    let encodings = encodings.iter();
    encodings.map(|e| (*e, Count::exact(tokens))).collect()
}

pub fn summary(tokens: u64, encodings: &[Encoding]) -> WrittenSummary {
    WrittenSummary {
        body: Body::Summary("## Context\nso far".into()),
        key_facts: Vec::new(),
        counts: counts(tokens, encodings),
        writer: Writer::Model,
        model: "fake".into(),
        cost_micros: None,
        duration_ms: 1,
        degraded: false,
        coverage: None,
    }
}

pub fn render(request: &RenderRequest) -> Input {
    let digests = request.definitions.iter().map(|(digest, _)| *digest);
    Input::Rendered {
        turn: request.turn,
        prefixes: Ok(digests.map(|d| (d, d)).collect::<BTreeMap<_, _>>()),
    }
}

pub fn turn_id(n: u64) -> TurnId {
    TurnId::from_u128(
        ((0x0192 << 32) + u128::from(n)) << 80 | 0x7 << 76 | 0b10 << 62 | u128::from(n),
    )
}

pub fn message_id(n: u64) -> MessageId {
    MessageId::from_u128(0x0191 << 112 | 0x7 << 76 | 0b10 << 62 | u128::from(n))
}

pub fn conversation(messages: u64) -> Import {
    let roles = [Role::User, Role::Assistant];
    let said = (1..=messages).map(|n| {
        let parent = (n > 1).then(|| message_id(n - 1));
        let role = roles[(n as usize + 1) % 2];
        let text = format!("message {n:03}: what was said then..");
        (
            parent,
            NewMessage::text(message_id(n), role, text, Timestamp(n as i64)),
        )
    });
    Import {
        session: Some(SessionId::from_u128(1)),
        title: "a session".into(),
        system: "be brief".into(),
        messages: said.collect(),
        ..Import::default()
    }
}

pub fn agent(name: &str) -> Definition {
    Definition {
        id: AgentId::new(name),
        description: "an agent".into(),
        instructions: "work".into(),
        kind: AgentKind::Llm,
        model: "fake/model".into(),
        limits: Limits {
            window: Tokens(2_000),
            max_output: Tokens(100),
            encoding: Encoding::O200kBase,
            per_message: Tokens(3),
            files: Default::default(),
        },
        tools: Vec::new(),
        max_model_calls: 4,
        timeout_ms: 1_000,
        retries: 0,
        max_concurrent: 4,
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

pub fn retried(name: &str) -> Definition {
    Definition {
        retries: 1,
        ..agent(name)
    }
}

/// An agent whose model has this window and encoding.
pub fn sized(name: &str, window: u64, encoding: Encoding) -> Definition {
    let mut agent = agent(name);
    agent.limits.window = Tokens(window);
    agent.limits.encoding = encoding;
    agent
}

pub fn finished(text: &str, calls: Vec<ToolCall>, usage: Usage) -> AttemptEnd {
    AttemptEnd::Finished {
        text: text.into(),
        calls,
        partial: None,
        usage,
        attempt_times: Default::default(),
    }
}

pub fn key(name: &str, request: &str) -> RequestKey {
    RequestKey::new(name, Digest::of_bytes(request.as_bytes()))
}

/// Appends a message to `main`.
pub fn append(message: NewMessage, key: Option<RequestKey>) -> Input {
    Input::Append(Append {
        branch: "main".into(),
        message,
        key,
    })
}

pub fn pin(message: MessageId, pinned: bool) -> Input {
    Input::Pin {
        branch: "main".into(),
        messages: vec![message],
        pinned,
    }
}

pub fn call_part(id: &str) -> Part {
    Part::tool_call(id, "look", "{}")
}

pub fn result_part(id: &str, content: &str) -> Part {
    Part::tool_result(id, content, false)
}

pub fn not_called(id: &str) -> Refusal {
    Refusal::NotCalled {
        call_id: id.into(),
        branch: "main".into(),
    }
}

/// A reservation for a call of this number.
pub fn reservation(call: u32, amount: Amount) -> ReservationRequest {
    ReservationRequest {
        call,
        model: "fake/model".into(),
        tokens: amount.tokens,
        cost: Some(amount.cost),
        last: None,
        short: None,
    }
}

pub fn answering(input: NewMessage) -> Work {
    Work::Answer {
        input,
        client_options: Default::default(),
    }
}

pub fn team(lead: Definition, delegates: impl IntoIterator<Item = Definition>) -> Team {
    let assignments = delegates.into_iter().map(|agent| Assignment {
        agent: Arc::new(agent),
        task: None,
    });
    Team {
        lead: Arc::new(lead),
        delegates: assignments.collect(),
        available: Vec::new(),
    }
}

pub fn input(n: u64) -> NewMessage {
    let id = message_id(100_000 + n);
    NewMessage::text(id, Role::User, "what is left to do?", Timestamp(0))
}

/// A turn on `main` without compaction.
pub fn turn(n: u64, team: Team) -> NewTurn {
    NewTurn {
        id: turn_id(n),
        branch: "main".into(),
        work: answering(input(n)),
        team,
        policy: Policy::from_preset(Preset::Off),
        instructions: Arc::from(""),
        phrases: Vec::new(),
        safety: Ppm::percent(5),
        tools: Vec::new(),
        calibrations: Vec::new(),
        delegation: Default::default(),
        rules: Default::default(),
        caps: Default::default(),
        call_cap: Default::default(),
        prepare: None,
    }
}

/// The same with a trigger of this number of tokens.
pub fn compacting(n: u64, team: Team, tokens: u64) -> NewTurn {
    NewTurn {
        policy: Policy {
            trigger: Some(Trigger::Tokens(Tokens(tokens))),
            keep: unisono_context::policy::Keep::Messages(3),
            ..Policy::from_preset(Preset::Checkpoint)
        },
        ..turn(n, team)
    }
}

/// A requested compaction of `main`.
pub fn manual(n: u64) -> NewTurn {
    NewTurn {
        work: Work::Compact {
            keep: None,
            writing: SummaryOptions::with_instructions(Some("keep the names")),
        },
        ..compacting(n, team(agent("lead"), []), 10_000)
    }
}
