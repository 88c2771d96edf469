//! The progress of a client's request, which may take several requests to the daemon.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use unisono_server::mcp;

/// The progress notifications of one request of a client. Their numbers grow, as the protocol demands. The
/// daemon's own numbers begin at one in each request to it.
#[derive(Debug)]
pub(super) struct Progress {
    /// None if the client wants no progress.
    token: Option<Value>,
    count: f64,
    /// When the last notification was sent, or the request came.
    sent: Instant,
}

impl Progress {
    pub(super) fn from_request(request: &Value) -> Progress {
        Progress {
            token: request.pointer("/params/_meta/progressToken").cloned(),
            count: 0.0,
            sent: Instant::now(),
        }
    }

    /// Numbers a message of the daemon, if it reports progress.
    pub(super) fn renumber(&mut self, message: &mut Value) {
        if let Some(progress) = message.pointer_mut("/params/progress") {
            *progress = self.count_up().into();
        }
    }

    fn count_up(&mut self) -> f64 {
        self.sent = Instant::now();
        self.count += 1.0;
        self.count
    }

    /// Waits for a future, and sends the notifications that are due meanwhile.
    pub(super) async fn notify_until<T>(
        &mut self,
        say: &mpsc::Sender<Value>,
        done: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(done);
        loop {
            let due = self.sent + mcp::QUIET;
            tokio::select! {
                output = &mut done => return output,
                () = sleep_until(due), if self.token.is_some() => self.notify(say),
            }
        }
    }

    /// A client that does not read misses the notification.
    fn notify(&mut self, say: &mpsc::Sender<Value>) {
        let progress = self.count_up();
        let params = json!({"progressToken": self.token, "progress": progress});
        let _ = say.try_send(json!({
            "jsonrpc": "2.0", "method": "notifications/progress", "params": params,
        }));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_grows_from_one_request_to_the_next_and_while_a_user_decides() {
        let request = json!({"method": "tools/call", "params": {"_meta": {"progressToken": "p"}}});
        let mut progress = Progress::from_request(&request);
        let (say, mut said) = mpsc::channel(8);
        let first = json!({"method": "notifications/progress",
            "params": {"progressToken": "p", "progress": 1.0, "message": "clerk: running"}});
        let mut of_ask = first.clone();
        progress.renumber(&mut of_ask);
        assert_eq!(of_ask, first);
        progress.notify_until(&say, sleep(mcp::QUIET * 5 / 2)).await;
        for number in [2.0, 3.0] {
            let notice = said.try_recv().unwrap();
            let expected = json!({"progressToken": "p", "progress": number});
            assert_eq!(notice["params"], expected, "{notice}");
        }
        assert!(said.try_recv().is_err());
        let mut of_wait = first.clone();
        progress.renumber(&mut of_wait);
        assert_eq!(of_wait["params"]["progress"], 4.0);
        let mut other = json!({"id": 7, "method": "elicitation/create", "params": {}});
        progress.renumber(&mut other);
        assert_eq!(other["params"], json!({}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_wants_no_progress_gets_none() {
        let mut progress = Progress::from_request(&json!({"method": "tools/call", "params": {}}));
        let (say, mut said) = mpsc::channel(8);
        progress.notify_until(&say, sleep(mcp::QUIET * 3)).await;
        assert!(said.try_recv().is_err());
    }
}
