//! The input of the compactor: one step of a compaction.

use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::{Checkpoint, Kind, Span};
use unisono_context::compaction::{Cover, EXTRACTIVE, PERSON, Plan, Step as PlanStep};
use unisono_context::tokens::Count;
use unisono_context::{
    CheckpointId, Encoding, Message, MessageId, Ordinal, SessionId, Tokens, TurnId,
};

use crate::event::{Settings, SummaryOptions, Work};
use crate::ids;
use crate::state::State;
use crate::turn::Turn;
use crate::upcoming::UpcomingTopic;

/// Messages after the cutoff that a summariser gets as context only.
const RECENT_SHOWN: usize = 6;

/// The maximum number of tokens of [`CompactionJob::quoted`]: some 2 MB of text.
const QUOTED_MAX: Tokens = Tokens(500_000);

/// The step of a [`CompactionJob`] that writes a summary ahead.
pub const AHEAD: u32 = 0;
/// A compaction step that has failed this often is not retried.
pub(crate) const STEP_FAILURES_MAX: u32 = 3;

/// One step of a compaction.
#[derive(Clone, Debug)]
pub struct CompactionJob {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The number of the step in the turn, from 1; [`AHEAD`]: it belongs to no turn.
    pub step: u32,
    /// Previous failures of this step.
    pub failures: u32,
    /// The planned step.
    pub plan: Plan,
    /// The origin of the request.
    pub kind: Kind,
    /// The model of the conversation: the lead's model.
    pub model: Arc<str>,
    /// The summaries that are read first, oldest first: those that a new summary replaces, or, for
    /// a regenerated summary, the ones before it.
    pub prior: Vec<Arc<Checkpoint>>,
    /// The newest summaries that persons wrote, in `prior` or behind it, whose texts `prior` still has,
    /// oldest first. Their texts are the head of the new summary.
    pub kept: Vec<Arc<Checkpoint>>,
    /// The messages after `kept` that `prior` quotes from, oldest first. The summariser without a model
    /// reads them again in place of `prior`. Empty if another summary in `prior`, or one that it
    /// replaced after `kept`, has no quotes, or if the messages have more than 500,000 tokens.
    pub quoted: Vec<Arc<Message>>,
    /// The messages to summarise, mask or cut, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The topics that later steps summarise, which may be part of the same request.
    pub ahead: Vec<UpcomingTopic>,
    /// The messages after the cutoff, for context only.
    pub recent: Vec<Arc<Message>>,
    /// The masked and cut forms of these messages in the context.
    pub alterations: Vec<Alteration>,
    /// The encodings in which the result must be counted: all of them, because the agents of a
    /// later turn may use another encoding.
    pub encodings: Vec<Encoding>,
    /// The options of the person who requested the summary.
    pub writing: SummaryOptions,
    /// The session's overrides, which may name the summariser.
    pub settings: Arc<Settings>,
    /// Whether requests for summaries must be reserved first ([`crate::Input::Reserve`]).
    pub bounded: bool,
}

impl CompactionJob {
    /// Whether it writes a summary ahead: no turn waits for it.
    pub fn is_ahead(&self) -> bool {
        self.step == AHEAD
    }

    /// Whether the step is retried if it fails.
    pub fn has_another_try(&self) -> bool {
        self.failures + 1 < STEP_FAILURES_MAX
    }
}

/// The conversation that a compaction step reads.
#[derive(Debug, Default)]
pub(crate) struct Material {
    /// As [`CompactionJob::prior`].
    pub(crate) prior: Vec<Arc<Checkpoint>>,
    /// As [`CompactionJob::messages`].
    pub(crate) messages: Vec<Arc<Message>>,
    /// As [`CompactionJob::recent`].
    pub(crate) recent: Vec<Arc<Message>>,
}

