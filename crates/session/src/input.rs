//! The inputs of a session, including the results of its effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::message::NewMessage;
use unisono_context::policy::Policy;
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Count, Ppm};
use unisono_context::topic::DecidedTopics;
use unisono_context::{
    AgentId, CallId, CheckpointId, Digest, Encoding, MessageId, RunId, SessionId, Tokens, TurnId,
};

use crate::agent::Team;
use crate::budget::{ReservationRequest, TurnCaps};
use crate::event::{
    Calibration, DelegationLimits, HookPlace, HookReply, ImportNotes, RequestKey, Work,
    WrittenSummary,
};
use crate::run::calls::{CallDecision, CallOutput, CallPlace, Permission};
use crate::run::{AttemptTimes, AuxiliaryUsage, RunCause, Step, ToolCall, Usage};
use crate::state::{CallCap, Settings};
use crate::tool::ToolRules;

/// An input of a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// Create the session from a conversation. Only as the first input; a repetition completes an
    /// import that a crash interrupted, and is not an error.
    Import(Import),
    /// Answer an input, or compact on request. Repeating the same turn is not an error.
    Accept(Box<NewTurn>),
    /// The same under a key. If the key is repeated, the first turn is kept and this one is not
    /// accepted. [`crate::State::turn_by_key`] gives the kept turn.
    AcceptKeyed {
        /// The key.
        key: RequestKey,
        /// The turn.
        turn: Box<NewTurn>,
    },
    /// Append messages and accept a turn after them: both or neither. A repetition completes an
    /// input that a crash interrupted and changes nothing else; neither does another turn under the
    /// same key with the same request.
    AcceptAfter {
        /// The messages.
        preceding: PrecedingMessages,
        /// The key, if there is one.
        key: Option<RequestKey>,
        /// The turn.
        turn: Box<NewTurn>,
    },
    /// Append a message without a turn. While turns are open on its branch it waits for the end of
    /// the current turn. A repetition of the message, or another message under the same key with
    /// the same request, changes nothing.
    Append(Append),
    /// Create a branch at a message, or move it there.
    Fork {
        /// Its name.
        branch: Arc<str>,
        /// Its head.
        at: MessageId,
    },
    /// Pin messages, or unpin them. A repetition changes nothing.
    Pin {
        /// The branch of the messages.
        branch: Arc<str>,
        /// The messages.
        messages: Vec<MessageId>,
        /// Whether to pin or to unpin.
        pinned: bool,
    },
    /// End the current topic of a branch.
    Seal {
        /// The branch.
        branch: Arc<str>,
    },
    /// Change the session's overrides, for turns that are accepted from now on. A repetition
    /// changes nothing.
    Set {
        /// The new values by dotted key; none: the override is removed.
        changes: BTreeMap<Arc<str>, Option<Arc<str>>>,
    },
    /// [`crate::Effect::Count`] was carried out.
    Counted(Counted),
    /// [`crate::Effect::Measure`] was carried out.
    Measured {
        /// The turn.
        turn: TurnId,
        /// The model that was measured.
        model: Arc<str>,
        /// The estimated size of the context.
        estimated: Tokens,
        /// The provider's count; none: it cannot count, or did not answer.
        reported: Option<Tokens>,
    },
    /// [`crate::Effect::Compact`] was carried out.
    StepDone {
        /// The turn.
        turn: TurnId,
        /// The step, as in its job; [`crate::assignment::AHEAD`]: a summary was written ahead.
        step: u32,
        /// The result.
        result: StepResult,
    },
    /// [`crate::Effect::Compact`] failed.
    StepFailed {
        /// The turn.
        turn: TurnId,
        /// The step, as in its job.
        step: u32,
        /// The reason.
        reason: Arc<str>,
        /// Whether the same step may succeed on another try; for a summary to write ahead, whether
        /// only the capacity for it was missing.
        is_retryable: bool,
    },
    /// A model replied to a request for a summary.
    SummariserUsed {
        /// The turn, which may have ended since.
        turn: TurnId,
        /// The model that replied.
        model: Arc<str>,
        /// Its usage.
        usage: Usage,
    },
    /// [`crate::Effect::Render`] was carried out: prefix digests by definition digest, or why the context
    /// cannot be rendered.
    Rendered {
        /// The turn.
        turn: TurnId,
        /// Digest of the shared prompt bytes, per definition.
        prefixes: Result<BTreeMap<Digest, Digest>, Arc<str>>,
    },
    /// A run finished a step.
    RunStepped {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The step.
        step: Arc<Step>,
    },
    /// The agent of a run delegates tasks: all `delegate` calls of one reply of its model.
    /// [`crate::State::delegation_status`] gives the result. A repetition of the round, after a
    /// crash or by another attempt, changes nothing; its runs continue.
    Delegate {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The number of replies from the run's model, this one included.
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<DelegateCall>,
    },
    /// The agent of a run calls tools with effects outside: all such calls of one reply of its
    /// model. [`crate::State::call_round_status`] gives the result. A repetition of the round,
    /// after a crash or by another attempt, changes nothing.
    CallTools {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// As in [`CallPlace::round`].
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<NewCall>,
    },
    /// The agent of a run does not need the permissions of a round any more. Calls that have ended are
    /// left as they are.
    WithdrawPermissions {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// As in [`CallPlace::round`].
        round: u32,
    },
    /// [`crate::Effect::CallTool`] was carried out, or could not be.
    ToolEnded {
        /// The call.
        call: CallPlace,
        /// The result.
        output: CallOutput,
    },
    /// The server of a tool works on a call as a task.
    ToolTask {
        /// The call.
        call: CallPlace,
        /// The server's id of the task.
        task: Arc<str>,
    },
    /// The server of a tool has forgotten the task of a call that may not be repeated.
    ToolTaskLost {
        /// The call.
        call: CallPlace,
    },
    /// A person decides about a waiting call.
    Decide {
        /// The call.
        call: CallId,
        /// The decision.
        decision: CallDecision,
        /// The name of who decides; none: it has none.
        by: Option<Arc<str>>,
    },
    /// The agent of a run wants to call its model; or a summariser wants to, with
    /// [`crate::ids::summaries`] as the run and the step as the attempt. It is granted if the call
    /// is reserved afterwards ([`crate::budget::Tree::reserved`]); otherwise
    /// [`crate::State::afford`] gives the reason.
    Reserve {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The request.
        ask: ReservationRequest,
    },
    /// A reserved call has ended, without a reply that is a step of the run.
    Settle {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The call.
        call: u32,
        /// Its end.
        end: CallEnd,
    },
    /// A cost in addition to replies, for a request of the run's model that continues.
    Spent {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The reserved call of the request, if there is one.
        call: Option<u32>,
        /// The cost.
        spent: AuxiliaryUsage,
    },
    /// An attempt of a run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// Its end.
        end: AttemptEnd,
    },
    /// Cancel a turn and all its runs.
    Cancel {
        /// The turn.
        turn: TurnId,
    },
    /// Cancel a run and its descendants; cancelling a lead's run cancels its turn.
    CancelRun {
        /// The run.
        run: RunId,
    },
    /// A hook answered, or failed to.
    HookAnswered {
        /// The question.
        place: HookPlace,
        /// The answer, or the reason of the failure.
        reply: Result<HookReply, Arc<str>>,
    },
    /// Time passed.
    Tick,
}

