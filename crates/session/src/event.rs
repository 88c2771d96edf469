//! The journal's events: facts in the past tense, each with the time it was decided.
//!
//! A session is the fold of its events. Facts carry what was decided, not what follows from
//! it: the messages a turn appends for its delegation and its answer are derived from its runs.

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
    AgentId, CheckpointId, Digest, Encoding, MessageId, RunId, SessionId, SnapshotId, Timestamp,
    Tokens, TurnId,
};

use crate::agent::Definition;
use crate::budget::{Amount, Reservation};
use crate::run::calls::{CallPlace, Decision, Output, PlannedCall};
use crate::run::{Ending, Reply, Spent, Step, Usage};
use crate::state::Settings;
use crate::tool::Rules;

mod accepted;
mod hooks;
mod kinds;
mod summary;

pub use accepted::{
    AcceptedTurn, Calibration, DelegatedCall, DelegationLimits, Unwritten, Work, Writing,
};
pub(crate) use hooks::settled;
pub use hooks::{HookAnswer, HookPlace, HookPoint, HookReply, PinnedBy};

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was decided.
    pub at: Timestamp,
    /// What was decided.
    pub fact: Fact,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The session exists. Always the first.
    Created {
        /// Its id.
        session: SessionId,
        /// A title for people.
        title: Arc<str>,
        /// The system text every agent sees first.
        system: Arc<str>,
        /// Labels: platform, channel, owner.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
    /// A message was added after `parent`, and the branch moved to it.
    Appended {
        /// The branch that moves; none: no branch does.
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
        /// In this encoding.
        encoding: Encoding,
        /// Each with what it costs.
        counts: Vec<(MessageId, Count)>,
    },
    /// System text and tools were counted, or what an agent is told besides the context.
    PreambleCounted {
        /// Which text it is.
        preamble: Digest,
        /// In this encoding.
        encoding: Encoding,
        /// What they cost.
        count: Count,
    },
    /// An agent definition was first used in this session.
    Defined {
        /// The definition.
        definition: Arc<Definition>,
    },
    /// An input was accepted. It waits until its branch is free.
    TurnAccepted {
        /// What is to be done.
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
        /// For this turn; none: they were imported with the session.
        turn: Option<TurnId>,
        /// How.
        alterations: Vec<Alteration>,
    },
    /// A checkpoint took the place of messages.
    Compacted {
        /// For this turn; none: it was imported with the session.
        turn: Option<TurnId>,
        /// The checkpoint.
        checkpoint: Arc<Checkpoint>,
    },
    /// A compaction step could not be carried out.
    CompactionFailed {
        /// For this turn.
        turn: TurnId,
        /// Why.
        reason: Arc<str>,
    },
    /// The context was frozen. Nothing changes it for the rest of the turn.
    Frozen {
        /// For this turn.
        turn: TurnId,
        /// What it is.
        snapshot: SnapshotId,
        /// What it is rebuilt from.
        manifest: Manifest,
    },
    /// An agent was given a task.
    RunOpened {
        /// The run.
        run: OpenedRun,
    },
    /// A step of a run was finished; it is not repeated.
    RunStepped {
        /// The run.
        run: RunId,
        /// The step.
        step: Arc<Step>,
    },
    /// The agent of a run gave tasks to others, with one reply of its model.
    Delegated {
        /// Its run.
        run: RunId,
        /// How many replies it had from its model by then.
        round: u32,
        /// The tasks, in the order of the reply's calls.
        calls: Vec<DelegatedCall>,
    },
    /// An attempt failed and another is to be made.
    RunRetried {
        /// The run.
        run: RunId,
        /// The attempt that comes next, from 1.
        attempt: u32,
        /// Not before this.
        not_before: Timestamp,
        /// Why the last one failed.
        reason: Arc<str>,
    },
    /// A run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// How.
        ending: Arc<Ending>,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// How.
        outcome: Outcome,
    },
    /// Something came from a run that had been cancelled by then. It is kept, because it was paid
    /// for, and delivered to nobody.
    CameLate {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What came.
        late: Late,
    },
    /// A model replied that was asked for a summary, whatever became of the reply.
    SummariserUsed {
        /// For this turn, which may have ended since.
        turn: TurnId,
        /// The model that replied.
        model: Arc<str>,
        /// What it used.
        usage: Usage,
    },
    /// Messages are to stand verbatim in every context from now on, also where a summary stands
    /// for them.
    Pinned {
        /// Which.
        messages: Vec<MessageId>,
    },
    /// Messages are not pinned any more.
    Unpinned {
        /// Which.
        messages: Vec<MessageId>,
    },
    /// A checkpoint was taken back: the context is what it was before, with what was said since.
    Restored {
        /// For this turn; none: it was imported so.
        turn: Option<TurnId>,
        /// Which.
        checkpoint: CheckpointId,
        /// Effective tokens before.
        before: Tokens,
    },
    /// The phrases that end a topic were first used in this session, or changed.
    PhrasesSet {
        /// All of them.
        phrases: Vec<Arc<str>>,
    },
    /// It was decided where topics end, for all messages that nothing was decided about.
    TopicsDecided {
        /// For this turn.
        turn: TurnId,
        /// The last of these messages.
        through: MessageId,
        /// The ends, oldest first.
        ends: Vec<TopicEnd>,
    },
    /// A person let the current topic of a branch end.
    TopicSealed {
        /// The branch.
        branch: Arc<str>,
        /// The topic's last message.
        last: MessageId,
    },
    /// What the project tells every agent of turns that start from now on.
    InstructionsSet {
        /// All of it; may be empty.
        text: Arc<str>,
    },
    /// The rules about tools that turns accepted from now on keep.
    ToolRulesSet {
        /// All of them.
        rules: Arc<Rules>,
    },
    /// Tools are to be called for the agent of a run, with one reply of its model.
    ToolsCalled {
        /// Its run.
        run: RunId,
        /// As in [`CallPlace::round`].
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<PlannedCall>,
    },
    /// A call is made as soon as this is on disk.
    ToolStarted {
        /// Which.
        call: CallPlace,
    },
    /// A call was answered, or could not be made.
    ToolEnded {
        /// Which.
        call: CallPlace,
        /// What it came back with.
        output: Output,
    },
    /// All calls of a round have answered: a step of their run. The results are those of the calls.
    ToolsAnswered {
        /// Whose they are.
        run: RunId,
        /// As in [`CallPlace::round`].
        round: u32,
    },
    /// Nobody knows what became of a call, and it may not be made again.
    ToolInDoubt {
        /// Which.
        call: CallPlace,
    },
    /// It was decided about a call that waited for a person.
    ToolDecided {
        /// Which.
        call: CallPlace,
        /// What.
        decision: Decision,
        /// The name of the token by which it was decided; none: nobody's, or the daemon's own.
        by: Option<Arc<str>>,
    },
    /// It was imported with the session where its topics end.
    TopicsImported {
        /// What was decided, in that order.
        decided: Vec<DecidedTopics>,
        /// The messages that a person let topics end with.
        sealed: Vec<MessageId>,
        /// What else is known of topics and checkpoints.
        notes: Box<ImportNotes>,
    },
    /// A provider was asked to count the context of a turn, because the error of the estimate
    /// decided something.
    Measured {
        /// The turn.
        turn: TurnId,
        /// What is known of the model from then on.
        calibration: Calibration,
    },
    /// What a model call of a run may take was reserved.
    Reserved {
        /// The run.
        run: RunId,
        /// What, and for which call.
        reservation: Reservation,
    },
    /// A model call has ended without a reply that is a step of its run.
    CallSettled {
        /// The run.
        run: RunId,
        /// The call, as in its reservation.
        call: u32,
        /// What is charged for it.
        used: Amount,
        /// Whether somebody said so; else it is what was reserved.
        told: bool,
    },
    /// A message was appended without a turn. It stands on its branch at once, or, where turns are
    /// open there, as soon as the one at work has ended.
    Posted {
        /// The branch.
        branch: Arc<str>,
        /// The message.
        message: NewMessage,
        /// The key it was given under: given again under it, it is this message.
        key: Option<RequestKey>,
    },
    /// How many calls of tools one reply of a model may make, in turns accepted from now on.
    CallCapSet {
        /// So many at most.
        calls: u32,
    },
    /// A hook was asked, and this came of it.
    HookAnswered {
        /// About what.
        place: HookPlace,
        /// The hook.
        hook: Arc<str>,
        /// What came of it.
        answer: HookAnswer,
    },
    /// The session's own settings, which count for turns accepted from now on.
    SettingsSet {
        /// All of them.
        settings: Settings,
    },
}

