//! `unisono usage`: what model calls used, by agent and model.

use serde_json::{Value, json};
use unisono::past;
use unisono_context::call::Usage;
use unisono_session::usage::{Asker, Deleted, Ledger, Used};

use crate::app::App;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
Tokens in include those read from the provider's prompt cache (CACHED) and written to it
(WRITTEN). EXPECTED were hoped for: where less than half of them were there, the cache missed. A
row and the total go by their sums; of one run, `unisono runs show` says it.
`?` is an unknown cost, which is not free. (summaries) are what was asked of the writers of
summaries, taken or not; JOBS are those that were taken. Earlier versions kept only their cost.
JSON: {rows: [{agent (null: summaries), model, jobs, input_tokens, output_tokens,
cache_expected_tokens, cache_read_tokens, cache_write_tokens, cache_missed, cost_usd}], total,
deleted (null: none, or one session was asked for) {sessions, jobs, input_tokens, ...}: what of
it sessions used that were deleted, budgets [{level, resource, cap, spent, set_aside, left}]:
those of [budget.daemon], in dollars, tokens or seconds}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only this session
    session: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let sessions = app.sessions(&setup).await?;
    let ids = match &args.session {
        Some(name) => vec![sessions.find(name).await?],
        None => sessions
            .ids()
            .await?
            .into_iter()
            .map(|(id, _)| id)
            .collect(),
    };
    let deleted = match &args.session {
        Some(_) => Deleted::default(),
        None => sessions.journal().deleted().await?,
    };
    let mut ledger = deleted.ledger.clone();
    for id in ids {
        sessions
            .read(id, |event| {
                ledger.take(event);
                Ok(true)
            })
            .await?;
    }
    let budgets = past::daemon_budgets(sessions.journal(), &setup.loaded.config.budget).await?;
    if app.out.json {
        let budgets: Vec<Value> = budgets.iter().map(show::budget).collect();
        let rows: Vec<Value> = ledger.used().map(|(a, m, u)| row_json(a, m, u)).collect();
        let total = show::used(&ledger.total());
        let deleted = (deleted.sessions > 0).then(|| deleted_json(&deleted));
        app.out
            .json(&json!({"rows": rows, "total": total, "deleted": deleted, "budgets": budgets}));
    } else if ledger.used().len() == 0 {
        app.out.say("no model was asked yet");
    } else {
        let mut rows: Vec<Vec<String>> = ledger.used().map(|(a, m, u)| row(a, m, u)).collect();
        if deleted.sessions > 0 {
            let sessions = show::many(deleted.sessions, "deleted session");
            rows.push(sum(format!("of which {sessions}"), &deleted.ledger));
        }
        rows.push(sum("all".to_owned(), &ledger));
        let header = [
            "AGENT", "MODEL", "JOBS", "IN", "OUT", "EXPECTED", "CACHED", "WRITTEN", "COST",
        ];
        app.out
            .data(show::table(&header, &[2, 3, 4, 5, 6, 7, 8], rows));
    }
    if !app.out.json {
        budgets.iter().for_each(|budget| app.out.data(budget));
    }
    sessions.close().await
}

fn asker(asker: &Asker) -> &str {
    match asker {
        Asker::Agent(agent) => agent.as_str(),
        Asker::Summaries => "(summaries)",
    }
}

fn row(who: &Asker, model: &str, used: &Used) -> Vec<String> {
    let mut row = vec![
        asker(who).to_owned(),
        model.to_owned(),
        show::number(used.jobs),
    ];
    row.extend(cells(&used.usage));
    row
}

fn sum(of: String, ledger: &Ledger) -> Vec<String> {
    let mut row = vec![of, String::new(), String::new()];
    row.extend(cells(&ledger.total()));
    row
}

fn cells(usage: &Usage) -> [String; 6] {
    let missed = if usage.missed() { " (missed)" } else { "" };
    [
        show::tokens(usage.input),
        show::tokens(usage.output),
        show::tokens(usage.cache_expected),
        format!("{}{missed}", show::tokens(usage.cache_read)),
        show::tokens(usage.cache_write),
        show::cost(usage.cost),
    ]
}

fn deleted_json(deleted: &Deleted) -> Value {
    let mut sum = show::used(&deleted.ledger.total());
    sum["sessions"] = json!(deleted.sessions);
    sum["jobs"] = json!(deleted.ledger.jobs());
    sum
}

fn row_json(who: &Asker, model: &str, used: &Used) -> Value {
    let agent = match who {
        Asker::Agent(agent) => Some(agent.as_str()),
        Asker::Summaries => None,
    };
    let mut row = show::used(&used.usage);
    row["agent"] = json!(agent);
    row["model"] = json!(model);
    row["jobs"] = json!(used.jobs);
    row
}
