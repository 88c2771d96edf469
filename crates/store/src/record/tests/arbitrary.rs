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
use unisono_session::machine::WrittenSummary;
use unisono_session::run::{
    self, Ending, FallbackUsed, Reply, RunCause, Stop, ToolCall, ToolResult, Usage,
};

mod budgets;
mod compaction;
mod conversation;
mod runs;
mod tools;

use budgets::*;
use compaction::*;
use conversation::*;
use runs::*;

type Text = Arc<str>;

fn import_notes() -> impl Strategy<Value = Box<ImportNotes>> {
    let notes = (
        list(message_time()),
        list(message_time()),
        list(checkpoint_id()),
    );
    notes.prop_map(|(opened, sealed, tightened)| {
        Box::new(ImportNotes {
            opened,
            sealed,
            tightened,
        })
    })
}

/// An event of any kind.
pub(super) fn event() -> impl Strategy<Value = Event> {
    let fact = prop::strategy::Union::new(facts().into_iter().map(|(_, strategy)| strategy));
    (at(), fact).prop_map(|(at, fact)| Event { at, fact })
}

/// A strategy for each kind of fact, by name.
pub(super) fn facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let mut facts = session_facts();
    facts.extend(compaction_facts());
    facts.extend(run_facts());
    facts.extend(tools::tool_facts());
    facts
}

fn session_facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let created = (id(SessionId::from_u128), text(), text(), text_map());
    let appended = (option::of(text()), option::of(message_id()), message());
    let preamble_counted = (digest(), encoding(), count());
    vec![
        (
            "Created",
            created
                .prop_map(|(session, title, system, labels)| Fact::Created {
                    session,
                    title,
                    system,
                    labels,
                })
                .boxed(),
        ),
        (
            "Pinned",
            list(message_id())
                .prop_map(|messages| Fact::Pinned { messages })
                .boxed(),
        ),
        (
            "Reverted",
            (option::of(turn_id()), checkpoint_id(), tokens())
                .prop_map(|(turn, checkpoint, before)| Fact::Reverted {
                    turn,
                    checkpoint,
                    before,
                })
                .boxed(),
        ),
        (
            "Unpinned",
            list(message_id())
                .prop_map(|messages| Fact::Unpinned { messages })
                .boxed(),
        ),
        (
            "Appended",
            appended
                .prop_map(|(branch, parent, message)| Fact::Appended {
                    branch,
                    parent,
                    message,
                })
                .boxed(),
        ),
        (
            "BranchSet",
            (text(), message_id())
                .prop_map(|(branch, head)| Fact::BranchSet { branch, head })
                .boxed(),
        ),
        (
            "Counted",
            (encoding(), list((message_id(), count())))
                .prop_map(|(encoding, counts)| Fact::Counted { encoding, counts })
                .boxed(),
        ),
        (
            "PreambleCounted",
            preamble_counted
                .prop_map(|(preamble, encoding, count)| Fact::PreambleCounted {
                    preamble,
                    encoding,
                    count,
                })
                .boxed(),
        ),
        (
            "Defined",
            definition()
                .prop_map(|d| Fact::Defined {
                    definition: Arc::new(d),
                })
                .boxed(),
        ),
        (
            "TurnAccepted",
            accepted()
                .prop_map(|turn| Fact::TurnAccepted {
                    turn: Box::new(turn),
                })
                .boxed(),
        ),
        (
            "TurnStarted",
            turn_id()
                .prop_map(|turn| Fact::TurnStarted { turn })
                .boxed(),
        ),
        (
            "TurnEnded",
            (turn_id(), outcome())
                .prop_map(|(turn, outcome)| Fact::TurnEnded { turn, outcome })
                .boxed(),
        ),
    ]
}

fn compaction_facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let frozen = (turn_id(), digest(), manifest());
    vec![
        (
            "CompactionPlanned",
            (turn_id(), plan())
                .prop_map(|(turn, plan)| Fact::CompactionPlanned { turn, plan })
                .boxed(),
        ),
        (
            "Altered",
            (option::of(turn_id()), list(alteration()))
                .prop_map(|(turn, alterations)| Fact::Altered { turn, alterations })
                .boxed(),
        ),
        (
            "Compacted",
            (option::of(turn_id()), checkpoint())
                .prop_map(|(turn, c)| Fact::Compacted {
                    turn,
                    checkpoint: Arc::new(c),
                })
                .boxed(),
        ),
        (
            "CompactionFailed",
            (turn_id(), text())
                .prop_map(|(turn, reason)| Fact::CompactionFailed { turn, reason })
                .boxed(),
        ),
        (
            "PreparationPlanned",
            preparation()
                .prop_map(|preparation| Fact::PreparationPlanned {
                    preparation: Box::new(preparation),
                })
                .boxed(),
        ),
        (
            "SummaryPrepared",
            (turn_id(), written())
                .prop_map(|(turn, summary)| Fact::SummaryPrepared {
                    turn,
                    summary: Box::new(summary),
                })
                .boxed(),
        ),
        (
            "PreparationDropped",
            (turn_id(), option::of(turn_id()), drop_reason())
                .prop_map(|(turn, by, reason)| Fact::PreparationDropped { turn, by, reason })
                .boxed(),
        ),
        (
            "Frozen",
            frozen
                .prop_map(|(turn, id, manifest)| Fact::Frozen {
                    turn,
                    snapshot: SnapshotId(id),
                    manifest,
                })
                .boxed(),
        ),
    ]
}

