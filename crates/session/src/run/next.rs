//! The next action of a model-driven run.
//!
//! ```text
//! loop {
//!     match next(&steps, &weights, bounds) {
//!         CallModel { masked, wrap_up } => ask with the steps, as tail::shown has their results;
//!                                          a reply without calls ends the run, others are steps
//!         Summarise { .. }              => a summary of the first rounds is a step
//!         CallTools(reply)              => run its calls; those of `delegate` are one Input::Delegate;
//!                                          all results, in order, are one step
//!         Done { .. }                   => end with the answer
//!         Overflow { .. }               => end with Cause::Overflow
//!     }
//! }
//! ```
//!
//! Each step is on disk before its consequences, so an attempt after a crash takes the same
//! actions.

use std::sync::Arc;

use unisono_context::Tokens;

use super::tail::{self, Headroom, Masked, ModelCallKind, Weight, plan_tail};
use super::{Reply, RunCause, Step, Usage};

/// The next action of a model-driven run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Call the model, with all steps so far after the task.
    CallModel {
        /// The tool results that are replaced by a note.
        masked: Vec<Masked>,
        /// The reason why this is the last call, to be answered without tools; none: it is not the
        /// last.
        wrap_up: Option<Arc<str>>,
    },
    /// Summarise the first rounds.
    Summarise {
        /// The number of steps at the beginning of the run that the summary replaces.
        replaced: usize,
        /// The maximum size of the summary in the prompt ([`super::tail::summary_note`]).
        cap: Tokens,
    },
    /// Call the tools of this reply.
    CallTools(Box<Reply>),
    /// The run has ended.
    Done {
        /// The answer, or the last text of the model.
        text: Arc<str>,
        /// The reason why the agent was stopped; none: the answer is complete.
        partial: Option<Arc<str>>,
    },
    /// The model cannot be called, and has not replied yet.
    Overflow {
        /// The numbers.
        reason: Arc<str>,
    },
}

/// The limits of a model-driven run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// The maximum number of model calls.
    pub max_model_calls: u32,
    /// The headroom of its exchange.
    pub room: Headroom,
}

/// The next action: call the model, call the tools that it requests, until it answers without a
/// call. If masking old results is not enough, the first rounds are summarised. The last of
/// `max_model_calls` calls, and the last call that fits, ask for the answer; a model that calls tools
/// nevertheless is stopped, and its last text is the answer. `weights` are the weights of the
/// steps, in order; a missing weight counts as zero.
pub fn next_action(steps: &[Arc<Step>], weights: &[Weight], bounds: RunBounds) -> NextAction {
    let bounds = RunBounds {
        room: narrowed_headroom(steps, bounds.room),
        ..bounds
    };
    let last = steps.iter().rposition(|step| !step.is_outside_exchange());
    match last.and_then(|at| Some((at, steps.get(at)?.reply()?))) {
        Some((at, reply)) => after_reply(steps, weights, bounds, at, reply),
        None => before_call(steps, weights, bounds),
    }
}

/// The remaining headroom after requests that the provider rejected as too large.
pub fn narrowed_headroom(steps: &[Arc<Step>], room: Headroom) -> Headroom {
    let found = steps.iter().filter_map(|step| match **step {
        Step::Narrowed { room, .. } => Some(room),
        _ => None,
    });
    Headroom {
        tokens: found.fold(room.tokens, Tokens::min),
        reply: longest_reply(steps, room.reply),
        ..room
    }
}

/// The maximum reply after these steps, for a model with a maximum of `max_output`.
pub fn longest_reply(steps: &[Arc<Step>], max_output: Tokens) -> Tokens {
    let found = steps.iter().filter_map(|step| match **step {
        Step::Narrowed { output, .. } => output,
        _ => None,
    });
    found.fold(max_output, Tokens::min)
}

fn after_reply(
    steps: &[Arc<Step>],
    weights: &[Weight],
    bounds: RunBounds,
    at: usize,
    reply: &Reply,
) -> NextAction {
    if reply.calls.is_empty() {
        return NextAction::Done {
            text: reply.text.clone(),
            partial: None,
        };
    }
    let asked_with = weights.get(..at).unwrap_or(weights);
    let stopped = if replies(steps).count() >= bounds.max_model_calls as usize {
        format!("stopped after {} model calls", bounds.max_model_calls)
    } else if plan_tail(asked_with, bounds.room).call == ModelCallKind::WrapUp
        || !takes_results(steps, weights, at, bounds.room)
    {
        "stopped: there was no room left for what the tools it called would answer".to_owned()
    } else {
        return NextAction::CallTools(Box::new(reply.clone()));
    };
    NextAction::Done {
        text: last_text(steps).unwrap_or_default(),
        partial: Some(stopped.into()),
    }
}

