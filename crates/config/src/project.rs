//! What a project tells every agent: its `AGENTS.md` files, from its root down to the working
//! directory.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The file's name.
const FILE: &str = "AGENTS.md";
/// What a project's root has.
const ROOT: &str = ".git";

/// The instructions of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// As agents read them: each file under a line that names it. Empty where there are none.
    pub text: String,
    /// The files, with how many bytes of each there are and are given.
    pub files: Vec<Given>,
}

/// A file of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How many bytes of it are given.
    pub given: u64,
}

/// Reads the instructions for a working directory: no more than so many bytes of all files together.
/// The files nearest to the root come first, and are cut last. One that cannot be read is left out.
/// The root is the nearest directory with `.git`, else `project`, else the directory itself.
pub fn instructions(directory: &Path, project: Option<&Path>, most: u64) -> Project {
    if most == 0 {
        return Project::default();
    }
    let (mut found, mut left) = (Project::default(), most);
    for path in paths(directory, project) {
        let Some((text, bytes)) = read(&path, left) else {
            continue;
        };
        let given = text.len() as u64;
        // What follows a file that is cut is not given at all.
        left = if given < bytes { 0 } else { left - given };
        if !text.trim().is_empty() {
            let shown = shown(&path, directory);
            let cut = match given < bytes {
                true => format!("\n[cut: {} more bytes of it are not shown]", bytes - given),
                false => String::new(),
            };
            let separator = if found.text.is_empty() { "" } else { "\n\n" };
            let _ = write!(
                found.text,
                "{separator}# Instructions of this project ({shown})\n\n{}{cut}",
                text.trim()
            );
        }
        found.files.push(Given { path, bytes, given });
    }
    found
}

/// The files that are there, from the root of the project downwards.
fn paths(directory: &Path, project: Option<&Path>) -> Vec<PathBuf> {
    let ancestors: Vec<&Path> = directory.ancestors().collect();
    let has_root = ancestors.iter().position(|at| at.join(ROOT).exists());
    let is_project = || ancestors.iter().position(|at| Some(*at) == project);
    let root = has_root.or_else(is_project);
    let within = &ancestors[..=root.unwrap_or(0)];
    let files = within.iter().rev().map(|at| at.join(FILE));
    files.filter(|file| file.is_file()).collect()
}

/// The beginning of a file, as far as it fits, and its size.
fn read(path: &Path, most: u64) -> Option<(String, u64)> {
    let file = fs::File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut read = Vec::new();
    // A file that grows meanwhile is cut as well.
    file.take(most).read_to_end(&mut read).ok()?;
    let text = match String::from_utf8(read) {
        Ok(text) => text,
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let mut read = error.into_bytes();
            read.truncate(whole);
            String::from_utf8(read).ok()?
        }
    };
    Some((text, bytes))
}

/// The path from the working directory.
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
        let project = instructions(&at("project/a/b"), None, 10_000);
        assert_eq!(
            project.text,
            "# Instructions of this project (../../AGENTS.md)\n\nBe brief.\n\n\
             # Instructions of this project (AGENTS.md)\n\nUse figures."
        );
        assert_eq!(project.files.len(), 3);
        fs::remove_dir_all(at("project/.git")).unwrap();
        let project = instructions(&at("project/a/b"), Some(&at("project/a")), 10_000);
        assert_eq!(project.files.len(), 2);
        // Without a root nothing above is looked at.
        let project = instructions(&at("project/a/b"), None, 10_000);
        assert_eq!(project.files.len(), 1);
        assert_eq!(
            instructions(&at("project/none"), None, 10),
            Project::default()
        );
    }

    #[test]
    fn together_they_are_bounded_and_cut_between_characters() {
        let place = place(&[
            (".git/HEAD", ""),
            ("AGENTS.md", "äöü"),
            ("a/AGENTS.md", "never"),
        ]);
        let project = instructions(&place.path().join("a"), None, 5);
        assert!(
            project.text.contains("äö\n[cut: 2 more bytes"),
            "{}",
            project.text
        );
        let given = project.files.iter().map(|file| (file.bytes, file.given));
        assert_eq!(given.collect::<Vec<_>>(), [(6, 4), (5, 0)]);
        assert_eq!(instructions(&place.path().join("a"), None, 0).text, "");
        fs::write(place.path().join("AGENTS.md"), [0xff, 0xfe]).unwrap();
        let project = instructions(place.path(), None, 100);
        assert_eq!((project.text.as_str(), project.files[0].given), ("", 0));
    }
}
