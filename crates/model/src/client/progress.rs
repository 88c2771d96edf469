//! The received part of an attempt, for attempts that break off: their usage must be paid for, and
//! no provider reports it.

use unisono_context::Tokens;
use unisono_context::tokens::Count;

use crate::dialect::Seen;
use crate::language::{Class, Usage};

/// What has come of the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct ReplyProgress {
    /// Whether the call's owner was told of a first event.
    pub(super) first_told: bool,
    /// Whether an attempt has broken off for which something has to be paid.
    pub(super) any_lost: bool,
    /// Whether an attempt is under way.
    under_way: bool,
    events: u64,
    /// Bytes of its text.
    text: u64,
    /// What the provider said until now that it used.
    used: Usage,
}

impl ReplyProgress {
    /// An attempt is made.
    pub(super) fn begin(&mut self) {
        *self = ReplyProgress {
            first_told: self.first_told,
            any_lost: self.any_lost,
            under_way: true,
            ..ReplyProgress::default()
        };
    }

    /// An event of its reply has come.
    pub(super) fn event(&mut self, seen: &Seen<'_>) {
        self.events += 1;
        if let Seen::Text(text) = seen {
            self.text += text.len() as u64;
        }
    }

    /// What the reply says so far that it used.
    pub(super) fn used(&mut self, used: Usage) {
        self.used = used;
    }

    /// The attempt has ended so. Where it broke off while the provider was at work: what it used,
    /// as far as that is known. Where the provider has not said how much it wrote, that is what has
    /// come: an event is a token at least.
    pub(super) fn failed(&mut self, class: Class) -> Option<Usage> {
        let begun = self.events > 0 || self.used.input + self.used.output > Tokens::ZERO;
        let lost = std::mem::take(&mut self.under_way) && (begun || class.was_at_work());
        self.any_lost |= lost;
        let come = Count::approximate(self.text)
            .tokens
            .max(Tokens(self.events));
        lost.then_some(Usage {
            output: self.used.output.max(come),
            ..self.used
        })
    }
}

#[cfg(test)]
mod tests {
    //! Which attempts have to be paid for, and what for.

    use super::*;
    use crate::language::Stage;

    const BROKEN: Class = Class::Transport;

    #[test]
    fn an_attempt_is_lost_once_its_reply_has_begun_or_the_provider_was_at_work() {
        let unavailable = Class::Unavailable {
            retry_after_ms: None,
        };
        for (class, events, lost) in [
            (BROKEN, 0, None),
            (BROKEN, 3, Some(3)),
            (unavailable, 0, None),
            (unavailable, 1, Some(1)),
            (Class::Timeout(Stage::Connect), 0, None),
            (Class::Timeout(Stage::FirstByte), 0, Some(0)),
            (Class::IncompleteStream, 0, Some(0)),
        ] {
            let mut reply_progress = ReplyProgress::default();
            reply_progress.begin();
            (0..events).for_each(|_| reply_progress.event(&Seen::Other));
            let used = reply_progress.failed(class);
            assert_eq!(used.map(|used| used.output.0), lost, "{class:?} {events}");
            assert_eq!(reply_progress.any_lost, lost.is_some());
            assert_eq!(reply_progress.failed(class), None, "once");
        }
    }

    #[test]
    fn what_was_used_is_what_was_said_else_what_has_come() {
        let said = Usage::free(Tokens(900), Tokens(7));
        for (text, used, output) in [
            ("", Usage::NONE, 1),
            ("forty bytes of text, which are ten tokens", Usage::NONE, 11),
            ("forty bytes of text, which are ten tokens", said, 11),
            ("four", said, 7),
        ] {
            let mut reply_progress = ReplyProgress::default();
            reply_progress.begin();
            reply_progress.event(&Seen::Text(text));
            reply_progress.used(used);
            let lost = reply_progress.failed(BROKEN).unwrap();
            assert_eq!((lost.input, lost.output.0), (used.input, output), "{text}");
            reply_progress.begin();
            assert_eq!(
                reply_progress.failed(BROKEN),
                None,
                "the next one begins anew"
            );
            assert!(reply_progress.any_lost);
        }
    }
}
