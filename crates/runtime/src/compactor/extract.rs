//! Summaries without a model: quotes, or the beginning and the end of the text.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use unisono_context::checkpoint::{
    Body, Checkpoint, FactCoverage, KeyFact, Span, Tier, block_text,
};
use unisono_context::compaction::{Cover, Draft, SECTIONS, Stop, accept, truncated};
use unisono_context::tokens::Counts;
use unisono_context::{Message, Tokens};
use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::extractive::{self, Passage, SummaryInput, SummaryLayout};
use unisono_model::redact::redact;
use unisono_model::summariser::Style;
use unisono_model::tokenizer::Tokenizer;
use unisono_session::assignment::CompactionJob;

use crate::tokenizer;

use super::anchors;
use super::carry_out::count_block;
use super::kept::Head;

/// The initial number of characters that truncation keeps at each end.
const TRUNCATION_KEEPS: usize = 2_000;
/// The part of the cap for key facts beside a truncated text.
const TRUNCATION_FACTS_PART: u64 = 2;

pub(super) struct Block {
    pub(super) body: Body,
    pub(super) key_facts: Vec<KeyFact>,
    pub(super) counts: Counts,
    pub(super) model: Arc<str>,
    /// The share of the range's days, names and ids that a model's block contains.
    pub(super) coverage: Option<FactCoverage>,
}

/// Quotes from the messages; if these are unacceptable, the beginning and the end of all messages.
pub(super) async fn extracted(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    style: Style,
    tokenizer: &tokenizer::Handle,
) -> Result<Block, Arc<str>> {
    let quotes = extract(job, cover, cap, style).await?;
    let text = with_list(job, cover, cap, &quotes, tokenizer).await?;
    let key_facts = quotes.key_facts;
    let body = Body::Summary(text.as_str().into());
    let block = block_text(&cover.spans, &body, &key_facts);
    let counts = count_block(job, &block, tokenizer).await?;
    let draft = Draft {
        text: &text,
        stop: Stop::Complete,
        tokens: cost(job, counts),
    };
    // A text of a person alone has no sections.
    let tier = match quotes.text.is_empty() && !quotes.head.text.is_empty() {
        true => Tier::Topic,
        false => job.plan.step.tier(),
    };
    match accept(&draft, tier, cap, cover.original) {
        Ok(()) => Ok(Block {
            body,
            key_facts,
            counts,
            model: EXTRACTIVE.into(),
            coverage: None,
        }),
        Err(rejection) => {
            tracing::warn!(%rejection, "the extractive summary is not taken, the text is truncated");
            truncate(job, cover, cap, tokenizer).await
        }
    }
}

/// The quotes below their head. If they stand for an earlier summary too, the names that they lost are
/// below them, as far as these fit.
async fn with_list(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    quotes: &Quotes,
    tokenizer: &tokenizer::Handle,
) -> Result<String, Arc<str>> {
    let text = quotes.head.above(&quotes.text);
    if quotes.head.rest.is_empty() || quotes.text.is_empty() {
        return Ok(text);
    }
    let block = |text: &str| {
        let body = Body::Summary(text.into());
        block_text(&cover.spans, &body, &quotes.key_facts)
    };
    let most = cap.min(cover.original.minus(Tokens(1)));
    let alone = block(&text);
    let tokens = cost(job, count_block(job, &alone, tokenizer).await?);
    let list = anchors::list(job, alone, cap, most.minus(tokens)).await?;
    if list.is_empty() {
        return Ok(text);
    }
    let listed = format!("{text}\n\n{list}");
    let tokens = cost(job, count_block(job, &block(&listed), tokenizer).await?);
    Ok(if tokens <= most { listed } else { text })
}

/// The layout of the summary: one paragraph for topics and bulks.
pub(super) fn layout(job: &CompactionJob) -> SummaryLayout {
    match job.plan.step.tier() {
        Tier::Conversation => SummaryLayout::Rolling,
        Tier::Topic | Tier::Bulk => SummaryLayout::Paragraph,
    }
}

/// The tokens of a block under the budget for which the step was planned.
pub(super) fn cost(job: &CompactionJob, counts: Counts) -> Tokens {
    counts
        .get(job.plan.budget.encoding)
        .unwrap_or_default()
        .at_most
}

/// A summary of quotes.
struct Quotes {
    head: Head,
    text: String,
    key_facts: Vec<KeyFact>,
}

