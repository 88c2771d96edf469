//! What reaches a session, and the answers to the effects it asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::{Body, Checkpoint, FactCoverage, KeyFact, Writer};
use unisono_context::message::NewMessage;
use unisono_context::policy::Policy;
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Count, Counts, Ppm};
use unisono_context::topic::DecidedTopics;
use unisono_context::{
    AgentId, CallId, CheckpointId, Digest, Encoding, MessageId, RunId, SessionId, Tokens, TurnId,
};

use crate::agent::Team;
use crate::budget::{Ask, TurnCaps};
use crate::event::{
    Calibration, DelegationLimits, HookPlace, HookReply, ImportNotes, RequestKey, Work,
};
use crate::run::calls::{CallPlace, Decision, Output};
use crate::run::{Cause, Spent, Step, ToolCall, Usage};
use crate::state::{CallCap, Settings};
use crate::tool::Rules;

/// What reaches a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// Create the session from a conversation. Only as the first input; the same again completes
    /// what a crash cut short, and is not an error.
    Import(Import),
    /// Answer an input, or compact on request. The same turn again is not an error.
    Accept(Box<NewTurn>),
    /// The same under a key: asked again under it, the turn that it was first given to is kept, and
    /// this one is not accepted. [`crate::State::keyed`] says which it is.
    AcceptKeyed {
        /// The key.
        key: RequestKey,
        /// The turn.
        turn: Box<NewTurn>,
    },
    /// Append messages and accept a turn behind them; where either is refused, neither is done. The
    /// same again completes what a crash cut short and changes nothing else, nor does another turn
    /// under the same key with the same request.
    AcceptAfter {
        /// The messages.
        preceding: Preceding,
        /// The key, if there is one.
        key: Option<RequestKey>,
        /// The turn.
        turn: Box<NewTurn>,
    },
    /// Append a message without a turn. While turns are open on its branch it waits until the one
    /// at work has ended. The same message again, or another under the same key with the same
    /// request, changes nothing.
    Append(Append),
    /// Start a branch at a message, or set it there.
    Fork {
        /// Its name.
        branch: Arc<str>,
        /// Its head.
        at: MessageId,
    },
    /// Messages are to stand verbatim whatever is compacted, or not any more. The same again
    /// changes nothing.
    Pin {
        /// The branch whose messages are meant.
        branch: Arc<str>,
        /// Which.
        messages: Vec<MessageId>,
        /// Whether they are pinned from now on.
        pinned: bool,
    },
    /// Let the current topic of a branch end.
    Seal {
        /// The branch.
        branch: Arc<str>,
    },
    /// Settings of the session's own, for turns that are accepted from now on. The same again
    /// changes nothing.
    Set {
        /// By key, dotted, as on a command line; none: it has none of its own any more.
        changes: BTreeMap<Arc<str>, Option<Arc<str>>>,
    },
    /// [`crate::Effect::Count`] was carried out.
    Counted(Counted),
    /// [`crate::Effect::Measure`] was carried out.
    Measured {
        /// The turn.
        turn: TurnId,
        /// The model whose provider was asked.
        model: Arc<str>,
        /// What the context was estimated to have.
        estimated: Tokens,
        /// What the provider counts for it; none: it cannot be asked, or did not answer.
        reported: Option<Tokens>,
    },
    /// [`crate::Effect::Compact`] was carried out.
    StepDone {
        /// The turn.
        turn: TurnId,
        /// The step, as in the job.
        step: u32,
        /// What came of it.
        result: StepResult,
    },
    /// [`crate::Effect::Compact`] failed.
    StepFailed {
        /// The turn.
        turn: TurnId,
        /// The step, as in the job.
        step: u32,
        /// Why.
        reason: Arc<str>,
        /// Whether the same step may succeed when it is asked for again.
        again: bool,
    },
    /// A model replied that was asked for a summary.
    SummariserUsed {
        /// The turn it was asked for, which may have ended since.
        turn: TurnId,
        /// The model that replied.
        model: Arc<str>,
        /// What it used.
        usage: Usage,
    },
    /// [`crate::Effect::Render`] was carried out: prefix digests by definition digest.
    Rendered {
        /// The turn.
        turn: TurnId,
        /// Digest of the shared prompt bytes, per definition.
        prefixes: BTreeMap<Digest, Digest>,
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
    /// The agent of a run gives tasks to others: all `delegate` calls of one reply of its model.
    /// What comes of them is read with [`crate::State::delegation`]. The same round again, after
    /// a crash or by another attempt, changes nothing; its runs go on.
    Delegate {
        /// Its run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// How many replies the run has had from its model, this one included.
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<DelegateCall>,
    },
    /// Tools with effects outside are to be called for the agent of a run: all such calls of one
    /// reply of its model. What comes of them is read with [`crate::State::calling`]. The same
    /// round again, after a crash or by another attempt, changes nothing.
    CallTools {
        /// Its run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// As in [`CallPlace::round`].
        round: u32,
        /// The calls, in the reply's order.
        calls: Vec<NewCall>,
    },
    /// [`crate::Effect::CallTool`] was carried out, or could not be.
    ToolEnded {
        /// The call.
        call: CallPlace,
        /// What it came back with.
        output: Output,
    },
    /// A person decided about a call that waits for them.
    Decide {
        /// The call.
        call: CallId,
        /// What.
        decision: Decision,
        /// The name of who decides; none: it has none.
        by: Option<Arc<str>>,
    },
    /// The agent of a run would ask its model; or the writer of summaries would, with
    /// [`crate::ids::summaries`] for the run and the step for the attempt. Granted where the call is reserved afterwards
    /// ([`crate::budget::Tree::reserved`]); what else may come of it, [`crate::State::afford`]
    /// says.
    Reserve {
        /// Its run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The call.
        ask: Ask,
    },
    /// A call that was reserved has ended, and its reply, if there is one, is no step of the run.
    Settle {
        /// Its run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The call.
        call: u32,
        /// How it ended.
        end: CallEnd,
    },
    /// Something was paid for besides replies, for a request of the run's model that goes on.
    Spent {
        /// Its run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The call that was reserved for the request, if one was.
        call: Option<u32>,
        /// What.
        spent: Spent,
    },
    /// An attempt of a run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// How.
        end: AttemptEnd,
    },
    /// Stop a turn and all its runs.
    Cancel {
        /// The turn.
        turn: TurnId,
    },
    /// Stop a run and what it gave to others; that of a lead stops its turn.
    CancelRun {
        /// The run.
        run: RunId,
    },
    /// A hook has answered; or why it did not.
    HookAnswered {
        /// About what.
        place: HookPlace,
        /// The answer.
        reply: Result<HookReply, Arc<str>>,
    },
    /// Time passed.
    Tick,
}

