//! `unisono usage`: the usage of model calls, by agent and model.

use unisono_api::usage::{Amounts, Usage, UsageBy, UsageGroup, UsageQuery, UsageRow};

use crate::app::App;
use crate::problem::Result;
use crate::service::session_if_named;
use crate::show;

/// Longest title shown in a table.
const TITLE_CHARS: usize = 60;
/// The columns of a terminal for the other cells of a session.
const BESIDE_TITLE: usize = 56;

const HELP: &str = "\
Input tokens include those read from the provider's prompt cache (CACHED) and written to it
(WRITTEN). EXPECTED: tokens expected in the cache; if fewer than half of them were read, the cache
missed. Each row and the total compare sums; `unisono runs show` has single runs. `?` is an unknown
cost, not zero. (summaries): calls of summarisers, used or not; JOBS counts the summaries that were
used. With --by, the sums of days, agents, models or sessions; usage of deleted sessions appears
only in the total if grouped by day or session, and nowhere with --from or --to, because its days are
unknown. `--by day --agent NAME` is the usage of an agent over time.
JSON: {rows: [{agent (null: summaries), model, jobs, input_tokens, output_tokens,
cache_expected_tokens, cache_read_tokens, cache_write_tokens, cache_missed, cost_usd}], groups
(absent without --by) [{key, title (of a session), jobs, uncached_tokens, input_tokens, ...}], at most
500, omitted_groups (how many more; absent: none), total, deleted (absent: none, or with SESSION,
--from or --to) {sessions, jobs, input_tokens, ...}: the part used by deleted sessions, budgets
(absent: none is set) [{level, owner (absent: no owner's), resource, cap, spent, reserved, remaining}]:
of [budget.daemon], [budget.owner] and [budget.owners.NAME], in dollars, tokens or seconds}.";

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
    let service = app.reader().await?;
    let session = session_if_named(&*service, args.session.as_deref()).await?;
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
            Some(by) => {
                app.out.data(grouped(by, &used));
                if let Some(note) = omission(by, used.omitted_groups) {
                    app.out.message(note);
                }
            }
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
        rows.push(sum("of which", sessions, &deleted.amounts));
    }
    rows.push(sum("all", String::new(), &used.total));
    let header = [
        "AGENT", "MODEL", "JOBS", "IN", "OUT", "EXPECTED", "CACHED", "WRITTEN", "COST",
    ];
    // On a narrow terminal: without the cache, then without the jobs.
    show::table_that_fits(&header, &[2, 3, 4, 5, 6, 7, 8], rows, &[7, 5, 6, 2])
}

/// The groups with their runs. Deleted sessions are only part of the sum.
fn grouped(by: UsageBy, used: &Usage) -> String {
    let names = used.groups.iter().map(|group| names(by, group));
    let amounts = used.groups.iter().map(|group| {
        let jobs = std::iter::once(show::number(group.jobs));
        jobs.chain(cells(&group.amounts))
    });
    let mut rows: Vec<Vec<String>> = names
        .zip(amounts)
        .map(|(names, amounts)| names.into_iter().chain(amounts).collect())
        .collect();
    let by_name = by.name().to_uppercase();
    let mut header = vec![&*by_name];
    if by == UsageBy::Session {
        header.push("TITLE");
    }
    let jobs = header.len();
    header.extend(["JOBS", "IN", "OUT", "EXPECTED", "CACHED", "WRITTEN", "COST"]);
    let mut all = vec!["all".to_owned()];
    all.resize(jobs + 1, String::new());
    all.extend(cells(&used.total));
    rows.push(all);
    let right: Vec<usize> = (jobs..header.len()).collect();
    // On a narrow terminal: without the cache, then without the jobs.
    let optional = [jobs + 5, jobs + 3, jobs + 4, jobs];
    show::table_that_fits(&header, &right, rows, &optional)
}

/// The groups that are left out; none: all are shown.
fn omission(by: UsageBy, omitted: u64) -> Option<String> {
    let which = match by == UsageBy::Day {
        true => "the oldest",
        false => "those with the least usage",
    };
    (omitted > 0).then(|| format!("not shown: {}, {which}", show::many(omitted, "group")))
}

/// The key of a group; of a session, its short id and the start of its title.
fn names(by: UsageBy, group: &UsageGroup) -> Vec<String> {
    let key = group.key.as_deref().unwrap_or("(summaries)");
    if by != UsageBy::Session {
        return vec![key.to_owned()];
    }
    let room = show::line_room(BESIDE_TITLE, TITLE_CHARS);
    let title = group.title.as_deref().unwrap_or_default();
    vec![show::short_id(key), show::line(title, room)]
}

fn row(of: &UsageRow) -> Vec<String> {
    let agent = of.agent.as_deref().unwrap_or("(summaries)");
    let mut row = vec![agent.to_owned(), of.model.clone(), show::number(of.jobs)];
    row.extend(cells(&of.amounts));
    row
}

fn sum(of: &str, what: String, amounts: &Amounts) -> Vec<String> {
    let mut row = vec![of.to_owned(), what, String::new()];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_left_out_are_counted() {
        let by_day = omission(UsageBy::Day, 1);
        assert_eq!(by_day.as_deref(), Some("not shown: 1 group, the oldest"));
        let by_session = omission(UsageBy::Session, 1_200);
        let said = "not shown: 1,200 groups, those with the least usage";
        assert_eq!(by_session.as_deref(), Some(said));
        assert_eq!(omission(UsageBy::Agent, 0), None);
    }
}
