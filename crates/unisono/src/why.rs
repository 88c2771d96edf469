//! Why a run did what it did: its requests, the part shared with a sibling's, and the chain of
//! causes.

pub mod causes;

use unisono_api::run::SiblingRequest;
use unisono_context::RunId;
use unisono_runtime::replay::{RebuiltTurn, Requests};
use unisono_session::event::RunRole;
use unisono_session::{Definition, Trace};

/// Displayed bytes after the first difference of two requests.
const SHOWN: usize = 160;

/// The requests of a run; none if it is not in the turn.
pub fn requests(rebuilt: &RebuiltTurn, run: RunId) -> Option<&Requests> {
    rebuilt.runs.iter().find(|requests| requests.run == run)
}

/// The common part of two runs' requests, and their difference: request `at` of a run, from 0, and
/// the same one of another run; if the other run has fewer, its last one. None if either has no
/// request.
pub fn difference(
    trace: &Trace,
    rebuilt: &RebuiltTurn,
    (run, at): (RunId, usize),
    other: RunId,
) -> Option<SiblingRequest> {
    let ours = requests(rebuilt, run)?.requests.get(at)?;
    let theirs = requests(rebuilt, other)?;
    let number = at.min(theirs.requests.len().checked_sub(1)?);
    let (a, b) = (
        ours.body.concat(),
        theirs.requests.get(number)?.body.concat(),
    );
    let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (run, of) = (trace.run(run)?, trace.run(other)?);
    Some(SiblingRequest {
        run: other.to_string(),
        agent: of.opened.1.agent.to_string(),
        request: number as u64 + 1,
        shared_bytes: shared as u64,
        suffix: from(&a, shared),
        sibling_suffix: from(&b, shared),
        differing_keys: match (&run.definition, &of.definition) {
            (Some(ours), Some(theirs)) => differing(ours, theirs),
            _ => Vec::new(),
        },
    })
}

/// The first sibling of this run, in the order of the fan-out; otherwise the run it works for.
pub fn first_sibling(trace: &Trace, run: RunId) -> Option<RunId> {
    let of = &trace.run(run)?.opened.1;
    let runs = &trace.turn(of.turn)?.runs;
    let beside = runs.iter().filter(|id| **id != run);
    let role = |id: &RunId| trace.run(*id).map(|run| run.opened.1.role);
    let alike = |id: &&RunId| match (of.role, role(id)) {
        (RunRole::Delegate { .. }, Some(RunRole::Delegate { .. })) => true,
        (
            RunRole::Child { parent, round, .. },
            Some(RunRole::Child {
                parent: other,
                round: of_round,
                ..
            }),
        ) => (parent, round) == (other, of_round),
        _ => false,
    };
    let first = beside.clone().find(alike);
    first.or_else(|| beside.clone().next()).copied()
}

/// Some bytes from a position on, as text.
fn from(bytes: &[u8], at: usize) -> String {
    let end = bytes.len().min(at + SHOWN);
    String::from_utf8_lossy(bytes.get(at..end).unwrap_or_default()).into_owned()
}

/// The keys in which two definitions differ, as written.
fn differing(a: &Definition, b: &Definition) -> Vec<String> {
    let keys = [
        ("agent", a.id != b.id),
        ("kind", a.kind != b.kind),
        ("model", a.model != b.model),
        ("description", a.description != b.description),
        ("instructions", a.instructions != b.instructions),
        ("tools", a.tools != b.tools),
        ("context", a.context != b.context),
        ("prefix", a.prefix != b.prefix),
        ("output_schema", a.output_schema != b.output_schema),
        ("temperature", a.temperature_milli != b.temperature_milli),
        ("max_model_calls", a.max_model_calls != b.max_model_calls),
    ];
    let differing = keys.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(key, _)| key.to_owned()).collect()
}