impl Outcome {
    /// The stable word: the state of the turn that ended so.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Compacted { .. } => "compacted",
            Outcome::Failed { .. } => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Restored { .. } => "restored",
        }
    }

    /// Whether a compaction on request changed nothing because it could not be carried out.
    pub fn is_unwritten(&self) -> bool {
        matches!(self, Outcome::Failed { code, .. } if &**code == "compaction_failed")
    }
}

/// What is known of imported topics and checkpoints beside what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportNotes {
    /// When ends of topics were decided, by the message that opened the next topic.
    pub opened: Vec<(MessageId, Timestamp)>,
    /// When a person let topics end, by their last message.
    pub sealed: Vec<(MessageId, Timestamp)>,
    /// The checkpoints whose steps kept less than was asked for.
    pub tightened: Vec<CheckpointId>,
}

/// What tells a request that is made again from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// What the caller calls it.
    pub name: Arc<str>,
    /// Digest of what was asked for under it.
    pub request: Digest,
}

/// What comes from a run that was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Late {
    /// A reply of its model.
    Reply(Reply),
    /// Its answer.
    Answer {
        /// The answer.
        text: Arc<str>,
        /// Set where it is not complete, saying why.
        partial: Option<Arc<str>>,
        /// What the whole run used, recorded replies included.
        usage: Usage,
    },
    /// What was paid for a request of its model that is not answered yet.
    Spent(Spent),
}

