//! Stopping or allowing work of a session that nobody works on: it is only journaled, nothing is
//! started.

use unisono_context::SessionId;
use unisono_session::Input;
use unisono_store::Journal;

use crate::attachments::{self, AttachmentLimits};
use crate::clock;
use crate::runtime::Error;

use super::Phase;
use super::commit::{self, Loaded};

/// Records that a turn ([`Input::Cancel`]) or a run ([`Input::CancelRun`]) is stopped, or what a
/// person decided about a call ([`Input::Decide`]), or changed of its settings ([`Input::Set`]),
/// or a message that is appended without a turn ([`Input::Append`]), with all that follows from it. What is open besides stays so and goes on when the session is
/// opened.
/// The journal must be this process's alone: whoever else works on the session is fenced.
///
/// # Errors
/// It is not open, or the journal cannot be read or written.
pub async fn settle(
    journal: &Journal,
    session: SessionId,
    mut input: Input,
    limits: AttachmentLimits,
) -> Result<(), Error> {
    if !journal.exists(session).await? {
        return Err(Error::UnknownSession(session));
    }
    let (mut live, recovered) = match commit::load(journal, session, &Phase::Loading).await? {
        Loaded::Live(live, recovered) => (live, recovered),
        Loaded::Shown(shown) => return Err(shown.why),
        Loaded::Still => return Err(Error::Unavailable("session")),
    };
    let attached = live.machine.state().attached_bytes();
    attachments::store(journal, session, limits, &mut input, attached).await?;
    let decided = live.machine.handle(input, clock::now())?;
    let events = [recovered.events, decided.events].concat();
    if events.is_empty() {
        // It is so already.
        return Ok(());
    }
    let (epoch, durable) = (live.epoch, live.outbox.durable());
    let open = live.machine.state().work_left();
    journal
        .append(session, epoch, durable, &events, open)
        .await?;
    Ok(())
}
