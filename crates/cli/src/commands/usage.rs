//! `unisono usage`: the usage of model calls, by agent and model.

use unisono_api::usage::{Amounts, Row, Usage};

use crate::app::App;
use crate::problem::Result;
use crate::service::find_session;
use crate::show;

const HELP: &str = "\
Input tokens include those read from the provider's prompt cache (CACHED) and written to it
(WRITTEN). EXPECTED: tokens expected in the cache; if fewer than half of them were read, the cache
missed. Rows and total use sums; `unisono runs show` has single runs. `?` is an unknown cost, not
zero. (summaries): calls of summarisers, used or not; JOBS counts the summaries that were used.
JSON: {rows: [{agent (null: summaries), model, jobs, input_tokens, output_tokens,
cache_expected_tokens, cache_read_tokens, cache_write_tokens, cache_missed, cost_usd}], total,
deleted (absent: none, or with SESSION) {sessions, jobs, input_tokens, ...}: the part used by
deleted sessions, budgets (absent: none is set) [{level, resource, cap, spent, reserved, left}]:
of [budget.daemon], in dollars, tokens or seconds}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only this session
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let service = app.reader(&setup).await?;
    let session = match &args.session {
        Some(name) => Some(find_session(&*service, name).await?.session),
        None => None,
    };
    let used = service.usage(session.as_deref()).await?;
    service.close().await;
    if app.out.json {
        app.out.json(&used);
        return Ok(());
    }
    if used.rows.is_empty() {
        app.out.message("no model was asked yet");
    } else {
        app.out.data(table(&used));
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

fn row(of: &Row) -> Vec<String> {
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
