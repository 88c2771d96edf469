//! Strategies for events of every kind, with all their parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use unisono_context::alteration::{Alteration, Form};
use unisono_context::budget::{Budget, Limits};
use unisono_context::call::CacheWarm;
use unisono_context::checkpoint::{
    Body, Checkpoint, FactCoverage, KeyFact, Kind, Span, Tier, Writer,
};
use unisono_context::compaction::{Cover, MaskTarget, Plan, Step};
use unisono_context::cost::Cost;
use unisono_context::message::{NewMessage, Part, ReportedUsage, Role};
use unisono_context::policy::{
    Ends, Keep, Large, Masking, Method, ModelQuota, Policy, Preset, Tiers, Trigger,
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

/// A strategy for a value, of one for each of its fields. A group of fields has at most twelve; a
/// semicolon ends it. Fields are boxed, so that large values fit the stack of a test.
macro_rules! fields {
    ($($type:ident)::+ { $($($field:ident: $strategy:expr),+);+ }) => {
        ($(($($strategy.boxed(),)+),)+)
            .prop_map(|($(($($field,)+),)+)| $($type)::+ { $($($field,)+)+ })
    };
}

/// A strategy for each of these facts.
macro_rules! fact_strategies {
    ($($fact:ident { $($field:ident: $strategy:expr),+ })+) => {
        vec![$({
            fn strategy() -> BoxedStrategy<Fact> {
                fields! { Fact::$fact { $($field: $strategy),+ } }.boxed()
            }
            strategy()
        }),+]
    };
}

mod budgets;
mod compaction;
mod conversation;
mod runs;
mod tools;

use budgets::*;
use compaction::*;
use conversation::*;
use runs::*;
use tools::*;

type Text = Arc<str>;
type Facts = Vec<BoxedStrategy<Fact>>;

pub(super) fn event() -> impl Strategy<Value = Event> {
    fields! { Event { at: at(), fact: prop::strategy::Union::new(facts()) } }
}

pub(super) fn facts() -> Facts {
    let mut facts = session_facts();
    facts.extend(compaction_facts());
    facts.extend(run_facts());
    facts.extend(tool_facts());
    facts
}

fn session_facts() -> Facts {
    fact_strategies! {
        Created {
            session: id(SessionId::from_u128),
            title: text(),
            system: text(),
            labels: text_map()
        }
        Pinned { messages: list(message_id()) }
        Reverted { turn: option::of(turn_id()), checkpoint: checkpoint_id(), before: tokens() }
        Unpinned { messages: list(message_id()) }
        Appended {
            branch: option::of(text()),
            parent: option::of(message_id()),
            message: message()
        }
        BranchSet { branch: text(), head: message_id() }
        Counted { encoding: encoding(), counts: list((message_id(), count())) }
        PreambleCounted { preamble: digest(), encoding: encoding(), count: count() }
        Defined { definition: definition().prop_map(Arc::new) }
        TurnAccepted { turn: accepted().prop_map(Box::new) }
        TurnStarted { turn: turn_id() }
        TurnEnded { turn: turn_id(), outcome: outcome() }
        InstructionsSet { text: text() }
        PhrasesSet { phrases: list(text()) }
        TopicsDecided { turn: turn_id(), through: message_id(), ends: list(topic_end()) }
        TopicSealed { branch: text(), last: message_id() }
        TopicsImported {
            decided: list(decided_topics()),
            sealed: list(message_id()),
            notes: import_notes().prop_map(Box::new)
        }
        Measured { turn: turn_id(), calibration: calibration() }
        Posted { branch: text(), message: message(), key: option::of(request_key()) }
        CallCapSet { calls: any::<u32>() }
        SettingsSet { settings: text_map() }
    }
}

fn compaction_facts() -> Facts {
    fact_strategies! {
        CompactionPlanned { turn: turn_id(), plan: plan() }
        Altered { turn: option::of(turn_id()), alterations: list(alteration()) }
        Compacted { turn: option::of(turn_id()), checkpoint: checkpoint().prop_map(Arc::new) }
        CompactionFailed { turn: turn_id(), reason: text() }
        PreparationPlanned { preparation: preparation().prop_map(Box::new) }
        SummaryPrepared {
            turn: turn_id(),
            summary: checkpoint().prop_map(|made| Box::new(super::written(made)))
        }
        PreparationDropped { turn: turn_id(), by: option::of(turn_id()), reason: drop_reason() }
        Frozen { turn: turn_id(), snapshot: digest().prop_map(SnapshotId), manifest: manifest() }
        SummariserUsed { turn: turn_id(), model: text(), usage: usage() }
    }
}

fn run_facts() -> Facts {
    fact_strategies! {
        RunOpened { run: opened() }
        RunStepped { run: run_id(), step: run_step().prop_map(Arc::new) }
        RunRetried { run: run_id(), attempt: any::<u32>(), not_before: at(), reason: text() }
        RunEnded { run: run_id(), ending: ending().prop_map(Arc::new) }
        Delegated { run: run_id(), round: any::<u32>(), calls: list(delegated_call()) }
        Reserved { run: run_id(), reservation: reservation() }
        CallSettled {
            run: run_id(),
            call: any::<u32>(),
            used: amount(),
            is_reported: any::<bool>()
        }
        LateOutputReceived { run: run_id(), attempt: any::<u32>(), late: late() }
    }
}

fn import_notes() -> impl Strategy<Value = ImportNotes> {
    let times = || list((message_id(), at()));
    fields! { ImportNotes { opened: times(), sealed: times(), tightened: list(checkpoint_id()) } }
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![Just(String::new()), "(?s).{0,24}"].prop_map(Text::from)
}

fn text_map() -> impl Strategy<Value = BTreeMap<Text, Text>> {
    btree_map(text(), text(), 0..4)
}

fn list<S: Strategy>(element: S) -> impl Strategy<Value = Vec<S::Value>> {
    vec(element, 0..4)
}

fn id<T: std::fmt::Debug>(make: fn(u128) -> T) -> impl Strategy<Value = T> {
    any::<u128>().prop_map(make)
}

fn message_id() -> impl Strategy<Value = MessageId> {
    id(MessageId::from_u128)
}

fn checkpoint_id() -> impl Strategy<Value = CheckpointId> {
    id(CheckpointId::from_u128)
}

fn turn_id() -> impl Strategy<Value = TurnId> {
    id(TurnId::from_u128)
}

fn run_id() -> impl Strategy<Value = RunId> {
    id(RunId::from_u128)
}

fn agent_id() -> impl Strategy<Value = AgentId> {
    text().prop_map(AgentId::new)
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn request_key() -> impl Strategy<Value = RequestKey> {
    fields! {
        RequestKey {
            name: text(),
            request: digest(),
            client_message_id: option::of(text()),
            client_parts: option::of(text())
        }
    }
}

fn at() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp)
}

fn tokens() -> impl Strategy<Value = Tokens> {
    any::<u64>().prop_map(Tokens)
}

fn ppm() -> impl Strategy<Value = Ppm> {
    any::<u32>().prop_map(Ppm)
}

fn ordinal() -> impl Strategy<Value = Ordinal> {
    any::<u32>().prop_map(Ordinal)
}

fn span() -> impl Strategy<Value = Span> {
    (0..u32::MAX, 0..u32::MAX).prop_map(|(a, b)| Span::new(Ordinal(a.min(b)), Ordinal(a.max(b))))
}

fn encoding() -> impl Strategy<Value = Encoding> {
    select(&Encoding::ALL[..])
}

fn count() -> impl Strategy<Value = Count> {
    fields! { Count { tokens: tokens(), at_most: tokens() } }
}

fn counts() -> impl Strategy<Value = Counts> {
    list((encoding(), count())).prop_map(Counts::from_iter)
}

fn preset() -> impl Strategy<Value = Preset> {
    select(&Preset::ALL[..])
}

fn writer() -> impl Strategy<Value = Writer> {
    select(&[Writer::Model, Writer::Deterministic][..])
}
