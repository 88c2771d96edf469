//! `unisono checkpoints show`.

use unisono_api::compaction::CheckpointDetail;
use unisono_api::session::MAIN_BRANCH;
use unisono_context::Tokens;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::find_session;
use crate::show;

const HELP: &str = "\
JSON: as for `list`, with block (its text in the context), covers [{first, last}], key_facts [{text,
ordinal}], duration_ms, cost_usd (null: unknown), usage (as for `usage`; absent: no model was
asked), revert {tokens_before, tokens_after, usable_tokens, fits, checkpoints (which return
to the context), messages (as many return)} (null: not in the context of `main`; then inactive
{reason, revert_first (the checkpoint that replaced it), branches (with its messages)}).";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The checkpoint's number; without it, the newest
    number: Option<u32>,
    /// Only the text of its summary, as `edit` takes it
    #[arg(long, conflicts_with = "json")]
    summary: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.reader().await?;
    let session = find_session(&*service, &args.session).await?.session;
    let known = service.session(&session).await?.checkpoints;
    // Several numbers are shown in their order.
    let known = u32::try_from(known).unwrap_or(u32::MAX);
    let number = args.number.unwrap_or(known);
    if !(1..=known).contains(&number) {
        return Err(missing(args.number, known as usize));
    }
    let number = number.to_string();
    let detail = service.checkpoint(&session, &number, MAIN_BRANCH).await?;
    service.close().await;
    match &detail.checkpoint.text {
        Some(text) if args.summary => app.out.data(text),
        _ if app.out.json => app.out.json(&detail),
        _ => {
            app.out.message(show::wrap(&about(&detail), 2));
            app.out
                .data(show::wrap(&show::indented(&detail.block, ""), 2));
        }
    }
    Ok(())
}

pub(super) fn missing(number: Option<u32>, known: usize) -> Problem {
    let problem = match number {
        Some(number) => Problem::not_found(format!("the session has no checkpoint {number}")),
        None => Problem::not_found("the session has no checkpoint"),
    };
    match known {
        0 => problem.hint("`unisono compact` makes one"),
        _ => problem.hint(format!("it has 1 to {known}")),
    }
}

fn about(detail: &CheckpointDetail) -> String {
    let c = &detail.checkpoint;
    let (before, after) = (Tokens(c.tokens_before), Tokens(c.tokens_after));
    let degraded = if c.degraded {
        ", to be redone by a model"
    } else {
        ""
    };
    let tightened = match c.tightened {
        true => ", less kept than requested",
        false => "",
    };
    let coverage = c.coverage.map(|coverage| format!("it gives {coverage}\n"));
    let coverage = coverage.unwrap_or_default();
    let used = detail.usage.map(|used| {
        let (input, output) = (
            show::number(used.input_tokens),
            show::number(used.output_tokens),
        );
        format!(", {input} tokens in, {output} out")
    });
    let used = used.unwrap_or_default();
    format!(
        "checkpoint {} ({}, {}, {}), {}, {} → {} tokens{}, by {}, {}{used}, {} UTC{degraded}{tightened}\n{coverage}",
        c.number,
        c.kind,
        c.tier,
        c.preset,
        show::many(c.messages.into(), "message"),
        show::tokens(before),
        show::tokens(after),
        show::compression(before, after),
        c.model,
        show::time(detail.duration_ms),
        show::minute(&c.at),
    )
}
