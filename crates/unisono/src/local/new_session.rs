//! The limits of the parts of a session that lists read of many sessions at once.

use unisono_api::Code;
use unisono_session::machine::Import;

use crate::error::Error;

/// Maximum bytes of the title and the labels together.
const LISTED_BYTES: usize = 256 * 1024;
/// Maximum bytes of the system text, more than a model's window.
const SYSTEM_BYTES: usize = 4 * 1024 * 1024;

/// Checks the size of the title, the labels and the system text of a new session.
///
/// # Errors
/// One is too large.
pub(super) fn check_sizes(import: &Import) -> Result<(), Error> {
    let labels = import.labels.iter();
    let labels = labels.map(|(name, value)| name.len() + value.len());
    let listed = import.title.len() + labels.sum::<usize>();
    let sizes = [
        ("the title and the labels", listed, LISTED_BYTES),
        ("the system text", import.system.len(), SYSTEM_BYTES),
    ];
    match sizes.into_iter().find(|(_, bytes, most)| bytes > most) {
        None => Ok(()),
        Some((what, bytes, most)) => {
            let detail = format!("{what} of a session can have {most} bytes, but have {bytes}");
            Err(Error::new(Code::Refused, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_little_of_each_session() {
        let titled = |bytes: usize| Import {
            title: "x".repeat(bytes).into(),
            ..Import::default()
        };
        check_sizes(&titled(LISTED_BYTES)).unwrap();
        let labelled = Import {
            labels: [("a".into(), "b".into())].into(),
            ..titled(LISTED_BYTES - 1)
        };
        let system = Import {
            system: "x".repeat(SYSTEM_BYTES + 1).into(),
            ..Import::default()
        };
        for (import, what) in [(labelled, "title"), (system, "system text")] {
            let refused = check_sizes(&import).unwrap_err();
            assert_eq!(refused.code(), Code::Refused);
            assert!(refused.to_string().contains(what), "{refused}");
        }
    }
}
