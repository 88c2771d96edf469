//! The log: messages on stderr, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use unisono_config::settings::{Log, LogFormat};

/// The variable that has precedence over `log.level`.
pub const VARIABLE: &str = "UNISONO_LOG";

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The level is invalid.
    #[error(
        "{from}: {directives:?} is not a log level: {reason}; write error, warn, info, debug or trace, or module=level, separated by commas"
    )]
    Directives {
        /// Its key or variable.
        from: &'static str,
        /// Its text.
        directives: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The program already has a log.
    #[error("the log was already set up")]
    Twice,
}

/// Sets up the program's log. `variable` is the value of [`VARIABLE`].
///
/// # Errors
/// The level is invalid, or there is already a log.
pub fn init(log: &Log, variable: Option<&str>) -> Result<(), Error> {
    let filter = filter(log, variable)?;
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(!plain && io::stderr().is_terminal());
    let done = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| Error::Twice)
}

fn filter(log: &Log, variable: Option<&str>) -> Result<EnvFilter, Error> {
    let variable = variable.filter(|value| !value.trim().is_empty());
    let (from, directives) = match variable {
        Some(value) => (VARIABLE, value),
        None => ("log.level", log.level.as_str()),
    };
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| Error::Directives {
            from,
            directives: directives.to_owned(),
            reason: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_nonsense_is_named() {
        let log = Log {
            level: "warn".to_owned(),
            format: LogFormat::Text,
        };
        assert_eq!(filter(&log, None).unwrap().to_string(), "warn");
        assert_eq!(filter(&log, Some(" ")).unwrap().to_string(), "warn");
        assert_eq!(filter(&log, Some("debug")).unwrap().to_string(), "debug");
        let error = filter(&log, Some("unisono=loud")).unwrap_err().to_string();
        assert!(
            error.starts_with("UNISONO_LOG: \"unisono=loud\" is not"),
            "{error}"
        );
    }
}
