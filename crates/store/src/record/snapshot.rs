//! Frozen contexts and what is shortened in them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::{CheckpointId, Digest, MessageId, Ordinal, Tokens, alteration, snapshot};

use super::Invalid;
use super::checkpoint::Span;
use super::tokens::Counts;

/// What a snapshot is rebuilt from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u16,
    head: u128,
    checkpoints: Vec<u128>,
    spans: Vec<Span>,
    altered: Vec<(u32, Form)>,
    preamble: [u8; 32],
}

/// How a message is shortened. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Form {
    Masked { tokens: u64 },
    Cut { target_chars: u32 },
    Truncated { target_chars: u32 },
}

/// One shortened message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Alteration {
    message: u128,
    ordinal: u32,
    form: Form,
    counts: Counts,
}

/// A tool as models are told of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToolSpec {
    name: Arc<str>,
    description: Arc<str>,
    input_schema: Arc<str>,
}

impl TryFrom<&snapshot::Manifest> for Manifest {
    type Error = Invalid;

    fn try_from(manifest: &snapshot::Manifest) -> Result<Self, Invalid> {
        Ok(Self {
            version: manifest.version,
            head: manifest.head.as_u128(),
            checkpoints: manifest.checkpoints.iter().map(|id| id.as_u128()).collect(),
            spans: Span::all(&manifest.spans)?,
            altered: manifest
                .altered
                .iter()
                .map(|(at, form)| (at.0, (*form).into()))
                .collect(),
            preamble: manifest.preamble.0,
        })
    }
}

impl TryFrom<Manifest> for snapshot::Manifest {
    type Error = Invalid;

    fn try_from(manifest: Manifest) -> Result<Self, Invalid> {
        Ok(Self {
            version: manifest.version,
            head: MessageId::from_u128(manifest.head),
            checkpoints: manifest
                .checkpoints
                .into_iter()
                .map(CheckpointId::from_u128)
                .collect(),
            spans: Span::into_all(manifest.spans)?,
            altered: manifest
                .altered
                .into_iter()
                .map(|(at, form)| (Ordinal(at), form.into()))
                .collect(),
            preamble: Digest(manifest.preamble),
        })
    }
}

impl From<alteration::Form> for Form {
    fn from(form: alteration::Form) -> Self {
        match form {
            alteration::Form::Masked { tokens } => Self::Masked { tokens: tokens.0 },
            alteration::Form::Cut { target_chars } => Self::Cut { target_chars },
            alteration::Form::Truncated { target_chars } => Self::Truncated { target_chars },
        }
    }
}

impl From<Form> for alteration::Form {
    fn from(form: Form) -> Self {
        match form {
            Form::Masked { tokens } => Self::Masked {
                tokens: Tokens(tokens),
            },
            Form::Cut { target_chars } => Self::Cut { target_chars },
            Form::Truncated { target_chars } => Self::Truncated { target_chars },
        }
    }
}

impl From<&alteration::Alteration> for Alteration {
    fn from(alteration: &alteration::Alteration) -> Self {
        Self {
            message: alteration.message.as_u128(),
            ordinal: alteration.ordinal.0,
            form: alteration.form.into(),
            counts: (&alteration.counts).into(),
        }
    }
}

impl TryFrom<Alteration> for alteration::Alteration {
    type Error = Invalid;

    fn try_from(alteration: Alteration) -> Result<Self, Invalid> {
        Ok(Self {
            message: MessageId::from_u128(alteration.message),
            ordinal: Ordinal(alteration.ordinal),
            form: alteration.form.into(),
            counts: alteration.counts.try_into()?,
        })
    }
}

impl From<&snapshot::ToolSpec> for ToolSpec {
    fn from(tool: &snapshot::ToolSpec) -> Self {
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        }
    }
}

impl From<ToolSpec> for snapshot::ToolSpec {
    fn from(tool: ToolSpec) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        }
    }
}
