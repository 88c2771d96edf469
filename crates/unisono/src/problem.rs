//! Errors as programs and people are told of them.

use unisono_api::service;
use unisono_api::{Code, Problem};
use unisono_runtime::Error as RuntimeError;
use unisono_session::Refusal;

use crate::context::estimate;
use crate::local::Error;
use crate::past;

impl Error {
    /// What kind of problem it is for programs.
    pub fn code(&self) -> Code {
        match self {
            Error::Runtime(error) => runtime_code(error),
            Error::Store(error) => store_code(error),
            Error::Settings(error) => error.code(),
            Error::Past(error) => past_code(error),
            Error::Estimate(error) => estimate_code(error),
            Error::Search(error) => search_code(error),
            Error::Problem(problem) => problem.code,
            // Of a setup that is read for a request, what the request sets is wrong.
            Error::Agents(_)
            | Error::Model(_)
            | Error::Price(_)
            | Error::Summariser(_)
            | Error::Setup(_) => Code::Refused,
            Error::Lent(_) => Code::InvalidRequest,
            Error::Tools(_) => Code::Unavailable,
            Error::Directory(_) | Error::Context(_) | Error::OnlyReads => Code::Failed,
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

impl From<Error> for service::Error {
    fn from(error: Error) -> service::Error {
        Problem::from(error).into()
    }
}

pub(crate) fn runtime_code(error: &RuntimeError) -> Code {
    match error {
        RuntimeError::UnknownSession(_) => Code::NotFound,
        RuntimeError::Busy(_) | RuntimeError::Overloaded { .. } => Code::Busy,
        RuntimeError::Unavailable(_) => Code::Unavailable,
        RuntimeError::Store(error) => store_code(error),
        RuntimeError::Broken { .. } | RuntimeError::Unpurged(_) => Code::Failed,
        RuntimeError::Refused(refusal) => match refusal {
            Refusal::AlreadyCreated
            | Refusal::BranchBusy(_)
            | Refusal::BranchMoved(_)
            | Refusal::NothingToSeal { .. }
            | Refusal::Decided(_)
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
    }
}

fn store_code(error: &unisono_store::Error) -> Code {
    match error {
        unisono_store::Error::ReadOnly { .. } | unisono_store::Error::Unwritable { .. } => {
            Code::Unavailable
        }
        error if error.is_disk_full() => Code::DiskFull,
        _ => Code::Failed,
    }
}

fn past_code(error: &past::Error) -> Code {
    match error {
        past::Error::Store(error) => store_code(error),
        past::Error::Session(error) => runtime_code(error),
        past::Error::Unfit { .. } => Code::Failed,
    }
}

fn estimate_code(error: &estimate::Error) -> Code {
    use estimate::Error;
    match error {
        Error::Branch(_) => Code::NotFound,
        Error::Agents(_) | Error::Plan(_) | Error::Summariser(_) => Code::Refused,
        Error::Count(_) => Code::Failed,
    }
}

fn search_code(error: &unisono_search::Error) -> Code {
    use unisono_search::Error;
    match error {
        Error::Store(error) => store_code(error),
        Error::Behind | Error::Closed => Code::Unavailable,
        Error::Query(_) => Code::Refused,
        _ => Code::Failed,
    }
}
