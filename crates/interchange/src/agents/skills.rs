//! The skills beside the agents of another program: checked folders, and their copies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use unisono_config::skills::Skills;

/// Name of the directory of skills. It is next to the directory of agents.
pub(super) const SKILLS: &str = "skills";
/// Maximum number of files of a skill, of their bytes together, and of nested directories.
const MAX_FILES: usize = 200;
const MAX_BYTES: u64 = 8 << 20;
const MAX_DEPTH: usize = 8;
/// Maximum number of directories above an agent's file in which skills are searched.
const MAX_ABOVE: usize = 3;

/// A skill beside an agent: its folder, or the reason why it cannot be copied.
pub(super) type Found = Result<Folder, String>;

/// The valid skills beside the file of an agent, by name. `within`: the directory above which none is
/// searched.
pub(super) fn beside(file: &Path, within: Option<&Path>) -> BTreeMap<String, Found> {
    let mut all = BTreeMap::new();
    let is_inside = |above: &&Path| within.is_none_or(|within| above.starts_with(within));
    let above = file.ancestors().skip(1).take(MAX_ABOVE);
    for above in above.take_while(is_inside) {
        let place = above.join(SKILLS);
        for name in Skills::names_of(std::slice::from_ref(&place)) {
            let found = || Folder::read(&place.join(&name));
            all.entry(name.clone()).or_insert_with(found);
        }
    }
    all
}

/// The skills that an agent may name: those that are there, and those beside it that can be copied;
/// and why others cannot be.
pub(super) fn usable(
    own: &BTreeSet<String>,
    beside: &BTreeMap<String, Found>,
) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let (mut usable, mut refused) = (own.clone(), BTreeMap::new());
    for (name, found) in beside {
        match found {
            Ok(_) => drop(usable.insert(name.clone())),
            Err(reason) => drop(refused.insert(name.clone(), reason.clone())),
        }
    }
    (usable, refused)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    root: PathBuf,
    /// The files, by path below the root.
    files: Vec<PathBuf>,
}

impl Folder {
    /// Checks a folder.
    ///
    /// # Errors
    /// It has too many files or bytes, a link that leaves it, or cannot be read.
    pub(super) fn read(at: &Path) -> Found {
        if at.is_symlink() {
            return Err("its folder is a link".to_owned());
        }
        let root = fs::canonicalize(at).map_err(|error| cannot(&error))?;
        let (mut files, mut left) = (Vec::new(), MAX_BYTES);
        let mut open = vec![(PathBuf::new(), 0)];
        while let Some((below, depth)) = open.pop() {
            let entries = fs::read_dir(root.join(&below)).map_err(|error| cannot(&error))?;
            for entry in entries {
                let entry = entry.map_err(|error| cannot(&error))?;
                let path = below.join(entry.file_name());
                let shown = path.display();
                let real = fs::canonicalize(entry.path()).map_err(|error| cannot(&error))?;
                if !real.starts_with(&root) {
                    return Err(format!("its link {shown} leads out of its folder"));
                }
                let kind = entry.file_type().map_err(|error| cannot(&error))?;
                let about = fs::metadata(&real).map_err(|error| cannot(&error))?;
                if kind.is_dir() && depth < MAX_DEPTH {
                    open.push((path, depth + 1));
                } else if about.is_file() {
                    left = left
                        .checked_sub(about.len())
                        .ok_or_else(|| format!("it has more than {} MiB", MAX_BYTES >> 20))?;
                    files.push(path);
                } else {
                    return Err(format!("{shown} is no file, or is nested too deeply"));
                }
                if files.len() + open.len() > MAX_FILES {
                    return Err(format!("it has more than {MAX_FILES} files"));
                }
            }
        }
        files.sort();
        Ok(Folder { root, files })
    }

    /// Whether another folder has the same files.
    pub(super) fn is_same(&self, other: &Path) -> bool {
        let Ok(other) = Folder::read(other) else {
            return false;
        };
        let same = |path: &PathBuf| {
            let pair = (bytes(&self.root.join(path)), bytes(&other.root.join(path)));
            matches!(pair, (Ok(one), Ok(other)) if one == other)
        };
        self.files == other.files && self.files.iter().all(same)
    }

    /// Copies the files to a folder that is not there. It is complete, or absent.
    pub(super) fn copy(&self, to: &Path) -> io::Result<()> {
        let above = to.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(above)?;
        let made = tempfile::tempdir_in(above)?;
        let folder = made.path().join(SKILLS);
        for file in &self.files {
            let copy = folder.join(file);
            fs::create_dir_all(copy.parent().unwrap_or(&folder))?;
            // It may have become a link since it was checked.
            let from = fs::canonicalize(self.root.join(file))?;
            if !from.starts_with(&self.root) {
                return Err(io::Error::other("a link leads out of its folder"));
            }
            fs::copy(from, copy)?;
        }
        fs::rename(folder, to)
    }
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    fs::File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut read)?;
    Ok(read)
}

fn cannot(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn skills_are_searched_within_a_directory_and_folders_are_no_links() {
        let made = tempfile::tempdir().unwrap();
        let crew = made.path().join("crew");
        let outside = made.path().join("skills/review");
        for (folder, name) in [
            (&outside, "review"),
            (&made.path().join("skills/other"), "other"),
            (&crew.join("skills/own"), "own"),
        ] {
            fs::create_dir_all(folder).unwrap();
            let text = format!("---\nname: {name}\ndescription: Helps.\n---\nSteps.\n");
            fs::write(folder.join("SKILL.md"), text).unwrap();
        }
        std::os::unix::fs::symlink(&outside, crew.join("skills/review")).unwrap();
        let file = crew.join("boss.md");
        let names = |within: Option<&Path>| {
            let found = beside(&file, within).into_iter();
            let usable = found.filter_map(|(name, found)| found.is_ok().then_some(name));
            usable.collect::<Vec<_>>()
        };
        assert_eq!(names(Some(&crew)), ["own"]);
        assert_eq!(names(None), ["other", "own"]);
    }
}
