//! One event of each kind, and of each variant of its parts, for the golden files. A sample never
//! changes once its file exists: it is what an old version wrote.

use std::sync::Arc;

use unisono_context::alteration::{Alteration, Form};
use unisono_context::budget::{Budget, Limits};
use unisono_context::call::{CacheWarm, Choice, ClientOptions};
use unisono_context::checkpoint::{
    Body, Checkpoint, FactCoverage, KeyFact, Kind, Span, Tier, Writer,
};
use unisono_context::compaction::{Cover, MaskTarget, Plan, Step};
use unisono_context::cost::Cost;
use unisono_context::message::{NewMessage, Part, ReportedUsage, Role};
use unisono_context::policy::{
    Keep, Large, Masking, Method, ModelQuota, Policy, Preset, Tiers, Trigger,
};
use unisono_context::snapshot::{Manifest, ToolSpec};
use unisono_context::tokens::{Count, Counts};
use unisono_context::topic::{DecidedTopics, EndedBy, TopicEnd};
use unisono_context::{
    AgentId, CheckpointId, Digest, Encoding, MessageId, Ordinal, Ppm, RunId, SessionId, SnapshotId,
    Timestamp, Tokens, TurnId,
};
use unisono_session::agent::{self, Definition};
use unisono_session::event::{
    AcceptedTurn, Calibration, DelegatedCall, DelegationLimits, DropReason, Event, Fact,
    ImportNotes, LateOutput, OpenedRun, Outcome, PlannedPreparation, RequestKey, RunRole,
    SummaryFallback, SummaryOptions, Work,
};
use unisono_session::run::{
    self, Ending, FallbackUsed, Reply, RunCause, Stop, ToolCall, ToolResult, Usage,
};

/// Facts with the names of their samples.
macro_rules! samples {
    ($($name:literal: $fact:expr),+ $(,)?) => {
        vec![$(($name, $fact)),+]
    };
}

type Samples = Vec<(&'static str, Fact)>;

mod budgets;
mod compaction;
mod context_parts;
mod parts;
mod runs;
mod tools;

use parts::*;
pub(super) use parts::{manifest, opened};

pub(super) const SESSION: SessionId =
    SessionId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
pub(super) const TURN: TurnId = TurnId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0002);
pub(super) const RUN: RunId = RunId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0003);
pub(super) const SNAPSHOT: SnapshotId = SnapshotId(Digest([0xA5; 32]));
pub(super) const USAGE: Usage = Usage {
    input: Tokens(1_200),
    output: Tokens(340),
    cache_expected: Tokens(1_000),
    cache_read: Tokens(960),
    cache_write: Tokens(80),
    cost: Some(Cost(7_250_000_000)),
};

const MESSAGE: MessageId = MessageId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0004);
const CHECKPOINT: CheckpointId = CheckpointId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0005);
const DIGEST: Digest = Digest([0x3C; 32]);

/// The samples, with the names of their files.
pub(super) fn all() -> Vec<(&'static str, Event)> {
    let mut facts = session_facts();
    facts.extend(turn_facts());
    facts.extend(budgets::facts());
    facts.extend(compaction::facts());
    facts.extend(context_parts::facts());
    facts.extend(runs::facts());
    facts.extend(tools::tool_facts());
    facts
        .into_iter()
        .map(|(name, fact)| (name, event(fact)))
        .collect()
}

/// The fact, at the time of all samples.
pub(super) fn event(fact: Fact) -> Event {
    Event {
        at: Timestamp(1_735_689_600_123),
        fact,
    }
}