/// What the names of labels begin with that only this program gives.
pub const RESERVED_LABELS: &str = "unisono.";
/// The label that says which process's request a session is there for; see [`Import::ephemeral`].
pub const EPHEMERAL: &str = "unisono.ephemeral";
/// Characters of the longest name of a branch.
pub const MAX_BRANCH: usize = 200;

/// A conversation that becomes a session.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Its id.
    pub session: Option<SessionId>,
    /// A title for people.
    pub title: Arc<str>,
    /// The system text.
    pub system: Arc<str>,
    /// Labels, none of a name that begins with [`RESERVED_LABELS`].
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Settings of its own, as in [`Input::Set`].
    pub settings: Settings,
    /// The process for one request of which it is there: it goes with that request. No
    /// conversation that somebody brings says so.
    pub ephemeral: Option<Arc<str>>,
    /// Messages with their parents, parents first.
    pub messages: Vec<(Option<MessageId>, NewMessage)>,
    /// Branch heads; without any, `main` ends in the last message.
    pub branches: Vec<(Arc<str>, MessageId)>,
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<Arc<Checkpoint>>,
    /// What stands of how messages were masked or cut, in that order, each with the number of the
    /// newest checkpoint then: it is undone with that one. 0 stays whatever is taken back.
    pub alterations: Vec<(u32, Alteration)>,
    /// Messages that always stand verbatim.
    pub pinned: Vec<MessageId>,
    /// Those of the checkpoints that were taken back.
    pub retired: Vec<CheckpointId>,
    /// What was decided about where topics end.
    pub topics: Vec<DecidedTopics>,
    /// The messages that a person let topics end with.
    pub sealed: Vec<MessageId>,
    /// What else is known of topics and checkpoints.
    pub notes: Box<ImportNotes>,
}