fn run_facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let retried = (id(RunId::from_u128), any::<u32>(), at(), text());
    vec![
        (
            "RunOpened",
            opened().prop_map(|run| Fact::RunOpened { run }).boxed(),
        ),
        (
            "ToolsAnswered",
            (id(RunId::from_u128), any::<u32>())
                .prop_map(|(run, round)| Fact::ToolsAnswered { run, round })
                .boxed(),
        ),
        (
            "RunStepped",
            (id(RunId::from_u128), run_step())
                .prop_map(|(run, step)| Fact::RunStepped {
                    run,
                    step: Arc::new(step),
                })
                .boxed(),
        ),
        (
            "Delegated",
            (id(RunId::from_u128), any::<u32>(), list(delegated_call()))
                .prop_map(|(run, round, calls)| Fact::Delegated { run, round, calls })
                .boxed(),
        ),
        (
            "SummariserUsed",
            (turn_id(), text(), usage())
                .prop_map(|(turn, model, usage)| Fact::SummariserUsed { turn, model, usage })
                .boxed(),
        ),
        (
            "InstructionsSet",
            text()
                .prop_map(|text| Fact::InstructionsSet { text })
                .boxed(),
        ),
        (
            "PhrasesSet",
            list(text())
                .prop_map(|phrases| Fact::PhrasesSet { phrases })
                .boxed(),
        ),
        (
            "TopicsDecided",
            (id(TurnId::from_u128), message_id(), list(topic_end()))
                .prop_map(|(turn, through, ends)| Fact::TopicsDecided {
                    turn,
                    through,
                    ends,
                })
                .boxed(),
        ),
        (
            "TopicSealed",
            (text(), message_id())
                .prop_map(|(branch, last)| Fact::TopicSealed { branch, last })
                .boxed(),
        ),
        (
            "TopicsImported",
            (list(decided_topics()), list(message_id()), import_notes())
                .prop_map(|(decided, sealed, notes)| Fact::TopicsImported {
                    decided,
                    sealed,
                    notes,
                })
                .boxed(),
        ),
        (
            "Measured",
            (turn_id(), calibration())
                .prop_map(|(turn, calibration)| Fact::Measured { turn, calibration })
                .boxed(),
        ),
        (
            "Posted",
            (text(), message(), text(), digest(), any::<bool>())
                .prop_map(|(branch, message, name, request, keyed)| Fact::Posted {
                    branch,
                    message,
                    key: keyed.then_some(RequestKey { name, request }),
                })
                .boxed(),
        ),
        (
            "CallCapSet",
            any::<u32>()
                .prop_map(|calls| Fact::CallCapSet { calls })
                .boxed(),
        ),
        (
            "Reserved",
            (id(RunId::from_u128), reservation())
                .prop_map(|(run, reservation)| Fact::Reserved { run, reservation })
                .boxed(),
        ),
        (
            "CallSettled",
            (id(RunId::from_u128), any::<u32>(), amount(), any::<bool>())
                .prop_map(|(run, call, used, is_reported)| Fact::CallSettled {
                    run,
                    call,
                    used,
                    is_reported,
                })
                .boxed(),
        ),
        (
            "SettingsSet",
            text_map()
                .prop_map(|settings| Fact::SettingsSet { settings })
                .boxed(),
        ),
        (
            "RunRetried",
            retried
                .prop_map(|(run, attempt, not_before, reason)| Fact::RunRetried {
                    run,
                    attempt,
                    not_before,
                    reason,
                })
                .boxed(),
        ),
        (
            "LateOutputReceived",
            (id(RunId::from_u128), any::<u32>(), late())
                .prop_map(|(run, attempt, late)| Fact::LateOutputReceived { run, attempt, late })
                .boxed(),
        ),
        (
            "RunEnded",
            (id(RunId::from_u128), ending())
                .prop_map(|(run, ending)| Fact::RunEnded {
                    run,
                    ending: Arc::new(ending),
                })
                .boxed(),
        ),
    ]
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

fn message_time() -> impl Strategy<Value = (MessageId, Timestamp)> {
    (message_id(), at())
}

fn checkpoint_id() -> impl Strategy<Value = CheckpointId> {
    id(CheckpointId::from_u128)
}

fn turn_id() -> impl Strategy<Value = TurnId> {
    id(TurnId::from_u128)
}

fn agent_id() -> impl Strategy<Value = AgentId> {
    text().prop_map(AgentId::new)
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
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
    (tokens(), tokens()).prop_map(|(tokens, at_most)| Count { tokens, at_most })
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
