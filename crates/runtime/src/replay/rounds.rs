//! The rounds of delegated tasks of a run.

use unisono_context::Digest;
use unisono_session::run::{self, DelegationStatus, Run, Step, ToolResult};
use unisono_session::{Replay, assignment};

/// The results of each round of delegated tasks, as its run recorded them, and as the runs of the
/// round have them.
pub(super) fn compared(replay: &Replay, run: &Run) -> Vec<(String, String)> {
    let mut compared = Vec::new();
    let mut replies = 0;
    for (at, step) in run.steps.iter().enumerate() {
        if matches!(**step, Step::Model(_)) {
            replies += 1;
        }
        let Step::Tools(recorded) = &**step else {
            continue;
        };
        let DelegationStatus::Ended(results) = replay.state().delegation_status(run.id, replies)
        else {
            continue;
        };
        for (index, result) in results.into_iter().enumerate() {
            // Models use ids twice: any result of this call matches, or an excerpt of it.
            let same = |known: &&ToolResult| known.call_id == result.call_id;
            let known: Vec<&ToolResult> = recorded.iter().filter(same).collect();
            let id = assignment::round_call_id(replies, index);
            let shows = |known: &&&ToolResult| {
                run::excerpts::is_excerpt(&result.content, &id, &known.content)
            };
            let shown = known.iter().find(shows);
            let rebuilt = Digest::of_bytes(result.content.as_bytes()).short();
            let said = match (shown, known.first()) {
                (Some(_), _) => rebuilt.clone(),
                (None, Some(known)) => Digest::of_bytes(known.content.as_bytes()).short(),
                (None, None) => "nothing".to_owned(),
            };
            let name = |digest: &str| format!("step {}: {digest}", at + 1);
            compared.push((name(&said), name(&rebuilt)));
        }
    }
    compared
}