/// Whether the model can be called again after the calls of the reply at this step. In older turns
/// the longest reply was kept free before the reply.
fn takes_results(steps: &[Arc<Step>], weights: &[Weight], at: usize, room: Headroom) -> bool {
    let calls = steps.get(at).and_then(|step| step.reply());
    let count = calls.map_or(0, |reply| reply.calls.len());
    let weights = weights.get(..=at).unwrap_or(weights);
    !room.is_shared || tail::takes_results(weights, count, room)
}

fn before_call(steps: &[Arc<Step>], weights: &[Weight], bounds: RunBounds) -> NextAction {
    let last = replies(steps).count() + 1 >= bounds.max_model_calls as usize;
    // No tools answer after the last call, so it needs no headroom for them.
    let room = if last {
        Headroom {
            reply: Tokens::ZERO,
            ..bounds.room
        }
    } else {
        bounds.room
    };
    let decided = plan_tail(weights, room);
    if let ModelCallKind::Overflow { needed } = decided.call {
        let room = bounds.room.tokens;
        let reason = format!("its exchange needs {needed} tokens, there is room for {room}");
        return match last_text(steps) {
            Some(text) => NextAction::Done {
                text,
                partial: Some(RunCause::Overflow.describe(&reason)),
            },
            None => NextAction::Overflow {
                reason: reason.into(),
            },
        };
    }
    if let ModelCallKind::Summarise { replaced, cap } = decided.call {
        return NextAction::Summarise { replaced, cap };
    }
    let wrap_up = match decided.call {
        _ if last => Some(format!(
            "this is the last of {} model calls",
            bounds.max_model_calls
        )),
        ModelCallKind::WrapUp => {
            Some("there is no room left for what tools would answer".to_owned())
        }
        ModelCallKind::Normal
        | ModelCallKind::Summarise { .. }
        | ModelCallKind::Overflow { .. } => None,
    };
    NextAction::CallModel {
        masked: decided.masked,
        wrap_up: wrap_up.map(Arc::from),
    }
}

fn replies(steps: &[Arc<Step>]) -> impl DoubleEndedIterator<Item = &Reply> {
    steps.iter().filter_map(|step| step.reply())
}

/// The usage of the recorded steps.
pub fn total_usage(steps: &[Arc<Step>]) -> Usage {
    let each = steps.iter().map(|step| step.usage());
    each.fold(Usage::NONE, |sum, usage| sum + usage)
}

/// The usage of the replies among them, without auxiliary costs.
pub fn reply_usage(steps: &[Arc<Step>]) -> Usage {
    let each = replies(steps).map(|reply| reply.usage);
    each.fold(Usage::NONE, |sum, usage| sum + usage)
}

/// The last text of the model, if there is one.
pub fn last_text(steps: &[Arc<Step>]) -> Option<Arc<str>> {
    let mut texts = replies(steps).rev().map(|reply| &reply.text);
    texts.find(|text| !is_blank(text)).cloned()
}

/// Whether a text has nothing to see: only blanks, control characters and characters without a width.
pub fn is_blank(text: &str) -> bool {
    let is_invisible = |c: char| {
        let has_no_width = matches!(
            c,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        );
        has_no_width || c.is_whitespace() || c.is_control()
    };
    text.chars().all(is_invisible)
}

#[cfg(test)]
mod tests {
    //! The next action for given steps.

    use super::*;
    use crate::run::AuxiliaryUsage;
    use crate::run::fixture::{self, ROOM, bounds, named};

    fn model(calls: usize, text: &str) -> Arc<Step> {
        fixture::model(&["0", "1"][..calls], text)
    }

    fn tools() -> Arc<Step> {
        Arc::new(Step::Tools(Vec::new()))
    }

    fn shown(next: &NextAction) -> String {
        match next {
            NextAction::CallModel { masked, wrap_up } => {
                let wrap_up = wrap_up.as_ref().map(|why| format!(": {why}"));
                format!("model, {} out{}", masked.len(), wrap_up.unwrap_or_default())
            }
            NextAction::Summarise { replaced, cap } => format!("{replaced} steps to {cap} tokens"),
            NextAction::CallTools(reply) => format!("{} tools", reply.calls.len()),
            NextAction::Done {
                text,
                partial: None,
            } => format!("done {text}"),
            NextAction::Done {
                text,
                partial: Some(why),
            } => format!("done {text} ({why})"),
            NextAction::Overflow { reason } => reason.to_string(),
        }
    }

