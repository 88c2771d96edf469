//! Open turns and their runs, also if no process works on them.

use serde_json::{Value, json};
use unisono::Service;
use unisono_api::session::{OpenRun, Session};

use crate::problem::Result;
use crate::service::open_turns;
use crate::terminal::Paint;

/// A line for each open turn and, below it, for each of its agents; delegates are below the agent
/// that delegated to them.
pub(crate) async fn lines(
    service: &dyn Service,
    session: &Session,
    paint: Paint,
) -> Result<String> {
    let mut out = String::new();
    for id in open_turns(service, session).await? {
        let branch = service.turn(&session.session, &id).await?.branch;
        let open = format_args!("open on {branch}: `unisono resume` continues it");
        out += &format!("  {id}  {}\n", paint.yellow(open));
        let runs = session.open_runs.iter().filter(|run| run.turn == id);
        let runs: Vec<&OpenRun> = runs.collect();
        let names = runs.iter().map(|run| run.agent.agent.chars().count());
        let width = names.max().unwrap_or(0);
        for run in runs.iter().filter(|run| run.agent.parent.is_none()) {
            below(&mut out, &runs, run, width, 2);
        }
    }
    Ok(out)
}

fn below(out: &mut String, runs: &[&OpenRun], run: &OpenRun, width: usize, depth: usize) {
    let indent = "  ".repeat(depth);
    let (agent, state) = (&run.agent.agent, &run.agent.state);
    *out += &format!("{indent}{agent:<width$}  {state}\n");
    let own = run.agent.run.as_ref();
    let given = |child: &&&OpenRun| own.is_some() && child.agent.parent.as_ref() == own;
    for child in runs.iter().filter(given) {
        below(out, runs, child, width, depth + 1);
    }
}

pub(crate) fn list(session: &Session) -> Vec<Value> {
    let one = |run: &OpenRun| {
        json!({
            "turn": run.turn,
            "branch": run.branch,
            "agent": run.agent.agent,
            "role": run.agent.role,
            "state": run.agent.state,
            "run": run.agent.run,
            "parent_run": run.agent.parent,
        })
    };
    session.open_runs.iter().map(one).collect()
}
