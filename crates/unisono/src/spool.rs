//! Bytes that arrive once and are read several times: a few in memory, more in a file without a
//! name in the store's directory, or in the system's temporary directory if there is no store yet.
//! Only its owner can read the file, and it disappears with the process.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

const MEMORY_BYTES: usize = 1 << 20;

/// Bytes that are arriving.
#[derive(Debug, Default)]
pub struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    directory: Option<PathBuf>,
    bytes: u64,
}

impl Spool {
    /// Stores many bytes in a file in that directory; without a directory they stay in memory.
    pub fn new(directory: Option<&Path>) -> Spool {
        Spool {
            directory: directory.map(Path::to_owned),
            ..Spool::default()
        }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the arrival.
    ///
    /// # Errors
    /// The file cannot be read from its start.
    pub fn finish(self) -> io::Result<SpooledData> {
        match self.file {
            Some(file) => SpooledData::file(file),
            None => Ok(SpooledData::Memory(Cursor::new(self.memory.into()))),
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let (None, Some(directory)) = (&self.file, &self.directory)
            && self.memory.len() + bytes.len() > MEMORY_BYTES
        {
            let mut file = tempfile::tempfile_in(directory).or_else(|_| tempfile::tempfile())?;
            file.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that have arrived.
#[derive(Debug)]
pub enum SpooledData {
    /// In memory.
    Memory(Cursor<Bytes>),
    /// In a file.
    File(File),
}

impl SpooledData {
    /// A file, from its start.
    ///
    /// # Errors
    /// The file cannot be rewound.
    pub fn file(mut file: File) -> io::Result<SpooledData> {
        file.rewind()?;
        Ok(SpooledData::File(file))
    }
}

impl Read for SpooledData {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            SpooledData::Memory(memory) => memory.read(into),
            SpooledData::File(file) => file.read(into),
        }
    }
}

impl Seek for SpooledData {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            SpooledData::Memory(memory) => memory.seek(to),
            SpooledData::File(file) => file.seek(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_much_is_in_a_file_that_has_no_name() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("store");
        for (many, is_file, is_there) in [
            (1_000, false, false),
            (3_000_000, true, false),
            (3_000_000, true, true),
        ] {
            if is_there {
                std::fs::create_dir(&directory).unwrap();
            }
            let mut spool = Spool::new(Some(&directory));
            let part = vec![b'x'; many / 2];
            spool.write_all(&part).unwrap();
            spool.write_all(&part).unwrap();
            assert_eq!(spool.bytes(), many as u64);
            let mut spooled = spool.finish().unwrap();
            assert_eq!(matches!(spooled, SpooledData::File(_)), is_file);
            for _ in 0..2 {
                spooled.rewind().unwrap();
                let mut read = Vec::new();
                spooled.read_to_end(&mut read).unwrap();
                assert!(read.len() == many && read.iter().all(|byte| *byte == b'x'));
            }
            assert_eq!(directory.exists(), is_there, "it is not made");
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