    #[test]
    fn the_steps_determine_the_next_action() {
        let last = "model, 0 out: this is the last of 2 model calls";
        let cases = rows! {
            (vec![], 4, "model, 0 out"),
            (vec![named()], 4, "model, 0 out"),
            (vec![model(0, "a")], 4, "done a"),
            (vec![model(0, "a"), named()], 4, "done a"),
            (vec![model(2, "a")], 4, "2 tools"),
            (vec![model(2, "a"), named()], 4, "2 tools"),
            (vec![model(2, "a"), tools()], 4, "model, 0 out"),
            (vec![model(2, "a"), tools(), model(1, "b")], 4, "1 tools"),
            (vec![model(2, "a"), tools()], 2, last),
            (vec![model(2, "a"), tools(), model(0, "b")], 2, "done b"),
            (vec![model(2, "a"), tools(), model(1, "b")], 2,
             "done b (stopped after 2 model calls)"),
            (vec![model(2, "a"), tools(), model(1, " ")], 2,
             "done a (stopped after 2 model calls)"),
            (vec![], 1, "model, 0 out: this is the last of 1 model calls"),
            (vec![model(1, "")], 1, "done  (stopped after 1 model calls)"),
        };
        for (steps, max_model_calls, expected) in cases {
            let bounds = bounds(max_model_calls, Headroom::UNBOUNDED);
            assert_eq!(
                shown(&next_action(&steps, &[], bounds)),
                expected,
                "{steps:?}"
            );
        }
    }

    #[test]
    fn a_provider_with_a_smaller_window_gets_smaller_requests() {
        let room = Headroom {
            tokens: Tokens(10_000),
            ..ROOM
        };
        let bounds = bounds(9, room);
        let results = |tokens| Weight::Results(vec![Tokens(tokens)]);
        let narrowed = |room| {
            let (room, output) = (Tokens(room), None);
            Arc::new(Step::Narrowed { room, output })
        };
        let spent = Arc::new(Step::Spent(AuxiliaryUsage {
            usage: Usage::NONE,
            fallback: None,
        }));
        let mut steps = vec![model(1, "a"), tools(), model(1, "b"), tools()];
        let mut weights = vec![Weight::Nothing, results(500), Weight::Nothing, results(400)];
        assert_eq!(
            shown(&next_action(&steps, &weights, bounds)),
            "model, 0 out"
        );
        steps.extend([spent, narrowed(1_000)]);
        weights.extend([Weight::Nothing, Weight::Nothing]);
        assert_eq!(
            shown(&next_action(&steps, &weights, bounds)),
            "model, 1 out"
        );
        // The smallest value applies, and a value larger than the headroom changes nothing.
        steps.extend([narrowed(500), narrowed(900_000)]);
        let wrap_up = "model, 1 out: there is no room left for what tools would answer";
        assert_eq!(shown(&next_action(&steps, &weights, bounds)), wrap_up);
        // Shorter replies leave headroom for tool results; the shortest applies.
        let longest = |steps: &[Arc<Step>]| longest_reply(steps, Tokens(200));
        assert_eq!(longest(&steps), Tokens(200));
        for (output, expected) in [(60, 60), (90, 60), (900, 60)] {
            let (room, output) = (Tokens(500), Some(Tokens(output)));
            steps.push(Arc::new(Step::Narrowed { room, output }));
            assert_eq!(longest(&steps), Tokens(expected));
        }
        assert_eq!(
            shown(&next_action(&steps, &weights, bounds)),
            "model, 1 out"
        );
    }

    #[test]
    fn an_exchange_that_fills_its_headroom_ends() {
        let bounds = bounds(9, ROOM);
        let reply = |tokens| Weight::Reply(Tokens(tokens));
        let results = |tokens| Weight::Results(vec![Tokens(tokens)]);
        let with_texts = |texts: &[&str]| -> Vec<Arc<Step>> {
            let rounds = texts.iter().flat_map(|text| [model(1, text), tools()]);
            rounds.collect()
        };
        let wrap_up = "model, 0 out: there is no room left for what tools would answer";
        let stopped = "stopped: there was no room left for what the tools it called would answer";
        let overflow =
            |needed| format!("its exchange needs {needed} tokens, there is room for 1000");
        let table = rows! {
            (with_texts(&["a"]), vec![reply(10), results(300)], "model, 0 out".to_owned()),
            (with_texts(&["a", "b"]), vec![reply(10), results(500), reply(10), results(400)],
             "model, 1 out".to_owned()),
            (with_texts(&["a"]), vec![reply(10), results(900)], wrap_up.to_owned()),
            ([with_texts(&["a"]), vec![model(1, "b")]].concat(),
             vec![reply(10), results(900), reply(50)], format!("done b ({stopped})")),
            ([with_texts(&["a"]), vec![model(0, "b")]].concat(),
             vec![reply(10), results(900), reply(50)], "done b".to_owned()),
            (with_texts(&["a"]), vec![reply(10), results(1_000)],
             format!("done a (context_overflow: {})", overflow(1_010))),
            (with_texts(&[" "]), vec![reply(10), results(1_000)], overflow(1_010)),
        };
        for (steps, weights, expected) in table {
            assert_eq!(
                shown(&next_action(&steps, &weights, bounds)),
                expected,
                "{weights:?}"
            );
        }
    }
}
