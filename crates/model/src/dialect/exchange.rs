//! An agent's own exchange with its tools, reply by reply.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unisono_context::attachment::{AttachedFile, Extent};
use unisono_context::call::{Reply, ToolResult};

use super::turns::File;
use crate::language::Exchange;
use crate::media::Accepts;

/// What stands for a result that is missing.
const NO_RESULT: &str = "[no result recorded]";

/// A reply and what its tools answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) reply: &'a Reply,
    results: &'a [ToolResult],
}

/// The answer to one call.
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

    /// Its files that the model takes and whose bytes are here. No provider takes any with an error.
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

/// The exchange as steps; replies that say nothing are left out.
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
    /// One answer for each call, in order, for a model that accepts these files. Results stand in the
    /// order of the calls; the id decides where some are missing.
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

/// Gives calls ids that are unique in a request and hold letters, digits, `_` and `-` only: a
/// model of another provider may have made them.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeSet<String>);

impl Ids {
    /// The id of a call that is sent as it came.
    pub(super) fn keep<'i>(&mut self, id: &'i str) -> &'i str {
        self.0.insert(id.to_owned());
        id
    }

    /// The id as it is where that will do, else one of the call's place.
    pub(super) fn unique<'i>(&mut self, id: &'i str, step: usize, call: usize) -> Cow<'i, str> {
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        self.unique_if(id.bytes().all(sound), id, step, call)
    }

    /// The same where ids may hold any character: some models want theirs back as they made them
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
