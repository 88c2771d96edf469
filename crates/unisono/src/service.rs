//! The service on a store of this process: one file for each resource.

pub mod agents;
mod approvals;
pub mod asked;
mod compactions;
mod contexts;
mod messages;
mod runs;
mod search;
pub mod sessions;
pub mod settings;
pub mod store;
pub mod turns;
mod usage;

use std::str::FromStr;

use unisono_api::Code;
use unisono_context::SessionId;
use unisono_runtime::settle;
use unisono_session::Input;

use crate::Local;
use crate::error::Error;

impl Local {
    /// Carries out an input where nothing works on sessions: it is journaled, and nothing is started
    /// for it.
    async fn settle(&self, session: SessionId, input: Input) -> Result<(), Error> {
        Ok(settle(self.journal(), session, input).await?)
    }
}

/// An id as it is written.
fn id<T: FromStr>(what: &str, text: &str) -> Result<T, Error> {
    let wrong = |_| {
        Error::new(
            Code::InvalidRequest,
            format!("{text:?} is no id of a {what}"),
        )
    };
    text.parse().map_err(wrong)
}

/// The place that a cursor names.
fn cursor<P: FromStr>(cursor: Option<&str>) -> Result<Option<P>, Error> {
    let read = |text: &str| text.parse().map_err(|_| no_cursor(text));
    cursor.map(read).transpose()
}

/// What stands for no place of the list.
fn no_cursor(text: &str) -> Error {
    let detail = format!(
        "{text:?} is no cursor of this list: send `next` of the part before as it is, or none"
    );
    Error::new(Code::InvalidRequest, detail)
}
