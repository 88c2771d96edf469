//! Permissions: the editor asks its user about tool calls that wait for approval.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, Verdict};
use unisono_api::service::Service;

use crate::client::Client;
use crate::protocol::{Call, Outcome, Permission};

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
#[derive(Default)]
pub(crate) struct Questions {
    asking: JoinSet<()>,
    /// By the ids of their calls.
    withdrawals: HashMap<String, CancellationToken>,
}

impl Questions {
    /// Asks about a call, while the turn continues.
    pub(crate) fn ask(
        &mut self,
        service: &Arc<dyn Service>,
        session: &str,
        call: Approval,
        client: &Client,
    ) {
        let withdrawn = CancellationToken::new();
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
/// call that does not wait any more is not asked about.
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
    let answer: Option<Permission> = tokio::select! {
        answer = client.ask("session/request_permission", params) => answer,
        () = withdrawn.cancelled() => return,
    };
    let Some(Permission {
        outcome: Outcome::Selected { option_id },
    }) = answer
    else {
        return;
    };
    let chosen = choices.iter().find(|(id, ..)| *id == option_id);
    let Some((.., decision, text)) = chosen else {
        tracing::warn!(option_id, "the client chose what was not offered");
        return;
    };
    let decide = Decide {
        decision: *decision,
        text: text.map(str::to_owned),
    };
    if let Err(error) = service.decide(&call.call, &decide).await {
        tracing::debug!(%error, "the call was decided elsewhere");
    }
}