impl State {
    /// The material of a compaction step on the branch that ends in `head`; `superseded` are the
    /// summaries that its summary reads.
    pub(crate) fn material<'s>(
        &'s self,
        head: MessageId,
        step: &PlanStep,
        superseded: impl Fn(&Cover) -> Vec<&'s Arc<Checkpoint>>,
    ) -> Material {
        let (mut prior, mut messages, mut recent) = (Vec::new(), Vec::new(), Vec::new());
        match step {
            PlanStep::Summarise { cover, .. }
            | PlanStep::Drop { cover }
            | PlanStep::Regenerate { cover, .. } => {
                match step {
                    PlanStep::Regenerate { prior: read, .. } => {
                        prior.extend(read.iter().filter_map(|id| self.checkpoints.get(*id)));
                    }
                    _ => prior.extend(superseded(cover)),
                }
                for span in &cover.fresh {
                    let nodes = self.tree.range(head, span.first..=span.last);
                    messages.extend(nodes.into_iter().map(|node| node.message.clone()));
                }
                let last = cover.cutoff.0.saturating_add(RECENT_SHOWN as u32);
                let tip = self
                    .tree
                    .get(head)
                    .map_or(Ordinal(0), |node| node.ordinal());
                let end = tip.0.min(last);
                let after = cover.cutoff.next()..=Ordinal(end);
                let nodes = self.tree.range(head, after);
                recent.extend(nodes.into_iter().map(|node| node.message.clone()));
            }
            PlanStep::Mask(targets) => {
                let nodes = targets
                    .iter()
                    .filter_map(|target| self.tree.get(target.message));
                messages.extend(nodes.map(|node| node.message.clone()));
            }
            PlanStep::Cut { message, .. } => {
                let node = self.tree.get(*message);
                messages.extend(node.map(|node| node.message.clone()));
            }
            PlanStep::Truncate { messages: long, .. } => {
                let nodes = long.iter().filter_map(|(id, _)| self.tree.get(*id));
                messages.extend(nodes.map(|node| node.message.clone()));
            }
        }
        Material {
            prior: prior.into_iter().cloned().collect(),
            messages,
            recent,
        }
    }

    /// The compaction step in progress in a turn, with everything that it needs.
    pub fn compaction_job(&self, turn: TurnId) -> Option<CompactionJob> {
        let plan = self.step_under_way(turn)?;
        let turn = self.turns.get(&turn)?;
        let head = self.tree.head(&turn.accepted.branch)?;
        let Material {
            prior,
            messages,
            recent,
        } = self.material(head, &plan.step, |cover| {
            self.prior_checkpoints(turn, cover)
        });
        let kind = match &turn.accepted.work {
            Work::Answer { .. } => Kind::Auto,
            _ => Kind::Manual,
        };
        let ahead = self.upcoming_topics(turn, plan);
        let later = ahead.iter().flat_map(|topic| &topic.messages);
        let shown = messages.iter().chain(&recent).chain(later);
        let altered = shown.filter_map(|said| self.alterations.get(said.ordinal, said.id));
        let kept = self.kept(&prior);
        Some(CompactionJob {
            session: self.id?,
            turn: turn.accepted.id,
            step: turn.steps_planned,
            failures: turn.step_failures,
            plan: plan.clone(),
            kind,
            model: turn.team.lead.model.clone(),
            alterations: altered.cloned().collect(),
            quoted: self.quoted(head, plan, &prior, &kept),
            kept,
            prior,
            messages,
            recent,
            ahead,
            encodings: Encoding::ALL.to_vec(),
            writing: summary_options(turn),
            settings: turn.settings.clone(),
            bounded: self.is_bounded(ids::summaries(turn.accepted.id)),
        })
    }
}

