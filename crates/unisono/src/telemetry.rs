//! The log: messages on stderr, as text or JSON.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use unisono_api::harmless::{for_json, is_harmful};

use unisono_config::log::check_directives;
use unisono_config::settings::{Log, LogFormat};

/// The variable that has precedence over `log.level`.
pub const VARIABLE: &str = "UNISONO_LOG";
/// Lines that wait while nobody reads the log; further ones are left out.
const WAITING: usize = 1_024;
/// The time for which a line may hold up the thread that logs it.
const PATIENCE: Duration = Duration::from_secs(1);
/// What the log writes to, once there is one.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// The thread that writes the log cannot be started.
    #[error("the thread of the log cannot be started: {reason}")]
    Thread {
        /// Why.
        reason: String,
    },
}

/// Sets up the program's log, with or without colours. `variable` is the value of [`VARIABLE`].
///
/// # Errors
/// The level is invalid, there is already a log, or its thread cannot be started.
pub fn init(log: &Log, variable: Option<&str>, colours: bool) -> Result<(), Error> {
    let filter = filter(log, variable)?;
    let format = log.format;
    let lines = Lines::start(io::stderr(), PATIENCE).map_err(|error| Error::Thread {
        reason: error.to_string(),
    })?;
    let to = lines.clone();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || LogWriter {
            to: to.clone(),
            format,
        })
        .with_ansi(colours);
    let done = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| Error::Twice)?;
    // Nothing else sets it.
    let _ = LINES.set(lines);
    Ok(())
}