/// What a run's agent was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedRun {
    /// Its id.
    pub id: RunId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Its place in the turn.
    pub role: RunRole,
    /// The agent.
    pub agent: AgentId,
    /// Digest of the agent's definition.
    pub definition: Digest,
    /// The frozen context; none for an agent that gets the task only.
    pub snapshot: Option<SnapshotId>,
    /// Digest of the prompt bytes it shares.
    pub prefix: Digest,
}

/// A run's place in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunRole {
    /// Works on one part.
    Delegate {
        /// Its position in the fan-out, from 0.
        index: u32,
    },
    /// Answers.
    Lead,
    /// Works on a task that another agent gave it while it worked itself.
    Child {
        /// The run of that agent.
        parent: RunId,
        /// The round of that run, as in [`Fact::Delegated`].
        round: u32,
        /// Its position among the calls of the round, from 0.
        index: u32,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lead's answer is the branch's newest message.
    Answered,
    /// A compaction on request was carried out (or there was nothing to do).
    Compacted {
        /// Effective tokens before.
        before: Tokens,
        /// Effective tokens after.
        after: Tokens,
    },
    /// It failed.
    Failed {
        /// A stable code: `context_overflow`, `lead_failed`, …
        code: Arc<str>,
        /// What happened.
        reason: Arc<str>,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// A checkpoint was taken back.
    Restored {
        /// Effective tokens before.
        before: Tokens,
        /// Effective tokens after.
        after: Tokens,
    },
}
