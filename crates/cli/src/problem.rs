//! Errors for people: the problem, its place, and the fix.

use std::borrow::Cow;
use std::fmt::Display;

use unisono::ChangeError;
use unisono_api::Code;
use unisono_client::Error as ClientError;
use unisono_config::diagnostic::{Diagnostic, Diagnostics};
use unisono_store::Error as StoreError;

/// The hint for a daemon that does not answer.
const STILL_RUNNING: &str = "check whether it is still running; its data on disk is undamaged";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The daemon cannot be reached.
    Unreachable = 3,
    /// The turn has an answer, but some agents failed.
    SomeFailed = 4,
    /// A budget was exhausted: the answer is partial or missing.
    OverBudget = 5,
    /// It took longer than allowed.
    TimedOut = 124,
    /// A person stopped it.
    Interrupted = 130,
}

/// The reason why the program ends unsuccessfully.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    /// For programs: a code of a turn that failed, or the code that the HTTP API has for it.
    pub(crate) code: Cow<'static, str>,
    /// The problem and its place, in one or several lines. Empty if it was already reported.
    pub(crate) message: String,
    /// The fix.
    pub(crate) hint: Option<String>,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    pub(crate) fn failed(message: impl Display) -> Problem {
        Problem::with_exit(Exit::Failed, message)
    }

    /// The command line is invalid.
    pub(crate) fn usage(message: impl Display) -> Problem {
        Problem::with_exit(Exit::Usage, message)
    }

    /// Exits with a code; everything was already reported.
    pub(crate) fn silent(exit: Exit) -> Problem {
        Problem::with_exit(exit, "")
    }

    pub(crate) fn with_exit(exit: Exit, message: impl Display) -> Problem {
        let code = match exit {
            Exit::Usage => Code::InvalidRequest,
            Exit::Unreachable => Code::Unavailable,
            _ => Code::Failed,
        };
        Problem {
            exit,
            code: code.name().into(),
            message: message.to_string(),
            hint: None,
        }
    }

    pub(crate) fn not_found(message: impl Display) -> Problem {
        Problem::usage(message).code(Code::NotFound)
    }

    /// Sets the error code for programs.
    pub(crate) fn code(self, code: Code) -> Problem {
        Problem {
            code: code.name().into(),
            ..self
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Splits the hint off a message that ends in `; do this`.
    pub(crate) fn with_hint_of(exit: Exit, message: &str) -> Problem {
        let problem = Problem::with_exit(exit, message);
        match message.split_once("; ") {
            Some((what, hint)) if !what.contains('\n') && !hint.contains('\n') => Problem {
                message: what.to_owned(),
                ..problem.hint(hint)
            },
            _ => problem,
        }
    }
}

/// A verb that needs the store for itself while a daemon has it.
pub(crate) fn alone(what: &str, url: &str) -> Problem {
    let problem = format!("{what} a closed store, but the daemon at {url} has it open");
    Problem::failed(problem)
        .hint("stop the daemon, then call again; or name another store (--store DIR)")
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Problem {
        let what = error.to_string();
        match error {
            ClientError::Unreachable { .. } => {
                Problem::with_exit(Exit::Unreachable, what).hint(STILL_RUNNING)
            }
            ClientError::Problem(problem) => {
                let exit = match problem.status {
                    400..500 => Exit::Usage,
                    _ => Exit::Failed,
                };
                Problem::with_hint_of(exit, &what).code(problem.code)
            }
            _ => Problem::failed(what),
        }
    }
}

impl From<Diagnostics> for Problem {
    fn from(found: Diagnostics) -> Problem {
        use unisono_config::diagnostic::Severity;
        // The first line has the prefix `error:`.
        let line = |one: &Diagnostic| match one.severity {
            Severity::Error => format!("{}: {}", one.place, one.problem),
            Severity::Warning => format!("{}: warning: {}", one.place, one.problem),
        };
        let mut errors = found.iter().filter(|one| one.severity == Severity::Error);
        if let (Some(only), None) = (errors.next(), errors.next()) {
            let problem = Problem::usage(line(only));
            return match &only.help {
                Some(help) => problem.hint(help),
                None => problem,
            };
        }
        let line = |one: &Diagnostic| match &one.help {
            Some(help) => format!("  {}; {help}", line(one)),
            None => format!("  {}", line(one)),
        };
        // Turns and `config check` report problems of models.
        let lines = found.iter().filter(|one| !one.of_model).map(line);
        let lines: Vec<String> = lines.collect();
        let wrong = "settings or agents are wrong, so nothing was started";
        Problem::usage(format!("{wrong}\n{}", lines.join("\n")))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let what = error.to_string();
        match error {
            StoreError::Held { .. } => match what.split_once(": stop it") {
                Some((what, _)) => Problem::failed(what)
                    .hint("wait until it is done or stop it, or use another store (--store DIR)"),
                None => Problem::failed(what),
            },
            StoreError::DatabaseUrl { .. } => Problem::with_hint_of(Exit::Usage, &what),
            _ => {
                let problem = Problem::with_hint_of(Exit::Failed, &what);
                problem.code(unisono::Error::Store(error).code())
            }
        }
    }
}

impl From<unisono_search::Error> for Problem {
    fn from(error: unisono_search::Error) -> Problem {
        match error {
            unisono_search::Error::Store(error) => error.into(),
            error => {
                let problem = Problem::with_hint_of(Exit::Failed, &error.to_string());
                problem.code(unisono::Error::Search(error).code())
            }
        }
    }
}

impl From<unisono_runtime::Error> for Problem {
    fn from(error: unisono_runtime::Error) -> Problem {
        use unisono_runtime::Error;
        let exit = match &error {
            Error::UnknownSession(_) | Error::Refused(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        let problem = Problem::with_hint_of(exit, &error.to_string());
        problem.code(unisono::Error::from(error).code())
    }
}

impl From<unisono_config::agents::Error> for Problem {
    fn from(error: unisono_config::agents::Error) -> Problem {
        let problem = Problem::with_hint_of(Exit::Usage, &error.to_string()).code(Code::Refused);
        match &problem.hint {
            Some(_) => problem,
            None => problem.hint("`unisono agents list` shows the agents"),
        }
    }
}

impl From<unisono::models::ModelUnavailable> for Problem {
    fn from(error: unisono::models::ModelUnavailable) -> Problem {
        use unisono::models::ModelUnavailable;
        let problem = Problem::usage(&error).code(Code::Refused);
        match error {
            ModelUnavailable::Lacks { .. } => problem
                .hint("`unisono models` shows the usable models; --model extractive needs no key"),
            ModelUnavailable::Ignored { .. } => problem
                .hint("leave --model out, or name agents of kind `llm`: `unisono agents list`"),
            _ => problem,
        }
    }
}

impl From<unisono::models::Unpriced> for Problem {
    fn from(error: unisono::models::Unpriced) -> Problem {
        Problem::with_hint_of(Exit::Usage, &error.to_string()).code(Code::Refused)
    }
}

impl From<unisono::Error> for Problem {
    fn from(error: unisono::Error) -> Problem {
        match error {
            unisono::Error::Setup(found) => found.into(),
            unisono::Error::Settings(ChangeError::Session(error)) => error.into(),
            unisono::Error::Store(error) => error.into(),
            unisono::Error::Search(error) => error.into(),
            unisono::Error::Runtime(error) => error.into(),
            unisono::Error::Agents(error) => error.into(),
            unisono::Error::Model(error) => error.into(),
            error @ (unisono::Error::Settings(_)
            | unisono::Error::Summariser(_)
            | unisono::Error::ClientOptions(_)) => {
                let problem = Problem::usage(&error);
                problem.code(error.code())
            }
            error @ unisono::Error::Tools(_) => {
                let problem = Problem::with_hint_of(Exit::Failed, &error.to_string());
                problem.code(Code::Unavailable)
            }
            unisono::Error::Price(error) => error.into(),
            unisono::Error::Problem(problem) => ClientError::Problem(problem).into(),
            error => {
                let code = error.code();
                Problem::failed(error).code(code)
            }
        }
    }
}
