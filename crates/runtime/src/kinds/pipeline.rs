//! An agent that is only its pipeline: its answer is the result of the last stage.

use unisono_session::assignment::DelegateResult;
use unisono_session::run::{Ending, RunCause};

use crate::agent::{Agent, Answer, Ctx, Failure, Task};

/// Carries out definitions of kind `pipeline`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipelineAgent;

impl Agent for PipelineAgent {
    async fn run(&self, task: Task, _: Ctx) -> Result<Answer, Failure> {
        answer(&task.results)
    }
}

/// The result of the last successful stage. It is partial if a stage failed or has a partial
/// result, because later stages worked without it.
fn answer(results: &[DelegateResult]) -> Result<Answer, Failure> {
    let finished = results.iter().rev().find_map(|stage| match &*stage.ending {
        Ending::Finished { text, .. } => Some(text.clone()),
        Ending::Failed { .. } | Ending::Cancelled => None,
    });
    let missing: Vec<String> = (1..)
        .zip(results)
        .filter_map(|(number, stage)| {
            let why = missing(&stage.ending)?;
            Some(format!("stage {number}, {}: {why}", stage.agent))
        })
        .collect();
    let missing = (!missing.is_empty()).then(|| missing.join("; "));
    match (finished, missing) {
        (Some(text), missing) => Ok(Answer {
            partial: missing.map(Into::into),
            ..Answer::text(text)
        }),
        (None, Some(missing)) => {
            let reason = format!("no stage of the pipeline has a result: {missing}");
            Err(Failure::new(RunCause::BadInput, reason))
        }
        (None, None) => {
            let reason = "no stage of the pipeline worked: ask the agent as a lead, not as one \
                          that is given a task";
            Err(Failure::new(RunCause::BadInput, reason))
        }
    }
}

/// The missing part of a stage; none: its result is complete.
fn missing(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Finished { partial, .. } => {
            partial.as_ref().map(|why| format!("incomplete: {why}"))
        }
        Ending::Failed { cause, reason, .. } => Some(cause.describe(reason).to_string()),
        Ending::Cancelled => Some("cancelled".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unisono_context::AgentId;
    use unisono_session::run::Usage;

    use super::*;

    fn finished(text: &str, partial: Option<&str>) -> Ending {
        Ending::Finished {
            text: text.into(),
            calls: Vec::new(),
            partial: partial.map(Into::into),
            usage: Usage::default(),
            duration_ms: 1,
            attempt_times: unisono_session::run::AttemptTimes::default(),
        }
    }

    fn failed() -> Ending {
        Ending::Failed {
            cause: RunCause::Timeout,
            reason: "after 3 s".into(),
            duration_ms: 1,
            text: None,
        }
    }

    fn stages(endings: impl IntoIterator<Item = Ending>) -> Vec<DelegateResult> {
        let names = ["outline", "draft", "review"];
        let each = names
            .iter()
            .zip(endings)
            .map(|(agent, ending)| DelegateResult {
                name: "delegate_1".into(),
                agent: AgentId::new(*agent),
                task: "an article".into(),
                ending: Arc::new(ending),
            });
        each.collect()
    }

    #[test]
    fn the_answer_is_the_last_result_with_a_note_about_missing_stages() {
        let whole = |text| finished(text, None);
        let cases = rows! {
            (vec![whole("a"), whole("b"), whole("c")], "c", None),
            (vec![whole("a"), failed(), whole("c")], "c",
             Some("stage 2, draft: timeout: after 3 s")),
            (vec![whole("a"), finished("b", Some("no room")), failed()], "b",
             Some("stage 2, draft: incomplete: no room; stage 3, review: timeout: after 3 s")),
        };
        for (endings, text, missing) in cases {
            let answer = answer(&stages(endings)).unwrap();
            assert_eq!(&*answer.text, text);
            assert_eq!(answer.partial.as_deref(), missing);
        }
    }

    #[test]
    fn without_any_result_there_is_no_answer() {
        let failure = answer(&stages([failed(), Ending::Cancelled])).unwrap_err();
        assert_eq!(
            &*failure.reason,
            "no stage of the pipeline has a result: stage 1, outline: timeout: after 3 s; \
             stage 2, draft: cancelled"
        );
        let alone = answer(&[]).unwrap_err();
        assert!(alone.reason.contains("as a lead"), "{}", alone.reason);
        assert!(!alone.cause.is_retryable());
    }
}
