//! A session as the fold of its journal.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use unisono_context::alteration::Alterations;
use unisono_context::call::ClientOptions;
use unisono_context::checkpoint::{Checkpoints, restored};
use unisono_context::compaction::Plan;
use unisono_context::message::NewMessage;
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
use crate::event::{HookPlace, Outcome, RunRole};
use crate::ids;
use crate::input::RESERVED_LABELS;
use crate::reserve::Needs;
use crate::run::Run;
use crate::run::calls::CallPlace;
use crate::tool::Rules;
use crate::turn::{Phase, Turn};

/// Settings of a session's own: by key, dotted, as on a command line. What they mean is not known
/// here.
pub type Settings = BTreeMap<Arc<str>, Arc<str>>;

/// The name of the branch a session starts with.
pub const MAIN: &str = "main";

/// Everything that follows from a session's journal. Changed only by folding events.
///
/// What grows with the journal is shared with copies until one of them is changed: a copy to look
/// at costs what is open, not what was said.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its id; none before it was created.
    pub(crate) id: Option<SessionId>,
    pub(crate) title: Arc<str>,
    pub(crate) system: Arc<str>,
    pub(crate) instructions: Arc<str>,
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its own settings, for turns that are accepted from now on.
    pub(crate) settings: Arc<Settings>,
    pub(crate) tree: Arc<Tree>,
    /// Bytes of the attachments in the tree whose contents are kept, each as often as it is there.
    pub(crate) attached_bytes: u64,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) alterations: Arc<Alterations>,
    pub(crate) topics: Arc<Topics>,
    /// What ends a topic where a message begins with it.
    pub(crate) phrases: Arc<[Arc<str>]>,
    /// The rules about tools for turns that are accepted from now on.
    pub(crate) tool_rules: Arc<Rules>,
    /// Calls that a person was asked about and that were decided about.
    pub(crate) decided_calls: Arc<BTreeSet<CallId>>,
    pub(crate) pinned: Arc<BTreeSet<MessageId>>,
    /// What system texts with tools cost, and what agents are told besides.
    pub(crate) preambles: HashMap<Digest, Counts>,
    pub(crate) definitions: BTreeMap<Digest, Arc<Definition>>,
    /// Turns that have not ended.
    pub(crate) turns: BTreeMap<TurnId, Turn>,
    /// Runs of those turns.
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Per branch, the turns that have not ended; the first one works.
    pub(crate) queues: BTreeMap<Arc<str>, VecDeque<TurnId>>,
    pub(crate) ended: Arc<BTreeMap<TurnId, EndedTurn>>,
    /// Turns that have ended and of which hooks are still to be told.
    pub(crate) ended_hooks: BTreeMap<TurnId, EndedHooks>,
    /// What was asked for under a key, by its name, with the digest of the request.
    pub(crate) keyed: Arc<BTreeMap<Arc<str>, (Digest, Keyed)>>,
    /// Per branch, messages appended without a turn that wait for the end of the turn at work.
    pub(crate) waiting_messages: BTreeMap<Arc<str>, Vec<NewMessage>>,
    /// Branches whose lead requested a compaction that was not made yet.
    pub(crate) requested_compactions: BTreeSet<Arc<str>>,
    /// How many calls of tools one reply may make, in turns that are accepted from now on.
    pub(crate) call_cap: CallCap,
    /// The tools that the agents of the newest turn were told of.
    pub(crate) told: Vec<ToolSpec>,
    /// For messages that agents wrote here, where their steps are.
    pub(crate) acts: Arc<HashMap<MessageId, Acts>>,
    /// What is spent and reserved.
    pub(crate) budget: budget::Tree,
    pub(crate) events: u64,
}

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// A turn.
    Turn(TurnId),
    /// A message that was appended without one.
    Message(MessageId),
}

/// How many calls of tools one reply of a model may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCap(pub u32);

impl Default for CallCap {
    /// More than a model that works makes at once.
    fn default() -> CallCap {
        CallCap(128)
    }
}

