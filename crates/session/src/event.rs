//! The journal's events: facts in the past tense, each with the time it was decided.
//!
//! A session is the fold of its events. Facts contain decisions, not their consequences: the
//! messages that a turn appends for its delegation and its answer are derived from its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::compaction::Plan;
use unisono_context::message::NewMessage;
use unisono_context::snapshot::Manifest;
use unisono_context::tokens::Count;
use unisono_context::topic::{DecidedTopics, TopicEnd};
use unisono_context::{
    CheckpointId, Digest, Encoding, MessageId, RunId, SessionId, SnapshotId, Timestamp, Tokens,
    TurnId,
};

use crate::agent::Definition;
use crate::budget::{Amount, Reservation};
use crate::run::calls::{CallDecision, CallOutput, CallPlace, PlannedCall};
use crate::run::{AuxiliaryUsage, Ending, Reply, Step, Usage};
use crate::tool::ToolRules;

mod accepted;
mod hooks;
mod kinds;
mod outcome;
mod preparation;
mod summary;

pub use accepted::{
    AcceptedTurn, Calibration, DelegationLimits, SummaryFallback, SummaryOptions, Work,
};
pub(crate) use hooks::from_reply;
pub use hooks::{HookAnswer, HookPlace, HookPoint, HookReply, MessageReference};
pub use outcome::Outcome;
pub use preparation::{
    DropReason, PlannedPreparation, Preparation, PreparationStatus, WrittenSummary,
};

pub use crate::run::{DelegatedCall, OpenedRun, RunRole};

