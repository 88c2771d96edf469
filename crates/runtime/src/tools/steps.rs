//! The steps of the agent that wrote a message, as a text for another agent. Its reasoning is not
//! shown to others.

use std::fmt::Write as _;
use std::sync::Arc;

use unisono_context::Ordinal;
use unisono_session::run::{Step, ToolCall};

use crate::agent::{Ctx, Failure};

use super::{Outcome, RECALL, heading, no_message, paged_text};

/// The steps behind message `n`, or as much of them as fits.
pub(super) async fn read_steps(n: u32, skip: usize, ctx: &Ctx) -> Result<Outcome, Failure> {
    let ordinal = Ordinal(n);
    let Some(message) = ctx.read_message(ordinal).await? else {
        return Ok(Err(no_message(n)));
    };
    let steps = ctx.read_steps(ordinal).await?;
    if steps.is_empty() {
        return Ok(Err(format!(
            r#"no agent took steps to write {ordinal}; {RECALL} {{"n":{n}}} reads the message"#
        )));
    }
    let text = format!(
        "{}, its steps:{}",
        heading(&message),
        describe_steps(&steps)
    );
    let next = |end| format!(r#"{RECALL} {{"n":{n},"steps":true,"skip":{end}}}"#);
    Ok(paged_text(&text, ordinal, skip, next))
}

fn describe_steps(steps: &[Arc<Step>]) -> String {
    let mut out = String::new();
    let mut asked: &[ToolCall] = &[];
    let is_shown = |step: &&Arc<Step>| {
        matches!(
            ***step,
            Step::Model(_) | Step::Tools(_) | Step::Named { .. }
        )
    };
    for (number, step) in (1..).zip(steps.iter().filter(is_shown)) {
        let _ = write!(out, "\n\n{number}. ");
        match &**step {
            Step::Model(reply) => {
                asked = &reply.calls;
                out.push_str(match reply.text.trim() {
                    "" => "said nothing",
                    text => text,
                });
                for call in asked {
                    let _ = write!(out, "\n[calls {} {}]", call.name, call.arguments);
                }
            }
            Step::Tools(results) => {
                for (at, result) in results.iter().enumerate() {
                    let name = asked.get(at).map_or("a tool", |call| &*call.name);
                    let how = if result.is_error { "fails" } else { "gives" };
                    let gap = if at > 0 { "\n" } else { "" };
                    let _ = write!(out, "{gap}[{name} {how}]\n{}", result.content);
                }
            }
            Step::Named { name, result } => {
                let _ = write!(out, "[{name}] {result}");
            }
            Step::Narrowed { .. } | Step::Spent(_) | Step::Summarised { .. } => {}
        }
    }
    out
}
