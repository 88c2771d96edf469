//! The name and the description of each fact, from which the book's page of events is generated;
//! and the turn or run that it is about.

use unisono_context::message::NewMessage;
use unisono_context::{RunId, TurnId};

use super::{Fact, HookPoint, Work};

impl Fact {
    /// The message that it has, whether it stands in the tree already or not.
    pub const fn message(&self) -> Option<&NewMessage> {
        match self {
            Fact::Appended { message, .. } | Fact::Posted { message, .. } => Some(message),
            Fact::TurnAccepted { turn } => match &turn.work {
                Work::Answer { input, .. } => Some(input),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether that turn ends with it.
    pub fn ends(&self, turn: TurnId) -> bool {
        matches!(self, Fact::TurnEnded { turn: ended, .. } if *ended == turn)
    }

    /// The turn that it is about; none: it is about a run, or about no turn.
    pub const fn turn(&self) -> Option<TurnId> {
        match self {
            Fact::TurnAccepted { turn } => Some(turn.id),
            Fact::TurnStarted { turn }
            | Fact::CompactionPlanned { turn, .. }
            | Fact::CompactionFailed { turn, .. }
            | Fact::SummariserUsed { turn, .. }
            | Fact::SummaryPrepared { turn, .. }
            | Fact::PreparationDropped { turn, .. }
            | Fact::Frozen { turn, .. }
            | Fact::TopicsDecided { turn, .. }
            | Fact::Measured { turn, .. }
            | Fact::TurnEnded { turn, .. } => Some(*turn),
            Fact::Altered { turn, .. }
            | Fact::Compacted { turn, .. }
            | Fact::Reverted { turn, .. } => *turn,
            Fact::PreparationPlanned { preparation } => Some(preparation.turn),
            Fact::RunOpened { run } => Some(run.turn),
            Fact::HookAnswered { place, .. } => match place.point {
                HookPoint::Turn { turn, .. } => Some(turn),
                HookPoint::Call(_) => None,
            },
            _ => None,
        }
    }

    /// The run that it is about.
    pub const fn run(&self) -> Option<RunId> {
        match self {
            Fact::RunOpened { run } => Some(run.id),
            Fact::RunStepped { run, .. }
            | Fact::Delegated { run, .. }
            | Fact::ToolsCalled { run, .. }
            | Fact::ToolsAnswered { run, .. }
            | Fact::RunRetried { run, .. }
            | Fact::Reserved { run, .. }
            | Fact::CallSettled { run, .. }
            | Fact::LateOutputReceived { run, .. }
            | Fact::RunEnded { run, .. } => Some(*run),
            Fact::HookAnswered { place, .. } => match place.point {
                HookPoint::Turn { .. } => None,
                HookPoint::Call(call) => Some(call.run),
            },
            Fact::ToolStarted { call }
            | Fact::ToolTaskStarted { call, .. }
            | Fact::ToolEnded { call, .. }
            | Fact::ToolInDoubt { call }
            | Fact::ToolDecided { call, .. } => Some(call.run),
            _ => None,
        }
    }

    /// Its name: stable, in lower case with underscores.
    pub const fn name(&self) -> &'static str {
        self.kind().0
    }
}

/// The names and the descriptions of the facts: the compiler rejects a list that lacks one.
macro_rules! kinds {
    ($($fact:ident: $name:literal, $description:literal;)+) => {
        impl Fact {
            /// The names and the descriptions of all facts.
            pub const KINDS: &'static [(&'static str, &'static str)] =
                &[$(($name, $description)),+];

            /// Its name and its description.
            pub const fn kind(&self) -> (&'static str, &'static str) {
                match self {
                    $(Fact::$fact { .. } => ($name, $description)),+
                }
            }
        }
    };
}

kinds! {
    Created: "created", "the session was created";
    Appended: "appended", "a message was added to a branch";
    BranchSet: "branch_set", "a branch was created, or moved to a message";
    Counted: "counted", "the tokens of messages were counted";
    PreambleCounted: "preamble_counted", "the tokens of the system text and the tools were counted";
    Defined: "defined", "the definition of an agent was recorded";
    TurnAccepted: "turn_accepted", "a turn was accepted; from here on it is not lost";
    TurnStarted: "turn_started", "work on the turn began";
    CompactionPlanned: "compaction_planned", "a step of a compaction was planned";
    Altered: "altered", "messages were masked or cut in the context";
    Compacted: "compacted", "a summary was stored as a checkpoint";
    CompactionFailed: "compaction_failed", "a step of a compaction failed";
    SummariserUsed: "summariser_used", "the calls of a summariser were charged";
    Frozen: "frozen", "the context was frozen; all agents of the turn get this snapshot";
    RunOpened: "run_opened", "the run of an agent was opened";
    RunStepped: "run_stepped",
        "an agent finished a step: a reply, results of tools, a summary of its oldest rounds";
    Delegated: "delegated", "an agent delegated tasks";
    RunRetried: "run_retried", "an attempt failed, and another one follows";
    RunEnded: "run_ended", "a run ended: with an answer, a partial answer, or a failure";
    TurnEnded: "turn_ended", "the turn ended";
    LateOutputReceived: "late_output_received",
        "late output of a cancelled run arrived: an answer, a reply or its beginning, a cost";
    Pinned: "pinned", "messages were pinned";
    Unpinned: "unpinned", "messages were unpinned";
    Reverted: "reverted", "a checkpoint was reverted";
    PhrasesSet: "phrases_set", "the phrases that end a topic were recorded";
    InstructionsSet: "instructions_set",
        "the instructions of the project for every agent were recorded";
    TopicsDecided: "topics_decided", "the ends of topics were decided";
    TopicSealed: "topic_sealed", "a person sealed a topic";
    TopicsImported: "topics_imported", "topics came with an imported conversation";
    Measured: "measured", "a provider counted the context";
    ToolRulesSet: "tool_rules_set", "the contracts of tools and the approval rules were recorded";
    ToolsCalled: "tools_called", "an agent called tools; no call has been made yet";
    ToolStarted: "tool_started", "a tool call was started";
    ToolTaskStarted: "tool_task_started", "a tool call became a task";
    ToolEnded: "tool_ended", "a tool call ended";
    ToolsAnswered: "tools_answered", "an agent got the results of all tool calls of a reply";
    ToolInDoubt: "tool_in_doubt",
        "a tool call may have been made before a crash; a person must decide it";
    ToolDecided: "tool_decided", "a tool call was decided, or it expired";
    Reserved: "reserved", "budget was reserved for a model call";
    CallSettled: "call_settled", "the actual use replaced a reservation";
    Posted: "posted", "a message was posted without a turn";
    CallCapSet: "call_cap_set", "the maximum number of tool calls in one reply was recorded";
    HookAnswered: "hook_answered", "a hook answered or failed";
    PreparationPlanned: "preparation_planned",
        "a summary is written ahead, because the next turn will probably need it";
    SummaryPrepared: "summary_prepared", "a summary that was written ahead is ready";
    PreparationDropped: "preparation_dropped", "a summary that was written ahead will not be used";
    SettingsSet: "settings_set", "the session's own settings were changed";
}
