//! The scenario of a session: its conversation, its turns, and the requests of clients with their
//! times.

use std::sync::{Arc, OnceLock};

use unisono_context::budget::Limits;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Ends, Keep, Masking, Method, Policy, Preset, Tiers, Trigger};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{
    AgentId, Cost, Digest, Encoding, MessageId, Ppm, SessionId, Timestamp, Tokens, TurnId,
};
use unisono_session::agent::{
    AgentKind, Assignment, ContextMode, Definition, OnFailure, PrefixMode, Stage, Team,
};
use unisono_session::budget::{Caps, TurnCaps};
use unisono_session::event::RequestKey;
use unisono_session::event::{
    Calibration, DelegationLimits, SummaryFallback, SummaryOptions, Work,
};
use unisono_session::ids;
use unisono_session::machine::{Append, Import, NewTurn};
use unisono_session::tool::{
    ApprovalRule, Contract, HookEvent, HookFailurePolicy, HookRule, ToolRules,
};

use crate::agents::WORST;
use crate::rng::Rng;

/// A request of a client, until it is acknowledged.
#[derive(Clone, Debug)]
pub enum Call {
    Import(Box<Import>),
    Accept(Box<NewTurn>),
    Cancel(TurnId),
    Fork {
        branch: Arc<str>,
        at: MessageId,
    },
    Pin {
        branch: Arc<str>,
        message: MessageId,
        pinned: bool,
    },
    Seal(Arc<str>),
    Append(Box<Append>),
    /// An override of a setting, and its value; none: it is removed.
    Set(Arc<str>, Option<Arc<str>>),
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub calls: Vec<Call>,
    /// Percentage of agents, compactors and counters that misbehave.
    pub trouble: usize,
}

/// One tool per contract.
pub const TOOLS: [&str; 3] = ["files__read", "files__put", "files__send"];

/// The rules about tools: mostly, some of their calls need an approval.
fn rules(rng: &mut Rng) -> ToolRules {
    let contracts = TOOLS.iter().zip(Contract::ALL);
    let approvals = [
        "files__send(path=/etc*)",
        "files__*(path=/etc)",
        "*",
        "files__put",
    ];
    let approvals = approvals.iter().filter(|_| rng.percent(40));
    ToolRules {
        contracts: contracts
            .map(|(name, contract)| ((*name).into(), contract))
            .collect(),
        approvals: approvals
            .map(|text| ApprovalRule::parse(text).unwrap())
            .collect(),
        approval_timeout_ms: rng.percent(30).then_some(300),
        hooks: hooks(rng),
    }
}

/// Sometimes hooks, for all events or for some calls.
fn hooks(rng: &mut Rng) -> Vec<HookRule> {
    let hook = |name: &str, on_failure, tools: &[&str]| HookRule {
        name: name.into(),
        events: HookEvent::ALL.to_vec(),
        tools: tools.iter().map(|tool| (*tool).into()).collect(),
        on_failure,
    };
    let all = [
        hook("guard", HookFailurePolicy::Deny, &["files__*"]),
        hook("notes", HookFailurePolicy::Ignore, &[]),
    ];
    all.into_iter().filter(|_| rng.percent(20)).collect()
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, "does what its name says", "{}")
}

pub fn turn_id(n: u64) -> TurnId {
    TurnId::from_u128((0x0192_0000_0000 + u128::from(n)) << 80 | 0x7 << 76 | 0b10 << 62 | 7)
}

pub fn message_id(n: u64) -> MessageId {
    MessageId::from_u128((0x0191_0000_0000 + u128::from(n)) << 80 | 0x7 << 76 | 0b10 << 62 | 3)
}

fn agent(name: &str, n: usize) -> Arc<Definition> {
    let encoding = Encoding::ALL[usize::from(n % 4 == 3)];
    Arc::new(Definition {
        id: AgentId::new(name),
        description: "an agent".into(),
        instructions: "work".into(),
        kind: AgentKind::Llm,
        model: "fake/model".into(),
        limits: Limits {
            window: Tokens(if n % 7 == 6 { 390 } else { 730 }),
            max_output: Tokens(50),
            encoding,
            per_message: Tokens(3),
            files: Default::default(),
        },
        tools: Vec::new(),
        max_model_calls: 4,
        timeout_ms: 1_000,
        retries: (n % 3) as u32,
        max_concurrent: 4,
        context: if n % 5 == 4 {
            ContextMode::TaskOnly
        } else {
            ContextMode::Snapshot
        },
        prefix: PrefixMode::Shared,
        output_schema: None,
        temperature_milli: None,
        cache_warm: Default::default(),
        on_failure: if n % 6 == 5 {
            OnFailure::Fail
        } else {
            OnFailure::Continue
        },
        delegates: Vec::new(),
        pipeline: Vec::new(),
        tags: Vec::new(),
    })
}