/// A message to be appended without a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The branch.
    pub branch: Arc<str>,
    /// The message.
    pub message: NewMessage,
    /// The key it is given under: [`crate::State::key`] says which message it stands for.
    pub key: Option<RequestKey>,
}

/// Messages that are appended right before the input of a turn, on its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preceding {
    /// The newest message of the branch before them; none: the branch is empty.
    pub head: Option<MessageId>,
    /// The messages, oldest first.
    pub messages: Vec<NewMessage>,
}

/// A turn to be accepted.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Its id.
    pub id: TurnId,
    /// The branch.
    pub branch: Arc<str>,
    /// What it does.
    pub work: Work,
    /// Its agents.
    pub team: Team,
    /// When and how to compact.
    pub policy: Policy,
    /// What ends a topic where a user's message begins with it. Only tiers ask for it.
    pub phrases: Vec<Arc<str>>,
    /// Safety margin as a share of the window.
    pub safety: Ppm,
    /// What the project tells every agent, behind the session's system text; may be empty.
    pub instructions: Arc<str>,
    /// The tools the agents are told of.
    pub tools: Vec<ToolSpec>,
    /// How far the counts of its models are off, where they are estimates.
    pub calibrations: Vec<Calibration>,
    /// How far its agents may delegate by themselves.
    pub delegation: DelegationLimits,
    /// What a repeated call of its tools would do, and which calls wait for a person.
    pub rules: Arc<Rules>,
    /// What it may use.
    pub caps: TurnCaps,
    /// How many calls of tools one reply may make; the others are answered without being made.
    pub call_cap: CallCap,
}

/// Counts that were asked for.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The turn.
    pub turn: TurnId,
    /// The encoding.
    pub encoding: Encoding,
    /// System text and tools, and what agents are told besides, if they were asked for.
    pub texts: Vec<(Digest, Count)>,
    /// The messages.
    pub messages: Vec<(MessageId, Count)>,
}

/// What came of a compaction step.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// Messages are masked or cut.
    Altered(Vec<Alteration>),
    /// A summary was written, or a note for a dropped range.
    Written(Written),
}

/// A summary with all that is recorded of its making.
#[derive(Clone, Debug)]
pub struct Written {
    /// What stands in the context.
    pub body: Body,
    /// Facts carried verbatim.
    pub key_facts: Vec<KeyFact>,
    /// Tokens of the whole block, in each encoding of the job.
    pub counts: Counts,
    /// Who wrote it.
    pub writer: Writer,
    /// The model's name.
    pub model: Arc<str>,
    /// What it cost, in millionths of a dollar; none where the price is unknown.
    pub cost_micros: Option<u64>,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether a model should redo it.
    pub degraded: bool,
    /// What a model's summary gives of the range's days, names and ids.
    pub coverage: Option<FactCoverage>,
}

/// A task for another agent, as a model gives it. Whatever it says is taken: what cannot be done
/// is told to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The agent.
    pub agent: AgentId,
    /// What it is to do.
    pub task: Arc<str>,
}

/// A call of a tool with effects outside, whose agent may call it with such arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// The arguments one by one, as [`Rules::approval`] takes them.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}

/// How a model call ended that is no step of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It used so much.
    Used(Usage),
    /// Nothing has to be paid for: it was not sent, or was turned away.
    Unsent,
    /// It was under way, and nobody will say what it used.
    Lost,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// With a result.
    Finished {
        /// The answer.
        text: Arc<str>,
        /// Calls that it leaves to whoever asked, of tools that they lent.
        calls: Vec<ToolCall>,
        /// Set where it is not complete, saying why.
        partial: Option<Arc<str>>,
        /// What it used.
        usage: Usage,
    },
    /// Without one.
    Failed {
        /// Why.
        cause: Cause,
        /// What happened.
        reason: Arc<str>,
        /// How long another attempt would fail as well, where that is known.
        wait_ms: Option<u64>,
    },
}

impl AttemptEnd {
    /// An attempt that failed.
    pub fn failed(cause: Cause, reason: impl Into<Arc<str>>) -> AttemptEnd {
        AttemptEnd::Failed {
            cause,
            reason: reason.into(),
            wait_ms: None,
        }
    }
}
