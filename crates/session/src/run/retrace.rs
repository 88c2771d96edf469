//! The model calls of a run, from its recorded steps: repeats [`next_action`] and compares each
//! decision with the step that was recorded after it.

use std::ops::Range;
use std::sync::Arc;

use super::tail::{Masked, Weight};
use super::{NextAction, RunBounds, Step, next_action};

/// A model call that was made, or is the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    /// The number of steps before it.
    pub known: usize,
    /// The tool results that were replaced by a note.
    pub masked: Vec<Masked>,
    /// The reason why it was the last call; none: it was not the last.
    pub wrap_up: Option<Arc<str>>,
    /// The index of the step with its reply; none: the reply ended the run, or there is no reply.
    pub reply: Option<usize>,
}

/// The calls of a run according to its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetracedRun {
    /// Its model calls, oldest first.
    pub calls: Vec<ModelCall>,
    /// The answer that follows from the steps alone, if the run was stopped.
    pub answer: Option<(Arc<str>, Option<Arc<str>>)>,
    /// The first recorded step that does not follow from the steps before it.
    pub divergence: Option<Divergence>,
}

/// A recorded step that does not follow from the steps before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step} does not follow from the steps before it: {reason}")]
pub struct Divergence {
    /// The number of the step, from 1.
    pub step: usize,
    /// The expected step.
    pub reason: String,
}

/// Retraces the steps of a model-driven run. `weights` are the weights of the steps, in order.
pub fn retrace(steps: &[Arc<Step>], weights: &[Weight], bounds: RunBounds) -> RetracedRun {
    let mut retraced = RetracedRun::default();
    let mut known = 0;
    loop {
        let weighed = weights.get(..known).unwrap_or(weights);
        let so_far = steps.get(..known).unwrap_or(steps);
        let recorded = (known..steps.len()).find(|at| !steps[*at].is_outside_exchange());
        let follows = match next_action(so_far, weighed, bounds) {
            NextAction::CallModel { masked, wrap_up } => {
                let refused = narrowed_step(steps, known..recorded.unwrap_or(steps.len()));
                let reply = recorded.filter(|at| steps[*at].reply().is_some());
                retraced.calls.push(ModelCall {
                    known,
                    masked,
                    wrap_up,
                    reply: reply.filter(|_| refused.is_none()),
                });
                match refused {
                    Some(at) => Some((at, Ok(()))),
                    None => recorded.map(|at| (at, check_reply(&steps[at]))),
                }
            }
            NextAction::Summarise { replaced, .. } => {
                recorded.map(|at| (at, check_summary(&steps[at], replaced)))
            }
            NextAction::CallTools(reply) => recorded.map(|at| {
                let ids = reply.calls.iter().map(|call| &call.id);
                (at, check_answers(&steps[at], ids))
            }),
            NextAction::Done { text, partial } => {
                retraced.answer = Some((text, partial));
                recorded.map(|at| (at, Err("the end of the run was expected".to_owned())))
            }
            NextAction::Overflow { reason } => recorded.map(|at| (at, Err(reason.to_string()))),
        };
        match follows {
            Some((at, Ok(()))) => known = at + 1,
            Some((at, Err(reason))) => {
                let step = at + 1;
                retraced.divergence = Some(Divergence { step, reason });
                return retraced;
            }
            None => return retraced,
        }
    }
}

/// The step after which a smaller request follows, if a request was rejected as too large.
fn narrowed_step(steps: &[Arc<Step>], mut range: Range<usize>) -> Option<usize> {
    range.find(|at| matches!(*steps[*at], Step::Narrowed { .. }))
}

