//! The exchange of an agent with its tools, reply by reply.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unisono_context::attachment::{AttachedFile, Extent};
use unisono_context::call::{Reply, ToolResult};

use super::turns::File;
use crate::language::Exchange;
use crate::media::Accepts;

/// The text in place of a missing result.
const NO_RESULT: &str = "[no result recorded]";

/// A reply and the results of its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) reply: &'a Reply,
    results: &'a [ToolResult],
}

#[derive(Clone, Debug)]
pub(super) struct Answer<'a> {
    /// Its text, with the texts of documents that the model does not take.
    pub(super) content: Cow<'a, str>,
    pub(super) is_error: bool,
    files: &'a [AttachedFile],
}

impl<'a> Answer<'a> {
    /// An answer without files.
    pub(super) fn text(content: &'a str, is_error: bool) -> Answer<'a> {
        Answer {
            content: content.into(),
            is_error,
            files: &[],
        }
    }

    /// Its loaded files that the model accepts. No provider accepts files beside an error.
    pub(super) fn files(&self, accepts: Accepts) -> Vec<File<'a>> {
        let files = match self.is_error {
            true => &[],
            false => self.files,
        };
        let taken = files
            .iter()
            .filter(|file| accepts.takes(file.content.extent));
        let loaded = taken.filter_map(|file| {
            Some(File {
                name: file.filename.clone(),
                mime: file.mime.clone(),
                bytes: file.content.loaded.0.as_deref()?,
                is_image: matches!(file.content.extent, Extent::Pixels { .. }),
            })
        });
        loaded.collect()
    }
}

/// The exchange as steps, without empty replies.
pub(super) fn steps(exchange: &[Exchange]) -> impl Iterator<Item = Step<'_>> {
    let steps = exchange.iter().enumerate().filter_map(|(at, exchanged)| {
        let Exchange::Reply(reply) = exchanged else {
            return None;
        };
        let results = match exchange.get(at + 1) {
            Some(Exchange::Results(results)) => &results[..],
            _ => &[],
        };
        Some(Step { reply, results })
    });
    steps.filter(|step| !step.reply.calls.is_empty() || !step.reply.text.trim().is_empty())
}

impl<'a> Step<'a> {
    /// One answer for each call, in order, for a model that accepts these files. Results have the
    /// order of the calls; if some are missing, the ids tell which.
    pub(super) fn answers(&self, accepts: Accepts) -> impl Iterator<Item = Answer<'a>> {
        let Step { reply, results } = *self;
        reply.calls.iter().enumerate().map(move |(at, call)| {
            let in_place = results.get(at).filter(|result| result.call_id == call.id);
            let found = in_place.or_else(|| results.iter().find(|r| r.call_id == call.id));
            found.map_or(Answer::text(NO_RESULT, true), |result| Answer {
                content: result.text(|extent| accepts.takes(extent)),
                is_error: result.is_error,
                files: &result.files,
            })
        })
    }
}

/// Gives calls ids that are unique in a request and have only letters, digits, `_` and `-`. Ids of
/// another provider's models may have other characters.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeSet<String>);

impl Ids {
    /// The id of a call that is sent unchanged.
    pub(super) fn keep<'i>(&mut self, id: &'i str) -> &'i str {
        self.0.insert(id.to_owned());
        id
    }

    /// The id itself if it is valid and unique; otherwise one made of the call's place.
    pub(super) fn unique<'i>(&mut self, id: &'i str, step: usize, call: usize) -> Cow<'i, str> {
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        self.unique_if(id.bytes().all(sound), id, step, call)
    }

    /// The same for ids that may have any character: some models need theirs back unchanged
    /// (`functions.search:0`).
    pub(super) fn unique_text<'i>(
        &mut self,
        id: &'i str,
        step: usize,
        call: usize,
    ) -> Cow<'i, str> {
        self.unique_if(true, id, step, call)
    }

    fn unique_if<'i>(
        &mut self,
        sound: bool,
        id: &'i str,
        step: usize,
        call: usize,
    ) -> Cow<'i, str> {
        let fits = (1..=64).contains(&id.len());
        if sound && fits && self.0.insert(id.to_owned()) {
            return Cow::Borrowed(id);
        }
        let mut placed = format!("r{step}_{call}");
        while !self.0.insert(placed.clone()) {
            placed.push('_');
        }
        Cow::Owned(placed)
    }
}
