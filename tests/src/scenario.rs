//! Scenarios: `scenario().agent(..).delegate(..).turn(..)`, run on a real store directory,
//! optionally halted at an event and taken up again.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Notify;
use unisono_context::budget::Limits;
use unisono_context::message::{NewMessage, Role};
use unisono_context::policy::Policy;
use unisono_context::{Encoding, MessageId, Ppm, SessionId, Timestamp, Tokens, TurnId};
use unisono_model::language::{LanguageModel, Models};
use unisono_runtime::{Agent, Events, Extensions, Handle, Options, Runtime, clock, tools};
use unisono_session::Event;
use unisono_session::agent::{AgentKind, Assignment, Definition, Team};
use unisono_session::budget::TurnCaps;
use unisono_session::event::{DelegationLimits, Fact, Outcome, Work};
use unisono_session::machine::{Import, NewTurn};
use unisono_session::state::EndedTurn;
use unisono_store::{Disk, Journal};

use crate::halting::Halting;

/// No scenario takes longer; a hang fails instead of blocking.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A definition carried out by the registered kind of the same name.
pub fn definition(id: &str) -> Definition {
    Definition {
        id: id.into(),
        description: "for a scenario".into(),
        instructions: "".into(),
        kind: AgentKind::Custom(id.into()),
        model: "none".into(),
        limits: Limits {
            window: Tokens(100_000),
            max_output: Tokens(1_000),
            encoding: Encoding::O200kBase,
            per_message: Tokens(3),
            files: Default::default(),
        },
        tools: Vec::new(),
        max_model_calls: 4,
        timeout_ms: 30_000,
        retries: 0,
        max_concurrent: 64,
        context: Default::default(),
        prefix: Default::default(),
        output_schema: None,
        temperature_milli: None,
        cache_warm: Default::default(),
        on_failure: Default::default(),
        delegates: Vec::new(),
        pipeline: Vec::new(),
        tags: Vec::new(),
    }
}

/// A definition carried out by the model `test/scripted`.
pub fn model_driven(id: &str, tools: &[&str]) -> Definition {
    Definition {
        kind: AgentKind::Llm,
        model: "test/scripted".into(),
        tools: tools.iter().map(|tool| Arc::from(*tool)).collect(),
        ..definition(id)
    }
}

/// A conversation of so many messages of some forty tokens each.
pub fn conversation(session: SessionId, messages: u32) -> Import {
    let text = |n: u32| {
        format!(
            "Message {n}: we decided that part {n} of the plan must be finished by day {}, \
             because the supplier of part {n} closes its store {n} on that day for good.",
            n % 28 + 1
        )
    };
    let message = |n: u32| {
        let role = if n % 2 == 1 {
            Role::User
        } else {
            Role::Assistant
        };
        let id = MessageId::from_u128(clock::new_id());
        NewMessage::text(id, role, text(n), Timestamp(i64::from(n) * 60_000))
    };
    let mut linked = Vec::new();
    let mut parent = None;
    for n in 1..=messages {
        let message = message(n);
        let id = message.id;
        linked.push((parent, message));
        parent = Some(id);
    }
    Import {
        session: Some(session),
        system: "You plan a delivery.".into(),
        messages: linked,
        ..Import::default()
    }
}

/// Puts a scenario together.
pub fn scenario() -> Scenario {
    Scenario {
        messages: 8,
        ..Scenario::default()
    }
}

/// What a scenario is made of.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    kinds: Extensions,
    lead: Option<Arc<Definition>>,
    delegates: Vec<Arc<Definition>>,
    available: Vec<Arc<Definition>>,
    models: Models,
    delegation: DelegationLimits,
    caps: TurnCaps,
    policy: Policy,
    messages: u32,
    options: Options,
}

impl Scenario {
    /// The agent that answers.
    #[must_use]
    pub fn lead(mut self, definition: Definition, agent: impl Agent) -> Scenario {
        self.kinds = register(self.kinds, &definition, agent);
        self.lead = Some(Arc::new(definition));
        self
    }

    /// One more delegate.
    #[must_use]
    pub fn delegate(mut self, definition: Definition, agent: impl Agent) -> Scenario {
        self.kinds = register(self.kinds, &definition, agent);
        self.delegates.push(Arc::new(definition));
        self
    }