/// The agents, created once: each has its own combination of settings.
pub fn agents() -> &'static [Arc<Definition>] {
    static AGENTS: OnceLock<Vec<Arc<Definition>>> = OnceLock::new();
    AGENTS.get_or_init(|| (0..21).map(|n| agent(&format!("agent-{n}"), n)).collect())
}

/// Makes the delegates of a turn stages of a pipeline.
fn make_pipeline(turn: &mut NewTurn) {
    let stages = turn.team.delegates.iter().map(|stage| Stage {
        agent: stage.agent.id.clone(),
        task: stage.task.clone(),
    });
    let pipeline = stages.collect();
    Arc::make_mut(&mut turn.team.lead).pipeline = pipeline;
}

pub fn message(n: u64, role: Role, length: usize) -> NewMessage {
    let text = format!("{n:06} ").repeat(1 + length / 7);
    NewMessage::text(message_id(n), role, text, Timestamp(n as i64))
}

/// Small enough for topics to end, with all consequences.
const TIERS: Tiers = Tiers {
    topic_cap: Tokens(40),
    bulk_cap: Tokens(40),
    topics_keep: 1,
    ends: Ends {
        silence_ms: Some(20),
        over: Some(Ppm::percent(60)),
    },
    ..Tiers::DEFAULT
};

pub fn policy(rng: &mut Rng) -> Policy {
    let preset = Preset::ALL[rng.below(6)];
    Policy {
        trigger: (preset != Preset::Off).then_some(Trigger::Tokens(Tokens(120))),
        minimum: Tokens::ZERO,
        keep: match rng.below(3) {
            _ if preset == Preset::Tiered => Keep::Tiers(TIERS),
            0 => Keep::Messages(2),
            1 => Keep::UpToTarget,
            _ => Keep::ShareOfHistory(Ppm::percent(30)),
        },
        method: match preset {
            Preset::Truncate => Method::Drop,
            _ => Method::Summarise { cap: Tokens(60) },
        },
        masking: Some(Masking {
            over: Tokens(50),
            keep_newest: 1,
        }),
        ..Policy::from_preset(preset)
    }
}

fn conversation(rng: &mut Rng, messages: usize) -> Vec<(Option<MessageId>, NewMessage)> {
    let mut out: Vec<(Option<MessageId>, NewMessage)> = Vec::new();
    let mut n = 1;
    while out.len() < messages {
        let parent = out.last().map(|(_, message)| message.id);
        if rng.percent(25) {
            let mut call = message(n, Role::Assistant, 0);
            call.parts = vec![Part::tool_call("call", "read", "{}")];
            let mut result = message(n + 1, Role::Tool, 0);
            result.parts = vec![Part::tool_result(
                "call",
                "line ".repeat(10 + rng.below(100)),
                false,
            )];
            let between = Some(call.id);
            out.push((parent, call));
            out.push((between, result));
        } else {
            let role = [Role::User, Role::Assistant][rng.below(2)];
            out.push((parent, message(n, role, rng.below(200))));
        }
        n += 2;
    }
    out
}

/// The calibration of the agents' model, if it is estimated.
fn calibrations(rng: &mut Rng) -> Vec<Calibration> {
    let estimated = rng.percent(40).then(|| Calibration {
        model: "fake/model".into(),
        ratio: Ppm(800_000 + rng.below(400_000) as u32),
        band: Ppm(rng.below(500_000) as u32),
    });
    estimated.into_iter().collect()
}

fn writing(rng: &mut Rng) -> SummaryOptions {
    SummaryOptions {
        unwritten: SummaryFallback::ALL[rng.below(3)],
        ..SummaryOptions::default()
    }
}

/// Mostly none; otherwise enough for a few calls, and sometimes a time limit.
fn caps(rng: &mut Rng) -> TurnCaps {
    if rng.percent(50) {
        return TurnCaps::default();
    }
    let calls = |rng: &mut Rng| WORST * (1 + rng.below(12) as u64);
    let timed = rng.percent(15);
    TurnCaps {
        turn: Caps {
            tokens: Some(Tokens(calls(rng))),
            cost: rng
                .percent(50)
                .then(|| Cost::from_micro_dollars(calls(rng))),
            time_ms: timed.then(|| 100 + rng.below(2_000) as u64),
        },
        run: Caps {
            tokens: rng.percent(30).then(|| Tokens(calls(rng))),
            time_ms: (timed && rng.percent(50)).then(|| 50 + rng.below(500) as u64),
            ..Caps::NONE
        },
        session: Caps {
            tokens: rng.percent(20).then(|| Tokens(4 * calls(rng))),
            ..Caps::NONE
        },
        agents: Vec::new(),
        limit_ms: rng.percent(10).then(|| 100 + rng.below(2_000) as u64),
    }
}

