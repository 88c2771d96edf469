//! `unisono context`: the context of a branch, section by section.

mod text;

use unisono::Service;
use unisono_api::compaction::NewCompaction;
use unisono_api::context::{Context, ContextQuery};
use unisono_api::session::MAIN_BRANCH;

use crate::app::App;
use crate::problem::Result;
use crate::service::{branch_length, find_session};
use crate::show;

const HELP: &str = "\
The bar is orange from 80 % and red from 95 % of the usable tokens. Above 100 %, the line `next
turn` has the steps of that turn before its agents begin, and the tokens that these free. The line
`usable` divides the window of the agent with the fewest usable tokens, and names this agent if it
is not the lead. The snapshot id is the one that a turn without new input would freeze: equal
content has an equal id on every machine.

JSON: session, branch, snapshot, encoding, window_tokens, usable_tokens, usable [{agent, lead,
model, encoding, window_tokens, reply_tokens, safety_tokens, preamble_tokens (system and tools),
assignment_tokens (instructions and task), results_tokens (of delegates), calibration_tokens,
usable_tokens}] (by encoding, of the agent that leaves the fewest tokens), used_tokens,
occupancy_percent, approximate, exact_tokens (with --exact: by the provider, instructions included),
exact_error (the reason without exact_tokens), system, system_tokens, skills_tokens (of these),
tools [{name, description}], tools_tokens, uncounted_servers, pending_messages, pending_tokens,
summaries [{checkpoint, first, last, messages, tier (conversation, topic, bulk), tokens,
tokens_before, compression_ratio, tightened, note, at, model, text}], topics {count, items,
has_more, url}, the newest 20 first [{first, last, messages, title, started_at, last_at, sealed_at,
summary (the number of its checkpoint), ended_by (phrase, silence, share, person or null), status
(verbatim, summarised, partly_summarised)}], tiers [{name, tokens, limit_tokens}] of the preset
tiered, messages [{ordinal, role, author, tokens, pinned, form (masked, cut or null), text}],
prepared {state (writing, ready, dropped), first, last, after (a turn), tokens, model, reason}: the
summary that is written ahead.

Examples:
  unisono context latest
  unisono context latest --full | less";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    #[arg(default_value = "latest")]
    session: String,
    /// The branch
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
    /// Shows complete texts instead of first lines
    #[arg(long)]
    full: bool,
    /// Also counts the tokens with the provider of the lead's model
    #[arg(long)]
    exact: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let found = find_session(&*service, &args.session).await?;
    branch_length(&*service, &found.session, &args.branch).await?;
    let query = ContextQuery {
        branch: args.branch,
        exact: args.exact,
        ..ContextQuery::default()
    };
    let context = service.context(&found.session, &query).await?;
    let next = match context.used_tokens > context.usable_tokens {
        true => Some(next_turn(&*service, &context).await),
        false => None,
    };
    service.close().await;
    if let Some(why) = &context.exact_error {
        app.out.warn(why);
    }
    for server in &context.uncounted_servers {
        app.out.warn(format_args!(
            "the tools of `{server}` are not counted: no turn of this session has queried it yet"
        ));
    }
    print(app, &found.title, (&context, next.as_deref()), args.full);
    Ok(())
}

/// What the next turn does about a context that does not fit.
async fn next_turn(service: &dyn Service, context: &Context) -> String {
    let new = NewCompaction::new(context.branch.as_str());
    match service.estimate(&context.session, &new).await {
        Ok(estimate) => text::next_turn(&estimate.next_turn),
        // Not even a compaction on request makes it fit.
        Err(error) => text::would_fail(error),
    }
}

/// Prints a context and what the next turn does about it; `full`: whole texts instead of their first
/// line.
pub(super) fn print(app: &App, title: &str, (context, next): (&Context, Option<&str>), full: bool) {
    let text = text::text((context, next), title, app.out.paint, full);
    // Complete texts keep their line breaks.
    let text = match full {
        true => text,
        false => show::wrap(&text, 10),
    };
    app.out.result(context, text);
}