    /// One more agent that the lead may give tasks to.
    #[must_use]
    pub fn available(mut self, definition: Definition, agent: impl Agent) -> Scenario {
        self.kinds = register(self.kinds, &definition, agent);
        self.colleague(definition)
    }

    /// The agent that answers, driven by a model.
    #[must_use]
    pub fn led_by(mut self, definition: Definition) -> Scenario {
        self.lead = Some(Arc::new(definition));
        self
    }

    /// One more delegate, driven by a model.
    #[must_use]
    pub fn asked(mut self, definition: Definition) -> Scenario {
        self.delegates.push(Arc::new(definition));
        self
    }

    /// One more agent that the lead may give tasks to, driven by a model.
    #[must_use]
    pub fn colleague(mut self, definition: Definition) -> Scenario {
        self.available.push(Arc::new(definition));
        self
    }

    /// The model of that name.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl LanguageModel + 'static) -> Scenario {
        self.models = self.models.with(name, model);
        self
    }

    /// What it may use.
    #[must_use]
    pub fn caps(mut self, caps: TurnCaps) -> Scenario {
        self.caps = caps;
        self
    }

    /// How far agents may delegate by themselves.
    #[must_use]
    pub fn delegation(mut self, limits: DelegationLimits) -> Scenario {
        self.delegation = limits;
        self
    }

    /// When and how to compact.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Scenario {
        self.policy = policy;
        self
    }

    /// How long the conversation is before the turn.
    #[must_use]
    pub fn messages(mut self, messages: u32) -> Scenario {
        self.messages = messages;
        self
    }

    /// Bounds and deadlines.
    #[must_use]
    pub fn options(mut self, options: Options) -> Scenario {
        self.options = options;
        self
    }

    /// The conversation the turn is about.
    pub fn import(&self, session: SessionId) -> Import {
        conversation(session, self.messages)
    }

    /// The turn.
    pub fn turn(&self, id: TurnId, task: &str) -> NewTurn {
        let lead = self.lead.clone().expect("a scenario has a lead");
        let input = MessageId::from_u128(clock::new_id());
        let assign = |agent: &Arc<Definition>| Assignment {
            agent: agent.clone(),
            task: None,
        };
        NewTurn {
            id,
            branch: "main".into(),
            work: Work::Answer {
                input: NewMessage::text(input, Role::User, task, clock::now()),
                client_options: unisono_context::call::ClientOptions::default(),
            },
            team: Team {
                lead,
                delegates: self.delegates.iter().map(assign).collect(),
                available: self.available.clone(),
            },
            policy: self.policy,
            instructions: Arc::from(""),
            phrases: Vec::new(),
            safety: Ppm::percent(5),
            tools: if self.available.is_empty() {
                Vec::new()
            } else {
                tools::specs(unisono_runtime::RecallScope::Branch)
            },
            calibrations: Vec::new(),
            delegation: self.delegation,
            rules: Default::default(),
            call_cap: Default::default(),
            prepare: None,
            caps: self.caps.clone(),
        }
    }

    /// Has a new session answer a task, in a store directory of its own.
    pub async fn ask(&self, task: &str) -> (TempDir, World, Handle, TurnId) {
        let directory = tempfile::tempdir().expect("a directory");
        let world = self.start(directory.path()).await;
        let (handle, turn) = world.ask(self, task).await;
        (directory, world, handle, turn)
    }

    /// All facts of a session once its turn has been answered after a restart; none if the turn was
    /// never accepted.
    pub async fn finish(&self, store: &Path, (session, turn): (SessionId, TurnId)) -> Vec<Fact> {
        let world = self.start(store).await;
        let handle = world.runtime.open(session).await.expect("opened");
        let known = handle.inspect(move |s| s.turn(turn).is_some() || s.ended_turn(turn).is_some());
        let mut facts = Vec::new();
        if known.await.expect("inspected") {
            assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);
            let mut events = handle.events(0).await.expect("events");
            facts = facts_until_end(&mut events, turn).await;
        }
        drop(handle);
        world.stop().await;
        facts
    }

    /// Starts a runtime on a store directory.
    pub async fn start(&self, directory: &Path) -> World {
        self.start_halting(directory, i64::MAX, Arc::new(Notify::new()))
            .await
    }

    /// Starts a runtime whose store stops taking events after so many of them.
    pub async fn start_halting(&self, directory: &Path, events: i64, halted: Arc<Notify>) -> World {
        let directory = directory.to_owned();
        let opened = tokio::task::spawn_blocking(move || Disk::open(directory)).await;
        let opened = opened
            .expect("opening does not panic")
            .expect("the store opens");
        assert!(opened.salvage.is_none(), "the store was whole");
        let disk = Arc::new(opened.disk);
        let held = Arc::downgrade(&disk);
        let journal = Journal::new(Arc::new(Halting::new(disk, events, halted)));
        let (kinds, options) = (self.kinds.clone(), self.options.clone());
        let runtime = Runtime::start(journal.clone(), kinds, self.models.clone(), options).await;
        World {
            runtime: runtime.expect("the runtime starts"),
            journal,
            held,
        }
    }
}