/// The label with the process for whose request an ephemeral session exists; see
/// [`Import::ephemeral`].
pub const EPHEMERAL: &str = "unisono.ephemeral";
/// The maximum number of characters of a branch name.
pub const MAX_BRANCH: usize = 200;

/// A conversation from which a session is created.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Its id.
    pub session: Option<SessionId>,
    /// A title for people.
    pub title: Arc<str>,
    /// The system text.
    pub system: Arc<str>,
    /// Labels. Their names must not be empty or begin with
    /// [`RESERVED_LABELS`](crate::state::RESERVED_LABELS).
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its overrides of settings, as in [`Input::Set`].
    pub settings: Settings,
    /// The process for whose request the session exists; the session is deleted with that request.
    /// Never set by an imported file.
    pub ephemeral: Option<Arc<str>>,
    /// Messages with their parents; parents come first.
    pub messages: Vec<(Option<MessageId>, NewMessage)>,
    /// Branch heads; if empty, `main` ends at the last message.
    pub branches: Vec<(Arc<str>, MessageId)>,
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<Arc<Checkpoint>>,
    /// The masks and cuts that are still in effect, in order, each with the number of the newest
    /// checkpoint at its time: reverting that checkpoint undoes it. With 0 it is never undone.
    pub alterations: Vec<(u32, Alteration)>,
    /// Pinned messages.
    pub pinned: Vec<MessageId>,
    /// The reverted checkpoints.
    pub retired: Vec<CheckpointId>,
    /// The decisions about topic ends.
    pub topics: Vec<DecidedTopics>,
    /// The last messages of the topics that a person ended.
    pub sealed: Vec<MessageId>,
    /// Further details of topics and checkpoints.
    pub notes: Box<ImportNotes>,
}

