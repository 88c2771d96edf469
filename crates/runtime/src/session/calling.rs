//! Calls of tools, each in its own task that sends the result back to the session.

use std::sync::{Arc, Mutex, PoisonError};

use ractor::ActorRef;
use tokio_util::sync::{CancellationToken, DropGuard};
use unisono_session::Input;
use unisono_session::assignment::ToolJob;

use crate::{attachments, tool};

use super::effects::feed;
use super::{Args, Live, Msg, Progress};

/// A call in progress. Dropping it stops the call here; a task of the server goes on, and is polled
/// after the next start.
pub(super) struct CallGuard {
    stop: DropGuard,
    withdrawn: CancellationToken,
}

impl CallGuard {
    /// Stops the call and asks the server to cancel it, or its task.
    pub(super) fn withdraw(self) {
        self.withdrawn.cancel();
        drop(self.stop);
    }

    /// Releases the call without stopping it.
    pub(super) fn into_result(self) {
        self.stop.disarm();
    }
}

/// Removes the files of a call's result for which the session has no room any more.
pub(super) fn drop_excess_files(args: &Args, live: &Live, input: &mut Input) {
    if let Input::ToolEnded { output, .. } = input {
        let attached = live.machine.state().attached_bytes();
        attachments::drop_excess(args.env.options.attachments, output, attached);
    }
}

/// Calls a tool, or polls the task of an earlier call. A cancelled call notifies its server and has
/// no result.
pub(super) fn call_tool(args: &Args, live: &mut Live, myself: &ActorRef<Msg>, job: ToolJob) {
    let (cancelled, withdrawn) = (CancellationToken::new(), CancellationToken::new());
    let guard = CallGuard {
        stop: cancelled.clone().drop_guard(),
        withdrawn: withdrawn.clone(),
    };
    live.calls.insert(job.place, guard);
    args.feed.publish_progress(|| Progress::Run {
        run: job.place.run,
        text: format!("calling {}", job.tool).into(),
    });
    let (env, myself, session) = (args.env.clone(), myself.clone(), args.id);
    let attached = live.machine.state().attached_bytes();
    tokio::spawn(async move {
        let call = job.place;
        let task = Mutex::new(job.task.clone());
        let began = |id: Arc<str>| {
            *task.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
            feed(&myself, Input::ToolTask { call, task: id });
        };
        let servers = env.servers_for(session, &job.tool);
        let limits = env.options.attachments;
        let calling = async {
            let output = match env.extensions.tool_named(&job.tool) {
                Some(tool) => tool::call(tool, &job).await,
                None => servers.call(&job, limits.each, &began).await?,
            };
            Some(
                attachments::keep(
                    &env.journal,
                    session,
                    limits,
                    output,
                    attached,
                    job.max_chars,
                )
                .await,
            )
        };
        match cancelled.run_until_cancelled(calling).await {
            Some(Some(output)) => feed(&myself, Input::ToolEnded { call, output }),
            Some(None) => feed(&myself, Input::ToolTaskLost { call }),
            None => {
                let task = task.into_inner().unwrap_or_else(PoisonError::into_inner);
                if let Some(task) = task.filter(|_| withdrawn.is_cancelled()) {
                    servers.cancel_task(&job.tool, &task).await;
                }
            }
        }
    });
}
