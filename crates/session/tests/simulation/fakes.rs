//! A tokenizer and a compactor that answer without real work, and sometimes wrongly.

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::{Body, Writer};
use unisono_context::compaction::Step as PlanStep;
use unisono_context::tokens::{Count, Counts, Tokens};
use unisono_context::{Encoding, Message};
use unisono_session::Input;
use unisono_session::assignment::CompactionJob;
use unisono_session::machine::{Counted, StepResult, WrittenSummary};
use unisono_session::pending_effects::CountRequest;
use unisono_session::run::Usage;

use crate::rng::Rng;

/// One token per four bytes in one encoding, per three in the other.
fn tokens(encoding: Encoding, bytes: usize) -> Count {
    Count::exact((bytes / [4, 3][encoding.index()] + 1) as u64)
}

fn bytes(message: &Message) -> usize {
    let parts = message.parts.iter();
    parts.map(|part| part.countable_text().len()).sum()
}

pub fn count(request: &CountRequest, rng: &mut Rng, trouble: usize) -> Input {
    let encoding = request.encoding;
    let texts = request.texts.iter();
    let texts = texts.map(|(name, text)| (*name, tokens(encoding, text.len())));
    let mut messages: Vec<_> = request
        .messages
        .iter()
        .map(|message| (message.id, tokens(encoding, bytes(message))))
        .collect();
    if trouble > 0 && messages.len() > 1 && rng.percent(10) {
        messages.truncate(1 + rng.below(messages.len() - 1));
    }
    if rng.percent(trouble / 8) {
        let message = rng.below(messages.len().max(1));
        if let Some((_, count)) = messages.get_mut(message) {
            *count = Count::approximate(count.tokens.0 * 4);
        }
    }
    Input::Counted(Counted {
        turn: request.turn,
        encoding,
        texts: texts.collect(),
        messages,
    })
}

fn counts(rng: &mut Rng, trouble: usize, count: Count) -> Counts {
    let complete = !rng.percent(trouble / 4);
    let encodings = Encoding::ALL.into_iter().take(if complete { 2 } else { 1 });
    encodings.map(|encoding| (encoding, count)).collect()
}

/// The answers to a job; only the first result can be accepted.
pub fn compact(job: &CompactionJob, rng: &mut Rng, trouble: usize) -> Vec<Input> {
    let (turn, step) = (job.turn, job.step);
    if rng.percent(trouble) && rng.percent(70) {
        let reason = ["the model failed", "the compactor was lost"][rng.below(2)].into();
        let is_retryable = !rng.percent(20);
        return vec![Input::StepFailed {
            turn,
            step,
            reason,
            is_retryable,
        }];
    }
    let result = match &job.plan.step {
        PlanStep::Mask(_) | PlanStep::Cut { .. } | PlanStep::Truncate { .. } => {
            let mut forms = job.plan.step.forms();
            if rng.percent(trouble / 4) {
                forms.pop();
            }
            let size = if rng.percent(trouble / 4) { 5_000 } else { 5 };
            let altered = forms
                .into_iter()
                .map(|(message, ordinal, form)| Alteration {
                    message,
                    ordinal,
                    form,
                    counts: counts(rng, trouble, Count::exact(size)),
                });
            StepResult::Altered(altered.collect())
        }
        PlanStep::Summarise { cap, cover, .. } | PlanStep::Regenerate { cap, cover, .. } => {
            let most = cap.0.min(cover.original.0.saturating_sub(1));
            let size = if rng.percent(trouble / 3) {
                cap.0 + 1 + rng.below(50) as u64
            } else {
                1 + rng.below(most.max(1) as usize) as u64
            };
            let text = if rng.percent(trouble / 8) {
                " "
            } else {
                "## Context\nso far"
            };
            let body = Body::Summary(text.into());
            let anew = matches!(job.plan.step, PlanStep::Regenerate { .. });
            let mut written = written(body, counts(rng, trouble, Count::exact(size)));
            if !anew && rng.percent(40) {
                written.writer = Writer::Deterministic;
                written.degraded = true;
            }
            StepResult::Written(written)
        }
        PlanStep::Drop { .. } => {
            let count = Count::exact(Tokens(12).0);
            StepResult::Written(written(Body::Tombstone, counts(rng, trouble, count)))
        }
    };
    let answer = Input::StepDone { turn, step, result };
    let times = if rng.percent(trouble / 3) { 2 } else { 1 };
    let mut answers = vec![answer; times];
    if rng.percent(30) {
        let model = "fake".into();
        let usage = Usage::free(Tokens(100), Tokens(10));
        answers.push(Input::SummariserUsed { turn, model, usage });
    }
    answers
}

fn written(body: Body, counts: Counts) -> WrittenSummary {
    WrittenSummary {
        body,
        key_facts: Vec::new(),
        counts,
        writer: Writer::Model,
        model: "fake".into(),
        cost_micros: None,
        duration_ms: 1,
        degraded: false,
        coverage: None,
    }
}
