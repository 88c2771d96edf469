//! `unisono usage`: the usage of model calls, by agent and model.

use unisono_api::usage::{Amounts, Usage, UsageBy, UsageGroup, UsageQuery, UsageRow};

use crate::app::App;
use crate::problem::Result;
use crate::service::find_session;
use crate::show;

const HELP: &str = "\
Input tokens include those read from the provider's prompt cache (CACHED) and written to it
(WRITTEN). EXPECTED: tokens expected in the cache; if fewer than half of them were read, the cache
missed. Rows and total use sums; `unisono runs show` has single runs. `?` is an unknown cost, not
zero. (summaries): calls of summarisers, used or not; JOBS counts the summaries that were used.
With --by, the sums of days, agents, models or sessions; usage of deleted sessions appears only in
the total if grouped by day or session. `--by day --agent NAME` is the usage of an agent over time.
JSON: {rows: [{agent (null: summaries), model, jobs, input_tokens, output_tokens,
cache_expected_tokens, cache_read_tokens, cache_write_tokens, cache_missed, cost_usd}], groups
(absent without --by) [{key, title (of a session), jobs, uncached_tokens, input_tokens, ...}], total,
deleted (absent: none, or with SESSION) {sessions, jobs, input_tokens, ...}: the part used by
deleted sessions, budgets (absent: none is set) [{level, owner (absent: no owner's), resource, cap, spent, reserved,
remaining}]: of [budget.daemon], [budget.owner] and [budget.owners.NAME], in dollars, tokens or seconds}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only this session
    session: Option<String>,

    /// Group it: by day, agent, model or session
    #[arg(long, value_name = "GROUP", value_parser = ["day", "agent", "model", "session"])]
    by: Option<String>,

    /// Only this agent; `(summaries)` for summaries
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only this model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// From this day on, in UTC
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<String>,

    /// Up to this day, in UTC
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let service = app.reader(&setup).await?;
    let session = match &args.session {
        Some(name) => Some(find_session(&*service, name).await?.session),
        None => None,
    };
    let by = |name: &str| UsageBy::ALL.into_iter().find(|by| by.name() == name);
    let query = UsageQuery {
        session,
        by: args.by.as_deref().and_then(by),
        from: args.from,
        to: args.to,
        agent: args.agent,
        model: args.model,
    };
    let used = service.usage(&query).await?;
    service.close().await;
    if app.out.json {
        app.out.json(&used);
        return Ok(());
    }
    if used.rows.is_empty() {
        app.out.message(match query.is_partial() {
            true => "no usage matches: choose other days, another agent or another model",
            false => "no model has been called yet",
        });
    } else {
        match query.by {
            Some(by) => app.out.data(grouped(by, &used)),
            None => app.out.data(table(&used)),
        }
    }
    let budgets = used.budgets.iter();
    budgets.for_each(|budget| app.out.data(show::budget_line(budget)));
    Ok(())
}

fn table(used: &Usage) -> String {
    let mut rows: Vec<Vec<String>> = used.rows.iter().map(row).collect();
    if let Some(deleted) = &used.deleted {
        let sessions = show::many(deleted.sessions, "deleted session");
        rows.push(sum(format!("of which {sessions}"), &deleted.amounts));
    }
    rows.push(sum("all".to_owned(), &used.total));
    let header = [
        "AGENT", "MODEL", "JOBS", "IN", "OUT", "EXPECTED", "CACHED", "WRITTEN", "COST",
    ];
    show::table(&header, &[2, 3, 4, 5, 6, 7, 8], rows)
}

/// The groups with their runs. Deleted sessions are only part of the sum.
fn grouped(by: UsageBy, used: &Usage) -> String {
    let name = |group: &UsageGroup| {
        let key = group.key.as_deref().unwrap_or("(summaries)");
        let title = group.title.as_deref();
        title.map_or_else(|| key.to_owned(), |title| format!("{key} {title}"))
    };
    let rows = used.groups.iter().map(|group| {
        let mut row = vec![name(group), show::number(group.jobs)];
        row.extend(cells(&group.amounts));
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let mut all = vec!["all".to_owned(), String::new()];
    all.extend(cells(&used.total));
    rows.push(all);
    let by = by.name().to_uppercase();
    let header = [
        &*by, "JOBS", "IN", "OUT", "EXPECTED", "CACHED", "WRITTEN", "COST",
    ];
    show::table(&header, &[1, 2, 3, 4, 5, 6, 7], rows)
}

fn row(of: &UsageRow) -> Vec<String> {
    let agent = of.agent.as_deref().unwrap_or("(summaries)");
    let mut row = vec![agent.to_owned(), of.model.clone(), show::number(of.jobs)];
    row.extend(cells(&of.amounts));
    row
}

fn sum(of: String, amounts: &Amounts) -> Vec<String> {
    let mut row = vec![of, String::new(), String::new()];
    row.extend(cells(amounts));
    row
}

fn cells(used: &Amounts) -> [String; 6] {
    let missed = if used.cache_missed { " (missed)" } else { "" };
    [
        show::number(used.input_tokens),
        show::number(used.output_tokens),
        show::number(used.cache_expected_tokens),
        format!("{}{missed}", show::number(used.cache_read_tokens)),
        show::number(used.cache_write_tokens),
        show::price(used.cost_usd),
    ]
}
