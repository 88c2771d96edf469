//! `unisono audit`: changes and refused requests, with their callers.

use std::num::NonZeroUsize;

use unisono_api::audit::{AuditEntry, AuditQuery};
use unisono_api::service::Service;

use crate::app::App;
use crate::options::at_least_one;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
The newest entry comes first. Requests to a daemon that change something are recorded with their
status, and refused ones (401, 403, 429) up to 60 per minute and name; `omitted` counts the rest.
`daemon` is the daemon's own token. Content and reads are not recorded. A browser that logs in by a
link or a token is a `login`. A command that changes the store without a daemon has the method CLI
and the user of the operating system. The method OPEN is a change that the program made when it
opened the store: it repaired damage (`repair`), or took the rights of other users from its files
(`narrow`). An entry has no status if it is a command or an opening, or if the client disconnected
before the answer.

JSON: a list of {at, caller (null: unknown), owner, method, route (null: no route matches; of CLI: the
command; of OPEN: repair, narrow), operation (tool of MCP, operation of A2A, login), object {session,
turn, call, token, quarantine, paths, ...}, status, omitted (a number of requests), cause (refusals,
queue)}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only entries since then: a date, an instant, or an age
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only entries of this token, person or user
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// Number of entries, at most
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    limit: NonZeroUsize,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let found = matching(&*service, &args).await;
    service.close().await;
    let entries = found?;
    let header = ["AT (UTC)", "WHO", "OWNER", "STATUS", "REQUEST", "ABOUT"];
    let none = "nothing is recorded";
    app.out.list(&entries, none, (&header, &[]), row);
    Ok(())
}

async fn matching(service: &dyn Service, args: &Args) -> Result<Vec<AuditEntry>> {
    let (mut all, limit) = (Vec::new(), args.limit.get());
    let mut query = AuditQuery {
        since: args.since.clone(),
        caller: args.caller.clone(),
        ..AuditQuery::default()
    };
    while let Some(left) = NonZeroUsize::new(limit - all.len()) {
        query.limit = Some(left);
        let page = service.audit(&query).await?;
        all.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let request = match entry.omitted {
        Some(count) => {
            let requests = show::many(count, "request");
            format!("{requests} omitted ({})", or_none(&entry.cause))
        }
        None => {
            let parts = [&entry.method, &entry.route, &entry.operation];
            let parts: Vec<&str> = parts
                .into_iter()
                .filter_map(|part| part.as_deref())
                .collect();
            parts.join(" ")
        }
    };
    let about = entry.object.iter().map(|(kind, id)| format!("{kind} {id}"));
    let about: Vec<String> = about.collect();
    vec![
        show::second(&entry.at),
        or_none(&entry.caller),
        or_none(&entry.owner),
        entry
            .status
            .map_or_else(|| "-".to_owned(), |status| status.to_string()),
        request,
        about.join(", "),
    ]
}
