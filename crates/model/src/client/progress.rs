//! The received part of an attempt, for attempts that break off: their usage must be paid for, and
//! no provider reports it.

use unisono_context::Tokens;
use unisono_context::tokens::Count;

use crate::dialect::DecodedEvent;
use crate::language::{Class, Usage};

/// The received parts of the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct ReplyProgress {
    pub(super) first_event_reported: bool,
    /// Whether an attempt that must be paid for was interrupted.
    pub(super) any_interrupted: bool,
    /// Whether an attempt is running.
    under_way: bool,
    events: u64,
    /// Events with a part of the reply.
    parts: u64,
    /// Bytes of the reply's text.
    text: u64,
    /// The usage that the provider reported so far.
    used: Usage,
}

impl ReplyProgress {
    /// An attempt starts.
    pub(super) fn begin(&mut self) {
        *self = ReplyProgress {
            first_event_reported: self.first_event_reported,
            any_interrupted: self.any_interrupted,
            under_way: true,
            ..ReplyProgress::default()
        };
    }

    pub(super) fn event(&mut self, seen: &DecodedEvent<'_>) {
        self.events += 1;
        self.parts += u64::from(*seen != DecodedEvent::Status);
        if let DecodedEvent::Text(text) = seen {
            self.text += text.len() as u64;
        }
    }

    /// Records the usage reported so far.
    pub(super) fn used(&mut self, used: Usage) {
        self.used = used;
    }

    /// The attempt failed with this class. If it was interrupted while the provider was working,
    /// returns the known usage. Unreported output is estimated from the received part: an event is
    /// at least one token.
    pub(super) fn failed(&mut self, class: Class) -> Option<Usage> {
        // After a report of its state a provider may still refuse the request, and its work is lost
        // if the connection breaks.
        let begun = self.parts > 0
            || (self.events > 0 && class == Class::Transport)
            || self.used.input + self.used.output > Tokens::ZERO;
        let lost = std::mem::take(&mut self.under_way) && (begun || class.was_at_work());
        self.any_interrupted |= lost;
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
    //! Tests of which attempts have to be paid for, and for what.

    use super::*;
    use crate::language::Stage;

    const BROKEN: Class = Class::Transport;

    #[test]
    fn an_attempt_counts_as_interrupted_once_its_reply_has_begun_or_the_provider_was_working() {
        let unavailable = Class::UNAVAILABLE;
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
            (0..events).for_each(|_| reply_progress.event(&DecodedEvent::Other));
            let used = reply_progress.failed(class);
            assert_eq!(used.map(|used| used.output.0), lost, "{class:?} {events}");
            assert_eq!(reply_progress.any_interrupted, lost.is_some());
            assert_eq!(reply_progress.failed(class), None, "once");
        }
    }

    #[test]
    fn a_state_of_the_provider_begins_no_reply_that_it_refuses() {
        for (class, lost) in [
            (Class::UNAVAILABLE, false),
            (Class::RATE_LIMITED, false),
            (BROKEN, true),
            (Class::IncompleteStream, true),
        ] {
            let mut reply_progress = ReplyProgress::default();
            reply_progress.begin();
            reply_progress.event(&DecodedEvent::Status);
            assert_eq!(reply_progress.failed(class).is_some(), lost, "{class:?}");
        }
    }

    #[test]
    fn usage_is_as_reported_else_estimated_from_the_received_part() {
        let reported = Usage::free(Tokens(900), Tokens(7));
        for (text, used, output) in [
            ("", Usage::NONE, 1),
            ("forty bytes of text, which are ten tokens", Usage::NONE, 11),
            ("forty bytes of text, which are ten tokens", reported, 11),
            ("four", reported, 7),
        ] {
            let mut reply_progress = ReplyProgress::default();
            reply_progress.begin();
            reply_progress.event(&DecodedEvent::Text(text));
            reply_progress.used(used);
            let lost = reply_progress.failed(BROKEN).unwrap();
            assert_eq!((lost.input, lost.output.0), (used.input, output), "{text}");
            reply_progress.begin();
            assert_eq!(
                reply_progress.failed(BROKEN),
                None,
                "the next one begins anew"
            );
            assert!(reply_progress.any_interrupted);
        }
    }
}
