//! A session as the fold of its journal.

mod runs;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use unisono_context::alteration::Alterations;
use unisono_context::call::{ClientOptions, Usage};
use unisono_context::checkpoint::{Checkpoints, reverted};
use unisono_context::compaction::Plan;
use unisono_context::message::{NewMessage, Part};
use unisono_context::snapshot::{Preamble, RebuildError, ToolSpec};
use unisono_context::tokens::Counts;
use unisono_context::topic::Topics;
use unisono_context::view::View;
use unisono_context::{
    CallId, CheckpointId, Digest, Encoding, MessageId, RunId, SessionId, Snapshot, Tokens, Tree,
    TurnId,
};

use crate::agent::Definition;
use crate::budget;
use crate::event::{Fact, HookPlace, Outcome, Preparation, RunRole, Work};
use crate::ids;
use crate::reserve::TeamNeeds;
use crate::run::Run;
use crate::run::calls::CallPlace;
use crate::summary_usage::SummaryUsage;
use crate::tool::ToolRules;
use crate::turn::{Phase, Turn};

pub use crate::event::Settings;
pub use crate::run::calls::CallCap;

/// The prefix of labels that only this program sets.
pub const RESERVED_LABELS: &str = "unisono.";
/// The name of a session's first branch.
pub const MAIN: &str = "main";

/// The fold of a session's journal. It is changed only by folding events.
///
/// Growing collections are shared with copies until one side changes: the cost of a copy depends on
/// the open turns, not on the history.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its id; none before its creation.
    pub(crate) id: Option<SessionId>,
    pub(crate) title: Arc<str>,
    pub(crate) system: Arc<str>,
    pub(crate) instructions: Arc<str>,
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its overrides of settings, for turns that are accepted from now on.
    pub(crate) settings: Arc<Settings>,
    pub(crate) tree: Arc<Tree>,
    /// Bytes of the attachments in the tree whose contents are kept, each as often as it is there.
    pub(crate) attached_bytes: u64,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) alterations: Arc<Alterations>,
    pub(crate) topics: Arc<Topics>,
    /// The phrases that end a topic, for turns that are accepted from now on.
    pub(crate) phrases: Arc<[Arc<str>]>,
    /// The rules about tools for turns that are accepted from now on.
    pub(crate) tool_rules: Arc<ToolRules>,
    /// Calls that a person decided.
    pub(crate) decided_calls: Arc<BTreeSet<CallId>>,
    pub(crate) pinned: Arc<BTreeSet<MessageId>>,
    /// The counts of system texts with tools, and of the texts of agents beside the context.
    pub(crate) preambles: HashMap<Digest, Counts>,
    pub(crate) definitions: BTreeMap<Digest, Arc<Definition>>,
    /// Turns that have not ended. Each is in a box: a node of the map has room for eleven.
    pub(crate) turns: BTreeMap<TurnId, Box<Turn>>,
    /// Runs of those turns.
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Per branch, the open turns; the first one is active.
    pub(crate) queues: BTreeMap<Arc<str>, VecDeque<TurnId>>,
    /// Ended turns by the events that accepted them: a clock that was set back gives a later turn
    /// a smaller id.
    pub(crate) ended: Arc<BTreeMap<u64, (TurnId, EndedTurn)>>,
    /// The events that accepted the ended turns.
    pub(crate) ended_ids: Arc<BTreeMap<TurnId, u64>>,
    /// Ended turns whose hooks have not all been asked.
    pub(crate) ended_hooks: BTreeMap<TurnId, EndedHooks>,
    /// The requests under a key, by the key's name, with the digest of the request.
    pub(crate) keyed: Arc<BTreeMap<Arc<str>, (Digest, KeyTarget)>>,
    /// Per branch, messages appended without a turn that wait for the end of the active turn.
    pub(crate) waiting_messages: BTreeMap<Arc<str>, Vec<NewMessage>>,
    /// Branches whose lead requested a compaction that was not made yet.
    pub(crate) requested_compactions: BTreeSet<Arc<str>>,
    /// Per branch, the summary that is written ahead, or was dropped since its last checkpoint.
    pub(crate) preparations: BTreeMap<Arc<str>, Preparation>,
    /// The maximum number of tool calls of one reply, for turns that are accepted from now on.
    pub(crate) call_cap: CallCap,
    pub(crate) newest_tools: Vec<ToolSpec>,
    /// The locations of the steps behind messages that agents wrote.
    pub(crate) step_locations: Arc<HashMap<MessageId, StepLocation>>,
    /// The locations of the steps of leads without an answer, by the inputs of their turns.
    pub(crate) unanswered: Arc<HashMap<MessageId, StepLocation>>,
    /// The spent and reserved amounts.
    pub(crate) budget: budget::Tree,
    /// The requests for summaries of turns that are open or write ahead.
    pub(crate) summary_usage: BTreeMap<TurnId, SummaryUsage>,
    /// The usage of the steps that made checkpoints, if they asked a model.
    pub(crate) checkpoint_usage: Arc<BTreeMap<CheckpointId, Usage>>,
    pub(crate) events: u64,
}

