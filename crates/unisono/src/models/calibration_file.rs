//! Calibrations of models' tokens, in a file beside the journal: written after the end of a turn if
//! there is something new, at most once a second. It is not the truth: lost data is measured again.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use unisono_model::calibration::Calibrations;
use unisono_runtime::Observer;
use unisono_session::{Event, Fact};
use unisono_store::private;

/// The file in the store's directory.
const FILE: &str = "calibration.json";
/// The minimum time between two automatic writes.
const PAUSE: Duration = Duration::from_secs(1);

/// The calibrations, and their file; none for a store in memory.
#[derive(Debug)]
pub(crate) struct CalibrationFile {
    pub(crate) calibrations: Calibrations,
    path: Option<PathBuf>,
    kept: Mutex<String>,
}

impl CalibrationFile {
    /// Reads the file of a store's directory. An unreadable file is logged and rewritten.
    pub(crate) fn open(store: Option<&Path>) -> CalibrationFile {
        let path = store.map(|store| store.join(FILE));
        let calibrations = Calibrations::default();
        let mut kept = String::new();
        if let Some(path) = &path {
            match fs::read_to_string(path) {
                Ok(text) => match calibrations.import(&text) {
                    Ok(()) => kept = text,
                    Err(error) => warn(path, "cannot be read", &error),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => warn(path, "cannot be read", &error),
            }
        }
        CalibrationFile {
            calibrations,
            path,
            kept: Mutex::new(kept),
        }
    }

    /// Stores new calibrations after the end of each turn, until the channel closes.
    pub(crate) fn observer(self: &Arc<CalibrationFile>) -> Observer {
        let (sender, turns) = mpsc::channel(1);
        tokio::spawn(keep_all(self.clone(), turns, PAUSE));
        let tell = tell(sender);
        Observer::new(move |_, events| tell(events))
    }

    /// Stores new calibrations. Blocks.
    pub(crate) fn keep(&self) {
        let Some(path) = &self.path else {
            return;
        };
        let text = self.calibrations.export();
        let Ok(mut kept) = self.kept.lock() else {
            return;
        };
        if *kept == text || (kept.is_empty() && self.calibrations.all().is_empty()) {
            return;
        }
        match replace(path, &text) {
            Ok(()) => *kept = text,
            Err(error) => warn(path, "cannot be written", &error),
        }
    }
}

/// Reports the end of a turn.
fn tell(ended: mpsc::Sender<()>) -> impl Fn(&[Event]) {
    move |events| {
        let is_end = |event: &Event| matches!(event.fact, Fact::TurnEnded { .. });
        if events.iter().any(is_end) {
            // Full: it will be stored with the earlier reports.
            let _ = ended.try_send(());
        }
    }
}

async fn keep_all(file: Arc<CalibrationFile>, mut turns: mpsc::Receiver<()>, pause: Duration) {
    while turns.recv().await.is_some() {
        let file = file.clone();
        // The error was logged; the end of the next turn tries again.
        let _ = spawn_blocking(move || file.keep()).await;
        sleep(pause).await;
    }
}

fn warn(path: &Path, what: &str, error: &dyn std::fmt::Display) {
    tracing::warn!(file = %path.display(), %error, "calibrations {what}");
}

/// The new file or the old one, even after a power cut.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file = private::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    //! Tests of the calibration file.

    use std::sync::Arc;

    use unisono_context::Tokens;

    use super::*;

    fn observe_and_keep(file: &CalibrationFile) -> Arc<str> {
        let model: Arc<str> = "anthropic/x".into();
        file.calibrations
            .observe(&model, Tokens(1_000), Tokens(1_200));
        file.keep();
        model
    }

    #[test]
    fn calibrations_are_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::open(Some(directory.path()));
        file.keep();
        assert!(!directory.path().join(FILE).exists(), "nothing to keep yet");
        let model = observe_and_keep(&file);
        let again = CalibrationFile::open(Some(directory.path()));
        assert_eq!(
            again.calibrations.get(&model),
            file.calibrations.get(&model)
        );
        assert_eq!(again.calibrations.get(&model).samples(), 1);
    }

    #[test]
    fn a_damaged_file_is_forgotten_and_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{\"version\":").unwrap();
        let file = CalibrationFile::open(Some(directory.path()));
        assert!(file.calibrations.all().is_empty());
        let model = observe_and_keep(&file);
        let again = CalibrationFile::open(Some(directory.path()));
        assert_eq!(again.calibrations.get(&model).samples(), 1);
    }

    fn ended() -> Event {
        Event {
            at: unisono_context::Timestamp(0),
            fact: Fact::TurnEnded {
                turn: unisono_context::TurnId::from_u128(1),
                outcome: unisono_session::event::Outcome::Answered,
            },
        }
    }

    #[tokio::test]
    async fn what_is_new_is_kept_when_a_turn_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        for samples in 1..=2 {
            let file = Arc::new(CalibrationFile::open(Some(directory.path())));
            let (sender, turns) = mpsc::channel(1);
            let keeper = tokio::spawn(keep_all(file.clone(), turns, Duration::ZERO));
            let observe = tell(sender);
            let model: Arc<str> = "anthropic/x".into();
            file.calibrations
                .observe(&model, Tokens(1_000), Tokens(1_200));
            observe(&[ended()]);
            drop(observe);
            keeper.await.unwrap();
            let again = CalibrationFile::open(Some(directory.path()));
            assert_eq!(again.calibrations.get(&model).samples(), samples);
        }
    }
}
