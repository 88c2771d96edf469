//! A git worktree of its own for a coding agent: made before it works, removed if it changed nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use unisono_context::RunId;
use unisono_session::agent::Command;
use unisono_session::run::RunCause;

use crate::agent::Failure;
use crate::process::{self, Job};

/// How long git may take; a large worktree is written meanwhile.
const GIT_TIMEOUT: Duration = Duration::from_secs(300);
/// The most that git may say, in bytes.
const GIT_OUTPUT_MAX: usize = 16 * 1024 * 1024;
/// Worktrees are in this directory of the repository's own.
const DIRECTORY: &str = "unisono";
/// How many digits of a run's id its branch has.
const BRANCH_ID_DIGITS: usize = 12;

/// A worktree, and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worktree {
    /// The repository's own directory.
    repository: PathBuf,
    /// Where it is.
    path: PathBuf,
    /// Its branch.
    branch: String,
    /// The commit that it begins with.
    base: String,
}

impl Worktree {
    /// A worktree for a try of a run, not made yet, and the directory in it that is to `cwd` what
    /// it is to the repository.
    ///
    /// # Errors
    /// `cwd` is in no repository, or that has no commit.
    pub(super) async fn plan(
        cwd: &Path,
        run: RunId,
        number: u32,
    ) -> Result<(Worktree, PathBuf), Failure> {
        let wrong = |why: String| {
            let reason = format!(
                "`worktree = true` needs a git repository with a commit, and {} is in none: {why}",
                cwd.display()
            );
            Failure::new(RunCause::BadInput, reason)
        };
        let arguments = [
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--show-prefix",
        ];
        let output = git(cwd, &arguments).await.map_err(wrong)?;
        let mut lines = output.lines();
        let repository = PathBuf::from(lines.next().unwrap_or_default());
        let below = lines.next().unwrap_or_default();
        let base = git(cwd, &["rev-parse", "--verify", "HEAD^{commit}"]);
        let base = base.await.map_err(wrong)?.trim().to_owned();
        let more = match number {
            1 => String::new(),
            number => format!("-{number}"),
        };
        let id = run.to_string();
        let digits: String = id.chars().filter(|digit| *digit != '-').collect();
        let short = &digits[digits.len().saturating_sub(BRANCH_ID_DIGITS)..];
        let path = repository.join(DIRECTORY).join(format!("{id}{more}"));
        let directory = path.join(below);
        let worktree = Worktree {
            repository,
            path,
            branch: format!("unisono/{short}{more}"),
            base,
        };
        Ok((worktree, directory))
    }

    /// Makes it.
    ///
    /// # Errors
    /// Git fails.
    pub(super) async fn make(&self) -> Result<(), Failure> {
        let path = self.path.to_string_lossy();
        let arguments = ["worktree", "add", "-b", &self.branch, &path, &self.base];
        let made = git(&self.repository, &arguments).await;
        made.map(drop).map_err(|why| {
            let reason = format!("no git worktree can be made at {path}: {why}");
            Failure::new(RunCause::BadInput, reason)
        })
    }

    /// Removes it if nothing changed in it; else says where it is.
    pub(super) async fn close(&self) -> Option<String> {
        if !self.path.exists() {
            return None;
        }
        let path = self.path.to_string_lossy();
        let kept = |what: &str| {
            let branch = &self.branch;
            Some(format!(
                "The git worktree {path} on branch {branch} is kept: {what}."
            ))
        };
        match self.changes().await {
            Ok(None) => {}
            Ok(Some(1)) => return kept("1 changed file"),
            Ok(Some(files)) => return kept(&format!("{files} changed files")),
            Err(why) => return kept(&format!("its changes are unknown ({why})")),
        }
        // Git does not remove one that has changes after all.
        if let Err(why) = git(&self.repository, &["worktree", "remove", &path]).await {
            return match self.path.exists() {
                true => kept(&format!("git cannot remove it ({why})")),
                false => None,
            };
        }
        let branch = format!("refs/heads/{}", self.branch);
        let arguments = ["update-ref", "-d", &branch, &self.base];
        if let Err(why) = git(&self.repository, &arguments).await {
            tracing::warn!(branch, why, "the branch of a worktree is not removed");
        }
        None
    }

    /// How many files are not as they were; none where there is no new commit either.
    async fn changes(&self) -> Result<Option<usize>, String> {
        let head = git(&self.path, &["rev-parse", "HEAD"]).await?;
        let changed = git(&self.path, &["diff", "--name-only", "-z", &self.base]).await?;
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        let new = git(&self.path, &arguments).await?;
        let files = changed.split('\0').chain(new.split('\0'));
        let files: BTreeSet<&str> = files.filter(|file| !file.is_empty()).collect();
        let is_same = files.is_empty() && head.trim() == self.base;
        Ok((!is_same).then_some(files.len()))
    }
}

/// What git says in that directory, or why it fails.
async fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let command = Command {
        program: "git".into(),
        args: arguments
            .iter()
            .map(|argument| (*argument).into())
            .collect(),
        env: BTreeMap::from([("LC_ALL".into(), "C".into())]),
        cwd: Some(directory.to_string_lossy().into()),
        env_pass: Vec::new(),
    };
    let job = Job {
        command: &command,
        input: [Bytes::new(), Bytes::new()],
        max_output: GIT_OUTPUT_MAX,
    };
    let finished = timeout(GIT_TIMEOUT, process::run(job)).await;
    let finished =
        finished.map_err(|_| format!("git did not end within {} s", GIT_TIMEOUT.as_secs()))?;
    let finished = finished.map_err(|error| error.to_string())?;
    match finished.status.success() {
        true => Ok(String::from_utf8_lossy(&finished.stdout).into_owned()),
        false => Err(match &*finished.stderr {
            "" => format!("git ended with {}", finished.status),
            stderr => stderr.to_owned(),
        }),
    }
}
