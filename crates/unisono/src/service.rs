//! The service on a store of this process: one file for each resource.

pub mod agents;
mod approvals;
mod audit;
mod cluster;
mod compactions;
mod contexts;
mod messages;
pub mod requests;
mod runs;
mod search;
pub mod sessions;
pub mod settings;
pub mod store;
mod tokens;
mod tool_servers;
pub mod turns;
pub(crate) mod usage;

use std::str::FromStr;

use unisono_api::Code;
use unisono_context::SessionId;
use unisono_runtime::settle;
use unisono_session::Input;

use crate::Local;
use crate::error::Error;
use crate::view::View;

impl Local {
    /// Carries out an input. Without a runtime it is journaled, and no work is started.
    async fn apply_input(&self, session: &View, input: Input) -> Result<(), Error> {
        match session {
            View::Live(handle) => Ok(handle.request(input).await?),
            // Another program worked on it a moment ago: without that one, its open turns resume here.
            View::Stored { id, .. } if self.runtime().is_ok() => {
                Ok(self.open(*id).await?.request(input).await?)
            }
            View::Stored { id, .. } => self.settle(*id, input).await,
        }
    }

    /// Carries out an input without a runtime: it is journaled, and no work is started.
    async fn settle(&self, session: SessionId, input: Input) -> Result<(), Error> {
        let limits = self.attachment_limits();
        Ok(settle(self.journal(), session, input, limits).await?)
    }
}

pub(crate) fn id<T: FromStr>(what: &str, text: &str) -> Result<T, Error> {
    let wrong = |_| {
        Error::new(
            Code::InvalidRequest,
            format!("{text:?} is not the id of a {what}"),
        )
    };
    text.parse().map_err(wrong)
}

fn cursor<P: FromStr>(cursor: Option<&str>) -> Result<Option<P>, Error> {
    let read = |text: &str| text.parse().map_err(|_| no_cursor(text));
    cursor.map(read).transpose()
}

/// The two parts of a cursor, which a point separates.
fn cursor_pair<A: FromStr, B: FromStr>(cursor: Option<&str>) -> Result<Option<(A, B)>, Error> {
    let parts = |text: &str| {
        let (first, second) = text.split_once('.')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    };
    let read = |text: &str| parts(text).ok_or_else(|| no_cursor(text));
    cursor.map(read).transpose()
}

/// The error for a cursor that does not belong to the list.
pub(crate) fn no_cursor(text: &str) -> Error {
    let detail = format!(
        "{text:?} is not a cursor of this list: send `next` of the previous page unchanged, or no cursor"
    );
    Error::new(Code::InvalidRequest, detail)
}
