//! `/sessions/{session}/checkpoints/{number}/compare`: marks the kept and the dropped sentences of a
//! compaction in the original messages.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::compaction::CheckpointDetail;
use unisono_api::message::Message;
use unisono_api::service::Service;

use crate::branch_view::{BranchView, MessagesQuery};
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::lists;
use crate::message::{self, continuation};
use crate::parts::{counted, name, number};
use crate::pictures::{attribute, scaled};
use crate::text_limit::TextLimit;

/// Original messages per page.
const MESSAGES: u32 = 20;
/// A sentence is partly kept if the summary has this percentage of its words.
const PART: usize = 60;
/// Shorter words do not count in the percentage.
const SHORT: usize = 4;

/// A message, the number of its omitted bytes, and its shown sentences.
type Marked<'m> = (&'m Message, usize, Vec<(SentenceStatus, &'m str)>);

/// Shows the original messages of a checkpoint next to its summary.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Query(query): Query<MessagesQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &query.branch).await?;
    let detail = service.checkpoint(&id, &number, &query.branch).await?;
    let (first, last) = (detail.checkpoint.first, detail.checkpoint.last);
    let from = query.from.unwrap_or(first).clamp(first, last);
    let many = MESSAGES.min(last - from + 1);
    let messages = lists::messages(&*service, &place, from, many).await?;
    let summary = Summary::new(&detail.block);
    let room = TextLimit::new(message::ROOM);
    // The text of all parts: a summary is of all of them.
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    let marked: Vec<Marked<'_>> = (messages.iter().zip(&texts))
        .map(|(message, text)| {
            let (shown, left) = room.cut(text);
            (message, left, summary.marks(shown))
        })
        .collect();
    let body = place.page(&html! {
        h2 { "Checkpoint " (number) ": before and after" }
        (counts(&detail, &marked))
        div class="beside" {
            section aria-label="Before" {
                h3 { "Before: #" (first) "–#" (last) }
                @for marked in &marked { (original(marked, &place)) }
                (navigation(&place, &number, (first, from, last)))
            }
            section aria-label="After" tabindex="0" {
                h3 { "After: the summary" }
                pre class="text card" { (detail.block) }
            }
        }
        p { a href=(place.path(&format!("/checkpoints/{number}"))) { "Back to the checkpoint" } }
    });
    Ok(layout(
        &format!("checkpoint {number}, before and after"),
        &body,
    ))
}

/// The tokens before and after, and the counts of the shown sentences.
fn counts(detail: &CheckpointDetail, marked: &[Marked<'_>]) -> Markup {
    let checkpoint = &detail.checkpoint;
    let all = marked.iter().flat_map(|(_, _, sentences)| sentences);
    let of = |fate: SentenceStatus| all.clone().filter(|(own, _)| *own == fate).count() as u64;
    let (kept, part, dropped) = (
        of(SentenceStatus::Kept),
        of(SentenceStatus::Part),
        of(SentenceStatus::Dropped),
    );
    let bar = |tokens: u64| attribute(scaled(tokens as f64, checkpoint.tokens_before as f64));
    html! {
        ol class="lanes" {
            @for (name, class, tokens) in [("before", "user", checkpoint.tokens_before), ("after", "checkpoint", checkpoint.tokens_after)] { li {
                span class="name" { (name) }
                svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect class="room" x="0" y="3" width="1000" height="14" {}
                    rect class=(class) x="0" y="3" width=(bar(tokens)) height="14" {}
                }
                span class="number quiet" { (number(tokens)) " tokens" }
            } }
        }
        p { "Of the text on this page, the summary keeps " ins class="kept" { (counted(kept, "sentence")) " verbatim" } " and "
             span class="part" { (number(part)) " in part" } "; it drops "
            del class="dropped" { (number(dropped)) } ". "
            span class="quiet" { "A sentence is kept in part if the summary has most of its longer words." } }
    }
}

