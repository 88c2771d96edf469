//! Requests a summary from one model, in as many parts as its window needs.
//!
//! An unacceptable reply is requested again, shorter if it was too long. A failed request is not
//! repeated here: the model's client has already retried it with backoff if that may help.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use unisono_context::Tokens;
use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::{Body, block_text};
use unisono_context::compaction::{Cover, Draft, Rejection, Stop, accept, has_text};
use unisono_context::cost::Cost;
use unisono_context::message::Message;
use unisono_context::tokens::Counts;
use unisono_model::language::{Class, LanguageModel, Listener, Reply, Request};
use unisono_model::summariser::{
    self, Limits, Material, Parts, TranscriptItem, plan_parts, reduced_target, summary,
};
use unisono_model::tokenizer::Tokenizer;
use unisono_session::assignment::CompactionJob;
use unisono_session::machine::CallEnd;

use super::anchors;
use super::batch;
use super::carry_out::{count, count_block};
use super::extract::{self, Block, Frame, cost, layout};
use super::kept::Head;
use super::retry::{self, NoSummary};
use super::{StepEvent, Work};
use crate::clock;
use crate::reservation;
use crate::summarisers::{Chain, Summariser};

#[derive(Clone, Copy)]
pub(super) struct SummaryRequest<'a> {
    pub(super) work: &'a Work,
    pub(super) chain: &'a Chain,
    pub(super) summariser: &'a Summariser,
    pub(super) cover: &'a Cover,
    /// The block must have fewer tokens than this.
    pub(super) below: Tokens,
    /// The maximum number of tokens of the block.
    pub(super) cap: Tokens,
    /// The parts of the block beside the summary's text.
    pub(super) frame: &'a Frame,
    /// The deadline.
    pub(super) until: Instant,
}

/// The reason why a reply is requested again.
pub(super) struct RejectedReply {
    rejection: Rejection,
    /// The length of the next one.
    target: Tokens,
}

/// The block of an acceptable summary. The cost of the replies is added to `spent`.
pub(super) async fn request_summary(
    asked: &SummaryRequest<'_>,
    spent: &mut Option<Cost>,
) -> Result<Block, NoSummary> {
    let SummaryRequest {
        work, summariser, ..
    } = asked;
    let name = &summariser.model;
    let model = work
        .env
        .models
        .get(name)
        .map_err(|error| error.to_string())?;
    // The chain of summarisers determines the next model. A fallback would get parts that were
    // divided for the window of this model, and its success would be credited to this model.
    let model = model.without_fallbacks().unwrap_or(model);
    if let Some(block) = batch::request_batch(asked, &model, spent).await {
        return Ok(block);
    }
    let parts = plan(asked).await?;
    let all = parts.parts.len();
    let mut so_far: Option<String> = None;
    for index in 0..all {
        if all == 1 {
            work.report(format!("{name} summarises"));
        } else {
            work.report(format!("{name} summarises part {} of {all}", index + 1));
        }
        match part(asked, &model, &parts, index, so_far.as_deref(), spent).await? {
            PartResult::SoFar(text) => so_far = Some(text),
            PartResult::Block(block) => return Ok(block),
        }
    }
    Err(format!("model {name}: no part to summarise").into())
}

pub(super) enum PartResult {
    /// The summary up to this part.
    SoFar(String),
    /// The complete summary.
    Block(Block),
}

async fn part(
    asked: &SummaryRequest<'_>,
    model: &Arc<dyn LanguageModel>,
    parts: &Parts,
    index: usize,
    so_far: Option<&str>,
    spent: &mut Option<Cost>,
) -> Result<PartResult, NoSummary> {
    let mut target = parts.target;
    let mut rejection = None;
    for _ in 0..=asked.chain.retries {
        let task = parts.task(index, so_far, target);
        let reply = complete(asked, model, &task, parts.max_output).await?;
        *spent = spent.zip(reply.usage.cost).map(|(a, b)| a + b);
        // A fallback may have answered.
        let by = reply.fallback.as_ref().map(|by| &by.model);
        let by = by.unwrap_or(&asked.summariser.model);
        asked.work.report_usage(by, reply.usage);
        let last = index + 1 == parts.parts.len();
        let judged = match summary(&reply, layout(&asked.work.job)) {
            Ok(text) if last => finished(asked, text, target, by).await?,
            Ok(text) => match has_text(&text) {
                Ok(()) => carry_forward(asked, text, target, parts.carried).await?,
                Err(rejection) => Err(RejectedReply { rejection, target }),
            },
            Err(rejection) => Err(RejectedReply { rejection, target }),
        };
        match judged {
            Ok(finished) => return Ok(finished),
            Err(unfit) => {
                let refused = unfit.rejection == Rejection::Refused;
                target = unfit.target;
                rejection = Some(unfit.rejection);
                if refused {
                    break;
                }
            }
        }
    }
    let name = &asked.summariser.model;
    Err(match rejection {
        Some(rejection) => format!("model {name}: {rejection}").into(),
        None => format!("model {name} was not called").into(),
    })
}

