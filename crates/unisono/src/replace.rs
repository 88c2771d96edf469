//! Small files that are written atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use unisono_store::private;

/// Replaces the contents of a file, or creates it: it has the old or the new contents, also after a
/// crash. Only its owner may read it.
///
/// # Errors
/// It cannot be written; then it has the old contents.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    private::create_dir_all(directory)?;
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut writing = private::create(&new)?;
    writing.write_all(text.as_bytes())?;
    writing.sync_all()?;
    fs::rename(&new, file)?;
    // The rename is on disk once its directory is.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_is_its_owners() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("deep/settings.toml");
        for text in ["one", "another, which is longer", ""] {
            replace(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let there = fs::read_dir(place.path().join("deep")).unwrap().count();
        assert_eq!(there, 1, "nothing is left beside it");
    }
}
