//! Attachments of messages and tasks, from files.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use unisono::attachments;
use unisono_api::turn::NewAttachment;
use unisono_context::Part;
use unisono_model::media::LARGEST;

use crate::problem::{Problem, Result};

/// Reads files as attachments. The limits of the settings are checked where they are stored.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<Part>> {
    paths.iter().map(|path| file(path)).collect()
}

pub(crate) fn files_of_task(paths: &[PathBuf]) -> Result<Vec<NewAttachment>> {
    let files = files(paths)?;
    Ok(files.iter().filter_map(attachments::in_task).collect())
}

fn file(path: &Path) -> Result<Part> {
    let shown = path.display();
    let unreadable = |error| Problem::usage(format!("cannot read {shown}: {error}"));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        // One byte over the limit shows that the file is too large.
        file.take(LARGEST as u64 + 1).read_to_end(&mut bytes)
    });
    read.map_err(unreadable)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = attachments::part(&name, None, bytes.into(), LARGEST as u64);
    part.map_err(|wrong| Problem::usage(wrong.to_string()))
}
