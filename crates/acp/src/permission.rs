//! Permissions: the editor asks its user about tool calls that wait for approval.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use unisono_api::Code;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, Verdict};
use unisono_api::service::Service;

use crate::client::{Client, NoResult};
use crate::protocol::{Call, Outcome, Permission, Update};

/// An answer that a person can choose: id, name, kind, decision, and the text for the model.
type Choice = (
    &'static str,
    &'static str,
    &'static str,
    Verdict,
    Option<&'static str>,
);

/// The choices before a call is made.
const BEFORE: [Choice; 2] = [
    ("approve", "Allow", "allow_once", Verdict::Approve, None),
    ("deny", "Deny", "reject_once", Verdict::Deny, None),
];

/// The choices for a call with an unknown outcome.
const IN_DOUBT: [Choice; 3] = [
    (
        "repeat",
        "Make it again",
        "allow_once",
        Verdict::Repeat,
        None,
    ),
    (
        "done",
        "It was made",
        "allow_once",
        Verdict::Done,
        Some("The person says that it was made."),
    ),
    (
        "failed",
        "It was not made",
        "reject_once",
        Verdict::Failed,
        Some("The person says that it was not made."),
    ),
];

/// The open questions of a turn. All are withdrawn at its end.
pub(crate) struct Questions {
    asking: JoinSet<()>,
    /// By the ids of their calls.
    withdrawals: HashMap<String, CancellationToken>,
    /// Withdraws all of them.
    stopped: CancellationToken,
}

impl Questions {
    /// `stopped`: the turn is cancelled.
    pub(crate) fn new(stopped: &CancellationToken) -> Questions {
        Questions {
            asking: JoinSet::new(),
            withdrawals: HashMap::new(),
            stopped: stopped.clone(),
        }
    }

    /// Asks about a call, while the turn continues.
    pub(crate) fn ask(
        &mut self,
        service: &Arc<dyn Service>,
        session: &str,
        call: Approval,
        client: &Client,
    ) {
        let withdrawn = self.stopped.child_token();
        self.withdrawals
            .insert(call.call.clone(), withdrawn.clone());
        let (service, client) = (service.clone(), client.clone());
        self.asking
            .spawn(ask(service, session.to_owned(), call, client, withdrawn));
    }

    /// Withdraws the question about a call that was decided, here or elsewhere.
    pub(crate) fn withdraw(&mut self, call: &str) {
        if let Some(withdrawn) = self.withdrawals.remove(call) {
            withdrawn.cancel();
        }
    }

    pub(crate) async fn close(mut self) {
        self.asking.shutdown().await;
    }
}

/// Whether a call still waits. Its event may be an old one of a turn that was joined.
async fn is_waiting(service: &dyn Service, session: &str, call: &Approval) -> bool {
    let mut query = ApprovalQuery {
        session: Some(session.to_owned()),
        ..ApprovalQuery::default()
    };
    loop {
        let Ok(page) = service.approvals(&query).await else {
            return true;
        };
        let mut waiting = page.items.iter();
        if waiting.any(|one| (&one.call, &one.kind) == (&call.call, &call.kind)) {
            return true;
        }
        if page.next.is_none() {
            return false;
        }
        query.cursor = page.next;
    }
}

/// Asks the editor's user about a call, and decides as they choose. The first decision counts; a
/// call that does not wait any more is not asked about. An answer without a decision leaves the call
/// waiting, and the editor shows why.
async fn ask(
    service: Arc<dyn Service>,
    session: String,
    call: Approval,
    client: Client,
    withdrawn: CancellationToken,
) {
    if !is_waiting(&*service, &session, &call).await {
        return;
    }
    let choices: &[Choice] = match call.kind.as_str() {
        "in_doubt" => &IN_DOUBT,
        _ => &BEFORE,
    };
    let options = choices
        .iter()
        .map(|(id, name, kind, ..)| json!({"optionId": id, "name": name, "kind": kind}));
    let options: Vec<Value> = options.collect();
    let about = Call {
        tool_call_id: call.call.clone(),
        title: Some(format!("{}: {}", call.agent, call.tool)),
        raw_input: Some(call.arguments),
        ..Call::default()
    };
    let params = json!({"sessionId": session, "toolCall": about, "options": options});
    let answer: Result<Permission, NoResult> = tokio::select! {
        answer = client.ask("session/request_permission", params) => answer,
        () = withdrawn.cancelled() => return,
    };
    let chosen = match answer {
        Ok(answer) => decision(choices, answer.outcome),
        Err(NoResult::Refused(reason)) => Err(reason),
        Err(NoResult::Disconnected) => return,
    };
    let reason = match chosen {
        Ok(decide) => match service.decide(&call.call, &decide).await {
            Ok(_) => return,
            Err(error) if matches!(error.code(), Code::Conflict | Code::NotFound) => {
                tracing::debug!(%error, "the call was decided elsewhere");
                return;
            }
            Err(error) => error.to_string(),
        },
        Err(reason) => reason,
    };
    if !withdrawn.is_cancelled() {
        // The client may have left.
        let _ = client
            .notify(&session, &undecided(call.call, &reason))
            .await;
    }
}

/// The decision that an answer chooses, or why it chooses none. An option that was not offered
/// decides nothing.
fn decision(choices: &[Choice], outcome: Outcome) -> Result<Decide, String> {
    let Outcome::Selected { option_id } = outcome else {
        return Err("the question was dismissed".to_owned());
    };
    let chosen = choices.iter().find(|(id, ..)| *id == option_id);
    let Some((.., decision, text)) = chosen else {
        let offered: Vec<&str> = choices.iter().map(|(id, ..)| *id).collect();
        let offered = offered.join("`, `");
        return Err(format!(
            "the option {option_id:?} was not offered; the options are `{offered}`"
        ));
    };
    Ok(Decide {
        decision: *decision,
        text: text.map(str::to_owned),
    })
}

/// The change of a call that an answer did not decide about: it still waits.
fn undecided(call: String, reason: &str) -> Update {
    let text = format!(
        "The call still waits, because nobody has decided: {reason}. Decide with `unisono approvals` \
         (call {call}), or cancel the prompt."
    );
    Update::CallChange(Call {
        tool_call_id: call,
        content: vec![text.into()],
        ..Call::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_offered_option_decides() {
        let selected = |id: &str| Outcome::Selected {
            option_id: id.to_owned(),
        };
        for (choices, outcome, expected) in [
            (&BEFORE[..], selected("approve"), Ok(Verdict::Approve)),
            (&BEFORE[..], selected("deny"), Ok(Verdict::Deny)),
            (&BEFORE[..], selected("done"), Err("`approve`, `deny`")),
            (&BEFORE[..], selected("allow_once"), Err("\"allow_once\"")),
            (&BEFORE[..], Outcome::Cancelled, Err("dismissed")),
            (&IN_DOUBT[..], selected("done"), Ok(Verdict::Done)),
            (&IN_DOUBT[..], selected("approve"), Err("`repeat`, `done`")),
        ] {
            match (decision(choices, outcome), expected) {
                (Ok(decide), Ok(verdict)) => assert_eq!(decide.decision, verdict),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (decided, expected) => panic!("{decided:?} instead of {expected:?}"),
            }
        }
    }
}
