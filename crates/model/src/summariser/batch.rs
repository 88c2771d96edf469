//! Several topics in one request, and their summaries in its reply.

use std::fmt::Write as _;

use unisono_context::Tokens;
use unisono_context::call::{Reply, Stop};

use super::prompt::{Prompt, PromptValues};
use super::reply::{summary, without_fence};
use super::shares::{Limits, OVERHEAD, REASONING, REPLY_PART, TARGET_PERCENT};
use super::transcript::{Transcript, TranscriptItem};
use super::wrap::{TOPIC, guard};
use super::{persona, words};
use crate::extractive::{CountTokens, SummaryLayout};
use crate::redact::redact;
use crate::think;

/// The heading of a topic's summary, before its number.
const HEADING: &str = "## Topic ";

/// One of several topics.
#[derive(Clone, Debug)]
pub struct Topic<'a> {
    /// Its messages, oldest first.
    pub items: Vec<TranscriptItem<'a>>,
    /// The maximum tokens of its summary's text.
    pub cap: Tokens,
}

/// One request for several summaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The task of the summariser.
    pub task: String,
    /// The number of topics in it, from the first on.
    pub topics: usize,
    /// The maximum output, reasoning included.
    pub max_output: Tokens,
}

/// A request for as many of the topics as fit the window; `None` if fewer than two fit. The cap of
/// `limits` is not used: each topic has its own.
pub fn batch(
    prompt: &Prompt,
    topics: &[Topic<'_>],
    instructions: Option<&str>,
    limits: Limits,
    count: CountTokens<'_>,
) -> Option<Batch> {
    let instructions = instructions.map(|text| words::added(&guard(&redact(text))));
    let instructions = instructions.unwrap_or_default();
    let targets: Vec<u64> = topics.iter().map(|topic| target(topic.cap)).collect();
    let filled = |texts: &[String]| {
        let targets = &targets[..texts.len()];
        let frame = prompt.fill(&PromptValues {
            conversation: &conversation(texts),
            instructions: &instructions,
            target_tokens: targets.iter().copied().max().unwrap_or_default(),
            ..PromptValues::default()
        });
        format!("{frame}\n\n{}", batch_instructions(targets))
    };
    let persona = persona();
    let who = format!("{}\n{}", persona.description, persona.instructions);
    let frame = count(&filled(&vec![String::new(); topics.len()])) + count(&who) + OVERHEAD;
    let free = limits.window.0.saturating_sub(frame);
    let most = limits.max_output.0.min(free / REPLY_PART);
    let (mut texts, mut read, mut written, mut reply) = (Vec::new(), 0, 0, 0);
    for (topic, target) in topics.iter().zip(&targets) {
        let text = Transcript::new(&topic.items).text;
        let tokens = read + count(&text);
        let longest = most.min(2 * (written + topic.cap.0) + REASONING);
        if written + target > most || tokens > free - longest {
            break;
        }
        (read, written, reply) = (tokens, written + target, longest);
        texts.push(text);
    }
    (texts.len() > 1).then(|| Batch {
        task: filled(&texts),
        topics: texts.len(),
        max_output: Tokens(reply),
    })
}

const fn target(cap: Tokens) -> u64 {
    cap.0 * TARGET_PERCENT / 100
}

/// The topics in order, each after a line with its number.
fn conversation(texts: &[String]) -> String {
    let mut all = String::new();
    for (index, text) in texts.iter().enumerate() {
        let _ = writeln!(all, "<{TOPIC} {}>\n{}", index + 1, text.trim_end());
    }
    all
}

/// The instructions for the reply's form.
fn batch_instructions(targets: &[u64]) -> String {
    let all = targets.len();
    let mut words = format!(
        "The messages are those of {all} topics; each topic begins with a line such as \
         <{TOPIC} 1>. All of the above holds for each topic by itself. Write one paragraph for \
         each, in their order, and nothing of one topic in the paragraph of another. Put a line \
         with its number before each paragraph, and no other heading:"
    );
    for (index, target) in targets.iter().enumerate() {
        let _ = write!(
            words,
            "\n{HEADING}{}\n(the paragraph of topic {}, at most {target} tokens)",
            index + 1,
            index + 1
        );
    }
    words
}

/// The summaries in the reply to a request for this many topics: `None` for a topic whose summary
/// is missing or rejected, and for all topics if the headings are wrong.
pub fn summaries(reply: &Reply, topics: usize) -> Vec<Option<String>> {
    let nothing = vec![None; topics];
    if reply.stop == Stop::Refused {
        return nothing;
    }
    let answer = think::answer(&reply.text);
    let Some(mut parts) = split(without_fence(&answer), topics) else {
        return nothing;
    };
    if reply.stop == Stop::CutOff {
        parts.pop();
    }
    let mut found = nothing;
    for (number, text) in parts {
        let part = Reply {
            text: text.into(),
            ..Reply::default()
        };
        if let Some(place) = found.get_mut(number - 1) {
            *place = summary(&part, SummaryLayout::Paragraph).ok();
        }
    }
    found
}

/// The text below each numbered heading. `None` if there is text before the first one, or the
/// numbers do not ascend from 1 to at most `topics`.
fn split(answer: &str, topics: usize) -> Option<Vec<(usize, String)>> {
    let mut parts: Vec<(usize, String)> = Vec::new();
    for line in answer.lines() {
        if let Some(heading) = line.trim().strip_prefix(HEADING) {
            // Some models add a title: `## Topic 1: Moving`.
            let number = heading.split([':', '.', ' ']).next()?;
            let number: usize = number.parse().ok()?;
            let last = parts.last().map_or(0, |(last, _)| *last);
            if number <= last || number > topics {
                return None;
            }
            parts.push((number, String::new()));
        } else if let Some((_, text)) = parts.last_mut() {
            text.push_str(line);
            text.push('\n');
        } else if !line.trim().is_empty() {
            return None;
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    //! Tests that only the text under its own number is a topic's summary.

    use super::*;

    #[test]
    fn an_answer_is_split_by_its_numbered_headings() {
        let (a, b) = (Some("One."), Some("Two."));
        let rows = rows! {
            ("## Topic 1\nOne.\n\n## Topic 2\nTwo.", Stop::Complete, [a, b]),
            ("```\n## Topic 1\nOne.\n## Topic 2\nTwo.\n```", Stop::Complete, [a, b]),
            ("## Topic 1: Moving\nOne.\n## Topic 2.\nTwo.", Stop::Complete, [a, b]),
            ("## Topic 2\nTwo.", Stop::Complete, [None, b]),
            ("## Topic 1\n\n## Topic 2\nTwo.", Stop::Complete, [None, b]),
            ("## Topic 1\nI cannot do that.\n## Topic 2\nTwo.", Stop::Complete, [None, b]),
            ("## Topic 1\nOne.\n## Topic 2\nTw", Stop::CutOff, [a, None]),
            ("## Topic 1\nOne.\n## Topic 2\nTwo.", Stop::Refused, [None, None]),
            ("## Topic 2\nTwo.\n## Topic 1\nOne.", Stop::Complete, [None, None]),
            ("## Topic 1\nOne.\n## Topic 1\nOne.", Stop::Complete, [None, None]),
            ("## Topic 1\nOne.\n## Topic 3\nThree.", Stop::Complete, [None, None]),
            ("## Topic one\nOne.", Stop::Complete, [None, None]),
            ("Here they are.\n## Topic 1\nOne.", Stop::Complete, [None, None]),
            ("One. Two.", Stop::Complete, [None, None]),
        };
        for (text, stop, expected) in rows {
            let reply = Reply {
                text: text.into(),
                stop,
                ..Reply::default()
            };
            let found = summaries(&reply, 2);
            let found: Vec<_> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