/// The request under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A turn.
    Turn(TurnId),
    /// A message that was appended without one.
    Message(MessageId),
}

/// The location in the journal of the steps behind a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLocation {
    /// The agent's run.
    pub run: RunId,
    /// The event that opened it.
    pub first: u64,
    /// An event after its last step.
    pub last: u64,
}

/// The stored part of an ended turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    /// The event that accepted it.
    pub accepted: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// The message with the answer.
    pub answer: Option<MessageId>,
}

/// An ended turn whose hooks have not all been asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedHooks {
    pub(crate) branch: Arc<str>,
    pub(crate) rules: Arc<ToolRules>,
    pub(crate) due: Vec<HookPlace>,
}

/// The system text of a session and the project's instructions, as one text.
pub fn full_system_text(system: &Arc<str>, instructions: &Arc<str>) -> Arc<str> {
    match (system.is_empty(), instructions.is_empty()) {
        (_, true) => system.clone(),
        (true, false) => instructions.clone(),
        (false, false) => format!("{system}\n\n{instructions}").into(),
    }
}

impl State {
    /// Its id; none before its creation.
    pub fn id(&self) -> Option<SessionId> {
        self.id
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The fact that sets the main branch to the last message, if there are messages and no branch:
    /// the events after the messages of an import were lost. None otherwise.
    pub fn missing_branch(&self) -> Option<Fact> {
        let last = self.tree.iter().last()?;
        let has_branch = self.tree.branches().next().is_some();
        (!has_branch).then(|| Fact::BranchSet {
            branch: MAIN.into(),
            head: last.message.id,
        })
    }

    /// The system text at the beginning of every prompt.
    pub fn system(&self) -> &Arc<str> {
        &self.system
    }

    /// The project's instructions of the newest turn; may be empty.
    pub fn instructions(&self) -> &Arc<str> {
        &self.instructions
    }

    /// Its labels, without those of this program: a copy of the session gets only these.
    pub fn own_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.labels.iter();
        all.map(|(name, value)| (&**name, &**value))
            .filter(|(name, _)| !name.starts_with(RESERVED_LABELS))
    }

