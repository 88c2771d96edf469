//! Runs a compaction step, and forwards its progress.

use std::sync::Arc;

use ractor::ActorRef;
use tokio_util::sync::CancellationToken;
use unisono_session::assignment::{AHEAD, CompactionJob};
use unisono_session::{Input, ids};

use crate::compactor::{self, StepEvent};

use super::budget_queue::QueuedCall;
use super::effects::feed;
use super::{Args, Live, Msg, Progress};

pub(super) fn compact(
    args: &Args,
    live: &mut Live,
    myself: &ActorRef<Msg>,
    mut job: CompactionJob,
) {
    let (compactor, myself) = (args.compactor.clone(), myself.clone());
    let cancelled = CancellationToken::new();
    job.bounded |= args.budget_broker.is_some();
    let listener = listener(&job, args, &myself);
    // Its turn has ended: it has a time limit of its own.
    let began = match job.is_ahead() {
        true => compactor::CompactionStart::default(),
        false => live.compacting.entry(job.turn).or_default().clone(),
    };
    live.compactions
        .insert(job.turn, cancelled.clone().drop_guard());
    tokio::spawn(async move {
        let (turn, step) = (job.turn, job.step);
        // Dropping the future that waits for the compactor stops the step.
        let Some(end) = cancelled
            .run_until_cancelled(compactor.carry_out(job, began, listener))
            .await
        else {
            return;
        };
        let input = match end {
            Ok(result) => Input::StepDone { turn, step, result },
            Err(compactor::Failure {
                reason,
                is_retryable: again,
            }) => Input::StepFailed {
                turn,
                step,
                reason,
                is_retryable: again,
            },
        };
        feed(&myself, input);
    });
}

/// Removes the guard of a summary that was written ahead; those of other steps are removed with
/// their turns.
pub(super) fn forget_ahead(live: &mut Live, input: &Input) {
    if let Input::StepDone { turn, step, .. } | Input::StepFailed { turn, step, .. } = input
        && *step == AHEAD
        && let Some(guard) = live.compactions.remove(turn)
    {
        guard.disarm();
    }
}

/// Forwards the progress of the compactor to followers, and its usage and reservations to the
/// session.
fn listener(job: &CompactionJob, args: &Args, myself: &ActorRef<Msg>) -> compactor::Listener {
    let (turn, step) = (job.turn, job.step);
    let (followers, myself) = (args.feed.clone(), myself.clone());
    compactor::Listener(Arc::new(move |event| {
        let (text, is_failure) = match event {
            StepEvent::Progress(text) => (text, false),
            StepEvent::Problem(text) => (text, true),
            StepEvent::Used { model, usage } => {
                return feed(&myself, Input::SummariserUsed { turn, model, usage });
            }
            StepEvent::Reserve { ask, reply } => {
                let asking = QueuedCall {
                    run: ids::summaries(turn),
                    attempt: step,
                    ask,
                    reply,
                };
                // A session that has ended drops the reply.
                return drop(myself.send_message(Msg::Reserve(asking)));
            }
            StepEvent::CallEnded { call, end } => {
                let (run, attempt) = (ids::summaries(turn), step);
                let ended = Input::Settle {
                    run,
                    attempt,
                    call,
                    end,
                };
                return feed(&myself, ended);
            }
        };
        followers.publish_progress(|| Progress::Compaction {
            turn,
            text,
            is_failure,
        });
    }))
}
