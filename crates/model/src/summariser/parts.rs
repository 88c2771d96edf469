//! Divides the messages to summarise among as many requests as the summariser's window requires.
//!
//! Each request after the first contains the summary so far, so an input of any length can be
//! summarised with a window of any size. The texts of all parts, one after the other, are the
//! transcript: nothing is omitted or repeated.

use std::sync::Arc;

use unisono_context::{Ordinal, Tokens};

use super::prompt::{Prompt, PromptValues};
use super::shares::{Limits, Shares, TooSmall};
use super::split::{boundary, fitting};
use super::transcript::{Transcript, TranscriptItem};
use super::words::{self, continued};
use super::wrap::guard;
use crate::extractive::CountTokens;
use crate::redact::redact;

/// The input of a summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Material<'a> {
    /// The messages to summarise, oldest first.
    pub items: &'a [TranscriptItem<'a>],
    /// The summaries of earlier messages, oldest first. They are summarised too.
    pub prior: &'a [TranscriptItem<'a>],
    /// The messages after the cutoff, for context only.
    pub recent: &'a [TranscriptItem<'a>],
    /// The texts of persons that the summary will begin with; none: empty.
    pub kept: &'a str,
    /// Additional instructions of the user.
    pub instructions: Option<&'a str>,
}

/// The requests for a summary.
#[derive(Clone, Debug)]
pub struct Parts {
    /// In order; never empty.
    pub parts: Vec<Part>,
    /// The requested length of the summary.
    pub target: Tokens,
    /// The maximum summary of every part but the last: the next part's room for it.
    pub carried: Tokens,
    /// The maximum output, reasoning included.
    pub max_output: Tokens,
    prompt: Arc<Prompt>,
    prior: String,
    recent: String,
    instructions: String,
}

/// The part of the transcript in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// A piece of the transcript.
    pub text: String,
    /// The message with which, or in the middle of which, it begins.
    pub first: Ordinal,
    /// The message with which, or in the middle of which, it ends.
    pub last: Ordinal,
    /// The title of the message in the middle of which it begins.
    continues: Option<String>,
}

/// Divides the material. `count` must be exact or an upper bound of the summariser's count.
///
/// # Errors
/// The prompt leaves no room for messages.
pub fn plan_parts(
    prompt: &Arc<Prompt>,
    material: &Material<'_>,
    limits: Limits,
    count: CountTokens<'_>,
) -> Result<Parts, TooSmall> {
    let added = material.instructions.map(|text| words::added(&data(text)));
    let kept = Some(material.kept).filter(|text| !text.is_empty());
    let kept = kept.map(|text| words::kept(&data(text)));
    let instructions: Vec<String> = kept.into_iter().chain(added).collect();
    let instructions = instructions.join("\n\n");
    let shares = Shares::new(prompt, &instructions, limits, count)?;
    let mut transcript = Transcript::new(material.items);
    let mut prior = Transcript::new(material.prior).text;
    let mut earlier = count(&prior);
    if earlier > shares.carried || material.items.is_empty() {
        // An earlier summary is treated like messages if it is long, or if there are no messages.
        let all: Vec<TranscriptItem<'_>> = material
            .prior
            .iter()
            .chain(material.items)
            .cloned()
            .collect();
        (transcript, prior, earlier) = (Transcript::new(&all), String::new(), 0);
    }
    let recent = recent_messages(material.recent, shares.recent, count);
    let alone = shares.room + shares.carried - earlier;
    let parts = divide(&transcript, alone, shares.room, count);
    Ok(Parts {
        parts,
        target: Tokens(shares.target),
        carried: Tokens(shares.carried),
        max_output: Tokens(shares.reply),
        prompt: prompt.clone(),
        prior,
        recent,
        instructions,
    })
}