/// The overrides of a session, by dotted key. Their meaning is not known here.
pub type Settings = BTreeMap<Arc<str>, Arc<str>>;

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time of the decision.
    pub at: Timestamp,
    /// The decision.
    pub fact: Fact,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The session was created. Always the first fact.
    Created {
        /// Its id.
        session: SessionId,
        /// A title for people.
        title: Arc<str>,
        /// The system text at the beginning of every prompt.
        system: Arc<str>,
        /// Labels: platform, channel, owner.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
    /// A message was added after `parent`, and the branch moved to it.
    Appended {
        /// The branch that moves; none: no branch moves.
        branch: Option<Arc<str>>,
        /// The message before it; none: it is a root.
        parent: Option<MessageId>,
        /// The message.
        message: NewMessage,
    },
    /// A branch was started, or set to another head.
    BranchSet {
        /// Its name.
        branch: Arc<str>,
        /// Its head.
        head: MessageId,
    },
    /// Messages were counted.
    Counted {
        /// The encoding.
        encoding: Encoding,
        /// The messages and their counts.
        counts: Vec<(MessageId, Count)>,
    },
    /// System text and tools, or the text of an agent beside the context, were counted.
    PreambleCounted {
        /// Digest of the text.
        preamble: Digest,
        /// The encoding.
        encoding: Encoding,
        /// The count.
        count: Count,
    },
    /// An agent definition was first used in this session.
    Defined {
        /// The definition.
        definition: Arc<Definition>,
    },
    /// An input was accepted. It waits until its branch is free.
    TurnAccepted {
        /// The turn.
        turn: Box<AcceptedTurn>,
    },
    /// The turn's input was appended and its work began.
    TurnStarted {
        /// The turn.
        turn: TurnId,
    },
    /// A compaction step was decided.
    CompactionPlanned {
        /// For this turn.
        turn: TurnId,
        /// The step.
        plan: Plan,
    },
    /// Messages were masked or cut.
    Altered {
        /// The turn; none: they were imported with the session.
        turn: Option<TurnId>,
        /// The masks and cuts.
        alterations: Vec<Alteration>,
    },
    /// A checkpoint replaced messages.
    Compacted {
        /// The turn; none: it was imported with the session.
        turn: Option<TurnId>,
        /// The checkpoint.
        checkpoint: Arc<Checkpoint>,
    },
    /// A compaction step failed.
    CompactionFailed {
        /// The turn.
        turn: TurnId,
        /// The reason.
        reason: Arc<str>,
    },
    /// The context was frozen. It does not change for the rest of the turn.
    Frozen {
        /// The turn.
        turn: TurnId,
        /// The id of the snapshot.
        snapshot: SnapshotId,
        /// The manifest from which the snapshot is rebuilt.
        manifest: Manifest,
    },
    /// An agent was given a task.
    RunOpened {
        /// The run.
        run: OpenedRun,
    },
    /// A step of a run was finished. It is not repeated.
    RunStepped {
        /// The run.
        run: RunId,
        /// The step.
        step: Arc<Step>,
    },
    /// The agent of a run delegated tasks with one reply of its model.
    Delegated {
        /// The run.
        run: RunId,
        /// The number of replies that the run had from its model, this one included.
        round: u32,
        /// The tasks, in the order of the reply's calls.
        calls: Vec<DelegatedCall>,
    },
    /// An attempt failed, and another one follows.
    RunRetried {
        /// The run.
        run: RunId,
        /// The number of the next attempt, from 1.
        attempt: u32,
        /// The earliest time of the next attempt.
        not_before: Timestamp,
        /// The reason why the last attempt failed.
        reason: Arc<str>,
    },
    /// A run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// The ending.
        ending: Arc<Ending>,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// The outcome.
        outcome: Outcome,
    },
    /// Output of a run arrived after the run was cancelled. It is kept because it was paid for, and
    /// delivered to nobody.
    LateOutputReceived {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The output.
        late: LateOutput,
    },
    /// A model replied to a request for a summary, whether or not the reply was used.
    SummariserUsed {
        /// The turn, which may have ended since.
        turn: TurnId,
        /// The model that replied.
        model: Arc<str>,
        /// Its usage.
        usage: Usage,
    },
    /// Messages were pinned: they stay verbatim in every context, even within the range of a
    /// summary.
    Pinned {
        /// The messages.
        messages: Vec<MessageId>,
    },
    /// Messages were unpinned.
    Unpinned {
        /// The messages.
        messages: Vec<MessageId>,
    },
    /// A checkpoint was reverted: the context is restored, with all later messages.
    Reverted {
        /// The turn; none: it was imported reverted.
        turn: Option<TurnId>,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Effective tokens before.
        before: Tokens,
    },
    /// The phrases that end a topic were first used in this session, or changed.
    PhrasesSet {
        /// All of them.
        phrases: Vec<Arc<str>>,
    },
    /// Topic ends were decided for all messages without a decision.
    TopicsDecided {
        /// The turn.
        turn: TurnId,
        /// The last of these messages.
        through: MessageId,
        /// The ends, oldest first.
        ends: Vec<TopicEnd>,
    },
    /// A person ended the current topic of a branch.
    TopicSealed {
        /// The branch.
        branch: Arc<str>,
        /// The topic's last message.
        last: MessageId,
    },
    /// The project's instructions for every agent of turns that are accepted from now on.
    InstructionsSet {
        /// The complete text; may be empty.
        text: Arc<str>,
    },
    /// The rules about tools for turns that are accepted from now on.
    ToolRulesSet {
        /// All rules.
        rules: Arc<ToolRules>,
    },
    /// The agent of a run calls tools with one reply of its model.
    ToolsCalled {
        /// The run.
        run: RunId,
        /// As in [`CallPlace::round`].
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<PlannedCall>,
    },
    /// A call is made as soon as this fact is on disk.
    ToolStarted {
        /// The call.
        call: CallPlace,
    },
    /// The server of a tool works on a call as a task: it is polled, also after a restart.
    ToolTaskStarted {
        /// The call.
        call: CallPlace,
        /// The server's id of the task.
        task: Arc<str>,
    },
    /// A call has a result, or could not be made.
    ToolEnded {
        /// The call.
        call: CallPlace,
        /// The result.
        output: CallOutput,
    },
    /// All calls of a round have results: this is a step of their run, with the results of the
    /// calls.
    ToolsAnswered {
        /// The run.
        run: RunId,
        /// As in [`CallPlace::round`].
        round: u32,
    },
    /// The outcome of a call is unknown, and it may not be repeated.
    ToolInDoubt {
        /// The call.
        call: CallPlace,
    },
    /// A waiting call was decided, or its approval expired.
    ToolDecided {
        /// The call.
        call: CallPlace,
        /// The decision.
        decision: CallDecision,
        /// The name of the token by which it was decided; none: nobody's, or the daemon's own.
        by: Option<Arc<str>>,
    },
    /// Topic ends were imported with the session.
    TopicsImported {
        /// The decisions, in order.
        decided: Vec<DecidedTopics>,
        /// The last messages of the topics that a person ended.
        sealed: Vec<MessageId>,
        /// Further details of topics and checkpoints.
        notes: Box<ImportNotes>,
    },
    /// A provider was asked to count the context of a turn, because the error of the estimate
    /// affected a decision.
    Measured {
        /// The turn.
        turn: TurnId,
        /// The calibration of the model from then on.
        calibration: Calibration,
    },
    /// The maximum use of a model call was reserved.
    Reserved {
        /// The run.
        run: RunId,
        /// The reservation, with the number of the call.
        reservation: Reservation,
    },
    /// A model call ended without a reply that is a step of its run.
    CallSettled {
        /// The run.
        run: RunId,
        /// The number of the call, as in its reservation.
        call: u32,
        /// The charged amount.
        used: Amount,
        /// Whether the amount was reported; otherwise it is the reserved amount.
        is_reported: bool,
    },
    /// A message was appended without a turn. It is on its branch at once, or, if turns are open
    /// there, at the end of the current turn.
    Posted {
        /// The branch.
        branch: Arc<str>,
        /// The message.
        message: NewMessage,
        /// Its key: a repeated request with this key refers to this message.
        key: Option<RequestKey>,
    },
    /// The maximum number of tool calls of one reply, for turns that are accepted from now on.
    CallCapSet {
        /// The maximum.
        calls: u32,
    },
    /// A hook answered, or failed to answer.
    HookAnswered {
        /// The subject of the question.
        place: HookPlace,
        /// The hook.
        hook: Arc<str>,
        /// The result.
        answer: HookAnswer,
    },
    /// A summary is written ahead, because the next turn of the branch will probably need it.
    PreparationPlanned {
        /// The step and its conditions.
        preparation: Box<PlannedPreparation>,
    },
    /// A summary that was written ahead is ready.
    SummaryPrepared {
        /// The turn after which it was planned.
        turn: TurnId,
        /// The summary.
        summary: Box<WrittenSummary>,
    },
    /// A summary that was written ahead, or was to be, will not be used.
    PreparationDropped {
        /// The turn after which it was planned.
        turn: TurnId,
        /// The turn that could not use it; none: no turn was to use it yet.
        by: Option<TurnId>,
        /// The reason.
        reason: DropReason,
    },
    /// The session's overrides of settings, for turns that are accepted from now on.
    SettingsSet {
        /// All overrides.
        settings: Settings,
    },
}