/// A turn without time limits, so that its schedule does not determine the progress of its agents.
fn without_time_limits(turn: NewTurn) -> NewTurn {
    NewTurn {
        caps: TurnCaps {
            limit_ms: None,
            ..turn.caps
        },
        ..turn
    }
}

fn turn(rng: &mut Rng, n: u64, branch: &str, compacts: bool) -> NewTurn {
    let pick = |rng: &mut Rng| agents()[rng.below(agents().len())].clone();
    let delegates = (0..rng.below(4)).map(|index| Assignment {
        agent: pick(rng),
        task: (index % 2 == 0).then(|| format!("part {index}").into()),
    });
    let delegates = delegates.collect();
    let available = if rng.percent(60) { rng.below(4) } else { 0 };
    let available: Vec<_> = (0..available).map(|_| pick(rng)).collect();
    let delegation = DelegationLimits {
        depth: [1, 1, 2, 3][rng.below(4)],
        live_runs: [2, 4, 64][rng.below(3)],
        results: Ppm::percent([0, 10, 60][rng.below(3)]),
    };
    let mut tools = Vec::new();
    if rng.percent(30) {
        tools.push(spec("delegate"));
    }
    let calls = rng.percent(40);
    if calls {
        tools.extend(TOOLS.map(spec));
    }
    let rules = if calls {
        rules(rng)
    } else {
        ToolRules::default()
    };
    NewTurn {
        id: turn_id(n),
        branch: branch.into(),
        work: if compacts {
            Work::Compact {
                keep: rng.percent(50).then_some(Keep::Messages(1)),
                writing: writing(rng),
            }
        } else {
            let length = rng.below(80) + if rng.percent(3) { 3_000 } else { 0 };
            Work::Answer {
                input: message(1_000 + n, Role::User, length),
                client_options: unisono_context::call::ClientOptions::default(),
            }
        },
        team: Team {
            lead: pick(rng),
            delegates,
            available,
        },
        policy: policy(rng),
        instructions: Arc::from(""),
        phrases: vec![format!("00000{}", rng.below(9)).into()],
        safety: Ppm::percent(5),
        tools,
        calibrations: calibrations(rng),
        delegation,
        rules: Arc::new(rules),
        caps: caps(rng),
        call_cap: Default::default(),
        prepare: rng.percent(50).then_some(Digest([7; 32])),
    }
}

pub fn import(messages: Vec<(Option<MessageId>, NewMessage)>) -> Call {
    Call::Import(Box::new(Import {
        session: Some(SessionId::from_u128(1)),
        title: "a session".into(),
        system: "be brief".into(),
        messages,
        ..Import::default()
    }))
}

/// A message that is appended without a turn.
fn append(n: u64, branch: &str, keyed: bool) -> Call {
    let id = MessageId::from_u128(0x0193 << 112 | 0x7 << 76 | 0b10 << 62 | u128::from(n));
    let key =
        keyed.then(|| RequestKey::new(format!("said {n}"), Digest::of_bytes(branch.as_bytes())));
    Call::Append(Box::new(Append {
        branch: branch.into(),
        message: NewMessage::text(id, Role::User, format!("by the way {n}"), Timestamp(0)),
        key,
    }))
}

impl Scenario {
    pub fn random(rng: &mut Rng) -> Scenario {
        let length = rng.below(8);
        let messages = conversation(rng, length);
        let imported: Vec<MessageId> = messages.iter().map(|(_, message)| message.id).collect();
        let mut calls = vec![import(messages)];
        let mut forked = false;
        for n in 0..1 + rng.below(4) as u64 {
            if !imported.is_empty() && rng.percent(25) {
                forked = true;
                calls.push(Call::Fork {
                    branch: "side".into(),
                    at: imported[rng.below(imported.len())],
                });
            }
            let branch = if forked && rng.percent(50) {
                "side"
            } else {
                "main"
            };
            if !imported.is_empty() && rng.percent(30) {
                calls.push(Call::Pin {
                    branch: branch.into(),
                    message: imported[rng.below(imported.len())],
                    pinned: rng.percent(70),
                });
            }
            let exists = n > 0 || !imported.is_empty();
            let compacts = exists && rng.percent(20);
            let mut turn = turn(rng, n, branch, compacts);
            if rng.percent(30) {
                make_pipeline(&mut turn);
            }
            if n > 0 && rng.percent(25) {
                // Of an earlier turn, if that made one.
                let made_by = turn_id(rng.below(n as usize) as u64);
                let checkpoint = ids::checkpoint(made_by, 1 + rng.below(2) as u32);
                turn.work = match rng.below(4) {
                    0 => Work::Regenerate {
                        checkpoint,
                        writing: writing(rng),
                    },
                    1 => Work::Edit {
                        checkpoint,
                        text: "## Context\nas a person has it".into(),
                        counts: Default::default(),
                    },
                    _ => Work::Revert { checkpoint },
                };
            }
            calls.push(Call::Accept(Box::new(turn)));
            if exists && rng.percent(15) {
                calls.push(Call::Seal(branch.into()));
            }
            for part in 0..rng.below(3) as u64 {
                if exists && rng.percent(30) {
                    calls.push(append(n * 10 + part, branch, rng.percent(50)));
                }
            }
            if exists && rng.percent(15) {
                let value = rng.percent(70).then(|| format!("{}", rng.below(3)).into());
                calls.push(Call::Set("compaction.trigger_tokens".into(), value));
            }
            if rng.percent(15) {
                calls.push(Call::Cancel(turn_id(rng.below(n as usize + 1) as u64)));
            }
        }
        Scenario {
            calls,
            trouble: [0, 15, 40][rng.below(3)],
        }
    }

