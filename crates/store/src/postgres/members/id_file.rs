//! The file with the id of a member, in the directory of its store.

use std::io::Write as _;
use std::path::Path;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::private;

pub(super) const FILE: &str = "member";

/// Returns the id of a program in this directory; creates one if there is none.
pub(super) fn known_id(directory: &Path) -> Result<Uuid> {
    let text = std::fs::read_to_string(directory.join(FILE)).ok();
    let known = text.and_then(|text| Uuid::parse_str(text.trim()).ok());
    if let Some(known) = known {
        return Ok(known);
    }
    let new = Uuid::now_v7();
    write_id(directory, new)?;
    Ok(new)
}

pub(super) fn write_id(directory: &Path, id: Uuid) -> Result<()> {
    let path = directory.join(FILE);
    let mut text = id.to_string();
    text.push('\n');
    let file = private::create(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| Error::io("write", &path, source))
}