impl Parts {
    /// The task for one part. `so_far` is the summary of the parts before; `target` is the
    /// requested length of the summary.
    pub fn task(&self, index: usize, so_far: Option<&str>, target: Tokens) -> String {
        let prior = match so_far {
            Some(text) => words::so_far(&data(text)),
            None if self.prior.is_empty() => String::new(),
            None => words::prior(&self.prior),
        };
        let last = index + 1 >= self.parts.len();
        let recent = if last { &self.recent } else { words::GOES_ON };
        let conversation = self.parts.get(index).map(Part::shown).unwrap_or_default();
        self.prompt.fill(&PromptValues {
            conversation: &conversation,
            prior: &prior,
            recent,
            instructions: &self.instructions,
            target_tokens: target.0,
        })
    }
}

impl Part {
    fn shown(&self) -> String {
        match &self.continues {
            Some(title) => format!("{}{}", continued(title), self.text),
            None => self.text.clone(),
        }
    }
}

/// A text without credentials that cannot close its wrapper.
fn data(text: &str) -> String {
    guard(&redact(text)).into_owned()
}

/// The messages after the cutoff, as far as they fit; empty if there are none.
fn recent_messages(recent: &[TranscriptItem<'_>], room: u64, count: CountTokens<'_>) -> String {
    let transcript = Transcript::new(recent);
    if transcript.text.is_empty() {
        return String::new();
    }
    let mut limit = fitting(&transcript.text, room, count);
    if limit < transcript.text.len() {
        limit = boundary(&transcript.text, limit);
    }
    words::followed(&transcript.text[..limit])
}

/// One part if everything fits in `alone` tokens; else parts of at most `room` tokens each.
fn divide(transcript: &Transcript, alone: u64, room: u64, count: CountTokens<'_>) -> Vec<Part> {
    if count(&transcript.text) <= alone {
        return vec![transcript.part(0, transcript.text.len())];
    }
    let mut parts = Vec::new();
    let mut from = 0;
    while from < transcript.text.len() {
        let head = transcript
            .interrupted_message(from)
            .map(|title| count(&continued(title)));
        let to = transcript.cut(from, room.saturating_sub(head.unwrap_or(0)), count);
        parts.push(transcript.part(from, to));
        from = to;
    }
    parts
}

impl Transcript {
    /// The end of the part that begins at `from`: before the unit that does not fit completely, or
    /// inside of it if it is the first.
    fn cut(&self, from: usize, room: u64, count: CountTokens<'_>) -> usize {
        let rest = &self.text[from..];
        let fits = fitting(rest, room, count);
        if fits == rest.len() {
            return self.text.len();
        }
        let mut limit = fits;
        loop {
            let cut = (self.last_start(from, limit, true))
                .or_else(|| self.last_start(from, limit, false))
                .unwrap_or_else(|| boundary(rest, limit));
            // A shorter text may have one token more than a longer one.
            if cut == fits || count(&rest[..cut]) <= room {
                return from + cut;
            }
            match rest[..cut].char_indices().next_back() {
                Some((shorter, _)) if shorter > 0 => limit = shorter,
                _ => return from + cut,
            }
        }
    }

    /// The distance from `from` to the last message, or unit, that begins after it within `limit`.
    fn last_start(&self, from: usize, limit: usize, unit: bool) -> Option<usize> {
        let ends = self
            .starts
            .partition_point(|start| start.at <= from + limit);
        let mut starts = self.starts[..ends].iter().rev();
        let start = starts.find(|start| start.at <= from || start.unit || !unit)?;
        (start.at > from).then(|| start.at - from)
    }

    /// The title of the message that contains this position, if it begins before it.
    fn interrupted_message(&self, at: usize) -> Option<&str> {
        let start = self.start(at)?;
        (start.at < at).then_some(&*start.title)
    }

    fn start(&self, at: usize) -> Option<&super::transcript::Start> {
        let next = self.starts.partition_point(|start| start.at <= at);
        self.starts[..next].last()
    }

    fn part(&self, from: usize, to: usize) -> Part {
        let ordinal = |at| self.start(at).map_or(Ordinal::FIRST, |start| start.ordinal);
        Part {
            text: self.text[from..to].to_owned(),
            first: ordinal(from),
            last: ordinal(to.saturating_sub(1)),
            continues: self.interrupted_message(from).map(str::to_owned),
        }
    }
}
