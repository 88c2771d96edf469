//! Why a run exists: from the input of its turn to its own opening.

use unisono_api::run::{Cause, decision_text};
use unisono_context::RunId;
use unisono_session::Trace;
use unisono_session::trace::{DecidedCall, Moment, RunTrace, decisions};

use crate::fmt;
use crate::fmt::end;
use crate::values::instant;

/// Displayed characters of an input or a task.
const SHOWN: usize = 80;

fn cause(moment: Moment, name: &str, text: String) -> Cause {
    Cause {
        event: moment.seq,
        at: instant(moment.at),
        cause: name.to_owned(),
        text,
    }
}

/// The chain, in the order of the journal.
pub fn of_run(trace: &Trace, run: RunId) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut add = |moment, name, text| causes.push(cause(moment, name, text));
    let Some(of) = trace.run(run) else {
        return causes;
    };
    if let Some(turn) = trace.turn(of.opened.1.turn) {
        let (moment, accepted) = &turn.accepted;
        let input = accepted.work.input_text().unwrap_or_default();
        let input = fmt::line(&input, SHOWN);
        let text = format!(
            "turn {} on branch {}: {input}",
            end(&accepted.id),
            accepted.branch
        );
        add(*moment, "input", text);
        if let Some(moment) = turn.started {
            add(moment, "start", "its branch was free".to_owned());
        }
        for (moment, plan) in &turn.plans {
            add(
                *moment,
                "plan",
                format!("compaction: {}", fmt::step(&plan.step)),
            );
        }
        if let Some((moment, snapshot)) = turn.frozen {
            let text = format!("context frozen as snapshot {}", snapshot.short());
            add(moment, "freeze", text);
        }
    }
    for (id, run) in above(trace, run) {
        add(run.opened.0, "run", opened(trace, id, run));
    }
    add(of.opened.0, "run", opened(trace, run, of));
    for (moment, attempt, reason) in &of.retries {
        let text = format!(
            "attempt {attempt} was decided: {}",
            fmt::line(reason, SHOWN)
        );
        add(*moment, "attempt", text);
    }
    for DecidedCall {
        moment,
        tool,
        decision,
    } in decisions(of)
    {
        let text = decision_text(&tool, decision.name, decision.by.as_deref());
        add(moment, "decision", text);
    }
    if let Some((moment, _)) = &of.ended {
        let text = format!("it ended: {}", of.status().name());
        add(*moment, "end", text);
    }
    causes.sort_by_key(|cause| cause.event);
    causes
}

/// The runs that delegated to it, the outermost first.
fn above(trace: &Trace, run: RunId) -> Vec<(RunId, &RunTrace)> {
    let mut above = Vec::new();
    let mut at = trace.run(run);
    while let Some(parent) = at.and_then(|run| run.opened.1.role.parent()) {
        at = trace.run(parent);
        above.extend(at.map(|run| (parent, run)));
    }
    above.reverse();
    above
}

fn opened(trace: &Trace, id: RunId, run: &RunTrace) -> String {
    let given = &run.opened.1;
    let task = trace.task(id).unwrap_or_default();
    let context = match given.snapshot {
        Some(snapshot) => format!("snapshot {}", snapshot.short()),
        None => "its task only".to_owned(),
    };
    format!(
        "run {} of {} ({}), {context}, definition {}: {}",
        end(&id),
        given.agent,
        fmt::role(run),
        given.definition.short(),
        fmt::line(&task, SHOWN)
    )
}