    /// Its overrides of settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        &self.labels
    }

    /// All its messages and branches.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Bytes of its attachments whose contents are kept, each as often as a message or the result of
    /// a tool has it; also those of messages and tasks that wait.
    pub fn attached_bytes(&self) -> u64 {
        let turns = self.turns.values();
        let queued = turns.filter(|turn| turn.phase == Phase::Queued);
        let tasks = queued.filter_map(|turn| match &turn.accepted.work {
            Work::Answer { input, .. } => Some(input),
            _ => None,
        });
        let waiting = self.waiting_messages.values().flatten().chain(tasks);
        let parts = waiting.flat_map(|message| &message.parts);
        parts
            .map(Part::kept_bytes)
            .fold(self.attached_bytes, u64::saturating_add)
    }

    /// All its checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Its masked and cut messages.
    pub fn alterations(&self) -> &Alterations {
        &self.alterations
    }

    /// Its topic ends.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// The tools of the newest turn.
    pub fn newest_tools(&self) -> &[ToolSpec] {
        &self.newest_tools
    }

    /// The location of the steps of the agent that wrote a message; none if the agent took no step,
    /// or no agent wrote the message.
    pub fn step_location(&self, message: MessageId) -> Option<StepLocation> {
        self.step_locations.get(&message).copied()
    }

    /// The location of the steps of the lead that worked on an input and has not answered; none for
    /// the input of an open turn.
    pub fn unanswered_steps(&self, input: MessageId) -> Option<StepLocation> {
        self.unanswered.get(&input).copied()
    }

    /// Messages that must not be summarised.
    pub fn pinned(&self) -> &BTreeSet<MessageId> {
        &self.pinned
    }

    /// The number of folded events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Open turns, oldest first.
    pub fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.values().map(|turn| &**turn)
    }

    /// An open turn.
    pub fn turn(&self, id: TurnId) -> Option<&Turn> {
        self.turns.get(&id).map(|turn| &**turn)
    }

    /// A run of an open turn.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// Whether a person decided this call.
    pub fn is_decided(&self, call: CallId) -> bool {
        self.decided_calls.contains(&call)
    }

    /// The id of a call of an open turn.
    pub fn call_id(&self, place: CallPlace) -> Option<CallId> {
        let run = self.runs.get(&place.run)?;
        Some(ids::call(run.turn, place))
    }

    /// An ended turn.
    pub fn ended_turn(&self, id: TurnId) -> Option<&EndedTurn> {
        let accepted = self.ended_ids.get(&id)?;
        self.ended.get(accepted).map(|(_, turn)| turn)
    }

    /// The ended turns in the order of their acceptance.
    pub fn ended_turns(
        &self,
    ) -> impl ExactSizeIterator<Item = (TurnId, &EndedTurn)> + DoubleEndedIterator {
        self.ended.values().map(|(id, turn)| (*id, turn))
    }

    /// The turn that was requested under a key of this name, and the digest of the request.
    pub fn turn_by_key(&self, name: &str) -> Option<(Digest, TurnId)> {
        match self.keyed.get(name)? {
            (request, KeyTarget::Turn(turn)) => Some((*request, *turn)),
            (_, KeyTarget::Message(_)) => None,
        }
    }

    /// The object of the request under a key of this name, and the digest of the request.
    pub fn key_target(&self, name: &str) -> Option<(Digest, KeyTarget)> {
        self.keyed.get(name).copied()
    }

    /// The messages appended to a branch without a turn that wait for the end of the active turn,
    /// oldest first.
    pub fn waiting_messages(&self, branch: &str) -> &[NewMessage] {
        let waiting = self.waiting_messages.get(branch);
        waiting.map_or(&[], Vec::as_slice)
    }

    pub(crate) fn waiting_message(&self, id: MessageId) -> Option<&NewMessage> {
        let mut waiting = self.waiting_messages.values().flatten();
        waiting.find(|message| message.id == id)
    }

    /// The definitions used by turns of this session.
    pub fn definitions(&self) -> impl Iterator<Item = (Digest, &Arc<Definition>)> {
        self.definitions.iter().map(|(digest, of)| (*digest, of))
    }

    /// The definition with this digest, if a turn of this session used it.
    pub fn definition(&self, digest: Digest) -> Option<&Arc<Definition>> {
        self.definitions.get(&digest)
    }

    /// The counts of a preamble, as far as they are known.
    pub fn preamble_counts(&self, preamble: &Preamble) -> Counts {
        self.preambles
            .get(&preamble.digest())
            .copied()
            .unwrap_or_default()
    }

    /// The tokens of an agent's role and task, if they are counted ([`TeamNeeds::assignment_tokens`]).
    pub fn assignment_tokens(&self, needs: &TeamNeeds, agent: Digest) -> Option<Tokens> {
        needs.assignment_tokens(agent, &self.preambles)
    }

    /// The roles and tasks without a count, each with its digest.
    pub fn uncounted_roles(&self, needs: &TeamNeeds, encoding: Encoding) -> Vec<(Digest, String)> {
        needs.texts(encoding, &self.preambles)
    }

    /// The active context of the branch with this `head`; `pending` says that the head is an
    /// unanswered input.
    pub fn view(&self, head: MessageId, pending: bool) -> Option<View<'_>> {
        View::new(
            &self.tree,
            &self.checkpoints,
            &self.alterations,
            &self.pinned,
            head,
            pending,
        )
        .map(|view| view.with_topics(&self.topics))
    }

    /// The checkpoints and alterations of the branch with this `head` after a revert of a
    /// checkpoint.
    pub fn without_checkpoint(
        &self,
        head: MessageId,
        checkpoint: CheckpointId,
    ) -> (Checkpoints, Alterations) {
        let (all, altered) = (&self.checkpoints, &self.alterations);
        reverted(&self.tree, all, altered, head, checkpoint)
    }

    /// The runs of a turn, in the order in which they were opened.
    pub fn runs_of(&self, turn: &Turn) -> impl Iterator<Item = &Run> {
        turn.runs.iter().filter_map(|id| self.runs.get(id))
    }

    /// Whether the runs that wait for this run also wait for another open one.
    pub(crate) fn has_awaited_siblings(&self, run: RunId) -> bool {
        let Some(run) = self.runs.get(&run) else {
            return false;
        };
        match run.role {
            RunRole::Lead => false,
            RunRole::Delegate { .. } => {
                let turn = self.turns.get(&run.turn);
                turn.is_some_and(|turn| turn.open_fan_out > 0)
            }
            RunRole::Child { parent, round, .. } => {
                let round = self.runs.get(&parent).and_then(|run| run.round(round));
                round.is_some_and(|round| round.open > 0)
            }
        }
    }

    /// The client tools of a run: only the lead has any.
    pub(crate) fn client_options(&self, run: &Run) -> Option<&ClientOptions> {
        if run.role != RunRole::Lead {
            return None;
        }
        self.turns.get(&run.turn)?.accepted.work.client_options()
    }

    /// The active turns: the first of each queue.
    pub(crate) fn active_turns(&self) -> impl Iterator<Item = &Turn> {
        let first = self.queues.values().filter_map(|queue| queue.front());
        first.filter_map(|id| self.turn(*id))
    }

    /// The active turn of a branch.
    pub fn active_turn(&self, branch: &str) -> Option<&Turn> {
        self.queues
            .get(branch)?
            .front()
            .and_then(|id| self.turn(*id))
    }

    /// The compaction step in progress in a turn.
    pub fn step_under_way(&self, turn: TurnId) -> Option<&Plan> {
        match &self.turns.get(&turn)?.phase {
            Phase::Compacting(plan) => Some(plan),
            _ => None,
        }
    }

    /// The frozen context of a turn. The machine rebuilds it after a restart.
    pub fn snapshot(&self, turn: TurnId) -> Option<&Arc<Snapshot>> {
        self.turns.get(&turn)?.snapshot.0.as_ref()
    }

    /// Rebuilds the frozen context of a turn from its manifest and compares it with the recorded
    /// one. Does nothing if no context is frozen.
    pub(crate) fn rebuild_snapshot(&mut self, id: TurnId) -> Result<(), RebuildError> {
        let Some(turn) = self.turns.get_mut(&id) else {
            return Ok(());
        };
        let Phase::Frozen {
            snapshot, manifest, ..
        } = &turn.phase
        else {
            return Ok(());
        };
        let rebuilt = Snapshot::rebuild(
            manifest,
            *snapshot,
            &self.tree,
            &self.checkpoints,
            turn.preamble.clone(),
        )?;
        turn.snapshot.0 = Some(Arc::new(rebuilt));
        Ok(())
    }
}