/// The complete summary as a block, if it is acceptable.
pub(super) async fn finished(
    asked: &SummaryRequest<'_>,
    text: String,
    target: Tokens,
    by: &Arc<str>,
) -> Result<Result<PartResult, RejectedReply>, Arc<str>> {
    let job = &asked.work.job;
    let (body, block) = as_block(asked, &text);
    let counts = count_block(job, &block, &asked.work.tokenizer).await?;
    let tokens = cost(job, counts);
    let draft = Draft {
        text: &text,
        stop: Stop::Complete,
        tokens,
    };
    let tier = job.plan.step.tier();
    Ok(
        match has_text(&text).and_then(|()| accept(&draft, tier, asked.cap, asked.below)) {
            Ok(()) => {
                let (body, counts) = match with_lost_facts(asked, &text, block, tokens).await? {
                    Some(anchored) => anchored,
                    None => (body, counts),
                };
                let key_facts = &asked.frame.key_facts;
                let block = block_text(&asked.cover.spans, &body, key_facts);
                let coverage =
                    extract::coverage(job, asked.cover, block, cost(job, counts)).await?;
                Ok(PartResult::Block(Block {
                    body,
                    key_facts: key_facts.clone(),
                    counts,
                    model: by.clone(),
                    coverage,
                }))
            }
            Err(rejection) => {
                let most = asked.cap.min(asked.below.minus(Tokens(1)));
                // Only the text can be shorter, not the parts beside it.
                let beside = asked.cap.minus(asked.frame.room);
                let target = shorter_than(target, tokens.minus(beside), most.minus(beside));
                Err(RejectedReply { rejection, target })
            }
        },
    )
}

fn as_block(asked: &SummaryRequest<'_>, text: &str) -> (Body, String) {
    let Frame {
        head, key_facts, ..
    } = asked.frame;
    let body = Body::Summary(head.above(text).into());
    let block = block_text(&asked.cover.spans, &body, key_facts);
    (body, block)
}

/// The summary followed by a list of the days, names and ids that it lost, if it lost any and the
/// cap permits. `block` has `tokens`.
async fn with_lost_facts(
    asked: &SummaryRequest<'_>,
    text: &str,
    block: String,
    tokens: Tokens,
) -> Result<Option<(Body, Counts)>, Arc<str>> {
    let job = &asked.work.job;
    let most = asked.cap.min(asked.below.minus(Tokens(1)));
    let lines = anchors::list(job, block, asked.cap, most.minus(tokens)).await?;
    if lines.is_empty() {
        return Ok(None);
    }
    let (body, block) = as_block(asked, &format!("{text}\n\n{lines}"));
    let counts = count_block(job, &block, &asked.work.tokenizer).await?;
    Ok((cost(job, counts) <= most).then_some((body, counts)))
}

/// The summary up to this part, if the next part has room for it.
async fn carry_forward(
    asked: &SummaryRequest<'_>,
    text: String,
    target: Tokens,
    most: Tokens,
) -> Result<Result<PartResult, RejectedReply>, Arc<str>> {
    let encoding = asked.summariser.encoding;
    let counted = count(&asked.work.tokenizer, vec![text.clone()], encoding).await?;
    let tokens = asked.summariser.bound(counted.into_iter().sum());
    Ok(if tokens <= most {
        Ok(PartResult::SoFar(text))
    } else {
        let target = shorter_than(target, tokens, most);
        let rejection = Rejection::OverCap { tokens, cap: most };
        Err(RejectedReply { rejection, target })
    })
}

fn shorter_than(target: Tokens, tokens: Tokens, most: Tokens) -> Tokens {
    if tokens > most {
        reduced_target(target, tokens, most)
    } else {
        target
    }
}

