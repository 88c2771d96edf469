//! An agent that is a server: the prompt as JSON by POST; the response is an answer in the format
//! of program agents.
//!
//! An attempt is one request. It is repeated only if the run is retried: after a failure within the
//! definition's `retries`, and after a crash. Each request of a run has the same header
//! `Idempotency-Key`, so that a server with effects can do its work once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use unisono_context::digest::Hasher;
use unisono_model::client::HttpEndpoint;
use unisono_model::provider::{Address, Header, Settings};
use unisono_session::agent::Http;
use unisono_session::assignment::RunAssignment;
use unisono_session::run::RunCause;

use super::command::{MAX_OUTPUT_BYTES, parse};
use crate::agent::template::Template;
use crate::agent::{Agent, Answer, Ctx, Failure, Task, request};
use crate::failure;

/// The time that a server is awaited beyond the time limit of the attempt.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// Hex digits of the idempotency key.
const KEY_DIGITS: usize = 32;

/// Carries out definitions of kind `http`.
#[derive(Clone, Debug)]
pub(crate) struct HttpAgent {
    http: Http,
}

impl HttpAgent {
    pub(crate) fn new(http: Http) -> HttpAgent {
        HttpAgent { http }
    }
}

impl Agent for HttpAgent {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        ctx.check_prefix()?;
        let assignment = ctx.assignment();
        let look = |name: &str| std::env::var(name).ok();
        let Server { settings, secrets } = server(assignment, &self.http, look)?;
        let origin = settings.address.origin();
        let post = HttpEndpoint::new(settings, &secrets);
        let post = post.map_err(|error| Failure::new(RunCause::BadInput, error.to_string()))?;
        ctx.progress(format!("asking {origin}"));
        let document = request::document(assignment, ctx.prefix());
        let answered = post.send(document, &key(assignment)).await;
        let answered = answered.map_err(|failed| Failure {
            wait_ms: failed.class.retry_after_ms(),
            ..Failure::new(
                failure::cause_of_class(failed.class),
                format!("{origin}: {}", failed.reason),
            )
        })?;
        parse(answered).map_err(|wrong| {
            let reason = format!("{origin} gave no answer: {wrong}");
            Failure::new(RunCause::BadOutput, reason)
        })
    }
}

/// The same for every attempt of the run, and for no other run.
pub(super) fn key(assignment: &RunAssignment) -> String {
    let mut hasher = Hasher::new("unisono/idempotency-key", 1);
    hasher
        .bytes(&assignment.turn.as_u128().to_be_bytes())
        .bytes(&assignment.run.as_u128().to_be_bytes());
    let mut key = hasher.finish().to_string();
    key.truncate(KEY_DIGITS);
    key
}

/// The address and headers of a server, and the secret parts of the headers.
#[derive(Debug)]
struct Server {
    settings: Settings,
    secrets: Vec<String>,
}

/// Resolves the variables in the headers.
fn server(
    assignment: &RunAssignment,
    http: &Http,
    look: impl Fn(&str) -> Option<String>,
) -> Result<Server, Failure> {
    let wrong = |reason: String| Failure::new(RunCause::BadInput, reason);
    let definition = &assignment.definition;
    let address = Address::endpoint(&http.url).map_err(|error| wrong(error.to_string()))?;
    let mut settings = Settings::for_endpoint(definition.id.as_str(), address);
    let (headers, secrets) = headers(&http.headers, look)?;
    settings.headers = headers;
    // The attempt's own limit ends the wait for the server.
    let limit = Duration::from_millis(definition.timeout_ms) + GRACE;
    settings.timeouts.first_byte = limit;
    settings.timeouts.idle = limit;
    settings.timeouts.total = limit;
    settings.caps.response = MAX_OUTPUT_BYTES;
    Ok(Server { settings, secrets })
}

/// Headers with resolved variables, and the values of these variables.
pub(super) fn headers(
    written: &BTreeMap<Arc<str>, Arc<str>>,
    look: impl Fn(&str) -> Option<String>,
) -> Result<(Vec<Header>, Vec<String>), Failure> {
    let wrong = |reason: String| Failure::new(RunCause::BadInput, reason);
    let (mut headers, mut secrets) = (Vec::new(), Vec::new());
    for (name, value) in written {
        let template = Template::parse(value).map_err(wrong)?;
        secrets.extend(template.variables().filter_map(&look));
        let value = template.fill(&look).map_err(|variable| {
            wrong(format!(
                "header `{name}` takes its value from the variable {variable}, which is not set"
            ))
        })?;
        let header = Header::new(name, &value).map_err(|error| wrong(error.to_string()))?;
        headers.push(header);
    }
    Ok((headers, secrets))
}

#[cfg(test)]
mod tests;