/// Writes a line to standard error as the log does: a pipe that nobody reads does not stop the program.
pub fn write_line(line: &str) {
    let line = format!("{line}\n");
    // A failure cannot be reported anywhere.
    let _ = match LINES.get() {
        Some(lines) => lines.clone().write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

/// Writes lines on a separate thread, so that a pipe that nobody reads does not stop the program. `write`
/// returns when the line is written, or after `patience`.
#[derive(Clone)]
struct Lines {
    /// Each line, and where to report that it is written.
    queue: SyncSender<(Vec<u8>, SyncSender<()>)>,
    /// Whether a line took too long, and none was written since.
    is_stuck: Arc<AtomicBool>,
    patience: Duration,
}

impl Lines {
    fn start(mut to: impl Write + Send + 'static, patience: Duration) -> io::Result<Lines> {
        let (queue, waiting) = mpsc::sync_channel::<(Vec<u8>, SyncSender<()>)>(WAITING);
        let is_stuck = Arc::new(AtomicBool::new(false));
        let lines = Lines {
            queue,
            is_stuck: is_stuck.clone(),
            patience,
        };
        let thread = thread::Builder::new().name("log".into());
        thread.spawn(move || {
            for (line, written) in waiting {
                // A failure cannot be reported anywhere.
                let _ = to.write_all(&line);
                is_stuck.store(false, Ordering::Relaxed);
                // Perhaps nobody waits any more.
                let _ = written.send(());
            }
        })?;
        Ok(lines)
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (written, is_written) = mpsc::sync_channel(1);
        let is_queued = self.queue.try_send((line.to_vec(), written)).is_ok();
        let waits = is_queued && !self.is_stuck.load(Ordering::Relaxed);
        if waits && is_written.recv_timeout(self.patience).is_err() {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines without the characters of texts that control a terminal or change the order of its text.
struct LogWriter<W> {
    to: W,
    format: LogFormat,
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // A failure cannot be reported anywhere. The subscriber would report it on stderr as well, and
        // panic if that fails.
        let _ = self.to.write_all(harmless(&text, self.format).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The escape characters of the log's colours stay; those of texts are escaped already.
fn harmless(line: &str, format: LogFormat) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && c != '\u{1b}';
    match format {
        LogFormat::Json => for_json(line),
        LogFormat::Text if !line.contains(harmful) => line.into(),
        LogFormat::Text => line.chars().filter(|c| !harmful(*c)).collect(),
    }
}

fn filter(log: &Log, variable: Option<&str>) -> Result<EnvFilter, Error> {
    let variable = variable.filter(|value| !value.trim().is_empty());
    let (from, directives) = match variable {
        Some(value) => (VARIABLE, value),
        None => ("log.level", log.level.as_str()),
    };
    let wrong = |reason| Error::Directives {
        from,
        directives: directives.to_owned(),
        reason,
    };
    check_directives(directives).map_err(wrong)?;
    let parsed = EnvFilter::builder().parse(without_rmcp(directives));
    parsed.map_err(|error| wrong(error.to_string()))
}

/// The directives without messages of the library for MCP, unless they name it or ask for everything. It
/// logs mistakes of clients as errors; what goes wrong here is also logged or answered by the program.
fn without_rmcp(directives: &str) -> Cow<'_, str> {
    let asks_for_all = |directive: &str| {
        let level = directive.trim().parse::<LevelFilter>();
        level.is_ok_and(|level| level >= LevelFilter::DEBUG)
    };
    let is_asked_for = directives.contains("rmcp") || directives.split(',').any(asks_for_all);
    match is_asked_for || directives.is_empty() {
        true => directives.into(),
        false => format!("{directives},rmcp=off").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_variable_wins_and_nonsense_is_named() {
        let log = Log {
            level: "warn".to_owned(),
            format: LogFormat::Text,
        };
        let level = |variable| filter(&log, variable).unwrap().max_level_hint();
        assert_eq!(level(None), Some(LevelFilter::WARN));
        assert_eq!(level(Some(" ")), Some(LevelFilter::WARN));
        assert_eq!(level(Some("debug")), Some(LevelFilter::DEBUG));
        for (directives, reason) in [
            (
                "unisono=loud",
                r#"UNISONO_LOG: "unisono=loud" is not a log level: "loud" is no"#,
            ),
            (
                "unisono",
                r#"UNISONO_LOG: "unisono" is not a log level: "unisono" is no"#,
            ),
        ] {
            let error = filter(&log, Some(directives)).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[derive(Clone, Default)]
    struct Collected(Arc<Mutex<Vec<u8>>>);

    impl Write for Collected {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn mistakes_of_mcp_clients_are_logged_on_request() {
        for (level, expected) in [
            ("warn", false),
            ("info,unisono_server=debug", false),
            ("warn,rmcp=warn", true),
            ("debug", true),
        ] {
            let log = Log {
                level: level.to_owned(),
                format: LogFormat::Text,
            };
            let lines = Collected::default();
            let to = lines.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(filter(&log, None).unwrap())
                .with_writer(move || to.clone())
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::error!(target: "rmcp::service", "the client is gone");
                tracing::error!("the disk is gone");
            });
            let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            assert!(logged.contains("the disk is gone"), "{level}: {logged}");
            assert_eq!(
                logged.contains("the client is gone"),
                expected,
                "{level}: {logged}"
            );
        }
    }

    /// A file on a full disk, or a pipe that nobody reads.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_is_no_error() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let mut log = LogWriter { to: Full, format };
            log.write_all(b"{\"message\":\"the disk is full\"}\n")
                .unwrap();
        }
    }

    /// A pipe that takes nothing until the sender of `opened` is gone.
    struct Pipe {
        opened: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Nothing is ever sent.
            let _ = self.opened.recv();
            let taken = String::from_utf8_lossy(line).into_owned();
            self.taken.send(taken).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_stop_the_program() {
        let (open, opened) = mpsc::channel();
        let (taken, lines) = mpsc::channel();
        let mut log = Lines::start(Pipe { opened, taken }, Duration::ZERO).unwrap();
        for number in 0..WAITING * 2 {
            log.write_all(format!("{number}").as_bytes()).unwrap();
        }
        drop(open);
        drop(log);
        let lines: Vec<String> = lines.iter().collect();
        let first = (0..WAITING).map(|number| number.to_string());
        assert!(first.eq(lines.iter().take(WAITING).cloned()), "{lines:?}");
        // The thread takes one line out of the queue at some time.
        assert!(lines.len() <= WAITING + 1, "{}", lines.len());
    }

    #[test]
    fn a_line_is_written_when_its_writer_goes_on() {
        let (open, opened) = mpsc::channel::<()>();
        drop(open);
        let (taken, lines) = mpsc::channel();
        let mut log = Lines::start(Pipe { opened, taken }, Duration::MAX).unwrap();
        for line in ["one", "two"] {
            log.write_all(line.as_bytes()).unwrap();
            assert_eq!(lines.try_recv().unwrap(), line);
        }
    }

    #[test]
    fn a_line_has_nothing_that_reorders_it() {
        let line = "\u{1b}[33m WARN\u{1b}[0m pay \u{202e}gnp.exe \u{9b}2J\n";
        let shown = "\u{1b}[33m WARN\u{1b}[0m pay gnp.exe 2J\n";
        assert_eq!(harmless(line, LogFormat::Text), shown);
        assert_eq!(harmless(shown, LogFormat::Text), shown);
        let json = "{\"message\":\"pay \u{202e}gnp.exe\"}\n";
        let escaped = "{\"message\":\"pay \\u202egnp.exe\"}\n";
        assert_eq!(harmless(json, LogFormat::Json), escaped);
    }
}
