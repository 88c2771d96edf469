//! A model call for which something was set aside: settled once, however it ends.

use std::fmt;
use std::sync::Arc;

use unisono_model::language::{Class, Stage};
use unisono_session::machine::CallEnd;

/// Tokens of a dialect's own words around what is counted, at most.
pub(crate) const FRAME: u64 = 256;

type Settle = Box<dyn FnOnce(CallEnd) + Send + Sync>;

/// A call that is within its budgets. Dropped before it was told how it ended, it counts as its
/// worst case.
pub(crate) struct Call {
    /// Its number among the calls of its run; none: nothing is set aside.
    number: Option<u32>,
    /// None: nothing is set aside, or that is settled.
    settle: Option<Settle>,
    /// Set where it is the run's last because of a budget: which one.
    wrap_up: Option<Arc<str>>,
}

impl Call {
    /// A call that nothing bounds.
    pub(crate) fn unbounded() -> Call {
        Call {
            number: None,
            settle: None,
            wrap_up: None,
        }
    }

    /// One that was set aside; `settle` is called where it ends without a recorded reply.
    pub(crate) fn set_aside(
        number: u32,
        wrap_up: Option<Arc<str>>,
        settle: impl FnOnce(CallEnd) + Send + Sync + 'static,
    ) -> Call {
        Call {
            number: Some(number),
            settle: Some(Box::new(settle)),
            wrap_up,
        }
    }

    /// What was set aside for it is known by that number.
    pub(crate) fn number(&self) -> Option<u32> {
        self.number
    }

    /// Why it is the last of its run, if a budget says so.
    pub(crate) fn wrap_up(&self) -> Option<&Arc<str>> {
        self.wrap_up.as_ref()
    }

    /// Its reply is recorded, which settles it.
    pub(crate) fn recorded(mut self) -> Option<Arc<str>> {
        self.settle = None;
        self.wrap_up.take()
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

impl Drop for Call {
    fn drop(&mut self) {
        self.end(CallEnd::Lost);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("number", &self.number)
            .field("settled", &self.settle.is_none())
            .field("wrap_up", &self.wrap_up)
            .finish()
    }
}

/// What a call that failed so has to be paid for.
pub(crate) const fn paid(class: Class) -> CallEnd {
    match class {
        Class::Unauthorised
        | Class::OutOfQuota
        | Class::UnknownModel
        | Class::Overflow { .. }
        | Class::BadRequest
        | Class::RateLimited { .. }
        | Class::Unavailable { .. }
        | Class::Transport
        | Class::Timeout(Stage::Connect)
        | Class::CircuitOpen { .. }
        | Class::Busy
        | Class::PrefixMismatch
        | Class::Internal => CallEnd::Unsent,
        // The provider was at work, or done.
        Class::Timeout(Stage::FirstByte | Stage::Idle | Stage::Total)
        | Class::IncompleteStream
        | Class::BadReply
        | Class::TooLarge => CallEnd::Lost,
    }
}
