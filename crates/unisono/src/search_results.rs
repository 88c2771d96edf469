//! Results of a search, with their state in the context.

use std::sync::Arc;

use unisono_api::search as api;
use unisono_context::alteration::Form;
use unisono_context::view::MessageStatus;
use unisono_context::{Message, Ordinal, SessionId};
use unisono_search::{Excerpt, FoundMessage, excerpt};
use unisono_session::State;

use crate::values::known_instant;

/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 240;
/// The same of the message before and after.
const NEIGHBOUR_CHARS: usize = 120;

/// A found message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// Its session.
    pub session: SessionId,
    /// The session's title.
    pub title: String,
    /// The message.
    pub message: Arc<Message>,
    /// How well it matches: higher is better.
    pub score: f32,
    /// Its state in the context of the branch; none: it is on another branch.
    pub status: Option<MessageStatus>,
    /// The branches that have it.
    pub branches: Vec<String>,
    /// An excerpt with the words of the query.
    pub excerpt: Excerpt,
    /// The messages before and after it on its branch.
    pub neighbours: [Option<Neighbour>; 2],
}

/// A message before or after a found one.
#[derive(Clone, Debug)]
pub struct Neighbour {
    message: Arc<Message>,
    excerpt: String,
}

impl Hit {
    /// A message that was found in this session; none if it does not exist any more. `stems` are
    /// the query's.
    pub fn from_message(
        found: &FoundMessage,
        state: &State,
        branch: &str,
        stems: &[String],
    ) -> Option<Hit> {
        let tree = state.tree();
        let message = &tree.get(found.message)?.message;
        let on = |head| {
            let node = tree.node_at(head, message.ordinal);
            node.is_some_and(|node| node.message.id == message.id)
        };
        let branches = tree.branches().filter(|(_, head)| on(*head));
        let branches: Vec<String> = branches.map(|(name, _)| name.to_owned()).collect();
        let head = tree.head(branch).filter(|head| on(*head));
        let view = head.and_then(|head| state.view(head, false));
        let path = head.or_else(|| tree.head(branches.first()?));
        let ordinal = message.ordinal.0;
        let neighbours = [ordinal - 1, ordinal + 1].map(|ordinal| {
            let neighbour = &tree.node_at(path?, Ordinal(ordinal))?.message;
            let part = excerpt(&neighbour.countable_text(), stems, NEIGHBOUR_CHARS);
            Some(Neighbour {
                message: neighbour.clone(),
                excerpt: part.text,
            })
        });
        Some(Hit {
            session: found.session,
            title: state.title().to_owned(),
            status: view.and_then(|view| view.status(message.ordinal)),
            message: message.clone(),
            score: found.score,
            branches,
            excerpt: excerpt(&message.countable_text(), stems, EXCERPT_CHARS),
            neighbours,
        })
    }

    /// In the types of the API.
    pub fn to_api(&self) -> api::Hit {
        let message = &self.message;
        let marks = self.excerpt.marks.iter();
        let [before, after] = self
            .neighbours
            .each_ref()
            .map(|known| known.as_ref().map(Neighbour::to_api));
        api::Hit {
            session: self.session.to_string(),
            title: self.title.clone(),
            message: message.id.to_string(),
            ordinal: message.ordinal.0,
            role: message.role.name().to_owned(),
            author: message.author.as_ref().map(ToString::to_string),
            at: known_instant(message.at),
            score: self.score,
            active: self.is_active(),
            status: self.status_name().to_owned(),
            checkpoint: self.checkpoint(),
            branches: self.branches.clone(),
            excerpt: self.excerpt.text.clone(),
            marks: marks.map(|at| [at.start as u64, at.end as u64]).collect(),
            before,
            after,
        }
    }

    /// Whether the model sees it, at least in part.
    pub fn is_active(&self) -> bool {
        matches!(
            self.status,
            Some(MessageStatus::Verbatim | MessageStatus::Shortened(_))
        )
    }

    /// The name of its state: `verbatim`, `masked`, `cut`, `summarised`, or `elsewhere`.
    pub fn status_name(&self) -> &'static str {
        match &self.status {
            None => "elsewhere",
            Some(MessageStatus::Verbatim) => "verbatim",
            Some(MessageStatus::Shortened(Form::Masked { .. })) => "masked",
            Some(MessageStatus::Shortened(Form::Cut { .. } | Form::Truncated { .. })) => "cut",
            Some(MessageStatus::Covered(_)) => "summarised",
        }
    }

    /// The number of the checkpoint that covers it.
    pub fn checkpoint(&self) -> Option<u32> {
        match &self.status {
            Some(MessageStatus::Covered(checkpoint)) => Some(checkpoint.number),
            _ => None,
        }
    }
}

impl Neighbour {
    fn to_api(&self) -> api::Neighbour {
        let message = &self.message;
        api::Neighbour {
            ordinal: message.ordinal.0,
            role: message.role.name().to_owned(),
            author: message.author.as_ref().map(ToString::to_string),
            excerpt: self.excerpt.clone(),
        }
    }
}
