//! Errors for programs and people.

use std::io;
use std::path::PathBuf;

use unisono_api::service;
use unisono_api::{Code, Problem};
use unisono_config::agents;
use unisono_config::diagnostic::Diagnostics;
use unisono_config::settings::{OverrideError, UnchangeableKey};
use unisono_config::summarisers::SummariserUnavailable;
use unisono_context::SessionId;
use unisono_runtime::Error as RuntimeError;
use unisono_runtime::attachments;
use unisono_runtime::mcp::ServerFault;
use unisono_session::Refusal;
use unisono_store::is_full;

use crate::ask;
use crate::context::{self, estimate};
use crate::history;
use crate::models;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Configuration or agents are wrong.
    #[error(transparent)]
    Setup(#[from] Diagnostics),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] unisono_store::Error),
    /// The search index cannot be used.
    #[error(transparent)]
    Search(#[from] unisono_search::Error),
    /// The runtime refused, or failed.
    #[error(transparent)]
    Runtime(#[from] unisono_runtime::Error),
    /// The settings of an imported conversation are invalid for a session.
    #[error("the settings: {0}")]
    Settings(#[from] ChangeError),
    /// A requested agent does not fit.
    #[error(transparent)]
    Agents(#[from] agents::Error),
    /// An agent's model is unavailable.
    #[error(transparent)]
    Model(#[from] models::ModelUnavailable),
    /// The requested summariser is unavailable.
    #[error(transparent)]
    Summariser(#[from] SummariserUnavailable),
    /// The tool server of an agent cannot be used.
    #[error(
        "{0}: agents cannot use its tools; check its settings ([mcp.*]) with `unisono config show`, or \
          start its program by hand to see its errors"
    )]
    Tools(#[from] ServerFault),
    /// The cost is capped, and the price of an agent's model is unknown.
    #[error(transparent)]
    Price(#[from] models::Unpriced),
    /// Client tools cannot be used.
    #[error(transparent)]
    ClientOptions(#[from] ask::ClientToolsRefused),
    /// A journal cannot be read back.
    #[error(transparent)]
    History(#[from] history::Error),
    /// The context of a branch cannot be computed.
    #[error(transparent)]
    Context(#[from] context::Error),
    /// The estimate of a compaction cannot be computed.
    #[error(transparent)]
    Estimate(#[from] estimate::Error),
    /// The request was refused or failed.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// This process only reads sessions.
    #[error("this process has opened the store read-only and cannot change it")]
    OnlyReads,
    /// The program did not choose where its sessions are.
    #[error(
        "no store was chosen: call `Builder::store` with its directory, `Builder::in_memory`, or \
         `Builder::configured_store` for the store of the settings, which the command line uses as well"
    )]
    NoStoreChosen,
    /// The path of the store is not UTF-8.
    #[error("the store cannot be in {0:?}: the path is not UTF-8; choose another directory")]
    StorePath(PathBuf),
    /// The working directory is unknown.
    #[error("the working directory cannot be found: {0}")]
    Directory(std::io::Error),
}

impl Error {
    /// An error of that kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Error {
        Problem::new(code, detail).into()
    }

    /// The error for a missing resource.
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Error {
        Error::new(Code::NotFound, format!("there is no {what} {id}"))
    }
}

/// `None` for [`Code::NotFound`]: an item of a list may be deleted before it is read.
pub(crate) fn existing<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Problem(Box::new(problem))
    }
}

/// The remedy for a full disk.
const FREE: &str = "; free some space and try again";

/// Why settings did not change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// They cannot be changed while the daemon runs.
    #[error(transparent)]
    Key(#[from] UnchangeableKey),
    /// A session cannot override them.
    #[error(transparent)]
    Own(#[from] OverrideError),
    /// They cause errors. Warnings that the settings have without the change do not belong there.
    #[error("{}", .0.errors())]
    Wrong(Diagnostics),
    /// The session cannot be opened, or its journal cannot be written.
    #[error(transparent)]
    Session(#[from] unisono_runtime::Error),
    /// They cannot be stored.
    #[error("the settings cannot be stored: {0}{hint}", hint = if is_full(.0) { FREE } else { "" })]
    Store(#[from] io::Error),
}

impl ChangeError {
    /// The error code for programs.
    pub fn code(&self) -> Code {
        match self {
            ChangeError::Session(error) => runtime_code(error),
            ChangeError::Key(_) | ChangeError::Own(_) | ChangeError::Wrong(_) => Code::Refused,
            ChangeError::Store(error) if is_full(error) => Code::DiskFull,
            ChangeError::Store(_) => Code::Unavailable,
        }
    }
}

impl Error {
    /// The session, if another program has to work on it.
    #[must_use]
    pub fn session_of_another(&self) -> Option<SessionId> {
        let error = match self {
            Error::Runtime(RuntimeError::Store(error)) => &**error,
            Error::Store(error) => error,
            _ => return None,
        };
        match error {
            unisono_store::Error::Owned { session, .. }
            | unisono_store::Error::Waiting { session }
            | unisono_store::Error::Draining { session } => Some((*session).into()),
            _ => None,
        }
    }

    /// The error code for programs.
    pub fn code(&self) -> Code {
        match self {
            Error::Runtime(error) => runtime_code(error),
            Error::Store(error) => store_code(error),
            Error::Settings(error) => error.code(),
            Error::History(error) => history_code(error),
            Error::Estimate(error) => estimate_code(error),
            Error::Search(error) => search_code(error),
            Error::Problem(problem) => problem.code,
            // An error in the setup of a request comes from the settings of the request.
            Error::Agents(_)
            | Error::Model(_)
            | Error::Price(_)
            | Error::Summariser(_)
            | Error::Setup(_) => Code::Refused,
            Error::ClientOptions(_) => Code::InvalidRequest,
            Error::Tools(_) => Code::Unavailable,
            Error::Directory(_)
            | Error::Context(_)
            | Error::OnlyReads
            | Error::NoStoreChosen
            | Error::StorePath(_) => Code::Failed,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let code = error.code();
        let retry_after = match &error {
            Error::Runtime(RuntimeError::Overloaded { retry_after_ms, .. }) => {
                Some(retry_after_ms.div_ceil(1_000).max(1))
            }
            _ => None,
        };
        match error {
            Error::Problem(problem) => *problem,
            error => Problem {
                retry_after,
                ..Problem::new(code, error.to_string())
            },
        }
    }
}

impl From<service::Error> for Error {
    fn from(error: service::Error) -> Error {
        Error::new(error.code(), error.to_string())
    }
}

impl From<Error> for service::Error {
    fn from(error: Error) -> service::Error {
        Problem::from(error).into()
    }
}

pub(crate) fn runtime_code(error: &RuntimeError) -> Code {
    match error {
        RuntimeError::UnknownSession(_) => Code::NotFound,
        RuntimeError::Busy(_) | RuntimeError::Overloaded { .. } | RuntimeError::ServersFull(_) => {
            Code::Busy
        }
        RuntimeError::Unavailable(_) => Code::Unavailable,
        RuntimeError::Attachments(error) => match error {
            attachments::Error::TooMuch { .. } => Code::TooLarge,
            attachments::Error::Missing(_) => Code::NotFound,
            attachments::Error::Store(error) => store_code(error),
        },
        RuntimeError::Store(error) => store_code(error),
        RuntimeError::Unpurged(error) => search_code(error),
        RuntimeError::Refused(refusal) => match refusal {
            Refusal::AlreadyCreated
            | Refusal::BranchBusy(_)
            | Refusal::BranchMoved(_)
            | Refusal::NothingToSeal { .. }
            | Refusal::AlreadyDecided(_)
            | Refusal::WrongDecision { .. } => Code::Conflict,
            Refusal::NotCreated
            | Refusal::UnknownBranch(_)
            | Refusal::UnknownTurn(_)
            | Refusal::UnknownCall(_)
            | Refusal::UnknownRun(_) => Code::NotFound,
            Refusal::Fold(_) => Code::Failed,
            Refusal::KeyReused(_) => Code::KeyReused,
            _ => Code::Refused,
        },
        _ => Code::Failed,
    }
}

fn store_code(error: &unisono_store::Error) -> Code {
    match error {
        unisono_store::Error::ReadOnly { .. }
        | unisono_store::Error::Unwritable { .. }
        | unisono_store::Error::Unreachable { .. }
        | unisono_store::Error::TimedOut { .. }
        // Another program works on the session: asked again, the request comes to that one.
        | unisono_store::Error::Owned { .. }
        | unisono_store::Error::Waiting { .. }
        | unisono_store::Error::Draining { .. }
        | unisono_store::Error::Fenced { .. } => Code::Unavailable,
        unisono_store::Error::ReservedId { .. } => Code::Refused,
        unisono_store::Error::TooLarge { .. } => Code::TooLarge,
        error if error.is_disk_full() => Code::DiskFull,
        _ => Code::Failed,
    }
}

fn history_code(error: &history::Error) -> Code {
    match error {
        history::Error::Store(error) => store_code(error),
        history::Error::Session(error) => runtime_code(error),
        history::Error::Unfit { .. } => Code::Failed,
    }
}

fn estimate_code(error: &estimate::Error) -> Code {
    use estimate::Error;
    match error {
        Error::Branch(_) => Code::NotFound,
        Error::Message { .. } | Error::Agents(_) | Error::Plan(_) | Error::Summariser(_) => {
            Code::Refused
        }
        Error::Count(_) => Code::Failed,
    }
}

fn search_code(error: &unisono_search::Error) -> Code {
    use unisono_search::Error;
    match error {
        Error::Store(error) => store_code(error),
        Error::Behind | Error::Closed => Code::Unavailable,
        Error::Query(_) | Error::NotBuilt => Code::Refused,
        error if error.is_disk_full() => Code::DiskFull,
        _ => Code::Failed,
    }
}
