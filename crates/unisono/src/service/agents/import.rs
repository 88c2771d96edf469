//! Imports agents of other programs from the files of a request.
//!
//! The files are written to a temporary directory with their relative paths, and read from there: files
//! name each other, and paths help to detect the format.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use unisono_api::Code;
use unisono_api::agent::{AgentImport, FileNote, ImportedFile, NewAgentImport};
use unisono_config::setup::Setup;
use unisono_interchange::agents::{self as interchange, Candidate, Import, Status, Writes};

use super::detail::check_may_edit;
use super::reload_to_api;
use crate::Local;
use crate::error::Error;
use crate::local::off_thread;

/// Maximum number of files of one import, and maximum bytes of their texts.
const FILES: usize = 64;
const MAX_BYTES: usize = 1024 * 1024;
/// The directory of the files.
const CREW: &str = "crew";
/// Maximum depth of directories, and maximum number of characters in a path.
const DEPTH: usize = 8;
const PATH_CHARS: usize = 200;

/// Imports agents. If the definitions do not fit together, the files that were written are removed.
pub(super) async fn import(local: &Local, new: &NewAgentImport) -> Result<AgentImport, Error> {
    check_may_edit(local)?;
    check(new)?;
    // Other edits wait.
    let one_at_a_time = local.editing().await;
    let (setup, given) = (local.setup(), new.clone());
    let carried_out = off_thread(move || carry_out(&setup, &given)).await;
    let (mut report, skills) =
        carried_out.map_err(|error| Error::new(Code::Failed, format!("import: {error}")))?;
    let written: Vec<PathBuf> = report
        .agents
        .iter()
        .filter(|agent| agent.state == Status::Written.name())
        .map(|agent| PathBuf::from(&agent.file))
        .collect();
    if !written.is_empty() {
        let reload = reload_to_api(&local.reload_agents().await);
        if !reload.applied {
            let remove = move || {
                written.iter().try_for_each(fs::remove_file)?;
                skills.iter().try_for_each(fs::remove_dir_all)
            };
            let removed = off_thread(remove).await;
            let mut detail = reload.problems.join("\n");
            if let Err(error) = removed {
                detail += &format!("\nthe files that were written cannot be removed: {error}");
            }
            return Err(Error::new(Code::Refused, detail));
        }
        report.reload = Some(reload);
    }
    drop(one_at_a_time);
    Ok(report)
}

fn check(new: &NewAgentImport) -> Result<(), Error> {
    let known = |name: &str| interchange::Format::from_name(name).is_some();
    if let Some(format) = new.from.as_deref().filter(|format| !known(format)) {
        let names = interchange::Format::ALL.map(interchange::Format::name);
        let detail = format!(
            "`from`: {format:?} is unknown; use one of {}",
            names.join(", ")
        );
        return Err(Error::new(Code::Refused, detail));
    }
    let bytes: usize = new.files.iter().map(|file| file.text.len()).sum();
    if new.files.len() > FILES || bytes > MAX_BYTES {
        let detail = format!(
            "the import has {} files with {bytes} bytes; the limits are {FILES} files and {MAX_BYTES} bytes",
            new.files.len()
        );
        return Err(Error::new(Code::TooLarge, detail));
    }
    for ImportedFile { name, .. } in &new.files {
        let mut parts = Path::new(name).components();
        let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
        let depth = Path::new(name).components().count();
        let is_short = name.chars().count() <= PATH_CHARS && (1..=DEPTH).contains(&depth);
        if !is_below || !is_short || name.chars().any(char::is_control) {
            let detail = format!("{name:?} is not a valid file name or relative path");
            return Err(Error::new(Code::Refused, detail));
        }
    }
    Ok(())
}

/// The report, and the folders of skills that were copied.
fn carry_out(setup: &Arc<Setup>, new: &NewAgentImport) -> io::Result<(AgentImport, Vec<PathBuf>)> {
    let held = tempfile::tempdir()?;
    // A crew without a name has that of its directory.
    let directory = held.path().canonicalize()?.join(CREW);
    fs::create_dir(&directory)?;
    for ImportedFile { name, text } in &new.files {
        let path = directory.join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(path, text)?;
    }
    let loaded = &setup.loaded;
    let project = loaded.project.as_ref();
    let to = project
        .unwrap_or(&loaded.sources().directory)
        .join("agents");
    let import = Import {
        format: new.from.as_deref().and_then(interchange::Format::from_name),
        to: &to,
        within: Some(&directory),
        writes: match new.dry_run {
            true => Writes::Nothing,
            false => Writes::New,
        },
    };
    let candidates = Candidate::from_path(&directory)?;
    let named = |path: &Path| {
        let below = path.strip_prefix(&directory).unwrap_or(path);
        below.display().to_string()
    };
    let (mut report, skills) = import.carry_out(&candidates, loaded, named)?;
    // Messages name the files as the person does.
    let prefix = format!("{}/", directory.display());
    for note in report.problems.iter_mut().chain(&mut report.skipped) {
        note.reason = note.reason.replace(&prefix, "");
    }
    let unread = new.files.iter().filter(|file| {
        let path = directory.join(&file.name);
        !candidates.iter().any(|candidate| candidate.path == path)
    });
    report.skipped.extend(unread.map(|file| FileNote {
        file: file.name.clone(),
        reason: "it defines no agent itself; another of the files may use it".to_owned(),
    }));
    Ok((report, skills))
}
