//! A model call for which something was reserved: settled once, however it ends.

use std::fmt;
use std::sync::Arc;

use unisono_model::language;
use unisono_session::machine::CallEnd;

/// Tokens of a dialect's own words around what is counted, at most.
pub(crate) const FRAME: u64 = 256;

type Settle = Box<dyn FnOnce(CallEnd) + Send + Sync>;

/// A call that is within its budgets. Dropped before it was told how it ended, it counts as its
/// worst case.
pub(crate) struct ReservedCall {
    /// Its number among the calls of its run; none: nothing is reserved.
    number: Option<u32>,
    /// None: nothing is reserved, or that is settled.
    settle: Option<Settle>,
    /// Set where it is the run's last because of a budget: which one.
    wrap_up: Option<Arc<str>>,
}

impl ReservedCall {
    /// A call that nothing bounds.
    pub(crate) fn unbounded() -> ReservedCall {
        ReservedCall {
            number: None,
            settle: None,
            wrap_up: None,
        }
    }

    /// One that was reserved; `settle` is called where it ends without a recorded reply.
    pub(crate) fn reservation(
        number: u32,
        wrap_up: Option<Arc<str>>,
        settle: impl FnOnce(CallEnd) + Send + Sync + 'static,
    ) -> ReservedCall {
        ReservedCall {
            number: Some(number),
            settle: Some(Box::new(settle)),
            wrap_up,
        }
    }

    /// What was reserved for it is known by that number.
    pub(crate) fn number(&self) -> Option<u32> {
        self.number
    }

    /// Why it is the last of its run, if a budget says so.
    pub(crate) fn wrap_up(&self) -> Option<&Arc<str>> {
        self.wrap_up.as_ref()
    }

    /// Its reply is recorded, which settles it.
    pub(crate) fn recorded(mut self) {
        self.settle = None;
    }

    /// It has ended so.
    pub(crate) fn ended(mut self, end: CallEnd) {
        self.end(end);
    }

    fn end(&mut self, end: CallEnd) {
        if let Some(settle) = self.settle.take() {
            settle(end);
        }
    }
}

impl Drop for ReservedCall {
    fn drop(&mut self) {
        self.end(CallEnd::Lost);
    }
}

impl fmt::Debug for ReservedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("number", &self.number)
            .field("settled", &self.settle.is_none())
            .field("wrap_up", &self.wrap_up)
            .finish()
    }
}

/// What a call that failed so has to be paid for: all that was reserved for it and is not paid for
/// yet, where nobody says what it used.
pub(crate) const fn call_end(error: &language::Error) -> CallEnd {
    match error.is_paid_for() {
        true => CallEnd::Lost,
        false => CallEnd::Unsent,
    }
}

#[cfg(test)]
mod tests {
    //! What a failure costs.

    use unisono_model::language::{Class, Error, Stage};

    use super::*;

    #[test]
    fn an_interrupted_call_counts_as_its_worst_case() {
        let unavailable = Class::Unavailable {
            retry_after_ms: None,
        };
        for (class, begun, end) in [
            (Class::Unauthorised, false, CallEnd::Unsent),
            (Class::Transport, false, CallEnd::Unsent),
            (Class::Timeout(Stage::Connect), false, CallEnd::Unsent),
            (unavailable, false, CallEnd::Unsent),
            // In mid-reply.
            (Class::Transport, true, CallEnd::Lost),
            (unavailable, true, CallEnd::Lost),
            (Class::Timeout(Stage::FirstByte), false, CallEnd::Lost),
            (Class::IncompleteStream, false, CallEnd::Lost),
            (Class::BadReply, false, CallEnd::Lost),
            (Class::TooLarge, false, CallEnd::Lost),
        ] {
            let error = Error {
                model: "test/scripted".into(),
                class,
                reason: "said the provider".into(),
                request_id: None,
                begun,
            };
            assert_eq!(call_end(&error), end, "{class:?} {begun}");
        }
    }
}