/// A message to append without a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The branch.
    pub branch: Arc<str>,
    /// The message.
    pub message: NewMessage,
    /// Its key: [`crate::State::key_target`] gives the message.
    pub key: Option<RequestKey>,
}

/// Messages to append directly before the input of a turn, on its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecedingMessages {
    /// The newest message of the branch before them; none: the branch is empty.
    pub head: Option<MessageId>,
    /// The messages, oldest first.
    pub messages: Vec<NewMessage>,
}

/// A turn to accept.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Its id.
    pub id: TurnId,
    /// The branch.
    pub branch: Arc<str>,
    /// Its work.
    pub work: Work,
    /// Its agents.
    pub team: Team,
    /// The compaction policy.
    pub policy: Policy,
    /// The phrases at the beginning of a user's message that end a topic. Only the tiered preset
    /// uses them.
    pub phrases: Vec<Arc<str>>,
    /// Safety margin as a share of the window.
    pub safety: Ppm,
    /// The project's instructions for every agent, after the session's system text; may be empty.
    pub instructions: Arc<str>,
    /// The tools of the agents.
    pub tools: Vec<ToolSpec>,
    /// The errors of its models' token counts, if they are estimates.
    pub calibrations: Vec<Calibration>,
    /// The limits of delegation by its agents.
    pub delegation: DelegationLimits,
    /// The contracts of its tools, and the calls that need an approval.
    pub rules: Arc<ToolRules>,
    /// Its limits.
    pub caps: TurnCaps,
    /// The maximum number of tool calls of one reply; the others are answered without being made.
    pub call_cap: CallCap,
    /// As [`AcceptedTurn::prepare`](crate::event::AcceptedTurn::prepare).
    pub prepare: Option<Digest>,
}

/// Requested counts.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The turn.
    pub turn: TurnId,
    /// The encoding.
    pub encoding: Encoding,
    /// The counts of system text and tools, and of the texts of agents beside the context, if they
    /// were requested.
    pub texts: Vec<(Digest, Count)>,
    /// The messages.
    pub messages: Vec<(MessageId, Count)>,
}

/// The result of a compaction step.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// Messages were masked or cut.
    Altered(Vec<Alteration>),
    /// A summary was written, or a note for a dropped range.
    Written(WrittenSummary),
}

/// A task for another agent, as a model wrote it. It is always accepted here; the result tells the
/// model why a task is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The agent.
    pub agent: AgentId,
    /// The task.
    pub task: Arc<str>,
}

/// A tool call with effects outside, whose agent may make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// The arguments as single fields, as in [`ToolRules::approval`].
    pub fields: Vec<(Arc<str>, Arc<str>)>,
    /// Set if the agent makes the call itself, and asks whether it may.
    pub permission: Option<Permission>,
}

/// The end of a model call that is no step of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// This is its usage.
    Used(Usage),
    /// It costs nothing: it was not sent, or was rejected.
    Unsent,
    /// It was in progress, and its usage will never be known.
    Lost,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// With a result.
    Finished {
        /// The answer.
        text: Arc<str>,
        /// Calls of client tools that it leaves to the client.
        calls: Vec<ToolCall>,
        /// The reason why it is not complete; none: it is complete.
        partial: Option<Arc<str>>,
        /// Its usage.
        usage: Usage,
        /// When it began to work and to speak.
        attempt_times: AttemptTimes,
    },
    /// Without a result.
    Failed {
        /// The cause.
        cause: RunCause,
        /// The reason.
        reason: Arc<str>,
        /// The time for which another attempt would also fail, in milliseconds, if it is known.
        wait_ms: Option<u64>,
        /// The text of its last reply, if that broke off or was rejected.
        text: Option<Arc<str>>,
    },
}

impl AttemptEnd {
    /// A failed attempt.
    pub fn failed(cause: RunCause, reason: impl Into<Arc<str>>) -> AttemptEnd {
        AttemptEnd::Failed {
            cause,
            reason: reason.into(),
            wait_ms: None,
            text: None,
        }
    }
}
