//! What was learnt of models' tokens, in a file beside the journal. It is no truth: what is lost
//! is learnt again.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use unisono_model::calibration::Calibrations;

/// The file in the store's directory.
const FILE: &str = "calibration.json";

/// What was learnt, and where it is kept; nowhere for a store in memory.
#[derive(Debug)]
pub(crate) struct Learnt {
    pub(crate) calibrations: Calibrations,
    path: Option<PathBuf>,
    /// What the file holds.
    kept: Mutex<String>,
}

impl Learnt {
    /// Reads what is kept in a store's directory. A file that cannot be read is told of and
    /// written anew.
    pub(crate) fn open(store: Option<&Path>) -> Learnt {
        let path = store.map(|store| store.join(FILE));
        let calibrations = Calibrations::default();
        let mut kept = String::new();
        if let Some(path) = &path {
            match fs::read_to_string(path) {
                Ok(text) => match calibrations.import(&text) {
                    Ok(()) => kept = text,
                    Err(error) => tell(path, "is not read", &error),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => tell(path, "is not read", &error),
            }
        }
        Learnt {
            calibrations,
            path,
            kept: Mutex::new(kept),
        }
    }

    /// Keeps what is new. Blocks.
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
            Err(error) => tell(path, "cannot be written", &error),
        }
    }
}

fn tell(path: &Path, what: &str, error: &dyn std::fmt::Display) {
    tracing::warn!(file = %path.display(), %error, "what was learnt of models' tokens {what}");
}

/// The whole file or the one before, whenever the power is cut.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    //! Tests of the file of what was learnt.

    use std::sync::Arc;

    use unisono_context::Tokens;

    use super::*;

    #[test]
    fn what_was_learnt_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let learnt = Learnt::open(Some(directory.path()));
        learnt.keep();
        assert!(!directory.path().join(FILE).exists(), "nothing to keep yet");
        let model: Arc<str> = "anthropic/x".into();
        learnt
            .calibrations
            .observe(&model, Tokens(1_000), Tokens(1_200));
        learnt.keep();
        let again = Learnt::open(Some(directory.path()));
        assert_eq!(
            again.calibrations.of(&model),
            learnt.calibrations.of(&model)
        );
        assert_eq!(again.calibrations.of(&model).samples(), 1);
    }

    #[test]
    fn a_damaged_file_is_forgotten_and_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{\"version\":").unwrap();
        let learnt = Learnt::open(Some(directory.path()));
        assert!(learnt.calibrations.all().is_empty());
        let model: Arc<str> = "anthropic/x".into();
        learnt
            .calibrations
            .observe(&model, Tokens(1_000), Tokens(1_200));
        learnt.keep();
        let again = Learnt::open(Some(directory.path()));
        assert_eq!(again.calibrations.of(&model).samples(), 1);
    }
}
