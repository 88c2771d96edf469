//! A fold of a session's events that is kept: a later request folds only the new events.

use unisono_session::Event;
use unisono_store::{Error, Journal, SessionInfo};

use super::read_from;

#[derive(Debug, Default)]
pub(crate) struct Folded<T> {
    /// When the session was created: after its deletion, another one may have its id.
    created_unix_ms: u64,
    /// The last folded event.
    seq: u64,
    pub(crate) value: T,
}

impl<T: Default> Folded<T> {
    /// Folds the new events of the session up to the last one of `info`, each with its number.
    pub(crate) async fn follow(
        &mut self,
        journal: &Journal,
        info: &SessionInfo,
        take: impl Fn(&mut T, u64, &Event),
    ) -> Result<(), Error> {
        if self.created_unix_ms != info.created_unix_ms || self.seq > info.last_seq {
            *self = Folded {
                created_unix_ms: info.created_unix_ms,
                ..Folded::default()
            };
        }
        if self.seq == info.last_seq {
            return Ok(());
        }
        let Folded { seq, value, .. } = self;
        read_from(journal, info.session.into(), *seq + 1, |event| {
            // Event by event, so that none is folded twice if this is interrupted.
            *seq += 1;
            take(value, *seq, event);
            // Behind the last event nothing is looked for: that is another read of each session.
            Ok(*seq < info.last_seq)
        })
        .await
    }
}
