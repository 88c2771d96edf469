//! A copy of the part of the log that an opening may cut.
//!
//! When sled opens, it reads its log from its last snapshot on. The first unreadable record ends
//! the log, and everything after it is overwritten. That is right after a crash, but wrong after
//! damage. Therefore the segments after the snapshot are copied (by the kernel, sharing blocks if
//! the file system can) to `<store>/tail`, at the same offsets, until the opening has succeeded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::disk::files;
use crate::disk::open::SEGMENT_BYTES;
use crate::error::{Error, Result};
use crate::private;

/// The path of the copy. If it exists before an opening, it belongs to one that was interrupted.
pub(super) fn path(root: &Path) -> PathBuf {
    root.join("tail")
}

/// Copies the tail, unless there is a copy already or there is no log. Returns whether it did.
pub(super) fn keep(root: &Path) -> Result<bool> {
    let (tail, log) = (path(root), files::data(root).join("db"));
    if tail.exists() || !log.exists() {
        return Ok(false);
    }
    let partial = tail.with_extension("tmp");
    let from = snapshot_lsn(&files::data(root));
    if let Err(error) = copy(&log, &partial, from) {
        // An incomplete copy is useless, and takes space.
        let _ = std::fs::remove_file(&partial);
        let doing = "keep a copy of the log's tail in";
        return Err(Error::io(doing, &partial, error));
    }
    let renamed = std::fs::rename(&partial, &tail);
    renamed.map_err(|error| Error::io("rename", &partial, error))?;
    Ok(true)
}

/// Removes the copy after a successful opening.
pub(super) fn release(root: &Path) -> Result<()> {
    match std::fs::remove_file(path(root)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path(root), error))
        }
        _ => Ok(()),
    }
}

/// The position that sled's newest snapshot covers, which is in its file name.
fn snapshot_lsn(data: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(data) else {
        return 0;
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| u64::from_str_radix(name.to_str()?.strip_prefix("snap.")?, 16).ok())
        .max()
        .unwrap_or(0)
}

/// How many bytes [`keep`] would copy.
pub(super) fn size_bytes(root: &Path) -> u64 {
    if path(root).exists() {
        return 0;
    }
    let data = files::data(root);
    let Ok(log) = File::open(data.join("db")) else {
        return 0;
    };
    let ranges = ranges(&log, snapshot_lsn(&data));
    ranges.map_or(0, |ranges| {
        ranges.iter().map(|(start, end)| end - start).sum()
    })
}

/// The parts of a log that are not completely before this position.
fn ranges(log: &File, from_lsn: u64) -> std::io::Result<Vec<(u64, u64)>> {
    let len = log.metadata()?.len();
    let behind = |base: &u64| {
        let lsn = segment_lsn(log, *base);
        lsn.is_none_or(|lsn| lsn + SEGMENT_BYTES as u64 > from_lsn)
    };
    let bases = (0..len).step_by(SEGMENT_BYTES).filter(behind);
    Ok(bases
        .map(|base| (base, len.min(base + SEGMENT_BYTES as u64)))
        .collect())
}

fn copy(log: &Path, to: &Path, from_lsn: u64) -> std::io::Result<()> {
    let (log, to) = (File::open(log)?, private::create(to)?);
    for (start, end) in ranges(&log, from_lsn)? {
        copy_range(&log, &to, start, end)?;
    }
    Ok(())
}

/// The position of a segment in the log, if its header is valid: CRC-32, then the position and the
/// stable position, all masked, little-endian (sled 0.34).
fn segment_lsn(log: &File, base: u64) -> Option<u64> {
    let mut header = [0; 20];
    log.read_exact_at(&mut header, base).ok()?;
    let crc = u32::from_le_bytes(header[..4].try_into().ok()?);
    let lsn = u64::from_le_bytes(header[4..12].try_into().ok()?) ^ 0x7FFF_FFFF_FFFF_FFFF;
    (crc32(&header[4..]) == !crc).then_some(lsn)
}

/// CRC-32 (IEEE), computed bit by bit, because its input is only sixteen bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> std::io::Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        let want = usize::try_from(end - read_at).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), want) {
            Ok(0) => break,
            Ok(_) => {}
            Err(
                rustix::io::Errno::XDEV
                | rustix::io::Errno::NOSYS
                | rustix::io::Errno::OPNOTSUPP
                | rustix::io::Errno::INVAL,
            ) => {
                return copy_through_memory(from, to, read_at, end);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn copy_through_memory(from: &File, to: &File, start: u64, end: u64) -> std::io::Result<()> {
    let mut block = vec![0; 1 << 20];
    let mut at = start;
    while at < end {
        let want = block
            .len()
            .min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let got = from.read_at(&mut block[..want], at)?;
        if got == 0 {
            break;
        }
        to.write_all_at(&block[..got], at)?;
        at += got as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