fn session_facts() -> Samples {
    let question = NewMessage::text(MESSAGE, Role::User, "What is new? 🎵", Timestamp(-1));
    let end = |(opener, by)| TopicEnd {
        opener: Ordinal(opener),
        by,
    };
    let preamble_counted = Fact::PreambleCounted {
        preamble: DIGEST,
        encoding: Encoding::Cl100kBase,
        count: Count::exact(77),
    };
    samples! {
        "created": Fact::Created {
            session: SESSION,
            title: "Überblick".into(),
            system: "You are concise.".into(),
            labels: [("channel".into(), "42".into()), ("platform".into(), "irc".into())].into(),
        },
        "appended_root": Fact::Appended { branch: None, parent: None, message: question },
        "appended": Fact::Appended {
            branch: Some("main".into()),
            parent: Some(MESSAGE),
            message: message(),
        },
        "appended_content": Fact::Appended {
            branch: Some("main".into()),
            parent: Some(MESSAGE),
            message: message_with_contents(),
        },
        "appended_document": Fact::Appended {
            branch: Some("main".into()),
            parent: Some(MESSAGE),
            message: message_with_document(),
        },
        "branch_set": Fact::BranchSet { branch: "main".into(), head: MESSAGE },
        "instructions_set": Fact::InstructionsSet { text: "Use figures.".into() },
        "phrases_set": Fact::PhrasesSet { phrases: vec!["new topic".into(), "übrigens".into()] },
        "topics_decided": Fact::TopicsDecided {
            turn: TURN,
            through: MESSAGE,
            ends: (3..).zip(EndedBy::ALL).map(end).collect(),
        },
        "topic_sealed": Fact::TopicSealed { branch: "main".into(), last: MESSAGE },
        "topics_imported": Fact::TopicsImported {
            decided: vec![DecidedTopics {
                through: MESSAGE,
                ends: vec![end((3, EndedBy::Silence))],
            }],
            sealed: vec![MESSAGE],
            notes: Box::default(),
        },
        "topics_imported_with_notes": Fact::TopicsImported {
            decided: Vec::new(),
            sealed: Vec::new(),
            notes: Box::new(ImportNotes {
                opened: vec![(MESSAGE, Timestamp(5))],
                sealed: vec![(MESSAGE, Timestamp(6))],
                tightened: vec![CHECKPOINT],
            }),
        },
        "measured": Fact::Measured {
            turn: TURN,
            calibration: Calibration {
                model: "anthropic/claude-opus-5".into(),
                ratio: Ppm(1_180_000),
                band: Ppm(10_000),
            },
        },
        "posted": Fact::Posted {
            branch: "main".into(),
            message: message(),
            key: Some(RequestKey::new("irc-4711", Digest::of_bytes(b"{}"))),
        },
        "call_cap_set": Fact::CallCapSet { calls: 64 },
        "counted": Fact::Counted {
            encoding: Encoding::O200kBase,
            counts: vec![(MESSAGE, Count::exact(12)), (MESSAGE, Count::approximate(100))],
        },
        "preamble_counted": preamble_counted,
        "pinned": Fact::Pinned { messages: vec![MESSAGE] },
        "reverted": Fact::Reverted {
            turn: Some(TURN),
            checkpoint: CHECKPOINT,
            before: Tokens(30_000),
        },
        "unpinned": Fact::Unpinned { messages: vec![MESSAGE] },
        "defined_llm": defined(agent::AgentKind::Llm),
        "defined_files": defined_with_files(),
        "defined_command": defined(agent::AgentKind::Command(command())),
        "defined_command_passing": defined(agent::AgentKind::Command(agent::Command {
            env_pass: vec!["GITHUB_TOKEN".into()],
            ..command()
        })),
        "defined_http": defined(agent::AgentKind::Http(http())),
        "defined_a2a": defined(agent::AgentKind::A2a(agent::A2a {
            url: http().url,
            headers: http().headers,
            card_digest: Some("5056db06".into()),
            contract: unisono_session::tool::Contract::AtMostOnce,
        })),
        "defined_acp": defined(agent::AgentKind::Acp(agent::Acp {
            worktree: true,
            allow: vec![agent::ToolKind::Read, agent::ToolKind::Execute],
            deny: Vec::new(),
            contract: unisono_session::tool::Contract::AtMostOnce,
            ..denying()
        })),
        "defined_acp_deny": defined(agent::AgentKind::Acp(denying())),
        "defined_acp_options": defined(agent::AgentKind::Acp(agent::Acp {
            options: [("mode".into(), "default".into())].into(),
            login: Some("api-key".into()),
            ..denying()
        })),
        "defined_pipeline": pipeline(),
        "defined_custom": defined(agent::AgentKind::Custom("echo".into())),
    }
}

fn denying() -> agent::Acp {
    agent::Acp {
        command: command(),
        worktree: false,
        allow: vec![agent::ToolKind::Read],
        deny: vec![agent::ToolKind::Delete],
        contract: unisono_session::tool::Contract::Idempotent,
        options: Default::default(),
        login: None,
    }
}

/// Only the second of two stages answers.
fn pipeline() -> Fact {
    let stage = |agent: &str, task: Option<&str>| agent::Stage {
        agent: AgentId::new(agent),
        task: task.map(Into::into),
    };
    let mut definition = definition(agent::AgentKind::Pipeline);
    definition.delegates.clear();
    definition.pipeline = vec![stage("critic", None), stage("writer", Some("Mend it."))];
    Fact::Defined {
        definition: definition.into(),
    }
}

