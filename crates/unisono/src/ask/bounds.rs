//! Limits of a client for the lead's reply in one turn: the lead's definition is journaled with the
//! turn, including these limits.

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_session::Definition;
use unisono_session::agent::{AgentKind, Team};

/// The format of the lead's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// As in its definition.
    #[default]
    Own,
    /// JSON: of its own schema, or any object without one.
    Json,
    /// JSON that matches this schema, instead of its own.
    Schema(Arc<str>),
}

/// The limits of the lead's replies in a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Maximum tokens of a reply; the limit of its model applies too.
    pub max_output: Option<Tokens>,
    /// The format of the answer.
    pub shape: Shape,
}

impl Bounds {
    /// At most these tokens per reply, if given, and this format of the answer.
    pub fn new(max_output: Option<Tokens>, shape: Shape) -> Bounds {
        Bounds { max_output, shape }
    }

    /// Whether an agent can answer in this format: only a model that writes supports it; the
    /// offline model only quotes.
    pub fn can_be_kept_by(&self, lead: &Definition) -> bool {
        let provider = lead.model.split('/').next();
        self.shape == Shape::Own || (lead.kind == AgentKind::Llm && provider != Some(EXTRACTIVE))
    }

    pub(super) fn apply(&self, team: &mut Team) {
        let schema = match &self.shape {
            Shape::Own => None,
            Shape::Json if team.lead.output_schema.is_some() => None,
            Shape::Json => Some(ANY_OBJECT.into()),
            Shape::Schema(schema) => Some(schema.clone()),
        };
        let shorter = self
            .max_output
            .filter(|most| *most < team.lead.limits.max_output);
        if schema.is_none() && shorter.is_none() {
            return;
        }
        let lead = Arc::make_mut(&mut team.lead);
        if let Some(most) = shorter {
            lead.limits.max_output = most;
        }
        if let Some(schema) = schema {
            lead.output_schema = Some(schema);
        }
    }
}

/// The schema of any JSON object.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;
