//! From an act and a request to the plan of the reply.

use std::time::SystemTime;

use crate::act::{Act, Delivery, Says};
use crate::answer::{Answer, Usage};
use crate::cache::CacheUse;
use crate::dialect::{Dialect, Endpoint, Mode};
use crate::endless;
use crate::headers::request_id;
use crate::plan::{Fate, Plan, Response, plan};
use crate::prepared::{Prepared, render};
use crate::refusal::Refusal;
use crate::render::{self, Body};
use crate::sse::Style;

/// What a reply depends on besides its act.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// What is asked for.
    pub(crate) endpoint: Endpoint,
    /// The request's place among all, from 0.
    pub(crate) number: usize,
    /// What a simulated cache did with the input.
    pub(crate) cache: Option<CacheUse>,
    /// The time of the answer, for headers that hold a date.
    pub(crate) now: SystemTime,
}

/// The plan of a reply.
pub(crate) fn reply(act: &Act, asked: &Asked) -> Plan {
    let how = &act.how;
    let Endpoint { dialect, mode, .. } = asked.endpoint;
    let (status, body, output) = match &act.says {
        Says::Answer(prepared) => {
            let output = prepared.answer().usage.output;
            (200, answer(prepared, how, asked), output)
        }
        Says::Refusal(refusal) => {
            let body = refusal.body(dialect);
            (refusal.status(dialect), Body::json(body), 0)
        }
        Says::Document {
            status,
            content_type,
            body,
        } => (
            *status,
            Body::document(content_type.clone(), body.clone()),
            0,
        ),
        Says::Endless { bytes, form } => {
            let headers = headers(how, asked);
            return endless::plan(*bytes, *form, asked.endpoint, how, headers);
        }
        Says::HangUp(_) => {
            return Plan {
                steps: Vec::new(),
                fate: Fate::Close,
            };
        }
    };
    let streamed = mode == Mode::Stream && matches!(act.says, Says::Answer(_));
    let response = Response {
        status,
        headers: headers(how, asked),
        body,
        streamed,
        output,
    };
    plan(&response, how)
}

/// The reply to a request that no provider has a path for.
pub(crate) fn no_such_path(method: &str, path: &str) -> Plan {
    let refusal = Refusal::BadRequest(format!("Invalid URL ({method} {path})"));
    let response = Response {
        status: 404,
        headers: Vec::new(),
        body: Body::json(refusal.body(Dialect::OpenAiChat)),
        streamed: false,
        output: 0,
    };
    plan(&response, &Delivery::default())
}

/// The reply with a document that is there.
pub(crate) fn page_of(body: &str) -> Plan {
    let response = Response {
        status: 200,
        headers: Vec::new(),
        body: Body::json(body.to_owned()),
        streamed: false,
        output: 0,
    };
    plan(&response, &Delivery::default())
}

/// The body of an answer, with the faults that are in its events.
fn answer(prepared: &Prepared, how: &Delivery, asked: &Asked) -> Body {
    let Endpoint {
        dialect,
        mode,
        stream_usage,
    } = asked.endpoint;
    let faultless = how.error.is_none() && !how.unterminated && how.doubled.is_empty();
    let said = match asked.cache {
        None if faultless && how.style == Style::PLAIN => return prepared.body(asked.endpoint),
        None => prepared.answer().clone(),
        Some(cache) => with_cache(prepared.answer(), cache),
    };
    if mode != Mode::Stream || faultless {
        return render(asked.endpoint, &said, &how.style);
    }
    let mut frames = render::frames(dialect, &said, stream_usage);
    let mut doubled = how.doubled.clone();
    doubled.sort_unstable();
    for event in doubled.into_iter().rev() {
        if let Some(frame) = frames.get(event).cloned() {
            frames.insert(event, frame);
        }
    }
    if how.unterminated {
        frames.pop();
    }
    if let Some((events, refusal, form)) = &how.error {
        frames.truncate(*events);
        frames.push(refusal.frame(dialect, *form, frames.len()));
    }
    Body::stream(dialect, &frames, &how.style)
}

fn with_cache(answer: &Answer, cache: CacheUse) -> Answer {
    let usage = Usage {
        input: cache.input,
        cache_read: cache.read,
        cache_write: cache.write,
        ..answer.usage
    };
    answer.clone().usage(usage)
}

fn headers(how: &Delivery, asked: &Asked) -> Vec<(String, String)> {
    let dialect = asked.endpoint.dialect;
    let mut headers = Vec::new();
    if let Some(name) = request_id(dialect) {
        headers.push((name.to_owned(), format!("req_{}", asked.number)));
    }
    headers.extend(
        how.retry_after
            .as_ref()
            .map(|after| after.header(asked.now)),
    );
    let limits = how.rate_limits.iter();
    headers.extend(limits.flat_map(|limits| limits.headers(dialect, asked.now)));
    headers.extend(how.headers.iter().cloned());
    headers
}