fn options(instructions: &str) -> SummaryOptions {
    SummaryOptions::with_instructions(Some(instructions))
}

fn turn_facts() -> Samples {
    let answer = |client_options| Work::Answer {
        input: NewMessage::text(MESSAGE, Role::User, "Compare the two.", Timestamp(5)),
        client_options,
    };
    let lending = |choice| {
        answer(ClientOptions {
            tools: vec!["weather".into()],
            choice,
            one: true,
            ..ClientOptions::default()
        })
    };
    let stopping = answer(ClientOptions {
        stop: vec!["END".into()],
        ..ClientOptions::default()
    });
    let compact = Work::Compact {
        keep: Some(Keep::Messages(4)),
        writing: options("Keep the names."),
    };
    let compact_plainly = Work::Compact {
        keep: None,
        writing: SummaryOptions::default(),
    };
    let dropping = Policy {
        trigger: Some(Trigger::OfWindow(Ppm(950_000))),
        keep: Keep::Tokens {
            amount: Tokens(1_000),
            align: 4,
        },
        ..Policy::from_preset(Preset::Truncate)
    };
    let shares = Policy {
        trigger: Some(Trigger::OfUsable(Ppm(750_000))),
        keep: Keep::ShareOfHistory(Ppm(200_000)),
        method: Method::Summarise { cap: Tokens(2_048) },
        masking: None,
        quota: None,
        ..Policy::from_preset(Preset::Progressive)
    };
    let tiers = Policy {
        keep: Keep::Tiers(Tiers {
            attention: None,
            large: Large::Chars(2_000),
            ..Tiers::DEFAULT
        }),
        ..Policy::from_preset(Preset::Tiered)
    };
    let ended = |outcome| Fact::TurnEnded {
        turn: TURN,
        outcome,
    };
    samples! {
        "turn_accepted_answer": accepted(answer(ClientOptions::default()), policy()),
        "turn_accepted_lending": accepted(lending(Choice::Any), policy()),
        "turn_accepted_insisting": accepted(lending(Choice::This("weather".into())), policy()),
        "turn_accepted_stopping": accepted(stopping, policy()),
        "turn_accepted_compact": accepted(compact, dropping),
        "turn_accepted_compact_plainly": accepted(compact_plainly.clone(), shares),
        "turn_accepted_messages_by_window":
            accepted(compact_plainly.clone(), Policy::from_preset(Preset::Checkpoint)),
        "turn_accepted_tokens_by_window": accepted(compact_plainly.clone(), Policy::from_preset(Preset::Retention)),
        "turn_accepted_compact_by": accepted(
            Work::Compact {
                keep: None,
                writing: SummaryOptions {
                    summariser: Some("openai/gpt-4o-mini".into()),
                    ..options("Keep the names.")
                },
            },
            shares,
        ),
        "turn_accepted_regenerate_by": accepted(
            Work::Regenerate {
                checkpoint: CHECKPOINT,
                writing: SummaryOptions {
                    unwritten: SummaryFallback::Extractive,
                    ..SummaryOptions::default()
                },
            },
            shares,
        ),
        "turn_accepted_restore": accepted(Work::Revert { checkpoint: CHECKPOINT }, shares),
        "turn_accepted_regenerate": accepted(
            Work::Regenerate { checkpoint: CHECKPOINT, writing: options("Keep the names.") },
            shares,
        ),
        "turn_accepted_edit": accepted(
            Work::Edit {
                checkpoint: CHECKPOINT,
                text: "## Context\nShort.".into(),
                counts: [(Encoding::Cl100kBase, Count::exact(9))].into_iter().collect(),
            },
            shares,
        ),
        "turn_ended_restored": ended(Outcome::Reverted {
            before: Tokens(30_000),
            after: Tokens(90_000),
        }),
        "turn_accepted_tiered": accepted(compact_plainly, tiers),
        "turn_started": Fact::TurnStarted { turn: TURN },
        "turn_ended_answered": ended(Outcome::Answered),
        "turn_ended_compacted": ended(Outcome::Compacted {
            before: Tokens(90_000),
            after: Tokens(30_000),
        }),
        "turn_ended_failed": ended(Outcome::Failed {
            code: "lead_failed".into(),
            reason: "no model".into(),
        }),
        "turn_ended_cancelled": ended(Outcome::Cancelled),
    }
}
