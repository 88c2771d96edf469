//! A runtime whose agents answer at once.

use std::sync::Arc;

use unisono_context::budget::Limits;
use unisono_context::message::{NewMessage, Role};
use unisono_context::policy::Policy;
use unisono_context::{Encoding, MessageId, Ppm, Tokens, TurnId};
use unisono_runtime::{Agent, Answer, Ctx, Extensions, Failure, Task, clock};
use unisono_session::agent::{AgentKind, Assignment, Definition, Team};
use unisono_session::event::Work;
use unisono_session::machine::NewTurn;

/// Answers at once.
#[derive(Clone, Copy, Debug)]
pub struct Prompt;

impl Agent for Prompt {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let name = &ctx.definition().id;
        Ok(Answer::text(format!("{name}: nothing speaks against it")))
    }
}

/// The kinds the definitions here name.
pub fn extensions() -> Extensions {
    Extensions::default().agent("prompt", Prompt)
}

/// The definition of an agent that answers at once.
pub fn definition(id: &str) -> Definition {
    Definition {
        id: id.into(),
        description: "answers at once".into(),
        instructions: "Say whether anything speaks against it.".into(),
        kind: AgentKind::Custom("prompt".into()),
        model: "none".into(),
        limits: Limits {
            window: Tokens(200_000),
            max_output: Tokens(8_000),
            encoding: Encoding::O200kBase,
            per_message: Tokens(3),
            files: Default::default(),
        },
        tools: Vec::new(),
        max_model_calls: 1,
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

/// The definition of an agent of the kind `begun`, which never answers.
pub fn unanswered(id: &str) -> Definition {
    Definition {
        kind: AgentKind::Custom("begun".into()),
        timeout_ms: 3_600_000,
        max_concurrent: 100_000,
        ..definition(id)
    }
}

/// A lead and so many delegates.
pub fn team(delegates: usize) -> Team {
    team_of(delegates, definition)
}

/// The same with definitions of another kind.
pub fn team_of(delegates: usize, definition: impl Fn(&str) -> Definition) -> Team {
    let delegate = |n| Assignment {
        agent: Arc::new(definition(&format!("delegate-{n}"))),
        task: None,
    };
    Team {
        lead: Arc::new(definition("lead")),
        delegates: (1..=delegates).map(delegate).collect(),
        available: Vec::new(),
    }
}

/// A turn of a team on a branch.
pub fn turn(branch: &str, team: Team, work: Work, policy: Policy) -> NewTurn {
    NewTurn {
        id: TurnId::from_u128(clock::new_id()),
        branch: branch.into(),
        work,
        team,
        policy,
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

/// The work of answering a question.
pub fn question() -> Work {
    let id = MessageId::from_u128(clock::new_id());
    Work::Answer {
        input: NewMessage::text(
            id,
            Role::User,
            "Does anything speak against it?",
            clock::now(),
        ),
        client_options: unisono_context::call::ClientOptions::default(),
    }
}
