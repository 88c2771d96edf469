//! Checks every record of a store, and repairs it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::disk::cursor::Cursor;
use crate::disk::salvage::{self, Salvage};
use crate::disk::trees::Trees;
use crate::disk::{ledger, open};
use crate::engine::SessionId;
use crate::engine::is_of_a_session;
use crate::error::{Error, Fault, Record, Result};
use crate::row;

/// Number of sessions listed at a time.
const PAGE: usize = 256;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkup {
    /// Number of sessions checked.
    pub sessions: u64,
    /// Number of events that are undamaged and in their chain.
    pub events: u64,
    /// Number of undamaged checkpoints.
    pub checkpoints: u64,
    /// The damaged records.
    pub findings: Vec<Finding>,
    /// The result of a repair, either at the opening or on request.
    pub salvage: Option<Salvage>,
    /// Number of files and directories to which others had permissions before it was opened for
    /// this.
    pub narrowed: u64,
}

/// A damaged record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The record.
    pub record: Record,
    /// Its fault.
    pub fault: Fault,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is damaged: {}", self.record, self.fault)
    }
}

/// Checks every record of a closed store: envelope, checksum, key, chunks, chain. Blocking.
///
/// A store that does not open, or that lost acknowledged data, is repaired by the opening, and
/// [`Checkup::salvage`] has the result.
pub fn doctor(path: impl AsRef<Path>) -> Result<Checkup> {
    let whole = open::open(path.as_ref())?;
    let mut checkup = check(&whole.trees)?;
    checkup.salvage = whole.salvage;
    checkup.narrowed = whole.narrowed;
    Ok(checkup)
}

/// As [`doctor`]. If that finds damage, saves all undamaged records into a fresh log, keeps the
/// damaged log under `quarantine/`, and reports in [`Checkup::salvage`] what is lost. Blocking.
pub fn repair(path: impl AsRef<Path>) -> Result<Checkup> {
    let root = path.as_ref();
    let mut checkup = doctor(root)?;
    if let Some(finding) = checkup.findings.first() {
        let reason = finding.to_string();
        let (_lock, _) = open::enter(root)?;
        checkup.salvage = Some(salvage::salvage(root, &ledger::read(root)?, reason)?);
    }
    Ok(checkup)
}

fn check(trees: &Trees) -> Result<Checkup> {
    let log = trees.log()?;
    let mut checkup = Checkup::default();
    let mut sessions: BTreeSet<SessionId> = ledger::read(&trees.root)?.into_keys().collect();
    let mut after = None;
    loop {
        match log.sessions(after, PAGE) {
            Ok(page) => {
                let Some(last) = page.last() else { break };
                after = Some(*last);
                sessions.extend(page);
            }
            // The ledger has the rest.
            Err(error) => {
                checkup.note(error)?;
                break;
            }
        }
    }
    for session in sessions {
        checkup.session(trees, session)?;
    }
    checkup.findings.dedup();
    Ok(checkup)
}

impl Checkup {
    pub(super) fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt { record, fault } => self.findings.push(Finding { record, fault }),
            error => return Err(error),
        }
        Ok(())
    }

    fn session(&mut self, trees: &Trees, session: SessionId) -> Result<()> {
        let known = match trees.known(session) {
            Ok(Some(known)) if !known.head.deleted => known,
            Ok(_) => return Ok(()),
            Err(error) => return self.note(error),
        };
        let log = trees.log()?;
        let head = &known.head;
        let mut cursor = Cursor::new(log, session, &known);
        self.sessions += u64::from(is_of_a_session(session));
        let mut expected = Some(row::genesis(session));
        for seq in 1..=head.last_seq {
            expected = self.event(&mut cursor, Record::Event { session, seq }, seq, expected);
        }
        if expected.is_some_and(|hash| hash != head.last_hash) {
            self.findings.push(Finding {
                record: Record::Head { session },
                fault: Fault::BrokenChain,
            });
        }
        match log.checkpoint(session) {
            Ok(checkpoint) => self.checkpoints += u64::from(checkpoint.is_some()),
            Err(fault) => self.findings.push(Finding {
                record: Record::Checkpoint { session },
                fault,
            }),
        }
        Ok(())
    }

    /// Checks an event and returns the hash of the chain after it, if that is known.
    fn event(
        &mut self,
        cursor: &mut Cursor<'_>,
        record: Record,
        seq: u64,
        expected: Option<row::Hash>,
    ) -> Option<row::Hash> {
        let fault = match cursor.event(seq) {
            Ok((stamp, payload)) if expected.is_none_or(|hash| hash == stamp.previous) => {
                self.events += 1;
                return Some(row::link(&stamp.previous, seq, &row::digest(&payload)));
            }
            Ok(_) => Fault::BrokenChain,
            Err(fault) => fault,
        };
        self.findings.push(Finding { record, fault });
        None
    }
}
