//! Measuring the result of a compaction, to compare presets and summarisers.
//!
//! Nothing is simulated: the conversation becomes a session in memory, a turn is started, and the
//! runtime plans, masks, summarises and drops as in any other turn. The result is the context that
//! the turn's agent would have seen, without the question.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use unisono_context::alteration::{Form, altered_parts};
use unisono_context::call::ClientOptions;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::cost::Cost;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Method, Policy, Preset, Trigger};
use unisono_context::view::View;
use unisono_context::{
    AgentId, Encoding, MessageId, Ordinal, Ppm, SessionId, Timestamp, Tokens, TurnId,
};
use unisono_model::catalogue;
use unisono_model::retention::{self, ShownMessage};
use unisono_runtime::{Agent, Answer, Ctx, Extensions, Failure, Task, clock};
use unisono_session::State;
use unisono_session::agent::{AgentKind, Definition, Team};
use unisono_session::event::{Outcome, SummaryOptions, Work};
use unisono_session::machine::{Import, NewTurn};
use unisono_session::state::{MAIN, Settings};
use uuid::Uuid;

use crate::ask::{self, Ask};
use crate::local::{Local, OpenedStore};
use crate::models;
use unisono_config::settings::{Compaction, Numbers};
use unisono_config::setup::Setup;

/// The kind of the agent in the turn of a compaction.
const SILENT: &str = "silent";
/// The text of the turn's question.
const QUESTION: &str = "?";

/// Why a compaction cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The summariser is unknown.
    #[error("summariser `{name}`: {reason}")]
    Unknown {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: catalogue::Error,
    },
    /// The summariser's provider is unavailable.
    #[error("summariser `{name}` is not usable: {lacks}")]
    Unreachable {
        /// Its name.
        name: String,
        /// The reason, and the remedy.
        lacks: String,
    },
    /// The conversation has no message.
    #[error("the conversation is empty")]
    Empty,
    /// The compaction failed.
    #[error("{0}")]
    Failed(Arc<str>),
    /// The runtime failed.
    #[error(transparent)]
    Local(#[from] crate::Error),
}

/// The kind of compaction to evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionMethod {
    /// A preset's own compaction before a turn, started so that it ends at the size.
    Preset(Preset),
    /// One summary of the whole conversation, of the size.
    Summary,
}

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The context: summaries, notes and messages, as a model sees them.
    pub text: String,
    /// Summaries and notes in it.
    pub blocks: usize,
    /// Their writers: `provider/model`, `extractive`, `truncation` or `none`.
    pub writers: BTreeSet<Arc<str>>,
    /// The cost of all summaries that were written, also of those that later ones replaced; none if a
    /// price is unknown.
    pub cost: Option<Cost>,
    /// The duration of the turn.
    pub duration_ms: u64,
}

/// Whether a preset writes summaries.
pub const fn summarises(preset: Preset) -> bool {
    matches!(Policy::from_preset(preset).method, Method::Summarise { .. })
        && !matches!(preset, Preset::Off)
}

/// The encoding in which sizes are counted: that of the configured lead's model.
///
/// # Errors
/// There is no such lead.
pub fn encoding(setup: &Setup) -> Result<Encoding, Error> {
    Ok(team(setup)?.lead.limits.encoding)
}

/// The messages of the branch `main` as a model sees them, oldest first.
pub fn shown_messages(conversation: &Import) -> Vec<ShownMessage<'static>> {
    let by_id: HashMap<MessageId, (Option<MessageId>, &NewMessage)> = conversation
        .messages
        .iter()
        .map(|(parent, message)| (message.id, (*parent, message)))
        .collect();
    let message = |id: Option<MessageId>| by_id.get(&id?).copied();
    let path = std::iter::successors(message(head(conversation)), |(parent, _)| message(*parent));
    let mut path: Vec<&NewMessage> = path.map(|(_, message)| message).collect();
    path.reverse();
    let numbers = (1..).map(Ordinal);
    let shown = numbers.zip(path).map(|(number, message)| {
        shown(number, message.author.as_ref(), message.at, &message.parts)
    });
    shown.collect()
}

fn shown(
    number: Ordinal,
    author: Option<&AgentId>,
    at: Timestamp,
    parts: &[Part],
) -> ShownMessage<'static> {
    let text = text_of(parts);
    let shown = ShownMessage::new(number, author, at, &text);
    ShownMessage {
        day: shown.day,
        label: shown.label,
        text: shown.text.into_owned().into(),
    }
}

/// A runtime in memory with one summariser.
#[derive(Debug)]
pub struct Evaluation {
    local: Local,
    lead: Arc<Definition>,
    safety: Ppm,
}