async fn extract(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    style: Style,
) -> Result<Quotes, Arc<str>> {
    let (job, spans) = (job.clone(), cover.spans.clone());
    // A summary must be smaller than its input.
    let cap = cap.min(cover.original.minus(Tokens(1)));
    let work = spawn_blocking(move || -> Result<Quotes, Arc<str>> {
        // Quotes are chosen again from the messages behind earlier ones, if the job has them.
        let earlier = if job.quoted.is_empty() {
            &job.prior
        } else {
            &job.kept
        };
        let messages = job.quoted.iter().chain(&job.messages);
        let mut messages: Vec<&Message> = messages.map(|message| &**message).collect();
        messages.sort_by_key(|message| message.ordinal);
        let tokenizer = load_tokenizer(&job)?;
        let count = |text: &str| tokenizer.count(text).at_most.0;
        let head = Head::new(&job.kept, earlier, cap, &count);
        let list = match head.rest.is_empty() {
            true => Tokens::ZERO,
            false => anchors::reserve_below_quotes(&job.prior, cap, &count),
        };
        let prior = Prior {
            text: joined(
                head.rest
                    .iter()
                    .map(|(span, text)| marked(*span, anchors::without_names(text))),
            ),
            facts: facts_of(earlier),
        };
        let room = cap.minus(head.tokens + list);
        let draft = with_input_of(&job, &prior, &messages, room, |input| {
            let telegraphic = style == Style::Telegraphic;
            let input = SummaryInput {
                telegraphic,
                ..*input
            };
            extractive::checkpoint(&input, &spans)
        })?;
        Ok(Quotes {
            head,
            text: draft.text,
            key_facts: draft.key_facts,
        })
    });
    work.await
        .map_err(|_| Arc::from("the extractive summariser panicked"))?
}

/// The parts beside the text of a model's summary.
pub(super) struct Frame {
    pub(super) head: Head,
    pub(super) key_facts: Vec<KeyFact>,
    /// The maximum number of tokens of the text.
    pub(super) room: Tokens,
}

/// The parts beside the text of a summary with at most `cap` tokens. Names that earlier summaries list
/// have room below it.
pub(super) async fn frame(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
) -> Result<Frame, Arc<str>> {
    let (job, spans) = (job.clone(), cover.spans.clone());
    let work = spawn_blocking(move || {
        with_input(&job, cap, |input| {
            let head = Head::new(&job.kept, &job.prior, cap, input.count);
            let list = anchors::reserve(&job.prior, cap, input.count);
            let key_facts = extractive::key_facts(input);
            let empty = block_text(&spans, &Body::Summary("".into()), &key_facts);
            let beside = Tokens((input.count)(&empty)) + head.tokens + list;
            Frame {
                head,
                key_facts,
                room: cap.minus(beside),
            }
        })
    });
    work.await
        .map_err(|_| Arc::from("the search for key facts panicked"))?
}

/// The share of the range's days, names and ids in a model's block, and in quotes of the same size.
pub(super) async fn coverage(
    job: &CompactionJob,
    cover: &Cover,
    block: String,
    tokens: Tokens,
) -> Result<Option<FactCoverage>, Arc<str>> {
    let (job, spans) = (job.clone(), cover.spans.clone());
    let work = spawn_blocking(move || {
        with_input(&job, tokens, |input| {
            extractive::coverage(input, &spans, &block)
        })
    });
    work.await
        .map_err(|_| Arc::from("the search for facts panicked"))?
}

/// The earlier summaries as input.
struct Prior {
    text: String,
    facts: Vec<KeyFact>,
}

