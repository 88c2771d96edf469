//! What whoever asks wants of the reply itself, for one turn: the lead's definition is journaled with
//! the turn as it is bounded here.

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_session::Definition;
use unisono_session::agent::{Kind, Team};

/// Which shape the lead's answer is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// As its definition says.
    #[default]
    Own,
    /// JSON: of its own schema, or any object where it has none.
    Json,
    /// JSON that fits this schema, in place of its own.
    Schema(Arc<str>),
}

/// What a turn wants of the lead's replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Tokens of a reply at most; what its model gives at most holds besides.
    pub max_output: Option<Tokens>,
    /// The answer's shape.
    pub shape: Shape,
}

impl Bounds {
    /// Whether an agent can answer in the wanted shape: only a model that writes can be told of one,
    /// and the offline model quotes.
    pub fn can_be_kept_by(&self, lead: &Definition) -> bool {
        let provider = lead.model.split('/').next();
        self.shape == Shape::Own || (lead.kind == Kind::Llm && provider != Some(EXTRACTIVE))
    }

    /// Bounds the lead of a team.
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
