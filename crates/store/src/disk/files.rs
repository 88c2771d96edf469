//! The directory of a store: what is in it, and changes to it that a power cut does not tear.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::envelope::FORMAT;
use crate::error::{Error, Result};
use crate::private;

const FORMAT_LINE: &str = "unisono store, format ";
/// What stood there before format 1.
const EARLIER_LINE: &str = "unisono store, schema ";

/// sled's directory.
pub(super) fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// Where a repair or a vacuum builds what will replace `data`.
pub(super) fn data_new(root: &Path) -> PathBuf {
    root.join("data.new")
}

fn data_old(root: &Path) -> PathBuf {
    root.join("data.old")
}

fn format(root: &Path) -> PathBuf {
    root.join("FORMAT")
}

/// Makes the directory if it is not there; refuses one that holds something else or a store of another format.
/// Touches nothing that exists.
pub(super) fn check(root: &Path) -> Result<()> {
    if !root.exists() {
        private::create_dir_all(root)
            .map_err(|error| Error::io("create the store's directory", root, error))?;
        if let Some(parent) = root
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            sync_dir(parent)?;
        }
    }
    match fs::read_to_string(format(root)) {
        Ok(text) => check_format(root, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_empty(root),
        Err(error) => Err(Error::io("read", &format(root), error)),
    }
}

/// Whether a store is in this directory. One that was never finished is none, as an empty directory
/// is none. Touches nothing.
///
/// # Errors
/// The directory cannot be read, or holds something else.
pub fn is_store(root: &Path) -> Result<bool> {
    match fs::metadata(format(root)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match root.exists() {
            true => check_empty(root).map(|()| false),
            false => Ok(false),
        },
        Err(error) => Err(Error::io("read", &format(root), error)),
    }
}

/// As [`check`] of one that has to be there already.
pub(super) fn check_there(root: &Path) -> Result<()> {
    match fs::read_to_string(format(root)) {
        Ok(text) => check_format(root, &text),
        Err(error) => Err(Error::io("read", &format(root), error)),
    }
}

fn check_format(root: &Path, text: &str) -> Result<()> {
    let path = root.to_path_buf();
    if text.starts_with(EARLIER_LINE) {
        return Err(Error::EarlierStore { path });
    }
    let number = text.trim_end().strip_prefix(FORMAT_LINE);
    match number.and_then(|number| number.parse::<u16>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(Error::NewerStore {
            path,
            found,
            supported: FORMAT,
        }),
        _ => Err(Error::NotAStore {
            path,
            why: "its file FORMAT does not say so".into(),
        }),
    }
}

/// A store without a FORMAT is one whose making was interrupted: it can hold a lock at most.
fn check_empty(root: &Path) -> Result<()> {
    let entries = fs::read_dir(root).map_err(|error| Error::io("read", root, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| Error::io("read", root, error))?
            .file_name();
        if name != "LOCK" && name != "FORMAT.tmp" {
            let why = format!("it holds {}", name.display());
            return Err(Error::NotAStore {
                path: root.to_path_buf(),
                why,
            });
        }
    }
    Ok(())
}

/// Closes the directory and what is in it to others, marks it as a store, finishes or undoes what an
/// earlier process began. Answers how many of its files and directories others had rights to.
pub(super) fn prepare(root: &Path) -> Result<u64> {
    let narrowed = narrow(root);
    if !format(root).exists() {
        replace(&format(root), format!("{FORMAT_LINE}{FORMAT}\n").as_bytes())?;
    }
    let (data, new, old) = (data(root), data_new(root), data_old(root));
    if !data.exists() && new.exists() {
        // A swap was cut between its two renames; what is new was complete.
        rename(&new, &data)?;
    }
    if data.exists() {
        remove_dir(&new)?;
        remove_dir(&old)?;
    }
    Ok(narrowed)
}

/// Takes what rights others have to a store. Where that fails it is told: the store works all the
/// same, and `doctor` looks again.
pub(super) fn narrow(root: &Path) -> u64 {
    private::narrow(root).unwrap_or_else(|error| {
        tracing::warn!(store = %root.display(), %error, "others may be able to read the store");
        0
    })
}

/// Makes a directory for sled's files.
pub(super) fn make_data(data: &Path) -> Result<()> {
    private::create_dir_all(data).map_err(|error| Error::io("create", data, error))
}

/// Puts `data.new` in the place of `data`, which goes to `old`.
pub(super) fn swap(root: &Path, old: &Path) -> Result<()> {
    if data(root).exists() {
        rename(&data(root), old)?;
    }
    rename(&data_new(root), &data(root))
}

/// Puts `data.new` in the place of `data`, which is removed.
pub(super) fn swap_and_remove(root: &Path) -> Result<()> {
    swap(root, &data_old(root))?;
    remove_dir(&data_old(root))
}

/// Makes the next free directory under `quarantine`.
pub(super) fn quarantine(root: &Path) -> Result<PathBuf> {
    let base = root.join("quarantine");
    for number in 1_u32.. {
        let path = base.join(number.to_string());
        if !path.exists() {
            private::create_dir_all(&path).map_err(|error| Error::io("create", &path, error))?;
            sync_dir(&base)?;
            sync_dir(root)?;
            return Ok(path);
        }
    }
    Err(Error::NotAStore {
        path: base,
        why: "its quarantine is full".into(),
    })
}

/// Puts a file of these bytes in place: whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("tmp");
    let written = private::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| Error::io("write", &new, error))?;
    rename(&new, path)
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| Error::io("rename", from, error))?;
    for parent in [from.parent(), to.parent()].into_iter().flatten() {
        sync_dir(parent)?;
    }
    Ok(())
}

pub(super) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

pub(super) fn sync_dir(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync the directory", path, error))
}

/// Syncs sled's files and their directory, which sled leaves undone when it makes them.
pub(super) fn sync_data(data: &Path) -> Result<()> {
    let io = |error| Error::io("sync", data, error);
    for entry in fs::read_dir(data).map_err(io)? {
        let path = entry.map_err(io)?.path();
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|error| Error::io("sync", &path, error))?;
    }
    sync_dir(data)
}

/// Whether sled put a value into a file of its own, which it never syncs.
pub(super) fn has_blobs(data: &Path) -> bool {
    fs::read_dir(data.join("blobs")).is_ok_and(|mut entries| entries.next().is_some())
}