/// Calls `read` with the earlier summaries and the new messages. Blocks.
fn with_input<T>(
    job: &CompactionJob,
    cap: Tokens,
    read: impl FnOnce(&SummaryInput<'_>) -> T,
) -> Result<T, Arc<str>> {
    let messages: Vec<&Message> = job.messages.iter().map(|message| &**message).collect();
    let prior = Prior {
        text: joined(
            job.prior
                .iter()
                .filter_map(|made| Some(marked(made.range(), summary_of(made)?))),
        ),
        facts: facts_of(&job.prior),
    };
    with_input_of(job, &prior, &messages, cap, read)
}

/// As [`with_input`], with the key facts of the earlier summaries as lines of them. Blocks.
pub(super) fn with_blocks<T>(
    job: &CompactionJob,
    cap: Tokens,
    read: impl FnOnce(&SummaryInput<'_>) -> T,
) -> Result<T, Arc<str>> {
    let messages: Vec<&Message> = job.messages.iter().map(|message| &**message).collect();
    let summaries = job.prior.iter().filter(|made| summary_of(made).is_some());
    let prior = Prior {
        text: joined(summaries.map(|made| made.context_text())),
        facts: facts_of(&job.prior),
    };
    with_input_of(job, &prior, &messages, cap, read)
}

/// Calls `read` with these summaries and messages as the input of the extractive summariser. Blocks.
fn with_input_of<T>(
    job: &CompactionJob,
    prior: &Prior,
    messages: &[&Message],
    cap: Tokens,
    read: impl FnOnce(&SummaryInput<'_>) -> T,
) -> Result<T, Arc<str>> {
    let tokenizer = load_tokenizer(job)?;
    let passages = Passage::of_messages(messages.iter().copied());
    Ok(read(&SummaryInput {
        prior: (!prior.text.is_empty()).then_some(prior.text.as_str()),
        prior_facts: &prior.facts,
        layout: layout(job),
        instructions: job.writing.instructions.as_deref(),
        ..SummaryInput::new(&passages, cap, &|text| tokenizer.count(text).at_most.0)
    }))
}

fn load_tokenizer(job: &CompactionJob) -> Result<Tokenizer, Arc<str>> {
    Tokenizer::load(job.plan.budget.encoding).map_err(|error| Arc::from(error.to_string()))
}

/// A summary below its mark, which tells it from the one before it.
fn marked(span: Span, text: &str) -> String {
    block_text(&[span], &Body::Summary(text.into()), &[])
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n\n")
}

pub(super) fn facts_of(prior: &[Arc<Checkpoint>]) -> Vec<KeyFact> {
    let facts = prior.iter().flat_map(|checkpoint| &checkpoint.key_facts);
    facts.cloned().collect()
}

/// The earlier key facts for which a new checkpoint has no room, one a line, for the model that writes
/// its summary: no earlier summary has them. Empty if there are none.
pub(super) fn lost_facts(prior: &[KeyFact], kept: &[KeyFact]) -> String {
    let lost = extractive::facts_without_room(prior, kept);
    if lost.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lost.iter().map(ToString::to_string).collect();
    format!("## Key facts\n{}", lines.join("\n"))
}

pub(super) fn summary_of(checkpoint: &Checkpoint) -> Option<&str> {
    match &checkpoint.body {
        Body::Summary(text) => Some(text),
        Body::Tombstone => None,
    }
}

/// The last resort: the beginning and the end of the messages, halved until they fit. Key facts are
/// not shortened: as many as certainly fit into a part of the cap are kept.
async fn truncate(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    tokenizer: &tokenizer::Handle,
) -> Result<Block, Arc<str>> {
    let Frame { head, .. } = frame(job, cover, cap).await?;
    let prior = head.rest.iter().map(|(_, text)| text.clone());
    let messages = job.messages.iter().map(|message| message.countable_text());
    let whole: Vec<String> = prior.chain(messages).collect();
    let whole = whole.join("\n");
    let whole = redact(&whole);
    // A token has at least one byte.
    let bytes = |text: &str| Tokens(text.len() as u64);
    let room = Tokens(cap.minus(head.tokens).0 / TRUNCATION_FACTS_PART);
    let key_facts = KeyFact::carried_within(&facts_of(&job.prior), &[], room, bytes);
    let mut keep = TRUNCATION_KEEPS;
    while keep > 0 {
        let text = match layout(job) {
            SummaryLayout::Rolling => format!("## {}\n{}", SECTIONS[0], truncated(&whole, keep)),
            SummaryLayout::Paragraph => truncated(&whole, keep),
        };
        let body = Body::Summary(head.above(&text).into());
        let block = block_text(&cover.spans, &body, &key_facts);
        let counts = count_block(job, &block, tokenizer).await?;
        if cost(job, counts) <= cap {
            return Ok(Block {
                body,
                key_facts,
                counts,
                model: "truncation".into(),
                coverage: None,
            });
        }
        keep /= 2;
    }
    Err(format!("nothing of the range fits {cap} tokens").into())
}

#[cfg(test)]
mod tests {
    use unisono_context::Ordinal;

    use super::*;

    #[test]
    fn facts_without_room_are_shown_to_the_model() {
        let facts = [
            (2, "Deliveries must not arrive at noon."),
            (5, "The budget is 2,400 EUR for the whole fence."),
            (
                9,
                "Correction: the budget is 2,900 EUR for the whole fence.",
            ),
        ]
        .map(|(n, text)| KeyFact {
            text: text.into(),
            ordinal: Ordinal(n),
        });
        let [_, _, newest] = &facts;
        let lost = lost_facts(&facts, std::slice::from_ref(newest));
        assert_eq!(
            lost,
            "## Key facts\n- Deliveries must not arrive at noon. (#2)"
        );
        assert_eq!(lost_facts(&facts[2..], &facts[2..]), "");
    }
}
