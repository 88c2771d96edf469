//! Calls of client tools: the client makes them after the run has ended with them.

use std::sync::Arc;

use unisono_session::ids;
use unisono_session::run::calls::CallPlace;
use unisono_session::run::{Reply, Stop, ToolCall};

use super::{outside, spec};
use crate::agent::Ctx;

/// The result of a client tool call beside an invalid one, for the model.
pub(super) const INVALID_SIBLING: &str =
    "[not made: another call of the same reply was wrong; mend that one and make both again]";

/// The calls of a reply that are left to the client, with new ids; none if the run continues. Calls
/// of the agent's own tools beside them are not made: when the model continues it sees only these
/// calls, and can repeat the others. So are the calls beyond the maximum number of one reply
/// ([`unsent_calls`]). A call that does not fit its tool's schema, or in which the reply was cut
/// off, must be corrected by the model first.
pub(crate) fn client_calls(reply: &Reply, replies: u32, ctx: &Ctx) -> Option<Vec<ToolCall>> {
    let client_options = &ctx.assignment().client_options;
    if reply.stop == Stop::Refused {
        return None;
    }
    let whole = super::complete_calls(reply);
    let called = reply.calls.iter().take(super::max_calls(ctx)).enumerate();
    let called = called.filter(|(_, call)| client_options.has(&call.name));
    let most = if client_options.one { 1 } else { usize::MAX };
    let calls = (0..).zip(called).take(most).map(|(index, (at, call))| {
        if at >= whole {
            return None;
        }
        let checked = outside::check_call(call, spec(&call.name, ctx).ok()?).ok()?;
        let place = CallPlace {
            run: ctx.run(),
            round: replies + 1,
            index,
        };
        Some(ToolCall {
            id: id(ids::call(ctx.assignment().turn, place).as_u128()),
            name: call.name.clone(),
            arguments: checked.arguments,
        })
    });
    let calls: Vec<ToolCall> = calls.collect::<Option<_>>()?;
    (!calls.is_empty()).then_some(calls)
}

/// Why a reply with calls of client tools is incomplete: it has more calls than one reply may make.
pub(crate) fn unsent_calls(reply: &Reply, ctx: &Ctx) -> Option<Arc<str>> {
    let (cap, called) = (super::max_calls(ctx), reply.called());
    let text = || {
        format!(
            "one reply may make {cap} calls of tools, this one has {called}; those after the first \
             {cap} are left out"
        )
    };
    (called > cap).then(|| text().into())
}

/// As long as providers' own ids, which clients expect.
fn id(call: u128) -> Arc<str> {
    format!("call_{call:032x}").into()
}
