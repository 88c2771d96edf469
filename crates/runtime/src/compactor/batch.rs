//! Requests the summaries of several topics from one model in one request.
//!
//! The texts for later steps are drafts: they are kept for the turn, and each is checked and used
//! in its own step. A topic is part of one batch at most; if its draft is unacceptable, it is
//! requested separately. A crash loses only drafts.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use unisono_context::Tokens;
use unisono_context::checkpoint::{Span, Tier};
use unisono_context::compaction::Cover;
use unisono_context::cost::Cost;
use unisono_model::language::LanguageModel;
use unisono_model::summariser::{self, Batch, Limits, Topic, summaries};
use unisono_model::tokenizer::Tokenizer;

use super::ask::{PartResult, SummaryRequest, complete, finished, transcript};
use super::extract::Block;

/// The batched topics of a turn. Clones share one value. Their number is at most the number of the
/// turn's steps with models, times the number of topics ahead of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Drafts(Arc<Mutex<Vec<Draft>>>);

#[derive(Clone, Debug)]
struct Draft {
    spans: Vec<Span>,
    /// The unused text, and its model.
    text: Option<(String, Arc<str>)>,
}

impl Drafts {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<Draft>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there is a text for this range.
    pub(super) fn has(&self, cover: &Cover) -> bool {
        let is = |draft: &Draft| draft.spans == cover.spans && draft.text.is_some();
        self.with(|drafts| drafts.iter().any(is))
    }

    fn is_tried(&self, cover: &Cover) -> bool {
        self.with(|drafts| drafts.iter().any(|draft| draft.spans == cover.spans))
    }

    fn try_all<'c>(&self, covers: impl Iterator<Item = &'c Cover>) {
        let tried = covers.map(|cover| Draft {
            spans: cover.spans.clone(),
            text: None,
        });
        self.with(|drafts| drafts.extend(tried));
    }

    fn keep(&self, cover: &Cover, text: String, by: &Arc<str>) {
        self.with(|drafts| {
            let mut drafts = drafts.iter_mut();
            if let Some(draft) = drafts.find(|draft| draft.spans == cover.spans) {
                draft.text = Some((text, by.clone()));
            }
        });
    }

    fn take(&self, cover: &Cover) -> Option<(String, Arc<str>)> {
        self.with(|drafts| {
            let mut drafts = drafts.iter_mut();
            drafts.find(|draft| draft.spans == cover.spans)?.text.take()
        })
    }
}

/// The block of a draft, if it is acceptable.
pub(super) async fn block_of_draft(asked: &SummaryRequest<'_>) -> Option<Block> {
    let (text, by) = asked.work.drafts.take(asked.cover)?;
    match finished(asked, text, asked.frame.room, &by).await {
        Ok(Ok(PartResult::Block(block))) => Some(block),
        Ok(_) | Err(_) => None,
    }
}

/// Requests this topic and later ones in one request, if there are any and none was batched before.
/// Returns the block of this topic, if it is acceptable.
pub(super) async fn request_batch(
    asked: &SummaryRequest<'_>,
    model: &Arc<dyn LanguageModel>,
    spent: &mut Option<Cost>,
) -> Option<Block> {
    let (job, drafts) = (&asked.work.job, &asked.work.drafts);
    let is_topic = job.plan.step.tier() == Tier::Topic && job.prior.is_empty();
    if !is_topic || job.ahead.is_empty() || drafts.is_tried(asked.cover) {
        return None;
    }
    let batch = plan(asked).await?;
    let ahead = job.ahead.iter().map(|topic| &topic.due.cover);
    let covers: Vec<&Cover> = std::iter::once(asked.cover).chain(ahead).collect();
    let covers = &covers[..batch.topics.min(covers.len())];
    drafts.try_all(covers.iter().copied());
    let name = &asked.summariser.model;
    asked
        .work
        .report(format!("{name} summarises {} topics", covers.len()));
    // The other half is for a separate request of this topic.
    let now = Instant::now();
    let until = now + asked.until.saturating_duration_since(now) / 2;
    let asked = &SummaryRequest { until, ..*asked };
    let request = complete(asked, model, &batch.task, batch.max_output);
    let reason = match timeout_at(until, request).await {
        Ok(Ok(reply)) => {
            *spent = spent.zip(reply.usage.cost).map(|(a, b)| a + b);
            let by = reply.fallback.as_ref().map(|by| &by.model);
            let by = by.unwrap_or(name);
            asked.work.report_usage(by, reply.usage);
            for (cover, text) in covers.iter().zip(summaries(&reply, covers.len())) {
                if let Some(text) = text {
                    drafts.keep(cover, text, by);
                }
            }
            return block_of_draft(asked).await;
        }
        Ok(Err(failed)) => failed.reason,
        Err(_) => format!("model {name}: no summaries in time").into(),
    };
    tracing::warn!(session = %job.session, %reason, "no summaries of several topics");
    None
}

/// The request for as many topics as fit the model's window.
async fn plan(asked: &SummaryRequest<'_>) -> Option<Batch> {
    let (job, drafts) = (asked.work.job.clone(), asked.work.drafts.clone());
    let summariser = asked.summariser.clone();
    let prompt = asked.chain.prompt(Tier::Topic).clone();
    let (cap, room) = (asked.cap, asked.frame.room);
    let limits = Limits {
        window: summariser.window,
        max_output: summariser.max_output,
        cap: room,
    };
    let work = spawn_blocking(move || {
        let tokenizer = Tokenizer::load(summariser.encoding).ok()?;
        let ahead = job.ahead.iter();
        // Key facts are assumed to need the same part of each cap.
        let ahead = ahead.take_while(|topic| !drafts.is_tried(&topic.due.cover));
        let ahead = ahead.map(|topic| Topic {
            items: transcript(&job, &topic.messages),
            cap: Tokens(topic.due.cap.0.saturating_mul(room.0) / cap.0.max(1)),
        });
        let own = Topic {
            items: transcript(&job, &job.messages),
            cap: room,
        };
        let topics: Vec<Topic<'_>> = std::iter::once(own).chain(ahead).collect();
        let instructions = job.writing.instructions.as_deref();
        let count = |text: &str| summariser.bound(tokenizer.count(text)).0;
        summariser::batch(&prompt, &topics, instructions, limits, &count)
    });
    work.await.ok().flatten()
}
