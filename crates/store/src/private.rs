//! Files that only their owner may read: directories 0700, files 0600, independent of the umask.
//!
//! Conversations are in the journal, in the search index, in exports and in the files beside them;
//! all code that writes one of these opens the file with this module. The permissions of files that
//! a library creates are restricted afterwards, inside a directory that is closed to others from
//! the start.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Creates a directory, and its missing parents.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY)
        .create(path)
}

/// Creates a file that does not exist yet.
///
/// # Errors
/// `AlreadyExists`, and as [`File::create`].
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE).open(path)
}

/// Creates a file, or truncates an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE);
    let file = options.open(path)?;
    // The mode applies to a new file only.
    narrow_one(path, &file.metadata()?)?;
    Ok(file)
}

/// Replaces the contents of a file, or creates it: it has the old or the new contents, also after a
/// crash. Only its owner may read it. Its directory must exist: a file of an open store must not make
/// the directory of that store again after somebody has moved or removed it.
///
/// # Errors
/// It cannot be written; then it has the old contents.
pub fn write_atomically(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut writing = create(&new)?;
    writing.write_all(text.as_bytes())?;
    writing.sync_all()?;
    fs::rename(&new, file)?;
    // The rename is on disk once its directory is.
    File::open(directory)?.sync_all()
}

/// Removes the permissions of group and others from a directory and from everything in it, the
/// directory first. The path itself may be a link; links below it are not followed. Returns the
/// number of files and directories that others could reach; 0 in a directory that was closed to
/// them.
///
/// # Errors
/// A directory cannot be read, or a file belongs to another user; all others are restricted first.
pub fn narrow(path: &Path) -> io::Result<u64> {
    narrow_below(&fs::canonicalize(path)?)
}

fn narrow_below(path: &Path) -> io::Result<u64> {
    let meta = fs::symlink_metadata(path)?;
    let mut narrowed = u64::from(narrow_one(path, &meta)?);
    if !meta.is_dir() {
        return Ok(narrowed);
    }
    let mut failed = None;
    for entry in fs::read_dir(path)? {
        match entry.and_then(|entry| narrow_below(&entry.path())) {
            Ok(more) => narrowed += more,
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some(error),
        }
    }
    let reached = meta.mode() & OTHERS != 0;
    failed.map_or(Ok(if reached { narrowed } else { 0 }), Err)
}

/// The first file or directory below a directory to which group or others have permissions. The
/// path itself may be a link; links below it are not followed.
pub fn exposed(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        root => exposed_below(&root?),
    }
}

fn exposed_below(path: &Path) -> io::Result<Option<PathBuf>> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    if !meta.is_symlink() && meta.mode() & OTHERS != 0 {
        return Ok(Some(path.to_owned()));
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            if let Some(found) = exposed_below(&entry?.path())? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Restricts one file; returns whether others had permissions.
fn narrow_one(path: &Path, meta: &fs::Metadata) -> io::Result<bool> {
    if meta.is_symlink() || meta.mode() & OTHERS == 0 {
        return Ok(false);
    }
    let mode = if meta.is_dir() { DIRECTORY } else { FILE };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_or_narrowed_is_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("a");
        let deep = root.join("b");
        create_dir_all(&deep).unwrap();
        assert_eq!((mode(&deep), mode(&root)), (0o700, 0o700));
        let (old, new) = (deep.join("old"), deep.join("new"));
        fs::write(&old, "open to all").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&deep, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(exposed(&root).unwrap(), Some(deep.clone()));
        assert_eq!(narrow(&root).unwrap(), 0, "others could not reach them");
        assert_eq!((mode(&deep), mode(&old)), (0o700, 0o600));
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&deep, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(narrow(&root).unwrap(), 3);
        assert_eq!((mode(&deep), mode(&old)), (0o700, 0o600));
        assert_eq!(exposed(&root).unwrap(), None);
        drop(create_new(&new).unwrap());
        fs::set_permissions(&new, Permissions::from_mode(0o666)).unwrap();
        drop(create(&new).unwrap());
        assert_eq!(mode(&new), 0o600);
        assert!(create_new(&new).is_err());
    }

    #[test]
    fn a_link_out_of_the_directory_is_left_alone() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = other.path().join("mine");
        fs::write(&target, "").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&target, place.path().join("link")).unwrap();
        narrow(place.path()).unwrap();
        assert_eq!(mode(&target), 0o644);
    }

    #[test]
    fn a_root_that_is_a_link_is_resolved() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("target"), place.path().join("link"));
        fs::create_dir(&target).unwrap();
        let file = target.join("db");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let real = fs::canonicalize(&target).unwrap();
        assert_eq!(exposed(&link).unwrap(), Some(real));
        assert_eq!(narrow(&link).unwrap(), 2);
        assert_eq!((mode(&target), mode(&file)), (0o700, 0o600));
        assert_eq!(exposed(&link).unwrap(), None);
        assert_eq!(exposed(&place.path().join("absent")).unwrap(), None);
    }

    #[test]
    fn a_file_is_replaced_and_is_its_owners() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let file = store.join("settings.toml");
        assert!(write_atomically(&file, "too early").is_err());
        assert!(!store.exists());
        fs::create_dir(&store).unwrap();
        for text in ["one", "another, which is longer", ""] {
            write_atomically(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let there = fs::read_dir(&store).unwrap().count();
        assert_eq!(there, 1, "nothing is left beside it");
    }
}
