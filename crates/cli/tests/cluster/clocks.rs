//! Machines whose clocks are wrong: a daemon is started with libfaketime, which answers what time it is.
//! How much time passes stays true.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, for programs with threads; none where it is not installed, which is said.
pub(crate) fn library() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let below = std::fs::read_dir("/usr/lib").into_iter().flatten();
        let below = below.filter_map(|entry| Some(entry.ok()?.path()));
        let mut all = below.map(|path| path.join("faketime/libfaketimeMT.so.1"));
        let found = all.find(|path| path.is_file());
        if found.is_none() {
            let required = std::env::var_os("UNISONO_TEST_POSTGRES_REQUIRED").is_some();
            assert!(!required, "faketime is not installed");
            println!("skipped: faketime is not installed, so that all clocks are right");
        }
        found
    });
    found.as_deref()
}

/// Has a program take the time to be so many seconds later, or earlier.
pub(crate) fn skew(command: &mut Command, library: &Path, seconds: i64) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME", format!("{seconds:+}s"))
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1");
}
