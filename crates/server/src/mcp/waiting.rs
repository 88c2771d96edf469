//! Tool calls that need approval while a client waits for an answer. If the client supports
//! elicitation, it asks its user; otherwise it gets instructions.

use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ElicitationSchema, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unisono_api::fmt::shown_arguments;
use unisono_context::{CallId, SessionId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::State;
use unisono_session::run::calls::{CallDecision, CallStatus, WaitingCall};

use super::Server;
use crate::waiting::describe_calls;
pub(super) use crate::waiting::waiting;

/// The name of the question, and of its one field.
const APPROVE: &str = "approve";

/// The ways in which a client can ask its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionMethod {
    /// By a request of the server, during a request of the client.
    Request,
    /// By a result that requests input; the client repeats its request with the input.
    Answer,
    /// The client cannot ask its user.
    No,
}

impl QuestionMethod {
    pub(super) fn open_to(server: &Server, context: &RequestContext<RoleServer>) -> QuestionMethod {
        // The current revision declares the capability in each request, earlier ones in the
        // handshake.
        if let Some(able) = context.meta.client_capabilities() {
            return match takes_forms(&able) {
                true => QuestionMethod::Answer,
                false => QuestionMethod::No,
            };
        }
        let client = context.peer.peer_info();
        let able = client.is_some_and(|client| takes_forms(&client.capabilities));
        match able && server.can_request {
            true => QuestionMethod::Request,
            false => QuestionMethod::No,
        }
    }
}

pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let able = context.client_capabilities();
    able.is_some_and(|able| takes_forms(&able))
}

fn takes_forms(able: &ClientCapabilities) -> bool {
    able.elicitation.as_ref().is_some_and(has_form_mode)
}

/// Whether questions may be forms, as the questions of this program are. They may if no mode is named.
fn has_form_mode(able: &ElicitationCapability) -> bool {
    able.form.is_some() || able.url.is_none()
}

/// Whether a client with this capability `elicitation` can ask its user. `able` is null if it has none.
pub fn can_elicit(able: &Value) -> bool {
    let able = serde_json::from_value::<ElicitationCapability>(able.clone());
    able.is_ok_and(|able| has_form_mode(&able))
}

/// The questions about calls that a yes or a no answers, by the calls' ids.
pub(super) fn questions(waiting: &[WaitingCall]) -> InputRequests {
    let asked = open_questions(waiting).map(|one| {
        let question = InputRequest::Elicitation(ElicitRequest::new(question_about(one)));
        (one.id.to_string(), question)
    });
    asked.collect()
}

/// The calls for which a yes or a no is a complete answer.
fn open_questions(waiting: &[WaitingCall]) -> impl Iterator<Item = &WaitingCall> {
    waiting
        .iter()
        .filter(|one| one.call.status == CallStatus::AwaitingApproval)
}

/// The decision in an answer; none if no question with that key is open, or if nobody decided.
pub(super) fn decided(
    waiting: &[WaitingCall],
    key: &str,
    answer: Value,
) -> Result<Option<(CallId, CallDecision)>, String> {
    let Some(call) = open_questions(waiting).find(|one| one.id.to_string() == key) else {
        return Ok(None);
    };
    let answer: ElicitResult = serde_json::from_value(answer)
        .map_err(|error| format!("`inputResponses.{key}` is not an answer: {error}"))?;
    Ok(decision(&answer).map(|decision| (call.id, decision)))
}

/// The state that a client returns with its answer: its turn, and the call it belongs to, which may be
/// one of an earlier turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QuestionState {
    pub(super) session: String,
    pub(super) turn: String,
    call: String,
}

/// The first call for which a yes or a no is a complete answer.
pub(super) fn askable(waiting: &[WaitingCall]) -> Option<&WaitingCall> {
    open_questions(waiting).next()
}

fn question_about(waiting: &WaitingCall) -> ElicitRequestParams {
    let planned = &waiting.call.planned;
    question_params(waiting.agent.as_str(), &planned.tool, &planned.arguments)
}

fn question_params(agent: &str, tool: &str, arguments: &str) -> ElicitRequestParams {
    let arguments = shown_arguments(arguments);
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("Agent {agent} wants to call {tool} with {arguments}. May it?"),
        requested_schema: ElicitationSchema::builder()
            .required_bool(APPROVE)
            .build_unchecked(),
    }
}

/// The `params` of `elicitation/create` about a call.
pub fn question(agent: &str, tool: &str, arguments: &str) -> Value {
    // Serialising them does not fail.
    serde_json::to_value(question_params(agent, tool, arguments)).unwrap_or_default()
}

/// Whether the `result` of `elicitation/create` approves the call; none without a decision.
pub fn approves(result: &Value) -> Option<bool> {
    let answer: ElicitResult = serde_json::from_value(result.clone()).ok()?;
    is_approved(&answer)
}

/// Whether an answer approves; none without a decision, as in a form that was sent without its field.
fn is_approved(answer: &ElicitResult) -> Option<bool> {
    match answer.action {
        ElicitationAction::Accept => answer.content.as_ref()?.get(APPROVE)?.as_bool(),
        ElicitationAction::Decline => Some(false),
        _ => None,
    }
}

fn decision(answer: &ElicitResult) -> Option<CallDecision> {
    is_approved(answer).map(|approved| match approved {
        true => CallDecision::Approved,
        false => CallDecision::Denied { reason: None },
    })
}

