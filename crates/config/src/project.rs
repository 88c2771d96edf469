//! Instructions of a project for every agent: its `AGENTS.md` files, from its root down to the
//! working directory.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const FILE: &str = "AGENTS.md";
/// In place of the text of a file that is not read.
const OUTSIDE: &str = "[not read: it is a link that leads out of the project]";
/// The marker of a project's root.
const ROOT: &str = ".git";

/// The instructions for a working directory, each file below a line that names it; empty without
/// any file. All files together have at most `most` bytes: the first file that exceeds this is cut,
/// and later files are only named. Bytes that are not UTF-8 become U+FFFD. A file that cannot be
/// read is omitted. A link that leads out of the project is not read, so that a project cannot have
/// other files of the machine sent to a model.
///
/// The root is the nearest directory with `.git`, else `project`, else the directory itself.
pub fn instructions(directory: &Path, project: Option<&Path>, most: u64) -> String {
    let (mut all, mut left) = (String::new(), most);
    let mut omitted = Vec::new();
    let (root, paths) = paths(directory, project);
    for path in paths {
        if left == 0 {
            omitted.push(shown(&path, directory));
            continue;
        }
        let found = match is_within(&root, &path) {
            true => read(&path, left),
            false => Some(Beginning {
                text: OUTSIDE.to_owned(),
                given: OUTSIDE.len() as u64,
                bytes: OUTSIDE.len() as u64,
            }),
        };
        let Some(Beginning { text, given, bytes }) = found else {
            continue;
        };
        left = if given < bytes {
            0
        } else {
            left.saturating_sub(given)
        };
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            continue;
        }
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        let shown = shown(&path, directory);
        let _ = write!(all, "# Instructions of this project ({shown})\n\n{text}");
        if given < bytes {
            let _ = write!(
                all,
                "\n[cut: {} more bytes of it are not shown]",
                bytes - given
            );
        }
    }
    if !all.is_empty() && !omitted.is_empty() {
        let _ = write!(all, "\n\n[not shown: {}]", omitted.join(", "));
    }
    all
}

/// The root of the project, and the existing files from it downwards.
fn paths(directory: &Path, project: Option<&Path>) -> (PathBuf, Vec<PathBuf>) {
    let ancestors: Vec<&Path> = directory.ancestors().collect();
    let has_root = ancestors.iter().position(|at| at.join(ROOT).exists());
    let is_project = || ancestors.iter().position(|at| Some(*at) == project);
    let root = has_root.or_else(is_project);
    let within = &ancestors[..=root.unwrap_or(0)];
    let files = within.iter().rev().map(|at| at.join(FILE));
    let root = within.last().map(|at| at.to_path_buf());
    (
        root.unwrap_or_default(),
        files.filter(|file| file.is_file()).collect(),
    )
}

/// Whether a file is in a directory, also if it is a link.
fn is_within(root: &Path, file: &Path) -> bool {
    match (fs::canonicalize(root), fs::canonicalize(file)) {
        (Ok(root), Ok(file)) => file.starts_with(root),
        _ => false,
    }
}

struct Beginning {
    text: String,
    /// The size of this beginning in the file, in bytes.
    given: u64,
    /// The size of the file, in bytes.
    bytes: u64,
}

/// The beginning of a file up to the limit.
fn read(path: &Path, most: u64) -> Option<Beginning> {
    let file = fs::File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut read = Vec::new();
    // A file that grows meanwhile is cut as well.
    file.take(most).read_to_end(&mut read).ok()?;
    if (read.len() as u64) < bytes {
        read.truncate(read.len() - incomplete(&read));
    }
    Some(Beginning {
        text: String::from_utf8_lossy(&read).into_owned(),
        given: read.len() as u64,
        bytes,
    })
}

/// The number of bytes at the end that are the beginning of a character.
fn incomplete(read: &[u8]) -> usize {
    let Some(last) = read.utf8_chunks().last() else {
        return 0;
    };
    match std::str::from_utf8(last.invalid()) {
        Err(error) if error.error_len().is_none() => last.invalid().len(),
        _ => 0,
    }
}