fn check_reply(step: &Step) -> Result<(), String> {
    match step {
        Step::Tools(_) => Err("a model call was expected, and tools were called".to_owned()),
        Step::Summarised { .. } => {
            Err("a model call was expected, and rounds were summarised".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_summary(step: &Step, expected: usize) -> Result<(), String> {
    match step {
        Step::Summarised { replaced, .. } if *replaced as usize == expected => Ok(()),
        Step::Summarised { replaced, .. } => Err(format!(
            "a summary of {expected} steps was expected, and {replaced} were summarised"
        )),
        _ => Err(format!("a summary of {expected} steps was expected")),
    }
}

/// Checks that tools answered exactly these calls, in their order.
fn check_answers<'c>(step: &Step, ids: impl Iterator<Item = &'c Arc<str>>) -> Result<(), String> {
    match step {
        Step::Tools(results) if ids.eq(results.iter().map(|result| &result.call_id)) => Ok(()),
        Step::Tools(_) => Err("tools answered other calls than the model made".to_owned()),
        _ => Err("tool calls were expected, and the model was called".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    //! Model calls from recorded steps.

    use unisono_context::Tokens;

    use super::*;
    use crate::run::ToolResult;
    use crate::run::fixture::{self, ROOM, bounds, named};
    use crate::run::tail::Headroom;

    fn model(calls: &[&str]) -> Arc<Step> {
        fixture::model(calls, "so far")
    }

    fn tools(ids: &[&str]) -> Arc<Step> {
        let result = |id: &&str| ToolResult::new(*id, "found", false);
        Arc::new(Step::Tools(ids.iter().map(result).collect()))
    }

    fn shown(steps: &[Arc<Step>], max_model_calls: u32) -> String {
        let retraced = retrace(steps, &[], bounds(max_model_calls, Headroom::UNBOUNDED));
        let asked = retraced.calls.iter().map(|asked| {
            let wrap_up = if asked.wrap_up.is_some() { "!" } else { "" };
            let reply = asked.reply.map_or("-".to_owned(), |at| at.to_string());
            format!("{}{wrap_up}>{reply}", asked.known)
        });
        let mut out = asked.collect::<Vec<_>>().join(" ");
        if let Some((text, partial)) = retraced.answer {
            out += &format!(" = {text} ({})", partial.unwrap_or_default());
        }
        if let Some(diverged) = retraced.divergence {
            out += &format!(" # {diverged}");
        }
        out
    }

    #[test]
    fn calls_follow_from_the_recorded_steps() {
        let cases = rows! {
            (vec![], 9, "0>-"),
            (vec![named()], 9, "0>-"),
            (vec![model(&["a"])], 9, "0>0"),
            (vec![model(&["a"]), tools(&["a"])], 9, "0>0 2>-"),
            (vec![named(), model(&["a"]), named(), tools(&["a"]), named()], 9, "0>1 4>-"),
            (vec![model(&["a"]), tools(&["a"])], 2, "0>0 2!>-"),
            (vec![model(&["a"]), tools(&["a"]), model(&["b"])], 2,
             "0>0 2!>2 = so far (stopped after 2 model calls)"),
            (
                vec![tools(&["a"])],
                9,
                "0>- # step 1 does not follow from the steps before it: a model call was \
                 expected, and tools were called",
            ),
            (
                vec![model(&["a", "b"]), tools(&["b", "a"])],
                9,
                "0>0 # step 2 does not follow from the steps before it: tools answered other calls \
                 than the model made",
            ),
            (
                vec![model(&["a"]), model(&["a"])],
                9,
                "0>0 # step 2 does not follow from the steps before it: tool calls were expected, \
                 and the model was called",
            ),
            (
                vec![model(&["a"]), tools(&["a"])],
                1,
                "0!>0 = so far (stopped after 1 model calls) # step 2 does not follow from the \
                 steps before it: the end of the run was expected",
            ),
        };
        for (steps, max_model_calls, expected) in cases {
            assert_eq!(shown(&steps, max_model_calls), expected, "{steps:?}");
        }
    }

    #[test]
    fn masked_results_stay_masked_in_retraced_calls() {
        let steps = [model(&["a"]), tools(&["a"]), model(&["b"]), tools(&["b"])];
        let weights = [
            Weight::Reply(Tokens(10)),
            Weight::Results(vec![Tokens(500)]),
            Weight::Reply(Tokens(10)),
            Weight::Results(vec![Tokens(400)]),
        ];
        let out = |steps: &[Arc<Step>], weights: &[Weight]| -> Vec<(usize, Option<usize>)> {
            let retraced = retrace(steps, weights, bounds(9, ROOM));
            assert_eq!(retraced.divergence, None);
            let calls = retraced.calls.iter();
            calls.map(|call| (call.masked.len(), call.reply)).collect()
        };
        assert_eq!(
            out(&steps, &weights),
            [(0, Some(0)), (0, Some(2)), (1, None)]
        );

        // The rejected request was sent before the smaller one.
        let narrowed = Arc::new(Step::Narrowed {
            room: Tokens(250),
            output: None,
        });
        let mut refused = steps.to_vec();
        refused.insert(2, narrowed);
        let mut weighed = weights.to_vec();
        weighed.insert(2, Weight::Nothing);
        weighed[1] = Weight::Results(vec![Tokens(20)]);
        assert_eq!(
            out(&refused[..4], &weighed[..4]),
            [(0, Some(0)), (0, None), (0, Some(3))]
        );
    }
}