/// The result of a question to a client.
pub(super) enum Reply {
    Decided(CallDecision),
    /// The client did not obtain a decision.
    Nobody,
    /// The call no longer waits: it was decided elsewhere, it timed out, or its turn ended.
    Settled,
    /// Nobody waits for the reply any more.
    GivenUp,
}

/// Asks a person about a call through the client while the call waits. If the caller stops waiting,
/// the question is withdrawn.
pub(super) async fn ask_by_request(
    session: &Handle,
    waiting: &WaitingCall,
    context: &RequestContext<RoleServer>,
    given_up: impl Future<Output = ()>,
) -> Reply {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question_about(waiting)));
    let options = PeerRequestOptions::no_options();
    let sent = context.peer.send_cancellable_request(request, options);
    let mut asked = match sent.await {
        Ok(asked) => asked,
        Err(error) => {
            tracing::debug!(%error, "a client did not ask a person");
            return Reply::Nobody;
        }
    };
    let (reply, reason) = tokio::select! {
        answer = &mut asked.rx => return match answer {
            Ok(Ok(ClientResult::ElicitResult(answer))) => {
                decision(&answer).map_or(Reply::Nobody, Reply::Decided)
            }
            _ => Reply::Nobody,
        },
        settled = settled(session, waiting.id) => {
            if let Err(error) = settled {
                tracing::debug!(%error, "a call that waits cannot be followed");
            }
            (Reply::Settled, "the call is no longer waiting")
        }
        () = given_up => (Reply::GivenUp, "the request was cancelled"),
    };
    if let Err(error) = asked.cancel(Some(reason.to_owned())).await {
        tracing::debug!(%error, "a question is not taken back");
    }
    reply
}

/// Waits until a call does not wait for a person any more.
async fn settled(session: &Handle, call: CallId) -> Result<(), RuntimeError> {
    let look = move |state: &State| {
        let waits = state.waiting_calls().any(|waiting| waiting.id == call);
        (state.events(), waits)
    };
    loop {
        let (seen, waits) = session.inspect(look).await?;
        if !waits {
            return Ok(());
        }
        session.events(seen).await?.next().await?;
    }
}

/// A result that makes the client ask its user about a call and repeat its request.
pub(super) fn ask_by_answer(
    (session, turn): (SessionId, TurnId),
    waiting: &WaitingCall,
) -> InputRequiredResult {
    let question = InputRequest::Elicitation(ElicitRequest::new(question_about(waiting)));
    let asked = QuestionState {
        session: session.to_string(),
        turn: turn.to_string(),
        call: waiting.id.to_string(),
    };
    // Serialising three texts does not fail.
    let state = serde_json::to_string(&asked).unwrap_or_default();
    InputRequiredResult::new(Some([(APPROVE.to_owned(), question)].into()), Some(state))
}

/// The reply in a client's repeated request, and its call. None: the request has no answer to the
/// question.
pub(super) fn decode_answer(
    state: &str,
    answers: Option<InputResponses>,
) -> Result<(QuestionState, CallId, Option<Reply>), String> {
    let unknown = |_| "`requestState` is invalid: send it back unchanged".to_owned();
    let asked: QuestionState = serde_json::from_str(state).map_err(unknown)?;
    let call = asked
        .call
        .parse()
        .map_err(|_| "`requestState` names no call".to_owned())?;
    let answer = answers.and_then(|mut answers| answers.remove(APPROVE));
    let answer: Option<ElicitResult> = answer
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| format!("`inputResponses.{APPROVE}` is not an answer: {error}"))?;
    let reply = answer.map(|answer| decision(&answer).map_or(Reply::Nobody, Reply::Decided));
    Ok((asked, call, reply))
}

/// The instructions for continuing a waiting turn.
pub(super) fn describe(session: SessionId, turn: TurnId, waiting: &[WaitingCall]) -> String {
    let text = describe_calls(session, turn, waiting);
    format!(
        "{text}The turn stays. Once that is decided, the tool `wait` with session {session} and turn \
         {turn} gives its answer."
    )
}

/// The same for programs.
pub(super) fn structured(waiting: &[WaitingCall]) -> Value {
    let each = waiting.iter().map(|one| {
        let kind = match one.call.status {
            CallStatus::InDoubt => "in_doubt",
            _ => "approval",
        };
        json!({
            "call": one.id.to_string(), "agent": one.agent.to_string(),
            "tool": &*one.call.planned.tool, "arguments": &*one.call.planned.arguments,
            "kind": kind,
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_decides_only_with_its_field() {
        for (answer, expected) in rows! {
            (json!({"action": "accept", "content": {"approve": true}}), Some(true)),
            (json!({"action": "accept", "content": {"approve": false}}), Some(false)),
            (json!({"action": "accept", "content": {"approve": "yes"}}), None),
            (json!({"action": "accept", "content": {}}), None),
            (json!({"action": "accept"}), None),
            (json!({"action": "decline"}), Some(false)),
            (json!({"action": "cancel"}), None),
        } {
            assert_eq!(approves(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_client_is_asked_if_it_shows_forms() {
        for (able, expected) in [
            (json!({}), true),
            (json!({"form": {}}), true),
            (json!({"form": {}, "url": {}}), true),
            (json!({"url": {}}), false),
            (json!({"form": null, "url": {}}), false),
            (Value::Null, false),
            (json!(true), false),
        ] {
            assert_eq!(can_elicit(&able), expected, "{able}");
        }
    }
}
