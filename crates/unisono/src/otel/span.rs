//! Spans of the SDK: their times and attributes.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use unisono_context::call::Usage;
use unisono_context::digest::Hasher;
use unisono_context::{Digest, RunId, Timestamp, TurnId};

use super::VERSION;

/// A span of a turn. Without a parent it is the turn's own span.
pub(super) fn span(
    turn: TurnId,
    (id, parent): (SpanId, Option<SpanId>),
    name: String,
    span_kind: SpanKind,
    (start, end): (Timestamp, Timestamp),
) -> SpanData {
    let (trace, known) = (TraceId::from(turn.as_u128()), TraceState::NONE);
    let scope = InstrumentationScope::builder("unisono").with_version(VERSION);
    SpanData {
        span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, known),
        parent_span_id: parent.unwrap_or(SpanId::INVALID),
        parent_span_is_remote: false,
        span_kind,
        name: name.into(),
        start_time: time(start),
        end_time: time(end.max(start)),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope.build(),
    }
}

pub(super) fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.max(0).unsigned_abs())
}

pub(super) trait SpanAttributes {
    fn put(&mut self, key: &'static str, value: Value);
    /// Marks a failure. Its reason is not sent: it may quote the conversation.
    fn failed(&mut self, code: &str);
    fn used(&mut self, usage: &Usage);
}

impl SpanAttributes for SpanData {
    fn put(&mut self, key: &'static str, value: Value) {
        self.attributes.push(KeyValue::new(key, value));
    }

    fn failed(&mut self, code: &str) {
        self.put("error.type", text(code));
        self.status = Status::error(code.to_owned());
    }

    fn used(&mut self, usage: &Usage) {
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
            self.put(key, Value::I64(tokens.0.try_into().unwrap_or(i64::MAX)));
        }
        if let Some(cost) = usage.cost {
            let dollars = cost.micro_dollars() as f64 / 1e6;
            self.put("unisono.cost_usd", Value::F64(dollars));
        }
    }
}

pub(super) fn text(text: &str) -> Value {
    Value::from(text.to_owned())
}

pub(super) fn texts(text: &'static str) -> Value {
    Value::Array(Array::String(vec![StringValue::from(text)]))
}

/// A model without its provider.
pub(super) fn bare(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, model)| model)
}

/// A provider's name in the conventions.
pub(super) fn well_known(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        "azure" => "azure.ai.openai",
        other => other,
    }
}

pub(super) fn turn_span(turn: TurnId) -> SpanId {
    span_id("turn", turn.as_u128(), [0, 0])
}

pub(super) fn run_span(run: RunId) -> SpanId {
    span_id("run", run.as_u128(), [0, 0])
}

/// An id that is equal in every computation; never 0, which means none.
pub(super) fn span_id(what: &str, of: u128, place: [u64; 2]) -> SpanId {
    let mut hasher = Hasher::new("unisono/span", 1);
    hasher.str(what);
    hasher.bytes(&of.to_be_bytes()).u64(place[0]).u64(place[1]);
    let Digest(bytes) = hasher.finish();
    let first = bytes.first_chunk::<8>().copied().unwrap_or_default();
    SpanId::from(u64::from_be_bytes(first).max(1))
}