/// Further details of imported topics and checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportNotes {
    /// The times of topic ends, by the message that opened the next topic.
    pub opened: Vec<(MessageId, Timestamp)>,
    /// The times at which a person ended topics, by their last message.
    pub sealed: Vec<(MessageId, Timestamp)>,
    /// The checkpoints whose steps kept less than requested.
    pub tightened: Vec<CheckpointId>,
}

/// The key that identifies a repeated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The caller's name of the request.
    pub name: Arc<str>,
    /// Digest of the request.
    pub request: Digest,
    /// The client's own id of the message that brought the request; none: it has none.
    pub client_message_id: Option<Arc<str>>,
    /// The division of that message into parts, in a form that its protocol's server reads; none: it
    /// is not divided.
    pub client_parts: Option<Arc<str>>,
}

impl RequestKey {
    /// A key of a request that brings no message of a client.
    pub fn new(name: impl Into<Arc<str>>, request: Digest) -> RequestKey {
        RequestKey {
            name: name.into(),
            request,
            client_message_id: None,
            client_parts: None,
        }
    }
}

/// The output of a cancelled run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LateOutput {
    /// A reply of its model.
    Reply(Reply),
    /// Its answer.
    Answer {
        /// The answer.
        text: Arc<str>,
        /// The reason why it is not complete; none: it is complete.
        partial: Option<Arc<str>>,
        /// The usage of the whole run, recorded replies included.
        usage: Usage,
    },
    /// A cost of an unanswered request of its model.
    Spent(AuxiliaryUsage),
    /// The result of a named step, such as the report of a coding agent.
    Named {
        /// The name of the step.
        name: Arc<str>,
        /// Its result, as JSON.
        result: Arc<str>,
    },
    /// The beginning of a reply of its model that was not complete when it was cancelled.
    Incomplete {
        /// The text so far, up to 64 KiB.
        text: Arc<str>,
    },
}