fn original((message, left, sentences): &Marked<'_>, place: &BranchView) -> Markup {
    let whole = place.path(&format!("/messages/{}", message.ordinal));
    html! {
        article class={ "message " (message.role) } id={ "m" (message.ordinal) } {
            header class="quiet" { "#" (message.ordinal) " " strong { (name(message.author.as_deref().unwrap_or(&message.role))) } }
            p class="marked" { @for (fate, text) in sentences { @match fate {
                SentenceStatus::Kept => ins class="kept" { (text) },
                SentenceStatus::Part => span class="part" { (text) },
                SentenceStatus::Dropped => del class="dropped" { (text) },
                SentenceStatus::Blank => (text),
            } } }
            (continuation(*left, Some(&whole)))
        }
    }
}

fn navigation(place: &BranchView, number: &str, (first, from, last): (u32, u32, u32)) -> Markup {
    let to = |at: u32| place.path(&format!("/checkpoints/{number}/compare?from={at}"));
    html! {
        p class="links" {
            @if from > first { a href=(to(from.saturating_sub(MESSAGES).max(first))) { "Earlier messages" } }
            @if from + MESSAGES <= last { a href=(to(from + MESSAGES)) { "Later messages" } }
        }
    }
}

/// Whether the summary keeps a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentenceStatus {
    Kept,
    Part,
    Dropped,
    /// It has no words.
    Blank,
}

/// The summary, prepared for comparison.
struct Summary {
    /// Its words in order, separated by spaces.
    text: String,
    words: HashSet<String>,
}

/// The words of a text, without punctuation.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !c.is_alphanumeric());
    all.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

impl Summary {
    fn new(text: &str) -> Summary {
        let all: Vec<String> = words(text).collect();
        Summary {
            text: format!(" {} ", all.join(" ")),
            words: all.into_iter().collect(),
        }
    }

    /// Divides a text into sentences, each with its fate.
    fn marks<'t>(&self, text: &'t str) -> Vec<(SentenceStatus, &'t str)> {
        let sentences = sentences(text).into_iter();
        sentences
            .map(|sentence| (self.fate(sentence), sentence))
            .collect()
    }

    fn fate(&self, sentence: &str) -> SentenceStatus {
        let own: Vec<String> = words(sentence).collect();
        if own.is_empty() {
            return SentenceStatus::Blank;
        }
        if self.text.contains(&format!(" {} ", own.join(" "))) {
            return SentenceStatus::Kept;
        }
        let long =
            |word: &&String| word.chars().count() >= SHORT || word.chars().any(char::is_numeric);
        let long: Vec<&String> = own.iter().filter(long).collect();
        let found = long
            .iter()
            .filter(|word| self.words.contains(**word))
            .count();
        match !long.is_empty() && found * 100 >= long.len() * PART {
            true => SentenceStatus::Part,
            false => SentenceStatus::Dropped,
        }
    }
}

/// Divides a text into sentences. A sentence ends after `.`, `!` or `?` and a space, or after a line.
fn sentences(text: &str) -> Vec<&str> {
    let (mut all, mut from, mut ended) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if c == '\n' || (ended && c.is_whitespace()) {
            all.push(&text[from..end]);
            from = end;
        }
        ended = matches!(c, '.' | '!' | '?' | '。');
    }
    if from < text.len() {
        all.push(&text[from..]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_are_kept_kept_in_part_or_dropped() {
        let summary = Summary::new(
            "[summary of 1–4]\nThe move is on Friday. Orders 4711 are late, Bern waits.",
        );
        let text = "The move is on  Friday! The late orders 4711 wait. What about lunch? ...\n";
        let found = summary.marks(text);
        let fates: Vec<SentenceStatus> = found.iter().map(|(fate, _)| *fate).collect();
        assert_eq!(
            fates,
            [
                SentenceStatus::Kept,
                SentenceStatus::Part,
                SentenceStatus::Dropped,
                SentenceStatus::Blank
            ]
        );
        let all: String = found.iter().map(|(_, sentence)| *sentence).collect();
        assert_eq!(all, text);
        // A part of a word does not match.
        assert_eq!(summary.fate("Frid"), SentenceStatus::Dropped);
    }

    proptest! {
        #[test]
        fn sentences_together_are_the_text(text in "(?s).{0,200}") {
            prop_assert_eq!(sentences(&text).concat(), text);
        }
    }
}
