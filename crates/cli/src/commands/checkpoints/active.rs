//! The checkpoint that a command changes: it must be in the context.

use unisono::Service;
use unisono_api::compaction::{CheckpointDetail, InactiveCheckpoint};
use unisono_api::session::MAIN_BRANCH;

use crate::problem::{Problem, Result};
use crate::service::{all_checkpoints, find_session, spoken_length};

use super::show::missing;

/// Names a checkpoint in the context of a branch.
#[derive(Debug, clap::Args)]
pub(super) struct ActiveCheckpoint {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest one in the context
    number: Option<u32>,
    /// The branch; the change applies to every branch that has the summarised messages
    #[arg(long, default_value = MAIN_BRANCH)]
    pub(super) branch: String,
}

impl ActiveCheckpoint {
    /// The session and the checkpoint.
    ///
    /// # Errors
    /// There is none, or it is not in the context of the branch.
    pub(super) async fn find(&self, service: &dyn Service) -> Result<(String, CheckpointDetail)> {
        let (branch, number) = (&*self.branch, self.number);
        let session = find_session(service, &self.session).await?.session;
        spoken_length(service, &session, branch).await?;
        let all = all_checkpoints(service, &session, branch).await?;
        let meant = match number {
            Some(number) => all.iter().find(|one| one.number == number),
            None => all.iter().find(|one| one.active),
        };
        let number = match (meant, number) {
            (Some(meant), _) => meant.number.to_string(),
            (None, None) if !all.is_empty() => {
                let problem = format!("no checkpoint is in the context of branch `{branch}`");
                return Err(Problem::usage(problem).hint("`unisono checkpoints list` shows all"));
            }
            (None, number) => return Err(missing(number, all.len())),
        };
        let detail = service.checkpoint(&session, &number, branch).await?;
        match &detail.inactive {
            Some(why) => Err(not_active(why)),
            None => Ok((session, detail)),
        }
    }
}

fn not_active(why: &InactiveCheckpoint) -> Problem {
    let problem = Problem::usage(&why.reason);
    match (why.revert_first, why.branches.as_deref()) {
        (Some(first), _) => problem.hint(format!("revert checkpoint {first} first")),
        (None, Some([])) => problem.hint("no branch has these messages"),
        (None, Some(branches)) => {
            let names = branches.join(" or ");
            problem.hint(format!("name the branch: --branch {names}"))
        }
        (None, None) => problem.hint("`unisono checkpoints list` shows which are active"),
    }
}
