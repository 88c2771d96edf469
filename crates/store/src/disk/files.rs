//! The directory of a store: its content, and changes to it that a power cut cannot leave half
//! done.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::envelope::FORMAT;
use crate::error::{Error, Result};
use crate::private;

const FORMAT_LINE: &str = "unisono store, format ";
/// The content of the file before format 1.
const EARLIER_LINE: &str = "unisono store, schema ";

/// sled's directory.
pub(super) fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// The directory in which a repair or a vacuum builds the replacement of `data`.
pub(super) fn data_new(root: &Path) -> PathBuf {
    root.join("data.new")
}

fn data_old(root: &Path) -> PathBuf {
    root.join("data.old")
}

fn format(root: &Path) -> PathBuf {
    root.join("FORMAT")
}

/// Creates the directory if it is missing; refuses one that has other content or a store of another
/// format. Changes nothing that exists.
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

/// Whether a store is in this directory. An empty directory is not a store, and neither is one
/// whose creation was interrupted. Changes nothing.
///
/// # Errors
/// The directory cannot be read, or has other content.
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

/// As [`check`], of a store that has to exist already.
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

/// Checks a store without a FORMAT file. Its creation was interrupted, so it can contain at most a
/// lock.
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

/// Removes the permissions of others from the directory and its content, marks it as a store, and
/// completes or undoes what an earlier process began. Returns the number of files and directories
/// to which others had permissions.
pub(super) fn prepare(root: &Path) -> Result<u64> {
    let narrowed = narrow(root);
    if !format(root).exists() {
        replace(&format(root), format!("{FORMAT_LINE}{FORMAT}\n").as_bytes())?;
    }
    let (data, new, old) = (data(root), data_new(root), data_old(root));
    if !data.exists() && new.exists() {
        // A swap was interrupted between its two renames; the new log was complete.
        rename(&new, &data)?;
    }
    if data.exists() {
        remove_dir(&new)?;
        remove_dir(&old)?;
    }
    Ok(narrowed)
}

/// Removes the permissions of others from a store. A failure is logged: the store works
/// nevertheless, and `doctor` checks again.
pub(super) fn narrow(root: &Path) -> u64 {
    private::narrow(root).unwrap_or_else(|error| {
        tracing::warn!(store = %root.display(), %error, "others may be able to read the store");
        0
    })
}

/// Creates a directory for sled's files.
pub(super) fn make_data(data: &Path) -> Result<()> {
    private::create_dir_all(data).map_err(|error| Error::io("create", data, error))
}

/// Replaces `data` by `data.new`, and moves the old directory to `old`.
pub(super) fn swap(root: &Path, old: &Path) -> Result<()> {
    if data(root).exists() {
        rename(&data(root), old)?;
    }
    rename(&data_new(root), &data(root))
}

/// Replaces `data` by `data.new`, and removes the old directory.
pub(super) fn swap_and_remove(root: &Path) -> Result<()> {
    swap(root, &data_old(root))?;
    remove_dir(&data_old(root))
}

/// Creates the next free directory under `quarantine`.
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

/// Syncs sled's files and their directory, which sled does not do when it creates them.
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

/// Whether sled has stored a value in a separate file, which it never syncs.
pub(super) fn has_blobs(data: &Path) -> bool {
    fs::read_dir(data.join("blobs")).is_ok_and(|mut entries| entries.next().is_some())
}
