//! Which appends are combined in one statement, and what the result of an append is. Without I/O.

use std::collections::{BTreeSet, VecDeque};

use crate::engine::Append;
use crate::error::Error;

/// Largest number of appends in one statement.
const APPENDS_MAX: usize = 256;
/// Largest size of one statement's payloads, unless its first append alone is larger.
const BYTES_MAX: usize = 8 << 20;

/// Takes the appends of the next statement from the queue: the first ones, and at most one for each
/// session. They are in the order of their sessions, in which the statement locks the rows: two programs
/// that append to the same journals then cannot each wait for the other.
pub(super) fn next<J>(queue: &mut VecDeque<J>, append: impl Fn(&J) -> &Append) -> Vec<J> {
    let (mut batch, mut left) = (Vec::new(), VecDeque::new());
    let (mut sessions, mut bytes) = (BTreeSet::new(), 0);
    for job in queue.drain(..) {
        let of = append(&job);
        let size: usize = of.payloads.iter().map(Vec::len).sum();
        // Later appends of the same session stay behind its first one.
        let is_first = sessions.insert(of.session);
        let fits = batch.is_empty() || (batch.len() < APPENDS_MAX && bytes + size <= BYTES_MAX);
        if is_first && fits {
            bytes += size;
            batch.push(job);
        } else {
            left.push_back(job);
        }
    }
    *queue = left;
    batch.sort_by_key(|job| append(job).session);
    batch
}

/// The state of a session in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionRow {
    /// The epoch of its latest claim; 0 if it was never claimed or is deleted.
    pub(super) epoch: u64,
    pub(super) last_seq: u64,
    /// The checksums of the session's events, for as many numbers as the append has, from its first
    /// one on.
    pub(super) checksums: Vec<i64>,
}

/// The result of an append for which no row was returned.
#[derive(Debug)]
pub(super) enum UnansweredAppend {
    /// It is on disk: an earlier statement wrote it, and the answer to that was lost.
    Written(u64),
    /// It is not on disk, and is sent again.
    Again,
    /// It cannot be written.
    Refused(Error),
}

/// Determines the result of an append with these checksums. `was_sent` says whether an earlier
/// statement contained it.
pub(super) fn settle(
    append: &Append,
    was_sent: bool,
    ours: &[i64],
    found: &SessionRow,
) -> UnansweredAppend {
    let last = append.expected_seq.saturating_add(ours.len() as u64);
    if was_sent && found.last_seq >= last && found.checksums == ours {
        return UnansweredAppend::Written(last);
    }
    let (session, epoch) = (append.session, append.epoch);
    if found.epoch != epoch || epoch == 0 {
        return UnansweredAppend::Refused(Error::Fenced {
            session,
            epoch,
            current: found.epoch,
        });
    }
    if found.last_seq != append.expected_seq {
        return UnansweredAppend::Refused(Error::Conflict {
            session,
            expected_seq: append.expected_seq,
            last_seq: found.last_seq,
        });
    }
    UnansweredAppend::Again
}

/// The checksum of an event or a state checkpoint, over its session, its number and its bytes.
pub(super) fn checksum(session: crate::SessionId, seq: u64, bytes: &[u8]) -> i64 {
    let sum = crc32c::crc32c(session.0.as_bytes());
    let sum = crc32c::crc32c_append(sum, &seq.to_be_bytes());
    i64::from(crc32c::crc32c_append(sum, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    fn append(session: u128, epoch: u64, expected_seq: u64, sizes: &[usize]) -> Append {
        Append {
            session: SessionId::from_u128(session),
            epoch,
            expected_seq,
            payloads: sizes.iter().map(|&size| vec![0; size]).collect(),
        }
    }

    #[test]
    fn a_statement_has_one_append_of_each_session_in_the_order_of_their_ids() {
        let sizes = [5 << 20, 1, 2 << 20, 2 << 20];
        let all = [(1, 0), (2, 1), (1, 2), (3, 3)];
        let mut queue: VecDeque<Append> = all
            .iter()
            .map(|&(session, size)| append(session, 1, 0, &[sizes[size]]))
            .collect();
        let sessions = |batch: &[Append]| {
            batch
                .iter()
                .map(|one| one.session.0.as_u128())
                .collect::<Vec<_>>()
        };
        let batch = next(&mut queue, |one| one);
        assert_eq!(sessions(&batch), [1, 2, 3]);
        assert_eq!(batch[0].payloads[0].len(), 5 << 20);
        assert_eq!(sessions(&next(&mut queue, |one| one)), [1]);
        assert!(queue.is_empty() && next(&mut queue, |one| one).is_empty());
        // All programs lock the rows of a statement in the same order.
        let ids = [3, 1, 3, 2];
        let mut queue: VecDeque<Append> = ids.map(|n| append(n, 1, 0, &[1])).into();
        assert_eq!(sessions(&next(&mut queue, |one| one)), [1, 2, 3]);
        assert_eq!(sessions(&next(&mut queue, |one| one)), [3]);
        // An append that is too large for others is sent alone, and the size is limited.
        let mut queue: VecDeque<Append> = (1..=4).map(|n| append(n, 1, 0, &[3 << 20])).collect();
        queue.push_front(append(9, 1, 0, &[20 << 20]));
        let taken: Vec<usize> = std::iter::from_fn(|| {
            let batch = next(&mut queue, |one| one);
            (!batch.is_empty()).then_some(batch.len())
        })
        .collect();
        assert_eq!(taken, [1, 2, 2]);
    }

    #[test]
    fn a_lost_answer_is_settled_by_what_is_there() {
        let ours = [7, 8];
        let one = append(1, 3, 4, &[1, 1]);
        let found = |epoch, last_seq, checksums: &[i64]| SessionRow {
            epoch,
            last_seq,
            checksums: checksums.to_vec(),
        };
        let rows = [
            // Sent before, and on disk, even if the session was claimed or written to since.
            (true, found(3, 6, &[7, 8]), "written 6"),
            (true, found(4, 6, &[7, 8]), "written 6"),
            (true, found(4, 9, &[7, 8]), "written 6"),
            // Never sent: another writer wrote the same bytes.
            (false, found(3, 6, &[7, 8]), "conflict 6"),
            (true, found(3, 6, &[7, 9]), "conflict 6"),
            (true, found(3, 4, &[]), "again"),
            (false, found(3, 4, &[]), "again"),
            (true, found(5, 4, &[]), "fenced 5"),
            (true, found(0, 0, &[]), "fenced 0"),
            (true, found(3, 5, &[7]), "conflict 5"),
        ];
        for (was_sent, found, expected) in rows {
            let settled = match settle(&one, was_sent, &ours, &found) {
                UnansweredAppend::Written(seq) => format!("written {seq}"),
                UnansweredAppend::Again => "again".to_owned(),
                UnansweredAppend::Refused(Error::Fenced { current, .. }) => {
                    format!("fenced {current}")
                }
                UnansweredAppend::Refused(Error::Conflict { last_seq, .. }) => {
                    format!("conflict {last_seq}")
                }
                UnansweredAppend::Refused(other) => other.to_string(),
            };
            assert_eq!(settled, expected, "{found:?}");
        }
    }
}