impl State {
    /// As [`CompactionJob::kept`].
    pub(crate) fn kept(&self, prior: &[Arc<Checkpoint>]) -> Vec<Arc<Checkpoint>> {
        let mut kept: Vec<Arc<Checkpoint>> = Vec::new();
        for newest in prior {
            let mut open = vec![newest];
            while let Some(made) = open.pop() {
                if &*made.model != PERSON {
                    open.extend(self.replaced_by(made));
                } else if made.id == newest.id || newest.keeps(made) {
                    kept.push(made.clone());
                }
            }
        }
        kept.sort_by_key(|made| made.first());
        kept
    }

    /// As [`CompactionJob::quoted`]. The cost depends on its length, and on the number of summaries
    /// that quoted from it.
    pub(crate) fn quoted(
        &self,
        head: MessageId,
        plan: &Plan,
        prior: &[Arc<Checkpoint>],
        kept: &[Arc<Checkpoint>],
    ) -> Vec<Arc<Message>> {
        if !matches!(plan.step, PlanStep::Summarise { .. }) {
            return Vec::new();
        }
        let covers = |all: &[Arc<Checkpoint>]| {
            let spans = all.iter().flat_map(|made| &made.covers);
            Span::merged(spans.copied().collect())
        };
        let spans = Span::difference(&covers(prior), &covers(kept));
        let encoding = plan.budget.encoding;
        let cost = |span: &Span| self.tree.cost(head, span.first..=span.last, encoding);
        let counted: Option<Count> = spans.iter().map(cost).sum();
        let is_small = counted.is_some_and(|count| count.at_most <= QUOTED_MAX);
        if !is_small || !self.are_quotes(prior, kept) {
            return Vec::new();
        }
        let nodes = spans
            .iter()
            .flat_map(|span| self.tree.range(head, span.first..=span.last));
        nodes.map(|node| node.message.clone()).collect()
    }

    /// Whether these summaries, and all that they replaced after the kept ones, consist of quotes.
    fn are_quotes(&self, prior: &[Arc<Checkpoint>], kept: &[Arc<Checkpoint>]) -> bool {
        let mut open: Vec<&Arc<Checkpoint>> = prior.iter().collect();
        while let Some(made) = open.pop() {
            if kept.iter().any(|kept| kept.id == made.id) {
                continue;
            }
            if &*made.model != EXTRACTIVE {
                return false;
            }
            open.extend(self.replaced_by(made));
        }
        true
    }

    /// The summaries that one replaced. Imported data may be inconsistent; descending numbers
    /// terminate.
    fn replaced_by<'s>(
        &'s self,
        made: &'s Checkpoint,
    ) -> impl Iterator<Item = &'s Arc<Checkpoint>> + 's {
        let replaced = made.supersedes.iter();
        let replaced = replaced.filter_map(move |id| self.checkpoints.get(*id));
        replaced.filter(move |older| older.number < made.number)
    }
}

/// The options of a summary: those of the person's request, plus the instructions of hooks.
fn summary_options(turn: &Turn) -> SummaryOptions {
    let options = turn.accepted.work.writing().cloned().unwrap_or_default();
    let texts = options.instructions.iter().chain(&turn.hook_instructions);
    let texts: Vec<&str> = texts.map(|text| &**text).collect();
    SummaryOptions {
        instructions: (!texts.is_empty()).then(|| texts.join("\n\n").into()),
        ..options
    }
}

impl State {
    /// The checkpoints that a summary reads in addition to messages: the ones that it replaces, or,
    /// for a regenerated summary, the ones that its first version replaced.
    fn prior_checkpoints(&self, turn: &Turn, cover: &Cover) -> Vec<&Arc<Checkpoint>> {
        let find = |ids: &[CheckpointId]| -> Vec<&Arc<Checkpoint>> {
            ids.iter()
                .filter_map(|id| self.checkpoints.get(*id))
                .collect()
        };
        let replaced = find(&cover.supersedes);
        match turn.accepted.work {
            Work::Regenerate { .. } => replaced
                .iter()
                .flat_map(|old| find(&self.checkpoints.origin(old).supersedes))
                .collect(),
            _ => replaced,
        }
    }
}
