//! What two runs of a turn were sent alike, as it is told.

use serde_json::{Value, json};
use unisono::why::{Difference, first_sibling};
use unisono_context::RunId;

use crate::output::Paint;
use crate::problem::{Problem, Result};
use crate::sessions::{is_meant, only};
use crate::show;
use crate::traces::{Found, end};

/// Characters shown from where two requests part.
const SHOWN: usize = 160;

/// The run to compare with: the one a person means, or the first sibling.
pub(super) fn find(found: &Found<RunId>, name: Option<&str>) -> Result<Option<RunId>> {
    let Some(name) = name else {
        return Ok(first_sibling(&found.trace, found.id));
    };
    let turn = found.trace.run(found.id).map(|run| run.opened.1.turn);
    let turn = turn.and_then(|turn| found.trace.turn(turn));
    let runs = turn.map(|turn| &turn.runs[..]).unwrap_or_default();
    let meant = runs.iter().filter(|id| is_meant(name, *id)).copied();
    let meant = only(name, "run", &meant.collect::<Vec<_>>());
    let hint = "a run is compared with others of its turn: `unisono runs list` shows them";
    meant
        .map(Some)
        .map_err(|problem: Problem| problem.hint(hint))
}

pub(super) fn text(of: &Difference, paint: Paint) -> String {
    let (agent, shared) = (&of.agent, show::number(of.shared as u64));
    let heading = format!("against {agent} ({}):", end(&of.other));
    let mut out = format!(
        "{} the first {shared} of {} bytes are the same as of its request {}",
        paint.bold(heading),
        show::number(of.whole as u64),
        of.number + 1
    );
    if of.own != of.theirs {
        let (own, theirs) = (show::line(&of.own, SHOWN), show::line(&of.theirs, SHOWN));
        out += &format!("\n  here   …{own}\n  there  …{theirs}");
    }
    if !of.differs.is_empty() {
        out += &format!("\n  their definitions differ in {}", of.differs.join(", "));
    }
    out
}

pub(super) fn json(of: &Difference) -> Value {
    json!({
        "run": of.other.to_string(),
        "agent": of.agent.as_str(),
        "request": of.number + 1,
        "shared_bytes": of.shared,
        "own": of.own,
        "theirs": of.theirs,
        "differs": of.differs,
    })
}
