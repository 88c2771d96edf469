//! The list below a summary: days, names and ids that the summary lost.
//!
//! A name stays in the list from summary to summary, whoever writes them, as long as the text does not
//! have it. If there is too little room, the names that were listed first leave.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use unisono_context::Tokens;
use unisono_context::checkpoint::Checkpoint;
use unisono_model::extractive::{self, CountTokens, NAMED, SummaryInput, has_name};
use unisono_session::assignment::CompactionJob;

use super::extract::{summary_of, with_blocks};

/// The part of a summary's cap for the list …
const LIST_PART: u64 = 4;
/// … and for facts that no earlier list has.
const NEW_PART: u64 = 8;
/// A smaller summary of quotes needs all its room for them.
const LIST_FROM: Tokens = Tokens(160);
/// The maximum number of names that are carried on.
const MAX_NAMES: usize = 200;

/// The list for a block of at most `cap` tokens, in at most `room` tokens; empty if nothing is lost.
pub(super) async fn list(
    job: &CompactionJob,
    block: String,
    cap: Tokens,
    room: Tokens,
) -> Result<String, Arc<str>> {
    let job = job.clone();
    let room = room.min(Tokens(cap.0 / LIST_PART));
    let new = room.min(Tokens(cap.0 / NEW_PART));
    let work = spawn_blocking(move || {
        let listed = listed(&job.prior);
        with_blocks(&job, new, |input| lost(input, &listed, &block, room))
    });
    work.await
        .map_err(|_| Arc::from("the search for lost names panicked"))?
}

/// The tokens to leave for the names that earlier summaries list.
pub(super) fn reserve(prior: &[Arc<Checkpoint>], cap: Tokens, count: CountTokens<'_>) -> Tokens {
    let listed = listed(prior);
    if listed.is_empty() {
        return Tokens::ZERO;
    }
    let line = format!("\n\n{}", line(listed.into_iter()));
    Tokens(count(&line)).min(Tokens(cap.0 / LIST_PART))
}

/// The tokens to leave for the list below quotes, which fill their room.
pub(super) fn reserve_below_quotes(
    prior: &[Arc<Checkpoint>],
    cap: Tokens,
    count: CountTokens<'_>,
) -> Tokens {
    if cap < LIST_FROM {
        return Tokens::ZERO;
    }
    let listed = reserve(prior, cap, count);
    (listed + Tokens(cap.0 / NEW_PART)).min(Tokens(cap.0 / LIST_PART))
}

/// A summary without its line of names.
pub(super) fn without_names(text: &str) -> &str {
    match text.rsplit_once('\n') {
        Some((before, last)) if last.starts_with(NAMED) => before,
        None if text.starts_with(NAMED) => "",
        _ => text,
    }
}

/// The earlier names that the block does not have, and the facts that it lost besides.
fn lost(input: &SummaryInput<'_>, listed: &[&str], block: &str, room: Tokens) -> String {
    let mut earlier: Vec<&str> = listed.to_vec();
    earlier.retain(|name| !has_name(block, name));
    let known = format!("{block}\n{}", line(earlier.iter().copied()));
    let added = extractive::anchors(input, &known);
    let new = names(&added);
    let days = added.lines().filter(|line| !line.starts_with(NAMED));
    let days: Vec<&str> = days.collect();
    loop {
        let named = line(earlier.iter().chain(&new).copied());
        let lines = days.iter().copied().chain([&*named]);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let text = lines.join("\n");
        if earlier.is_empty() || (input.count)(&text) <= room.0 {
            return text;
        }
        earlier.remove(0);
    }
}

/// The line of these names; empty if there are none.
fn line<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("{NAMED}{}.", names.join(", ")),
    }
}

/// The names below these summaries, each once, in the order in which they were listed.
fn listed(prior: &[Arc<Checkpoint>]) -> Vec<&str> {
    let texts = prior.iter().filter_map(|made| summary_of(made));
    let mut all: Vec<&str> = Vec::new();
    for name in texts.flat_map(names) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.split_off(all.len().saturating_sub(MAX_NAMES))
}

/// The names in the last line of a text, if it lists names.
fn names(text: &str) -> Vec<&str> {
    let last = text.lines().next_back();
    let Some(listed) = last.and_then(|line| line.strip_prefix(NAMED)) else {
        return Vec::new();
    };
    let listed = listed.strip_suffix('.').unwrap_or(listed);
    let names = listed.split(", ").filter(|name| !name.is_empty());
    names.collect()
}

#[cfg(test)]
mod tests {
    use unisono_context::{Ordinal, Role, Timestamp};
    use unisono_model::extractive::Passage;

    use super::*;

    fn tokens(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    /// The list of a conversation with these messages below a summary.
    fn list_below(summary: &str, messages: &[&str], listed: &[&str], room: u64) -> String {
        let at = Timestamp(1_777_852_800_000);
        let passages = messages.iter().zip(1..);
        let passages: Vec<Passage<'_>> = passages
            .map(|(text, n)| Passage::text(Ordinal(n), Role::User, at, *text))
            .collect();
        let input = SummaryInput::new(&passages, Tokens(room), &tokens);
        lost(&input, listed, summary, Tokens(room))
    }

    #[test]
    fn earlier_names_stay_until_the_text_has_them() {
        let messages = ["Order W-1742 waits."];
        let listed = ["Marta", "W-1001", "Ben"];
        let rows = [
            ("On 4 May 2026.", "Also named: Marta, W-1001, Ben, W-1742."),
            (
                "On 4 May 2026 Marta came.",
                "Also named: W-1001, Ben, W-1742.",
            ),
            (
                "On 4 May 2026, W-10012 of Benedikt.",
                "Also named: Marta, W-1001, Ben, W-1742.",
            ),
            ("On 4 May 2026: Marta, Ben, W-1742, W-1001.", ""),
        ];
        for (summary, expected) in rows {
            assert_eq!(list_below(summary, &messages, &listed, 50), expected);
        }
    }

    #[test]
    fn too_many_names_leave_in_the_order_in_which_they_came() {
        let messages = ["Order W-1742 waits."];
        let listed = ["W-1", "W-2", "W-3", "W-4"];
        let text = list_below("On 4 May 2026.", &messages, &listed, 5);
        assert_eq!(text, "Also named: W-3, W-4, W-1742.");
    }

    #[test]
    fn a_list_is_read_as_the_summariser_writes_it() {
        let messages = ["Order W-1742 waits.", "Order W-1743 is Dr. Wu's."];
        let text = list_below("It went well.", &messages, &[], 50);
        assert_eq!(names(&text), ["W-1742", "W-1743"], "{text}");
        let summary = format!("## Context\n- It went well.\n\n{text}");
        assert_eq!(
            names(&summary),
            ["W-1742", "W-1743"],
            "below a summary, too"
        );
        assert!(without_names(&summary).ends_with("2026."), "{summary}");
        assert!(names("## Context\n- It went well.").is_empty());
    }
}
