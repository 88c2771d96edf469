//! Divides the messages to summarise among as many requests as the summariser's window requires.
//!
//! Each request after the first contains the summary so far, so an input of any length can be
//! summarised with a window of any size. The texts of all parts, one after the other, are the
//! transcript: nothing is omitted or repeated.

use std::sync::Arc;

use unisono_context::{Ordinal, Tokens};

use super::prompt::{Filling, Prompt};
use super::shares::{Limits, Shares, TooSmall};
use super::split::{boundary, fitting};
use super::transcript::{Said, Transcript};
use super::words::{self, continued};
use super::wrap::guarded;
use crate::extractive::CountTokens;
use crate::redact::redact;

/// What a summary is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Material<'a> {
    /// What is to be summarised, oldest first.
    pub said: &'a [Said<'a>],
    /// The summaries of what came before, oldest first. They are part of what is summarised.
    pub prior: &'a [Said<'a>],
    /// What comes after, for context only.
    pub recent: &'a [Said<'a>],
    /// What the person adds who asked.
    pub instructions: Option<&'a str>,
}

/// The requests that make a summary.
#[derive(Clone, Debug)]
pub struct Parts {
    /// In order; never empty.
    pub parts: Vec<Part>,
    /// How long the summary is asked to be.
    pub target: Tokens,
    /// The longest summary of all but the last part: what the next one has room for.
    pub carried: Tokens,
    /// The longest reply, reasoning included.
    pub max_output: Tokens,
    prompt: Arc<Prompt>,
    prior: String,
    recent: String,
    instructions: String,
}

/// What one request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// A piece of the transcript.
    pub text: String,
    /// The message it begins with, or in the middle of which it begins.
    pub first: Ordinal,
    /// The message it ends with, or in the middle of which it ends.
    pub last: Ordinal,
    /// Names the message in the middle of which it begins.
    continues: Option<String>,
}

/// Divides the material. `count` is exact or never too low for what the summariser will count.
///
/// # Errors
/// The prompt leaves no room for messages.
pub fn plan_parts(
    prompt: &Arc<Prompt>,
    material: &Material<'_>,
    limits: Limits,
    count: CountTokens<'_>,
) -> Result<Parts, TooSmall> {
    let instructions = material.instructions.map(|text| {
        let text = redact(text);
        words::added(&guarded(&text))
    });
    let instructions = instructions.unwrap_or_default();
    let shares = Shares::of(prompt, &instructions, limits, count)?;
    let mut said = Transcript::of(material.said);
    let mut prior = Transcript::of(material.prior).text;
    let mut earlier = count(&prior);
    if earlier > shares.carried || material.said.is_empty() {
        // What was summarised before is read like messages where it is long, or where it is all
        // there is.
        let all: Vec<Said<'_>> = material
            .prior
            .iter()
            .chain(material.said)
            .cloned()
            .collect();
        (said, prior, earlier) = (Transcript::of(&all), String::new(), 0);
    }
    let recent = following(material.recent, shares.recent, count);
    let alone = shares.room + shares.carried - earlier;
    let parts = divided(&said, alone, shares.room, count);
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
    /// What the summariser is told for one part. `so_far` is its summary of the parts before;
    /// `target` is how long the summary should be.
    pub fn task(&self, index: usize, so_far: Option<&str>, target: Tokens) -> String {
        let prior = match so_far {
            Some(text) => words::so_far(&guarded(&redact(text))),
            None if self.prior.is_empty() => String::new(),
            None => words::prior(&self.prior),
        };
        let last = index + 1 >= self.parts.len();
        let recent = if last { &self.recent } else { words::GOES_ON };
        let conversation = self.parts.get(index).map(Part::shown).unwrap_or_default();
        self.prompt.fill(&Filling {
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

/// What follows the cutoff, as much of it as fits from the cutoff on; nothing where there is none.
fn following(recent: &[Said<'_>], room: u64, count: CountTokens<'_>) -> String {
    let transcript = Transcript::of(recent);
    if transcript.text.is_empty() {
        return String::new();
    }
    let mut limit = fitting(&transcript.text, room, count);
    if limit < transcript.text.len() {
        limit = boundary(&transcript.text, limit);
    }
    words::followed(&transcript.text[..limit])
}

/// One part where all fits `alone`; or as many as it takes with `room` for each.
fn divided(said: &Transcript, alone: u64, room: u64, count: CountTokens<'_>) -> Vec<Part> {
    if count(&said.text) <= alone {
        return vec![said.part(0, said.text.len())];
    }
    let mut parts = Vec::new();
    let mut from = 0;
    while from < said.text.len() {
        let head = said.inside_of(from).map(|title| count(&continued(title)));
        let to = said.cut(from, room.saturating_sub(head.unwrap_or(0)), count);
        parts.push(said.part(from, to));
        from = to;
    }
    parts
}

impl Transcript {
    /// Where the part ends that begins at `from`: before the last unit that does not fit whole,
    /// or inside of it where it is the first.
    fn cut(&self, from: usize, room: u64, count: CountTokens<'_>) -> usize {
        let rest = &self.text[from..];
        let fits = fitting(rest, room, count);
        if fits == rest.len() {
            return self.text.len();
        }
        let mut limit = fits;
        loop {
            let cut = (self.begun(from, limit, true))
                .or_else(|| self.begun(from, limit, false))
                .unwrap_or_else(|| boundary(rest, limit));
            // A shorter text may count for a token more than a longer one.
            if cut == fits || count(&rest[..cut]) <= room {
                return from + cut;
            }
            match rest[..cut].char_indices().next_back() {
                Some((shorter, _)) if shorter > 0 => limit = shorter,
                _ => return from + cut,
            }
        }
    }

    /// The last message, or unit, that begins behind `from` and within `limit` of it; as a
    /// distance from there.
    fn begun(&self, from: usize, limit: usize, unit: bool) -> Option<usize> {
        let ends = self
            .starts
            .partition_point(|start| start.at <= from + limit);
        let mut starts = self.starts[..ends].iter().rev();
        let start = starts.find(|start| start.at <= from || start.unit || !unit)?;
        (start.at > from).then(|| start.at - from)
    }

    /// The message in whose middle that place is.
    fn inside_of(&self, at: usize) -> Option<&str> {
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
            continues: self.inside_of(from).map(str::to_owned),
        }
    }
}
