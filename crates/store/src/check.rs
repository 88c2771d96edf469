//! Checks every record of a store that is open, whichever its engine.

use crate::blobs::{self, is_blob};
use crate::disk::{Checkup, Finding};
use crate::engine::is_of_a_session;
use crate::engine::{Engine, SessionId};
use crate::error::{Error, Record, Result};

/// Number of sessions, and of events of one session, that are read at a time.
const PAGE: usize = 1_024;

/// Reads everything in a store and reports the records that cannot be read.
///
/// # Errors
/// The store failed in another way than by a record that cannot be read.
pub async fn check(engine: &dyn Engine) -> Result<Checkup> {
    let (mut checkup, mut after) = (Checkup::default(), None);
    loop {
        let page = engine.sessions(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(checkup);
        };
        after = Some(last.session);
        for known in page {
            checkup.sessions += u64::from(is_of_a_session(known.session));
            events(engine, known.session, known.last_seq, &mut checkup).await?;
            match engine.latest_checkpoint(known.session).await {
                Ok(checkpoint) => checkup.checkpoints += u64::from(checkpoint.is_some()),
                Err(error) => checkup.findings.push(finding(error)?),
            }
        }
    }
}

/// Reads the events of a session, and continues after each one that cannot be read.
async fn events(
    engine: &dyn Engine,
    session: SessionId,
    last: u64,
    checkup: &mut Checkup,
) -> Result<()> {
    let mut next = 1;
    while next <= last {
        match engine.read(session, next, PAGE).await {
            Ok(page) => {
                checkup.events += page.len() as u64;
                let content = page
                    .first()
                    .filter(|first| first.seq == 1 && is_blob(session));
                if let Some(content) = content
                    && let Some(fault) = blobs::fault(session, &content.payload)
                {
                    let record = Record::Event { session, seq: 1 };
                    checkup.findings.push(Finding { record, fault });
                }
                let Some(newest) = page.last() else {
                    // The session may have been deleted meanwhile.
                    let now = engine.session(session).await?;
                    if now.is_some_and(|now| now.last_seq >= next) {
                        let record = Record::Event { session, seq: next };
                        let fault = crate::Fault::Missing;
                        checkup.findings.push(Finding { record, fault });
                    }
                    return Ok(());
                };
                next = newest.seq + 1;
            }
            Err(error) => {
                let found = finding(error)?;
                match found.record {
                    // The events before it are read separately.
                    Record::Event { seq, .. } if seq > next => {
                        let whole = engine.read(session, next, (seq - next) as usize).await?;
                        checkup.events += whole.len() as u64;
                        next = seq + 1;
                    }
                    _ => next += 1,
                }
                checkup.findings.push(found);
            }
        }
    }
    Ok(())
}

/// The finding for a record that cannot be read; any other failure is returned as an error.
fn finding(error: Error) -> Result<Finding> {
    match error {
        Error::Corrupt { record, fault } => Ok(Finding { record, fault }),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Append, Deletion, EngineFuture, Event};
    use crate::memory::Memory;

    /// Has lost all events, or deletes each session before it is read.
    struct Losing {
        memory: Memory,
        deletes: bool,
    }

    impl Engine for Losing {
        crate::forward_engine!(
            memory: claim, append, put_checkpoint, latest_checkpoint, session, sessions,
            delete_session, health, close
        );

        fn read(&self, session: SessionId, _: u64, _: usize) -> EngineFuture<'_, Vec<Event>> {
            Box::pin(async move {
                if self.deletes {
                    let deletion = Deletion::of_session(session);
                    self.memory.delete_session(deletion).await?;
                }
                Ok(Vec::new())
            })
        }
    }

    #[tokio::test]
    async fn a_session_that_is_deleted_during_a_check_is_not_damaged() {
        let session = SessionId::from_u128(1);
        for (deletes, findings) in [(false, 1), (true, 0)] {
            let memory = Memory::new();
            let engine = Losing { memory, deletes };
            let claim = engine.claim(session).await.unwrap();
            let append = Append::to(session, claim, b"an event".to_vec());
            engine.append(append).await.unwrap();
            let checkup = check(&engine).await.unwrap();
            assert_eq!(checkup.findings.len(), findings, "{deletes}");
        }
    }
}