impl Evaluation {
    /// Starts it as configured, except for the summariser.
    ///
    /// # Errors
    /// The summariser is unknown or unavailable, or the runtime cannot be started.
    pub async fn start(setup: &Setup, summariser: &str) -> Result<Evaluation, Error> {
        let setup = with_summariser(setup, summariser)?;
        let team = team(&setup)?;
        let (_, safety) = ask::policy(&setup, &team);
        let lead = Definition {
            kind: AgentKind::Custom(SILENT.into()),
            tools: Vec::new(),
            delegates: Vec::new(),
            output_schema: None,
            ..(*team.lead).clone()
        };
        let opened = OpenedStore::nothing();
        let extensions = Extensions::default().agent(SILENT, Silent);
        Ok(Evaluation {
            local: Local::start_on(opened, setup, extensions).await?,
            lead: Arc::new(lead),
            safety,
        })
    }

    /// Compacts the conversation's branch `main` with its full messages: without its settings and
    /// earlier compactions.
    ///
    /// # Errors
    /// The conversation is empty, the compaction fails, or the runtime does.
    pub async fn compact(
        &self,
        conversation: &Import,
        how: CompactionMethod,
        size: Tokens,
    ) -> Result<Compacted, Error> {
        let head = head(conversation).ok_or(Error::Empty)?;
        let mut import = Import {
            session: Some(SessionId::new(Uuid::now_v7())),
            branches: vec![(MAIN.into(), head)],
            settings: Settings::default(),
            checkpoints: Vec::new(),
            alterations: Vec::new(),
            ..conversation.clone()
        };
        let work = match how {
            CompactionMethod::Preset(_) => Work::Answer {
                input: question(),
                client_options: ClientOptions::default(),
            },
            CompactionMethod::Summary => {
                // A requested compaction leaves the newest user message as it is.
                let last = question();
                import.branches[0].1 = last.id;
                import.messages.push((Some(head), last));
                Work::Compact {
                    keep: None,
                    writing: SummaryOptions::default(),
                }
            }
        };
        let session = self.local.import(import).await?;
        let turn = self.turn(work, self.policy(how, size));
        let id = turn.id;
        let started = Instant::now();
        session.accept(turn).await.map_err(crate::Error::from)?;
        let ended = session.wait(id).await.map_err(crate::Error::from)?;
        if let Outcome::Failed { reason, .. } = ended.outcome {
            return Err(Error::Failed(reason));
        }
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let kept = session.inspect(move |state| kept(state, head, duration_ms));
        let kept = kept.await.map_err(crate::Error::from)?;
        kept.ok_or(Error::Empty)
    }

    /// Ends the runtime.
    pub async fn shutdown(self) {
        self.local.shutdown().await;
    }

    fn turn(&self, work: Work, policy: Policy) -> NewTurn {
        let team = Team {
            lead: self.lead.clone(),
            delegates: Vec::new(),
            available: Vec::new(),
        };
        let learnt = self.local.calibrations();
        NewTurn {
            id: TurnId::new(Uuid::now_v7()),
            branch: MAIN.into(),
            work,
            calibrations: models::calibrations(&self.local.setup(), &team, learnt),
            team,
            policy,
            instructions: Arc::from(""),
            phrases: Vec::new(),
            safety: self.safety,
            tools: Vec::new(),
            delegation: Default::default(),
            rules: Default::default(),
            caps: Default::default(),
            call_cap: Default::default(),
            prepare: None,
        }
    }

    /// The policy whose compaction ends at the size. The configured preset has the configured
    /// numbers, every other one its own.
    fn policy(&self, how: CompactionMethod, size: Tokens) -> Policy {
        let preset = match how {
            CompactionMethod::Preset(preset) => preset,
            CompactionMethod::Summary => {
                return Policy {
                    trigger: None,
                    masking: None,
                    method: Method::Summarise { cap: size },
                    quota: None,
                    ..Policy::from_preset(Preset::Checkpoint)
                };
            }
        };
        let setup = self.local.setup();
        let loaded = &setup.loaded;
        let own = Compaction {
            all: Numbers {
                preset: Some(preset.name().to_owned()),
                ..Numbers::default()
            },
            ..Compaction::default()
        };
        let policy = match loaded.catalogue.get(None, &self.lead.model) {
            Ok(entry) => match loaded.policy_for(&entry) {
                configured if configured.preset == preset => configured,
                _ => own.resolve(&entry).policy,
            },
            Err(_) => Policy::from_preset(preset),
        };
        let target = u128::from(policy.target.0.max(1));
        let trigger = u128::from(size.0) * 1_000_000 / target;
        Policy {
            trigger: Some(Trigger::Tokens(Tokens(
                u64::try_from(trigger).unwrap_or(u64::MAX),
            ))),
            minimum: Tokens::ZERO,
            ..policy
        }
    }
}

/// Only the configured lead.
fn team(setup: &Setup) -> Result<Team, Error> {
    let team = Ask::compaction(None, SummaryOptions::default()).team(setup);
    Ok(team.map_err(crate::Error::Agents)?)
}