/// One reply, or the reason why there is none.
pub(super) async fn complete(
    asked: &SummaryRequest<'_>,
    model: &Arc<dyn LanguageModel>,
    task: &str,
    max_output: Tokens,
) -> Result<Reply, NoSummary> {
    let name = &asked.summariser.model;
    let (listener, model_name) = (asked.work.listener.clone(), name.clone());
    let request = summariser::request(&**model, task, max_output);
    let mut request = Request {
        listener: Listener::NONE.with_usage(move |usage, by| {
            let model = by.unwrap_or_else(|| model_name.clone());
            (listener.0)(StepEvent::Used { model, usage });
        }),
        ..request
    };
    let reserved = asked.work.reserve(asked.summariser, &**model, &request);
    let reserved = timeout_at(asked.until, reserved).await;
    let reserved = reserved.unwrap_or_else(|_| Err("its budget is in use".into()));
    let reservation = reserved.map_err(|reason| NoSummary::unreserved(name, &reason))?;
    let model = model.clone();
    request.bounded = asked.work.job.bounded;
    request.patience = Some(match asked.work.needs_idle_capacity() {
        true => Duration::ZERO,
        false => asked.until.saturating_duration_since(Instant::now()),
    });
    // Dropped with this future, together with the request.
    let mut call = JoinSet::new();
    call.spawn(async move { model.complete(request).await });
    match call.join_next().await {
        Some(Ok(Ok(reply))) => {
            // Its usage is reported next, which settles it.
            reservation.settle_recorded();
            Ok(reply)
        }
        Some(Ok(Err(error))) => {
            let end = reservation::call_end(&error);
            let is_unsent = end == CallEnd::Unsent;
            reservation.settle(end);
            let (failures, after) = (asked.work.job.failures, error.retry_after_ms());
            let pause = retry::pause(failures, after, clock::new_id() as u64);
            Err(NoSummary {
                reason: error.to_string().into(),
                not_before: Some(Instant::now() + pause),
                is_unsent,
                was_not_asked: matches!(error.class, Class::Busy | Class::CircuitOpen { .. }),
            })
        }
        Some(Err(_)) | None => Err(format!("model {name}: its client panicked").into()),
    }
}

/// Divides the conversation for the model's window.
async fn plan(asked: &SummaryRequest<'_>) -> Result<Parts, Arc<str>> {
    let job = asked.work.job.clone();
    let (summariser, prompt) = (
        asked.summariser.clone(),
        asked.chain.prompt(job.plan.step.tier()).clone(),
    );
    let limits = Limits {
        window: summariser.window,
        max_output: summariser.max_output,
        cap: asked.frame.room,
    };
    let Frame {
        head, key_facts, ..
    } = asked.frame;
    let lost = extract::lost_facts(&extract::facts_of(&job.prior), key_facts);
    let head = head.clone();
    let work = spawn_blocking(move || {
        let tokenizer = Tokenizer::load(summariser.encoding).map_err(|error| error.to_string())?;
        let said = transcript(&job, &job.messages);
        let recent = self::transcript(&job, &job.recent);
        let prior = prior(&job, &head, &lost);
        let material = Material {
            items: &said,
            prior: &prior,
            recent: &recent,
            kept: &head.text,
            instructions: job.writing.instructions.as_deref(),
        };
        let count = |text: &str| summariser.bound(tokenizer.count(text)).0;
        plan_parts(&prompt, &material, limits, &count)
            .map_err(|error| format!("model {}: {error}", summariser.model))
    });
    match work.await {
        Ok(parts) => parts.map_err(Arc::from),
        Err(_) => Err("dividing the conversation panicked".into()),
    }
}

/// Messages in their form in the context.
pub(super) fn transcript<'j>(
    job: &'j CompactionJob,
    messages: &'j [Arc<Message>],
) -> Vec<TranscriptItem<'j>> {
    let form = |message: &Message| {
        let altered = |alteration: &&Alteration| alteration.message == message.id;
        Some(job.alterations.iter().find(altered)?.form)
    };
    let said = messages.iter().map(|message| match form(message) {
        Some(form) => TranscriptItem::shortened(message, form),
        None => TranscriptItem::message(message),
    });
    said.collect()
}

/// The earlier summaries, and the facts that would be lost with the last one.
fn prior<'j>(job: &'j CompactionJob, head: &'j Head, lost: &'j str) -> Vec<TranscriptItem<'j>> {
    let rest = head.rest.iter();
    let summaries = rest.map(|(span, text)| TranscriptItem::summary(*span, text));
    let last = job.prior.last().filter(|_| !lost.is_empty());
    let facts = last.map(|made| TranscriptItem::summary(made.range(), lost));
    summaries.chain(facts).collect()
}