fn register(kinds: Extensions, definition: &Definition, agent: impl Agent) -> Extensions {
    match &definition.kind {
        AgentKind::Custom(kind) => kinds.agent(kind.to_string(), agent),
        AgentKind::Llm
        | AgentKind::Command(_)
        | AgentKind::Http(_)
        | AgentKind::A2a(_)
        | AgentKind::Acp(_)
        | AgentKind::Pipeline => kinds,
    }
}

/// A runtime on a store.
#[derive(Debug)]
pub struct World {
    /// The runtime.
    pub runtime: Runtime,
    journal: Journal,
    held: Weak<Disk>,
}

impl World {
    /// Has a new session answer a task.
    pub async fn ask(&self, plan: &Scenario, task: &str) -> (Handle, TurnId) {
        let created = self.runtime.create(plan.import(new_session())).await;
        let (handle, turn) = (created.expect("created"), new_turn());
        let accepted = handle.accept(plan.turn(turn, task)).await;
        accepted.expect("accepted");
        (handle, turn)
    }

    /// Has a session answer a task until the store halts; whether the turn was accepted before.
    pub async fn ask_until_halt(
        &self,
        plan: &Scenario,
        (session, turn): (SessionId, TurnId),
        halted: &Notify,
    ) -> bool {
        let created = self.runtime.create(plan.import(session)).await;
        let handle = created.expect("created");
        tokio::select! {
            () = halted.notified() => false,
            accepted = handle.accept(plan.turn(turn, "What is due when?")) => {
                accepted.expect("accepted");
                tokio::select! {
                    () = halted.notified() => {}
                    ended = handle.wait(turn) => drop(ended.expect("ended")),
                }
                true
            }
        }
    }

    /// What a session's journal says.
    pub async fn events_of(&self, session: SessionId) -> Vec<Event> {
        let events = self.journal.read(session, 1, 100_000).await.expect("read");
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// Stops the runtime and lets go of the store.
    pub async fn stop(self) {
        self.runtime.shutdown().await;
        self.journal.close().await.expect("the store closes");
        drop(self.journal);
        // The store's lock goes with the last task that had a part in it.
        until(|| self.held.strong_count() == 0).await;
    }
}

/// Waits until something another task does has happened; fails when it takes too long.
pub async fn until(happened: impl Fn() -> bool) {
    let polling = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, polling).await;
    done.expect("it happens in time");
}

/// Waits for a turn, but not forever.
pub async fn wait(handle: &Handle, turn: TurnId) -> EndedTurn {
    let ended = tokio::time::timeout(PATIENCE, handle.wait(turn)).await;
    ended
        .expect("the turn ends in time")
        .expect("the turn is known")
}

/// The session's facts up to the end of a turn.
pub async fn facts_until_end(events: &mut Events, turn: TurnId) -> Vec<Fact> {
    let mut facts = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, events.next()).await;
        let event = next
            .expect("events come in time")
            .expect("the journal is read");
        let Some((_, event)) = event else {
            return facts;
        };
        let last = matches!(&event.fact, Fact::TurnEnded { turn: ended, .. } if *ended == turn);
        facts.push(event.fact.clone());
        if last {
            return facts;
        }
    }
}

/// A session id.
pub fn new_session() -> SessionId {
    SessionId::from_u128(clock::new_id())
}

/// A turn id.
pub fn new_turn() -> TurnId {
    TurnId::from_u128(clock::new_id())
}