/// The same setup, with one summariser for all models.
fn with_summariser(setup: &Setup, name: &str) -> Result<Setup, Error> {
    let mut setup = setup.clone();
    let loaded = &mut setup.loaded;
    let entry = loaded.catalogue.get(None, name);
    let entry = entry.map_err(|reason| Error::Unknown {
        name: name.to_owned(),
        reason,
    })?;
    if let Some(lacks) = loaded.providers.unavailable_reason(&entry.model.provider) {
        let name = name.to_owned();
        return Err(Error::Unreachable { name, lacks });
    }
    let compaction = &mut loaded.config.compaction;
    let tables = compaction.providers.values_mut();
    for numbers in tables.chain(compaction.models.values_mut()) {
        numbers.summarisers = None;
    }
    compaction.all.summarisers = Some(vec![name.to_owned()]);
    Ok(setup)
}

/// The newest message of the branch `main`.
fn head(conversation: &Import) -> Option<MessageId> {
    let mut branches = conversation.branches.iter();
    let main = branches
        .find(|(name, _)| &**name == MAIN)
        .map(|(_, id)| *id);
    main.or_else(|| conversation.messages.last().map(|(_, message)| message.id))
}

fn question() -> NewMessage {
    let id = MessageId::new(Uuid::now_v7());
    NewMessage::text(id, Role::User, QUESTION, clock::now())
}

/// The context of the branch that ends in `head`.
fn kept(state: &State, head: MessageId, duration_ms: u64) -> Option<Compacted> {
    let view = state.view(head, false)?;
    let active = view.active();
    let cost = |made: &Arc<Checkpoint>| made.cost_micros.map(Cost::from_micro_dollars);
    Some(Compacted {
        text: text(&view),
        blocks: active.len(),
        writers: active.iter().map(|made| made.model.clone()).collect(),
        cost: state.checkpoints().iter().map(cost).sum(),
        duration_ms,
    })
}

/// Blocks and messages in their order, as a model sees them. A mask has its number in its text.
fn text(view: &View<'_>) -> String {
    let blocks = view.active().iter();
    let blocks = blocks.map(|block| {
        let text = ShownMessage::unlabelled(block.context_text());
        (block.first(), text)
    });
    let messages = view.items().into_iter().map(|item| {
        let message = &item.node.message;
        let (number, author) = (item.ordinal(), message.author.as_ref());
        let shown = match item.form() {
            Some(form @ Form::Masked { .. }) => {
                ShownMessage::unlabelled(text_of(&altered_parts(message, form)))
            }
            Some(form) => shown(number, author, message.at, &altered_parts(message, form)),
            None => shown(number, author, message.at, &message.parts),
        };
        (number, shown)
    });
    let mut all: Vec<(Ordinal, ShownMessage<'_>)> = blocks.chain(messages).collect();
    all.sort_by_key(|(ordinal, _)| *ordinal);
    let all: Vec<ShownMessage<'_>> = all.into_iter().map(|(_, shown)| shown).collect();
    retention::join(&all)
}

fn text_of(parts: &[Part]) -> String {
    let parts: Vec<_> = parts.iter().map(Part::countable_text).collect();
    parts.join("\n")
}

/// An agent that answers at once, with nothing.
struct Silent;

impl Agent for Silent {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        Ok(Answer::text(""))
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::checkpoint::{Body, Kind, Span, Tier, Writer};
    use unisono_context::{CheckpointId, Digest};
    use unisono_session::{Input, Machine};

    use super::*;

    #[test]
    fn the_cost_has_summaries_that_are_not_in_the_context_any_more() {
        let message = question();
        let head = message.id;
        let replaced = Checkpoint {
            id: CheckpointId::from_u128(1),
            number: 1,
            parent: head,
            covers: vec![Span::new(Ordinal(1), Ordinal(1))],
            cutoff: Ordinal(1),
            cutoff_digest: Digest::of_bytes(b"elsewhere"),
            supersedes: Vec::new(),
            kind: Kind::Auto,
            tier: Tier::Topic,
            preset: Preset::Tiered,
            writer: Writer::Model,
            model: "a/b".into(),
            body: Body::Tombstone,
            original: Tokens(9),
            counts: Default::default(),
            messages_included: 1,
            key_facts: Vec::new(),
            cost_micros: Some(7),
            duration_ms: 1,
            degraded: false,
            at: Timestamp(0),
            coverage: None,
        };
        let import = Import {
            session: Some(SessionId::from_u128(1)),
            messages: vec![(None, message)],
            checkpoints: vec![Arc::new(replaced)],
            ..Import::default()
        };
        let mut machine = Machine::new();
        machine.handle(Input::Import(import), Timestamp(0)).unwrap();
        let kept = kept(machine.state(), head, 0).unwrap();
        let cost = Some(Cost::from_micro_dollars(7));
        assert_eq!((kept.blocks, kept.cost), (0, cost));
    }
}
