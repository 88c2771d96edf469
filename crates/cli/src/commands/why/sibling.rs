//! What two runs of a turn were sent alike, and where they part.

use serde_json::{Value, json};
use unisono_context::RunId;
use unisono_runtime::replay::Sent;
use unisono_session::Definition;
use unisono_session::trace::RunTrace;

use super::first_sibling;
use crate::output::Paint;
use crate::problem::{Problem, Result};
use crate::sessions::{is_meant, only};
use crate::show;
use crate::traces::{Found, end};

/// Bytes shown from where two requests part.
const SHOWN: usize = 160;

/// Two requests side by side.
#[derive(Debug)]
pub(super) struct Difference<'r> {
    other: RunId,
    agent: &'r str,
    /// The other's request, from 0.
    number: usize,
    shared: usize,
    whole: usize,
    own: String,
    theirs: String,
    differs: Vec<&'static str>,
}

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

impl<'r> Difference<'r> {
    pub(super) fn between(
        ours: &Sent,
        theirs: &Sent,
        (run, other): (&RunTrace, &'r RunTrace),
        id: RunId,
        number: usize,
    ) -> Difference<'r> {
        let (a, b) = (ours.body.concat(), theirs.body.concat());
        let alike = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        Difference {
            other: id,
            agent: other.opened.1.agent.as_str(),
            number,
            shared: alike,
            whole: a.len(),
            own: from(&a, alike),
            theirs: from(&b, alike),
            differs: match (&run.definition, &other.definition) {
                (Some(ours), Some(theirs)) => differing(ours, theirs),
                _ => Vec::new(),
            },
        }
    }

    pub(super) fn text(&self, paint: Paint) -> String {
        let (agent, shared) = (self.agent, show::number(self.shared as u64));
        let heading = format!("against {agent} ({}):", end(&self.other));
        let mut out = format!(
            "{} the first {shared} of {} bytes are the same as of its request {}",
            paint.bold(heading),
            show::number(self.whole as u64),
            self.number + 1
        );
        if self.own != self.theirs {
            let (own, theirs) = (
                show::line(&self.own, SHOWN),
                show::line(&self.theirs, SHOWN),
            );
            out += &format!("\n  here   …{own}\n  there  …{theirs}");
        }
        if !self.differs.is_empty() {
            out += &format!(
                "\n  their definitions differ in {}",
                self.differs.join(", ")
            );
        }
        out
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "run": self.other.to_string(),
            "agent": self.agent,
            "request": self.number + 1,
            "shared_bytes": self.shared,
            "own": self.own,
            "theirs": self.theirs,
            "differs": self.differs,
        })
    }
}

/// Some bytes from there on, as text.
fn from(bytes: &[u8], at: usize) -> String {
    let end = bytes.len().min(at + SHOWN);
    String::from_utf8_lossy(bytes.get(at..end).unwrap_or_default()).into_owned()
}

/// The keys in which two definitions differ, as they are written.
fn differing(a: &Definition, b: &Definition) -> Vec<&'static str> {
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
        ("max_turns", a.max_turns != b.max_turns),
    ];
    let differing = keys.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(key, _)| key).collect()
}
