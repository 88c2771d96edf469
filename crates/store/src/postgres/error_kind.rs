//! Classifies the errors of the database.

use std::error::Error as _;
use std::fmt;

use tokio_postgres::error::SqlState;

use crate::error::Error;

/// Displays an error with its details, which the client's own text lacks.
pub(super) struct DetailedError<'e>(pub(super) &'e tokio_postgres::Error);

impl fmt::Display for DetailedError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.0.as_db_error() {
            return write!(f, "{} ({})", error.message(), error.code().code());
        }
        write!(f, "{}", self.0)?;
        match self.0.source() {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

/// Whether an operation can be retried after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// The connection broke before the answer; the result of a write is unknown.
    Connection,
    /// Nothing was done, and a retry may succeed.
    Again,
    /// The server does not know a prepared statement of this connection: nothing was done, and a retry
    /// on another connection may succeed.
    LostStatement,
    Refused,
}

impl From<&tokio_postgres::Error> for ErrorKind {
    fn from(error: &tokio_postgres::Error) -> ErrorKind {
        match error.as_db_error() {
            Some(error) => ErrorKind::from_answer(error.code().code(), error.message()),
            None => ErrorKind::Connection,
        }
    }
}

impl ErrorKind {
    fn from_answer(code: &str, message: &str) -> ErrorKind {
        match code {
            // A pooler reports this with the code that it uses for a lost server, too.
            "08P01" if message.starts_with("unsupported startup parameter") => ErrorKind::Refused,
            // A pooler gives each transaction another connection of the server, where the statement is
            // unknown, or where another client has prepared another one under its name.
            "26000" | "42P05" => ErrorKind::LostStatement,
            "08P01" if message.starts_with("bind message supplies") => ErrorKind::LostStatement,
            // A statement that was cancelled, such as by `statement_timeout` or `lock_timeout`, is
            // undone. A statement whose commit has begun cannot be cancelled. The last one is a lack of
            // memory.
            "40001" | "40P01" | "57014" | "55P03" | "53200" => ErrorKind::Again,
            // The server is stopping or starting, or has no free connection.
            "57P01" | "57P02" | "57P03" | "53300" => ErrorKind::Connection,
            // It ended this connection: `idle_session_timeout`, `idle_in_transaction_session_timeout`,
            // `transaction_timeout`.
            "57P05" | "25P03" | "25P04" => ErrorKind::Connection,
            code if code.starts_with("08") => ErrorKind::Connection,
            _ => ErrorKind::Refused,
        }
    }
}

/// Converts an error of this operation.
pub(super) fn failed(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |error| match ErrorKind::from(&error) {
        ErrorKind::Refused => refused(doing, &error),
        ErrorKind::Connection | ErrorKind::Again => Error::Unreachable {
            reason: DetailedError(&error).to_string(),
        },
        ErrorKind::LostStatement => Error::Unreachable {
            reason: lost_statement(&error),
        },
    }
}

/// Describes the loss of a prepared statement, and what to do.
pub(super) fn lost_statement(error: &tokio_postgres::Error) -> String {
    let reason = DetailedError(error);
    format!("{LOSES_STATEMENTS} ({reason}): {KEEP_STATEMENTS}")
}

pub(super) const LOSES_STATEMENTS: &str = "prepared statements are lost between transactions";
pub(super) const KEEP_STATEMENTS: &str = "\
a pooler in front of it pools transactions; let it pool sessions (`pool_mode = session`) or keep prepared \
statements (PgBouncer from 1.21 on, with `max_prepared_statements`), or connect to the server itself";

/// Converts an error that is permanent.
pub(super) fn refused(doing: &'static str, error: &tokio_postgres::Error) -> Error {
    let reason = DetailedError(error).to_string();
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => Error::DatabaseFull { reason },
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Error::Unwritable {
            reason: format!("the database only reads: {reason}"),
        },
        _ => Error::Database {
            reason: format!("it refused to {doing}: {reason}"),
        },
    }
}

/// Converts a permanent error of a write. If the role lacks a right, the tables are missing, or the server
/// lacks a resource or its operating system fails, writes are accepted again after that is mended.
pub(super) fn refused_write(doing: &'static str, error: &tokio_postgres::Error) -> Error {
    match error.code() {
        Some(code) if is_mendable(code) => Error::Unwritable {
            reason: format!("the database refused to {doing}: {}", DetailedError(error)),
        },
        _ => refused(doing, error),
    }
}

fn is_mendable(code: &SqlState) -> bool {
    let known = [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_TABLE,
        // Such as too many open files.
        SqlState::INSUFFICIENT_RESOURCES,
    ];
    // Errors of the operating system have codes of a class of their own.
    known.contains(code) || code.code().starts_with("58")
}

/// Converts an error of a write.
pub(super) fn failed_write(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |error| match ErrorKind::from(&error) {
        ErrorKind::Refused => refused_write(doing, &error),
        _ => failed(doing)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whether_to_try_again() {
        let rows = [
            ("40P01", ErrorKind::Again),
            ("57014", ErrorKind::Again),
            ("55P03", ErrorKind::Again),
            ("53200", ErrorKind::Again),
            ("57P05", ErrorKind::Connection),
            ("25P03", ErrorKind::Connection),
            ("25P04", ErrorKind::Connection),
            ("57P01", ErrorKind::Connection),
            ("08006", ErrorKind::Connection),
            ("08P01", ErrorKind::Connection),
            ("53100", ErrorKind::Refused),
            ("42501", ErrorKind::Refused),
            ("26000", ErrorKind::LostStatement),
            ("42P05", ErrorKind::LostStatement),
        ];
        for (code, trouble) in rows {
            assert_eq!(ErrorKind::from_answer(code, "x"), trouble, "{code}");
        }
        let refused = ErrorKind::from_answer("08P01", "unsupported startup parameter: options");
        assert_eq!(refused, ErrorKind::Refused);
        let of_another =
            "bind message supplies 0 parameters, but prepared statement \"s1\" requires 12";
        let lost = ErrorKind::from_answer("08P01", of_another);
        assert_eq!(lost, ErrorKind::LostStatement);
    }
}