/// Where the journal has what an agent did before it wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acts {
    /// The agent's run.
    pub run: RunId,
    /// The event that opened it.
    pub first: u64,
    /// An event after its last step.
    pub last: u64,
}

/// What is remembered of a turn that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    /// How it ended.
    pub outcome: Outcome,
    /// The message with the answer.
    pub answer: Option<MessageId>,
}

/// A turn that has ended and of which hooks are still to be told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedHooks {
    pub(crate) branch: Arc<str>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) due: Vec<HookPlace>,
}

/// The system text of a session and what the project tells every agent, as agents see them.
pub fn joined(system: &Arc<str>, instructions: &Arc<str>) -> Arc<str> {
    match (system.is_empty(), instructions.is_empty()) {
        (_, true) => system.clone(),
        (true, false) => instructions.clone(),
        (false, false) => format!("{system}\n\n{instructions}").into(),
    }
}

impl State {
    /// Its id; none before the first event.
    pub fn id(&self) -> Option<SessionId> {
        self.id
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The system text every agent sees first.
    pub fn system(&self) -> &Arc<str> {
        &self.system
    }

    /// What the project told every agent of the newest turn; may be empty.
    pub fn instructions(&self) -> &Arc<str> {
        &self.instructions
    }

    /// Its labels, but for those that this program gives: what of them goes along with a copy.
    pub fn own_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.labels.iter();
        all.map(|(name, value)| (&**name, &**value))
            .filter(|(name, _)| !name.starts_with(RESERVED_LABELS))
    }

    /// Its own settings.
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

    /// Bytes of its attachments whose contents are kept, each as often as a message has it.
    pub fn attached_bytes(&self) -> u64 {
        self.attached_bytes
    }

    /// All its checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Its masked and cut messages.
    pub fn alterations(&self) -> &Alterations {
        &self.alterations
    }

    /// Where its topics end.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// The tools that the agents of the newest turn were told of.
    pub fn newest_tools(&self) -> &[ToolSpec] {
        &self.told
    }

    /// Where the steps are of the agent that wrote a message; none where it took none, or the
    /// message was said by somebody else.
    pub fn acts(&self, message: MessageId) -> Option<Acts> {
        self.acts.get(&message).copied()
    }

    /// Messages that may not be summarised.
    pub fn pinned(&self) -> &BTreeSet<MessageId> {
        &self.pinned
    }

