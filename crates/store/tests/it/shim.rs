//! Builds `shim.c` and reads the data that it recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The compiled shim; built once per run.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Named after this process: a concurrent test run builds its own.
        let library = dir.join(format!("sync-shim-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shim.c");
        let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
            .arg(&library)
            .arg(source);
        let status = cc.args(["-ldl", "-lpthread"]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the shim needs a C compiler as `cc`"
        );
        library
    })
}

/// The environment of a child that runs under the shim.
pub(crate) fn watch(root: &Path, shadow: &Path) -> Vec<(&'static str, String)> {
    fs::create_dir_all(shadow).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    vec![
        ("LD_PRELOAD", text(library())),
        ("SHIM_ROOT", text(root)),
        ("SHIM_SHADOW", text(shadow)),
    ]
}

/// Writes the files that a power cut would have left of a directory.
pub(crate) fn restore(shadow: &Path, directory: &Path, to: &Path) {
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(directory).unwrap().ino();
    restore_inode(shadow, inode, to);
}

fn restore_inode(shadow: &Path, inode: u64, to: &Path) {
    fs::create_dir_all(to).unwrap();
    // The names in a directory that was never synced may be lost.
    let names = fs::read_to_string(shadow.join(format!("names-{inode}"))).unwrap_or_default();
    for line in names.lines() {
        let mut parts = line.splitn(3, ' ');
        let (inode, kind, name) = (
            parts.next().unwrap(),
            parts.next().unwrap(),
            parts.next().unwrap(),
        );
        if kind == "d" {
            restore_inode(shadow, inode.parse().unwrap(), &to.join(name));
        } else if fs::copy(shadow.join(format!("file-{inode}")), to.join(name)).is_err() {
            // The name was synced, but not the bytes.
            fs::write(to.join(name), b"").unwrap();
        }
    }
}

/// Records everything in a directory as synced, for a store that outlives its child.
pub(crate) fn seed(directory: &Path, shadow: &Path) {
    use std::os::unix::fs::MetadataExt;
    fs::create_dir_all(shadow).unwrap();
    let mut names = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let kind = if meta.is_dir() { 'd' } else { 'f' };
        names += &format!(
            "{} {kind} {}\n",
            meta.ino(),
            entry.file_name().to_str().unwrap()
        );
        if meta.is_dir() {
            seed(&entry.path(), shadow);
        } else {
            fs::copy(entry.path(), shadow.join(format!("file-{}", meta.ino()))).unwrap();
        }
    }
    let inode = fs::metadata(directory).unwrap().ino();
    fs::write(shadow.join(format!("names-{inode}")), names).unwrap();
}
