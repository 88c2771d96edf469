//! A separate git worktree for a coding agent: created before its work, removed if it changed
//! nothing.

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

/// The timeout of git, which may write a large worktree.
const GIT_TIMEOUT: Duration = Duration::from_secs(300);
/// The maximum output of git, in bytes.
const GIT_OUTPUT_MAX: usize = 16 * 1024 * 1024;
/// The directory of the worktrees, inside the repository's git directory.
const DIRECTORY: &str = "unisono";
/// The number of digits of a run's id in its branch name.
const BRANCH_ID_DIGITS: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worktree {
    /// The repository's git directory.
    repository: PathBuf,
    path: PathBuf,
    branch: String,
    /// The commit of its branch at the beginning.
    base: String,
}

impl Worktree {
    /// Plans a worktree for a try of a run, and returns the directory in it that corresponds to
    /// `cwd` in the repository.
    ///
    /// # Errors
    /// `cwd` is not in a repository, or the repository has no commit.
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
        // Without a slash at the end.
        let directory = path.join(below).components().collect();
        let worktree = Worktree {
            repository,
            path,
            branch: format!("unisono/{short}{more}"),
            base,
        };
        Ok((worktree, directory))
    }

    /// Creates it.
    ///
    /// # Errors
    /// Git failed.
    pub(super) async fn make(&self) -> Result<(), Failure> {
        let path = self.path.to_string_lossy();
        let arguments = ["worktree", "add", "-b", &self.branch, &path, &self.base];
        let made = git(&self.repository, &arguments).await;
        made.map(drop).map_err(|why| {
            let reason = format!("no git worktree can be made at {path}: {why}");
            Failure::new(RunCause::BadInput, reason)
        })
    }

    /// Removes it if it is unchanged; otherwise returns a text with its path.
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
        // Git does not remove a worktree with changes.
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

    /// The number of changed files; none if there is no change and no new commit.
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

/// Runs git in this directory and returns its output, or the reason of its failure.
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
