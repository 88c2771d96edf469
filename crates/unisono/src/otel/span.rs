//! One span: what lasted from one instant to another, and what is known of it.

use unisono_context::call::Usage;
use unisono_context::digest::Hasher;
use unisono_context::{Digest, RunId, Timestamp, TurnId};

/// What lasted from one instant to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<(&'static str, Is)>,
    /// What went wrong.
    pub(super) error: Option<String>,
}

/// Where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Here.
    Internal,
    /// At somebody else, who was asked.
    Client,
}

/// What an attribute is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Is {
    Text(String),
    Whole(u64),
    Number(f64),
    Texts(Vec<String>),
}

impl Span {
    pub(super) fn put(&mut self, key: &'static str, value: Is) {
        self.attributes.push((key, value));
    }

    pub(super) fn failed(&mut self, code: &str, what: &str) {
        self.put("error.type", text(code));
        self.error = Some(what.to_owned());
    }

    pub(super) fn used(&mut self, usage: &Usage) {
        let amounts = [
            ("gen_ai.usage.input_tokens", usage.input),
            ("gen_ai.usage.output_tokens", usage.output),
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
            (
                "gen_ai.usage.cache_creation.input_tokens",
                usage.cache_write,
            ),
        ];
        for (key, tokens) in amounts {
            self.put(key, Is::Whole(tokens.0));
        }
        if let Some(cost) = usage.cost {
            let dollars = cost.micro_dollars() as f64 / 1e6;
            self.put("unisono.cost_usd", Is::Number(dollars));
        }
    }
}

pub(super) fn text(text: &str) -> Is {
    Is::Text(text.to_owned())
}

/// A model without its provider.
pub(super) fn bare(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, model)| model)
}

/// A provider as the conventions name it.
pub(super) fn well_known(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        "azure" => "azure.ai.openai",
        other => other,
    }
}

pub(super) fn turn_span(turn: TurnId) -> u64 {
    span_id("turn", turn.as_u128(), [0, 0])
}

pub(super) fn run_span(run: RunId) -> u64 {
    span_id("run", run.as_u128(), [0, 0])
}

/// An id that is the same whoever works it out; never 0, which is none.
pub(super) fn span_id(what: &str, of: u128, place: [u64; 2]) -> u64 {
    let mut hasher = Hasher::new("unisono/span", 1);
    hasher.str(what);
    hasher.bytes(&of.to_be_bytes()).u64(place[0]).u64(place[1]);
    let Digest(bytes) = hasher.finish();
    let first = bytes.first_chunk::<8>().copied().unwrap_or_default();
    u64::from_be_bytes(first).max(1)
}
