//! Checks whether a program exists, in the same way as starting it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use unisono_session::agent::Command;

/// Searches the program like starting it: a path from its working directory, a name in `PATH`.
///
/// # Errors
/// The error that starting it would give.
pub(super) fn check(command: &Command) -> io::Result<()> {
    let directory = command.cwd.as_deref().map(Path::new);
    if let Some(directory) = directory {
        match std::fs::metadata(directory)?.is_dir() {
            true => access(directory, Access::EXEC_OK)?,
            false => return Err(Errno::NOTDIR.into()),
        }
    }
    let program = Path::new(&*command.program);
    if command.program.contains('/') {
        let there = directory.map_or_else(|| program.to_owned(), |cwd| cwd.join(program));
        return Ok(access(there, Access::EXEC_OK)?);
    }
    let own = command.env.get("PATH").map(|path| (&**path).into());
    let paths = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let found = |path: PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    match std::env::split_paths(&paths).any(|path| found(path.join(program))) {
        true => Ok(()),
        false => Err(Errno::NOENT.into()),
    }
}
