//! The files of an index on disk, which only their owner can access.
//!
//! tantivy creates files by the umask. Each file is restricted at once, not after the next commit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, WatchCallback, WatchHandle, WritePtr,
};
use unisono_store::private;

/// A directory of memory-mapped files. Every new file has the permissions of its owner only.
#[derive(Clone, Debug)]
pub(crate) struct PrivateDirectory {
    files: MmapDirectory,
    root: PathBuf,
}

impl PrivateDirectory {
    /// Opens a directory that exists.
    ///
    /// # Errors
    /// It is not a directory, or it cannot be read.
    pub(crate) fn open(root: &Path) -> tantivy::Result<PrivateDirectory> {
        Ok(PrivateDirectory {
            files: MmapDirectory::open(root)?,
            root: root.to_owned(),
        })
    }

    fn narrow(&self, path: &Path) -> io::Result<()> {
        private::narrow(&self.root.join(path)).map(drop)
    }
}

impl Directory for PrivateDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self.files.open_write(path)?;
        match self.narrow(path) {
            Ok(()) => Ok(file),
            Err(error) => Err(OpenWriteError::wrap_io_error(error, path.to_owned())),
        }
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.files.atomic_write(path, data)?;
        self.narrow(path)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let held = self.files.acquire_lock(lock)?;
        self.narrow(&lock.filepath)
            .map_err(LockError::wrap_io_error)?;
        Ok(held)
    }

    fn watch(&self, changed: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tantivy::schema::{STORED, Schema, TEXT};
    use tantivy::{TantivyDocument, doc};

    use super::*;

    #[test]
    fn files_are_private_before_their_commit() {
        let place = tempfile::tempdir().unwrap();
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TEXT | STORED);
        let directory = PrivateDirectory::open(place.path()).unwrap();
        let index = tantivy::Index::open_or_create(directory, schema.build()).unwrap();
        let mut writer = index
            .writer_with_num_threads::<TantivyDocument>(1, 32 << 20)
            .unwrap();
        writer.add_document(doc!(text => "Friday")).unwrap();
        writer.prepare_commit().unwrap();
        let files: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
        assert!(files.len() > 2);
        for file in files {
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", file.path().display());
        }
    }
}
