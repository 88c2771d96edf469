//! Spans as OTLP has them in JSON.

use serde_json::{Value, json};

use super::span::{Is, Kind, Span};

/// The body of a request that exports spans.
pub(super) fn request(spans: &[Span]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", Is::Text("unisono".into())),
        ("service.version", Is::Text(version.into())),
    ];
    let all = json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{
            "scope": {"name": "unisono", "version": version},
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }]});
    all.to_string().into_bytes()
}

fn span(of: &Span) -> Value {
    let mut span = json!({
        "traceId": format!("{:032x}", of.trace),
        "spanId": format!("{:016x}", of.id),
        "name": of.name,
        // As the protocol numbers them: internal, client.
        "kind": match of.kind {
            Kind::Internal => 1,
            Kind::Client => 3,
        },
        "startTimeUnixNano": nanos(of.start.0),
        "endTimeUnixNano": nanos(of.end.0.max(of.start.0)),
        "attributes": attributes(&of.attributes),
    });
    if let Some(parent) = of.parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(what) = &of.error {
        span["status"] = json!({"code": 2, "message": what});
    }
    span
}

/// Numbers of 64 bits are texts.
fn nanos(ms: i64) -> String {
    (i128::from(ms.max(0)) * 1_000_000).to_string()
}

fn attributes(all: &[(&'static str, Is)]) -> Vec<Value> {
    let each = all.iter().map(|(key, value)| {
        let value = match value {
            Is::Text(text) => json!({"stringValue": text}),
            Is::Whole(n) => json!({"intValue": n.to_string()}),
            Is::Number(n) => json!({"doubleValue": n}),
            Is::Texts(all) => {
                let all = all.iter().map(|text| json!({"stringValue": text}));
                json!({"arrayValue": {"values": all.collect::<Vec<_>>()}})
            }
        };
        json!({"key": key, "value": value})
    });
    each.collect()
}