fn shown(path: &Path, directory: &Path) -> String {
    let mut up = PathBuf::new();
    for at in directory.ancestors() {
        if let Ok(rest) = path.strip_prefix(at) {
            return up.join(rest).display().to_string();
        }
        up.push("..");
    }
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    #[test]
    fn files_are_read_from_the_root_downwards() {
        let place = place(&[
            ("AGENTS.md", "beyond the root"),
            ("project/.git/HEAD", ""),
            ("project/AGENTS.md", "Be brief.\n"),
            ("project/a/AGENTS.md", "\n"),
            ("project/a/b/AGENTS.md", "Use figures."),
            ("project/a/other/AGENTS.md", "of a sibling"),
        ]);
        let at = |name: &str| place.path().join(name);
        let text = instructions(&at("project/a/b"), None, 10_000);
        assert_eq!(
            text,
            "# Instructions of this project (../../AGENTS.md)\n\nBe brief.\n\n\
             # Instructions of this project (AGENTS.md)\n\nUse figures."
        );
        fs::remove_dir_all(at("project/.git")).unwrap();
        fs::write(at("project/a/AGENTS.md"), "Name owners.").unwrap();
        let text = instructions(&at("project/a/b"), Some(&at("project/a")), 10_000);
        assert!(
            text.contains("Name owners.") && !text.contains("Be brief."),
            "{text}"
        );
        // Without a root, no parent directory is read.
        let text = instructions(&at("project/a/b"), None, 10_000);
        assert!(
            text.contains("Use figures.") && !text.contains("Name owners."),
            "{text}"
        );
        assert_eq!(instructions(&at("project/none"), None, 10), "");
    }

    #[test]
    fn a_link_out_of_the_project_is_not_read() {
        let place = place(&[
            ("secret", "the key"),
            ("project/.git/HEAD", ""),
            ("project/docs/rules.md", "\u{feff}Be brief."),
            ("project/a/b/x", ""),
        ]);
        let at = |name: &str| place.path().join(name);
        std::os::unix::fs::symlink(at("secret"), at("project/AGENTS.md")).unwrap();
        std::os::unix::fs::symlink("../docs/rules.md", at("project/a/AGENTS.md")).unwrap();
        let text = instructions(&at("project/a/b"), None, 10_000);
        assert_eq!(
            text,
            format!(
                "# Instructions of this project (../../AGENTS.md)\n\n{OUTSIDE}\n\n\
                 # Instructions of this project (../AGENTS.md)\n\nBe brief."
            )
        );
    }

    #[test]
    fn together_they_are_bounded_and_cut_between_characters() {
        let place = place(&[
            (".git/HEAD", ""),
            ("AGENTS.md", "äöü"),
            ("a/AGENTS.md", "never"),
        ]);
        let within = |most| instructions(&place.path().join("a"), None, most);
        let text = within(5);
        let end = "äö\n[cut: 2 more bytes of it are not shown]\n\n[not shown: AGENTS.md]";
        assert!(text.ends_with(end), "{text}");
        assert!(within(6).ends_with("äöü\n\n[not shown: AGENTS.md]"));
        assert!(within(11).ends_with("never") && within(10).contains("[cut: 1 more"));
        assert_eq!(within(0), "");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_the_rest_is_read() {
        let place = place(&[(".git/HEAD", "")]);
        let within = |bytes: &[u8], most| {
            fs::write(place.path().join("AGENTS.md"), bytes).unwrap();
            let text = instructions(place.path(), None, most);
            text.replace("# Instructions of this project (AGENTS.md)\n\n", "")
        };
        assert_eq!(within(b"\xffBe brief.", 100), "\u{fffd}Be brief.");
        assert_eq!(within(b"Be \xe4 brief.", 100), "Be \u{fffd} brief.");
        assert_eq!(within(b"Be \xc3", 100), "Be \u{fffd}");
        // A cut leaves no part of a character.
        let cut = within("a\u{e4}b".as_bytes(), 2);
        assert_eq!(cut, "a\n[cut: 3 more bytes of it are not shown]");
        let cut = within(b"\xff\xc3\xa4b", 2);
        assert_eq!(cut, "\u{fffd}\n[cut: 3 more bytes of it are not shown]");
    }
}