    fn one_turn(messages: Vec<(Option<MessageId>, NewMessage)>, turn: NewTurn) -> Scenario {
        Scenario {
            calls: vec![import(messages), Call::Accept(Box::new(turn))],
            trouble: 0,
        }
    }

    /// One turn whose lead delegates in two rounds, and whose delegates delegate too.
    pub fn rounds(depth: u32) -> Scenario {
        let mut rng = Rng::new(u64::from(depth));
        let messages = conversation(&mut rng, 3);
        let pool = agents();
        let turns = (0..).map(|n| NewTurn {
            team: Team {
                lead: pool[0].clone(),
                delegates: Vec::new(),
                available: vec![pool[1].clone(), pool[2].clone(), pool[6].clone()],
            },
            policy: Policy::from_preset(Preset::Off),
            tools: Vec::new(),
            delegation: DelegationLimits {
                depth,
                live_runs: 64,
                ..DelegationLimits::default()
            },
            ..without_time_limits(turn(&mut Rng::new(0), n, "main", false))
        });
        // Agents' scripts are derived from their runs.
        let rounds = |turn: &NewTurn| ids::run(turn.id, 0).as_u128() / 3 % 3;
        let mut turns = turns.filter(|turn| rounds(turn) == 2);
        Scenario::one_turn(messages, turns.next().unwrap())
    }

    /// One turn whose agents call tools, some of them with an approval.
    pub fn calling(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed);
        let messages = conversation(&mut rng, 3);
        let pool = agents();
        let turns = (0..).map(|n| NewTurn {
            team: Team {
                lead: pool[0].clone(),
                delegates: vec![Assignment {
                    agent: pool[1].clone(),
                    task: None,
                }],
                available: Vec::new(),
            },
            policy: Policy::from_preset(Preset::Off),
            tools: TOOLS.map(spec).into(),
            rules: Arc::new(rules(&mut Rng::new(seed))),
            ..turn(&mut Rng::new(0), n, "main", false)
        });
        // Agents' scripts are derived from their runs.
        let turns = turns.skip(100 * seed as usize);
        let calls = |turn: &NewTurn| {
            let rounds = |index| ids::run(turn.id, index).as_u128() / 11 % 3;
            rounds(0) + rounds(1)
        };
        let mut turns = turns.filter(|turn| calls(turn) == 3);
        Scenario::one_turn(messages, turns.next().unwrap())
    }

    /// One turn with this number of stages, some of which delegate.
    pub fn pipeline(stages: usize, first_agent: usize) -> Scenario {
        let mut scenario = Scenario::fan_out(stages, first_agent, first_agent.is_multiple_of(2));
        for call in &mut scenario.calls {
            if let Call::Accept(turn) = call {
                turn.team.available = agents()[first_agent + 4..first_agent + 7].to_vec();
                turn.delegation.depth = 2;
                make_pipeline(turn);
            }
        }
        scenario
    }

    /// One turn with this number of delegates over a conversation that is compacted first.
    pub fn fan_out(delegates: usize, first_agent: usize, compacts: bool) -> Scenario {
        let mut rng = Rng::new(first_agent as u64);
        let messages = conversation(&mut rng, 5);
        let pool = agents();
        let delegates = (0..delegates).map(|index| Assignment {
            agent: pool[(first_agent + index) % pool.len()].clone(),
            task: None,
        });
        // The schedule determines a person's decisions, and their consequences.
        let turn = NewTurn {
            tools: Vec::new(),
            team: Team {
                lead: pool[0].clone(),
                delegates: delegates.collect(),
                available: Vec::new(),
            },
            policy: Policy {
                trigger: compacts.then_some(Trigger::Tokens(Tokens(60))),
                keep: Keep::Messages(2),
                ..policy(&mut rng)
            },
            ..without_time_limits(turn(&mut rng, 0, "main", false))
        };
        Scenario::one_turn(messages, turn)
    }
}
