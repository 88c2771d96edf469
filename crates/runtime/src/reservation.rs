//! A reserved model call: settled once, however it ends.

use std::fmt;
use std::sync::Arc;

use unisono_model::language;
use unisono_session::machine::CallEnd;

/// The maximum number of tokens of a dialect's own words around the counted texts.
pub(crate) const FRAME: u64 = 256;

type Settle = Box<dyn FnOnce(CallEnd) + Send + Sync>;

/// A reservation that was requested. If it is given up before its answer is used, it is released: it may
/// have been granted meanwhile, and nothing was sent.
pub(crate) struct RequestedCall {
    /// The number of the call in its run.
    number: u32,
    /// None: it is answered.
    settle: Option<Settle>,
}

impl RequestedCall {
    /// A call to reserve; `settle` is called if it ends without a recorded reply. Make this before the
    /// request, so that the request is given up first: it is not granted after it is released.
    pub(crate) fn new(
        number: u32,
        settle: impl FnOnce(CallEnd) + Send + Sync + 'static,
    ) -> RequestedCall {
        RequestedCall {
            number,
            settle: Some(Box::new(settle)),
        }
    }

    /// The reserved call, if it is granted.
    pub(crate) fn answered<E>(
        mut self,
        granted: Result<Option<Arc<str>>, E>,
    ) -> Result<ReservedCall, E> {
        let settle = self.settle.take();
        granted.map(|wrap_up| ReservedCall {
            number: Some(self.number),
            settle,
            wrap_up,
        })
    }
}

impl Drop for RequestedCall {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(CallEnd::Unsent);
        }
    }
}

/// A call within its budgets. If it is dropped before its end is reported, it counts as its worst
/// case.
pub(crate) struct ReservedCall {
    /// The number of the call in its run; none: nothing is reserved.
    number: Option<u32>,
    /// None: nothing is reserved, or it is settled.
    settle: Option<Settle>,
    /// The budget because of which it is the run's last call; none: it is not.
    wrap_up: Option<Arc<str>>,
}

impl ReservedCall {
    pub(crate) fn unbounded() -> ReservedCall {
        ReservedCall {
            number: None,
            settle: None,
            wrap_up: None,
        }
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.number
    }

    /// The reason why it is the last call of its run, if a budget made it so.
    pub(crate) fn wrap_up(&self) -> Option<&Arc<str>> {
        self.wrap_up.as_ref()
    }

    /// Its reply is recorded, which settles it.
    pub(crate) fn settle_recorded(mut self) {
        self.settle = None;
    }

    pub(crate) fn settle(mut self, end: CallEnd) {
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

/// The charge of a failed call: the rest of its reservation if its usage is unknown.
pub(crate) const fn call_end(error: &language::Error) -> CallEnd {
    match error.is_paid_for() {
        true => CallEnd::Lost,
        false => CallEnd::Unsent,
    }
}

#[cfg(test)]
mod tests {
    //! The cost of failures.

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
            // In the middle of a reply.
            (Class::Transport, true, CallEnd::Lost),
            (unavailable, true, CallEnd::Lost),
            (Class::Timeout(Stage::FirstByte), false, CallEnd::Lost),
            (Class::IncompleteStream, false, CallEnd::Lost),
            (Class::BadReply, false, CallEnd::Lost),
            (Class::TooLarge, false, CallEnd::Lost),
        ] {
            let error = Error {
                begun,
                ..Error::new("test/scripted", class, "said the provider")
            };
            assert_eq!(call_end(&error), end, "{class:?} {begun}");
        }
    }
}