    /// How many events it is the fold of.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Turns that have not ended, oldest first.
    pub fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.values()
    }

    /// A turn that has not ended.
    pub fn turn(&self, id: TurnId) -> Option<&Turn> {
        self.turns.get(&id)
    }

    /// A run of a turn that has not ended.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// Whether a person was asked about that call and it was decided about.
    pub fn was_decided(&self, call: CallId) -> bool {
        self.decided_calls.contains(&call)
    }

    /// The name of a call of an open turn.
    pub fn id_of_call(&self, place: CallPlace) -> Option<CallId> {
        let run = self.runs.get(&place.run)?;
        Some(ids::call(run.turn, place))
    }

    /// How a turn ended.
    pub fn ended(&self, id: TurnId) -> Option<&EndedTurn> {
        self.ended.get(&id)
    }

    /// The turns that ended, oldest first.
    pub fn ended_turns(
        &self,
    ) -> impl ExactSizeIterator<Item = (TurnId, &EndedTurn)> + DoubleEndedIterator {
        self.ended.iter().map(|(id, turn)| (*id, turn))
    }

    /// The turn that was asked for under a key of that name, and the digest of what was asked.
    pub fn keyed(&self, name: &str) -> Option<(Digest, TurnId)> {
        match self.keyed.get(name)? {
            (request, Keyed::Turn(turn)) => Some((*request, *turn)),
            (_, Keyed::Message(_)) => None,
        }
    }

    /// What was asked for under a key of that name, and the digest of the request.
    pub fn key(&self, name: &str) -> Option<(Digest, Keyed)> {
        self.keyed.get(name).copied()
    }

    /// The messages that were appended to a branch without a turn and wait for the end of the one
    /// at work, oldest first.
    pub fn waiting_messages(&self, branch: &str) -> &[NewMessage] {
        let waiting = self.waiting_messages.get(branch);
        waiting.map_or(&[], Vec::as_slice)
    }

    /// Whether a message of that id waits on a branch.
    pub(crate) fn waiting_message(&self, id: MessageId) -> Option<&NewMessage> {
        let mut waiting = self.waiting_messages.values().flatten();
        waiting.find(|message| message.id == id)
    }

    /// The definitions that turns of this session used.
    pub fn definitions(&self) -> impl Iterator<Item = (Digest, &Arc<Definition>)> {
        self.definitions.iter().map(|(digest, of)| (*digest, of))
    }

    /// The definition of that digest, if a turn of this session used it.
    pub fn definition(&self, digest: Digest) -> Option<&Arc<Definition>> {
        self.definitions.get(&digest)
    }

    /// What a preamble costs, as far as it was counted.
    pub fn preamble_counts(&self, preamble: &Preamble) -> Counts {
        self.preambles
            .get(&preamble.digest())
            .copied()
            .unwrap_or_default()
    }

    /// What an agent's role and task cost, where that is counted ([`Needs::assignment_tokens`]).
    pub fn assignment_tokens(&self, needs: &Needs, agent: Digest) -> Option<Tokens> {
        needs.assignment_tokens(agent, &self.preambles)
    }

    /// The roles and tasks without a count, each with what it is known by.
    pub fn uncounted_roles(&self, needs: &Needs, encoding: Encoding) -> Vec<(Digest, String)> {
        needs.texts(encoding, &self.preambles)
    }

    /// The active context of the branch that ends in `head`; `pending` says that the head is an
    /// input that waits for its answer.
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

    /// What stands for messages once a checkpoint is taken back on the branch that ends in `head`.
    pub fn without(&self, head: MessageId, checkpoint: CheckpointId) -> (Checkpoints, Alterations) {
        let (all, altered) = (&self.checkpoints, &self.alterations);
        restored(&self.tree, all, altered, head, checkpoint)
    }

    /// The runs of a turn, in the order in which they were opened.
    pub fn runs_of(&self, turn: &Turn) -> impl Iterator<Item = &Run> {
        turn.runs.iter().filter_map(|id| self.runs.get(id))
    }

    /// Whether whoever waits for what comes of a run waits for another open one, too.
    pub(crate) fn is_waited_for_with_others(&self, run: RunId) -> bool {
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

    /// The tools that an agent was lent: the lead answers to whoever asks.
    pub(crate) fn client_options(&self, run: &Run) -> Option<&ClientOptions> {
        if run.role != RunRole::Lead {
            return None;
        }
        self.turns.get(&run.turn)?.accepted.work.client_options()
    }

    /// The turns that work on their branches: the first of each queue.
    pub(crate) fn turns_at_work(&self) -> impl Iterator<Item = &Turn> {
        let first = self.queues.values().filter_map(|queue| queue.front());
        first.filter_map(|id| self.turns.get(id))
    }

    /// The turn that works on a branch.
    pub fn active_turn(&self, branch: &str) -> Option<&Turn> {
        self.queues
            .get(branch)?
            .front()
            .and_then(|id| self.turns.get(id))
    }

    /// The compaction step under way in a turn.
    pub fn step_under_way(&self, turn: TurnId) -> Option<&Plan> {
        match &self.turns.get(&turn)?.phase {
            Phase::Compacting(plan) => Some(plan),
            _ => None,
        }
    }

    /// The frozen context of a turn; rebuilt by the machine after a restart.
    pub fn snapshot(&self, turn: TurnId) -> Option<&Arc<Snapshot>> {
        self.turns.get(&turn)?.snapshot.0.as_ref()
    }

    /// Rebuilds the frozen context of a turn from its manifest and checks that it is the recorded
    /// one. Nothing happens where none is frozen.
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
