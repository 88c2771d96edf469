//! Cancels or permits work of a session that is not live: the decision is only journaled, nothing
//! is started.

use unisono_context::SessionId;
use unisono_session::Input;
use unisono_store::Journal;

use crate::attachments::{self, AttachmentLimits};
use crate::clock;
use crate::error::Error;

use super::Phase;
use super::commit::{self, Loaded};

/// Records that a turn ([`Input::Cancel`]) or a run ([`Input::CancelRun`]) is cancelled, a person's
/// decision about a call ([`Input::Decide`]), a change of overrides ([`Input::Set`]), or a message
/// that is appended without a turn ([`Input::Append`]), with all consequences. Everything else that
/// is open stays so and continues when the session is opened. The journal must belong to this
/// process alone: any other writer of the session is fenced.
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
    let (mut live, recovered) = match commit::load(journal, session, &Phase::Loading, None).await? {
        Loaded::Live(live, recovered) => (live, recovered),
        Loaded::ReadOnly(shown) => return Err(shown.why),
        Loaded::Unchanged => return Err(Error::Unavailable("session")),
    };
    let attached = live.machine.state().attached_bytes();
    attachments::store(journal, session, limits, &mut input, attached).await?;
    let decided = live.machine.handle(input, clock::now())?;
    let events = [recovered.events, decided.events].concat();
    if events.is_empty() {
        // It is already so.
        return Ok(());
    }
    let (epoch, durable) = (live.epoch, live.outbox.durable());
    let open = live.machine.state().work_left();
    journal
        .append(session, epoch, durable, &events, open)
        .await?;
    Ok(())
}
