//! Shows the common parts of the requests of two runs.

use unisono::Service;
use unisono::fmt::end;
use unisono_api::run::{SiblingRequest, Why};

use crate::problem::{Problem, Result};
use crate::service::lookup::{only_match, runs_of};
use crate::show;
use crate::terminal::Paint;
use unisono::service::sessions::is_meant;

/// Characters shown after the first difference of two requests.
const SHOWN: usize = 160;

/// The run to compare with that a person means.
pub(super) async fn find(
    service: &dyn Service,
    (session, run): (&str, &str),
    name: &str,
) -> Result<String> {
    let turn = service.run(session, run).await?.turn;
    let runs = runs_of(service, session, &turn).await?.into_iter();
    let ids = runs.map(|listed| listed.run.run);
    let meant: Vec<String> = ids.filter(|id| is_meant(name, id)).collect();
    let hint = "a run is compared with others of its turn: `unisono runs list` shows them";
    only_match(name, "run", &meant).map_err(|problem: Problem| problem.hint(hint))
}

pub(super) fn text(why: &Why, of: &SiblingRequest, paint: Paint) -> String {
    let whole = why.body.as_ref().and_then(|body| {
        let mut requests = why.requests.iter();
        let own = requests.find(|request| request.number == body.number)?;
        Some(own.bytes)
    });
    let heading = format!("against {} ({}):", of.agent, end(&of.run));
    let mut out = format!(
        "{} the first {} of {} bytes are the same as of its request {}",
        paint.bold(heading),
        show::number(of.shared_bytes),
        show::number(whole.unwrap_or(of.shared_bytes)),
        of.request
    );
    if of.suffix != of.sibling_suffix {
        let (own, theirs) = (
            show::line(&of.suffix, SHOWN),
            show::line(&of.sibling_suffix, SHOWN),
        );
        out += &format!("\n  here   …{own}\n  there  …{theirs}");
    }
    if !of.differing_keys.is_empty() {
        out += &format!(
            "\n  their definitions differ in {}",
            of.differing_keys.join(", ")
        );
    }
    show::wrap(&out, 9)
}
