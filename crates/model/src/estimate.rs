//! Local estimates of the tokens of a request: its texts in a local encoding, and the overhead of
//! its dialect.
//!
//! The messages of a snapshot were counted when they were added and are not counted again.
//! [`Calibration`](crate::calibration::Calibration) converts the estimate into the provider's
//! tokens.

use unisono_context::attachment::Rule;
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Part, Snapshot, Tokens};

use crate::dialect::Dialect;
use crate::dialect::label::legend;
use crate::language::{Exchange, Reply, Request};
use crate::media::Accepts;
use crate::prompt::{DelegateOutcome, DelegateResult, Persona, Shared};

/// Headings and fixed phrases around the parts of a request.
const PHRASES: Tokens = Tokens(24);

/// The overhead of a dialect, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overheads {
    /// Per request.
    pub request: Tokens,
    /// Per message, call and result.
    pub message: Tokens,
    /// Per request with tools.
    pub tools: Tokens,
    /// Per tool.
    pub tool: Tokens,
}

impl Overheads {
    /// The overhead of a dialect, with the catalogue's overhead of a message.
    ///
    /// OpenAI starts the reply with three tokens and shows tools as declarations in a namespace;
    /// Anthropic documents 346 tokens of instructions if there are tools.
    pub const fn for_dialect(dialect: Dialect, message: Tokens) -> Overheads {
        let (request, tools, tool) = match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => (3, 12, 8),
            Dialect::Anthropic => (3, 346, 12),
            Dialect::Gemini => (0, 12, 8),
        };
        Overheads {
            request: Tokens(request),
            message,
            tools: Tokens(tools),
            tool: Tokens(tool),
        }
    }
}

/// What attachments cost at a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachments {
    /// Those that it takes; the others are notes.
    pub accepts: Accepts,
    /// The rule of its provider.
    pub rule: Rule,
}

impl Attachments {
    /// Of a model in that dialect.
    pub const fn for_dialect(dialect: Dialect, accepts: Accepts) -> Attachments {
        Attachments {
            accepts,
            rule: dialect.attachment_rule(),
        }
    }

    /// Tokens of the attachments of a snapshot: by the rule with which messages are counted, and by
    /// the model's own rule.
    fn tokens(&self, snapshot: &Snapshot) -> (Count, Count) {
        let extents = snapshot.shown_contents().map(|content| content.extent);
        let mut all = (Tokens::ZERO, Tokens::ZERO);
        for extent in extents {
            all.0 += extent.at_most();
            if self.accepts.takes(extent) {
                all.1 += extent.tokens(self.rule);
            }
        }
        (exactly(all.0), exactly(all.1))
    }

    /// Tokens of the files in the results of tools that are sent, and their size in a request, in
    /// bytes.
    pub fn in_exchange(&self, exchange: &[Exchange]) -> (Tokens, u64) {
        let results = exchange.iter().flat_map(|step| match step {
            Exchange::Results(results) => &results[..],
            Exchange::Reply(_) => &[],
        });
        let sent = results.filter(|result| !result.is_error);
        let files = sent.flat_map(|result| &result.files);
        let taken = files.filter(|file| self.accepts.takes(file.content.extent));
        taken.fold((Tokens::ZERO, 0), |(tokens, bytes), file| {
            let written = file.size_bytes.div_ceil(3).saturating_mul(4);
            (
                tokens + file.content.extent.tokens(self.rule),
                bytes.saturating_add(written),
            )
        })
    }
}

/// Estimates requests to one model.
#[derive(Clone, Copy)]
pub struct Estimator<'a> {
    /// The encoding for counting.
    pub encoding: Encoding,
    /// The overhead of its dialect.
    pub overheads: Overheads,
    /// What attachments cost.
    pub attachments: Attachments,
    /// Counts one text in that encoding.
    pub count: &'a dyn Fn(&str) -> Count,
}

impl Estimator<'_> {
    /// The shared part of a group's requests: system text, tools, output schema, context.
    pub fn prefix(&self, shared: &Shared<'_>) -> Count {
        let own = shared.own().map(|persona| self.persona(persona));
        let schema = shared.output_schema.map(self.count);
        let context = shared.context().map(|snapshot| self.context(snapshot));
        let request = exactly(self.overheads.request);
        [own, schema, context].into_iter().flatten().sum::<Count>()
            + self.tools(shared.tools)
            + request
    }

    /// The part of one request: persona, task, results, and the run's own exchange.
    pub fn tail(&self, request: &Request) -> Count {
        let persona = match request.shared().own() {
            Some(_) => Count::default(),
            None => self.persona(&request.persona),
        };
        let allowed = request.allowed.iter().map(|name| self.text(name));
        let colleagues = request
            .colleagues
            .iter()
            .map(|c| self.text(c.agent.as_str()) + self.text(&c.description));
        let results = request.results.iter().map(|result| self.delegated(result));
        let exchange = request.exchange.iter().map(|step| self.exchange(step));
        let wrap_up = request.wrap_up.as_deref().map(|text| self.message(text));
        let task = match request.is_task_in_context() {
            true => "",
            false => &*request.task,
        };
        persona
            + allowed.chain(colleagues).chain(results).sum::<Count>()
            + exchange.chain(wrap_up).sum::<Count>()
            + exactly(self.attachments.in_exchange(&request.exchange).0)
            + self.message(task)
            + exactly(PHRASES)
    }

    fn context(&self, snapshot: &Snapshot) -> Count {
        let entries = (snapshot.blocks().len() + snapshot.entries().len()) as u64;
        let (counted, own) = self.attachments.tokens(snapshot);
        let known = snapshot.counts().get(self.encoding);
        let known = known.map(|known| known.minus(counted));
        self.message(snapshot.preamble().system())
            + self.text(legend(snapshot))
            + known.unwrap_or_else(|| self.recount(snapshot))
            + own
            + self.texts_of_files(snapshot)
            + exactly(self.overheads.message.times(entries))
    }

    /// The texts of documents that the model does not take.
    fn texts_of_files(&self, snapshot: &Snapshot) -> Count {
        let contents = snapshot.shown_contents();
        let notes = contents.filter(|content| !self.attachments.accepts.takes(content.extent));
        let texts = notes.filter_map(|content| snapshot.file_text(content));
        texts.map(|text| self.text(text)).sum()
    }

    /// Counts again: a snapshot rebuilt from its manifest has no counts.
    fn recount(&self, snapshot: &Snapshot) -> Count {
        let blocks = snapshot
            .blocks()
            .iter()
            .map(|block| self.text(block.text()));
        let entries = snapshot.entries().iter().map(|entry| {
            let parts = entry.parts();
            let texts = parts.iter().map(Part::countable_text);
            texts.map(|text| self.text(&text)).sum()
        });
        blocks.chain(entries).sum()
    }

    fn tools(&self, tools: &[ToolSpec]) -> Count {
        if tools.is_empty() {
            return Count::default();
        }
        let each = tools.iter().map(|tool| {
            self.text(&tool.name) + self.text(&tool.description) + self.text(&tool.input_schema)
        });
        let around = self.overheads.tool.times(tools.len() as u64) + self.overheads.tools;
        each.sum::<Count>() + exactly(around)
    }

    fn persona(&self, persona: &Persona) -> Count {
        self.text(persona.agent.as_str())
            + self.text(&persona.description)
            + self.text(&persona.instructions)
    }

    fn delegated(&self, result: &DelegateResult) -> Count {
        let outcome = match &result.outcome {
            DelegateOutcome::Complete(text) | DelegateOutcome::Failed(text) => self.text(text),
            DelegateOutcome::Partial { text, missing } => self.text(text) + self.text(missing),
        };
        self.message(result.task.as_deref().unwrap_or_default())
            + self.text(result.rest.as_deref().unwrap_or_default())
            + self.text(result.agent.as_str())
            + outcome
    }

    fn exchange(&self, step: &Exchange) -> Count {
        match step {
            Exchange::Reply(reply) => self.reply(reply),
            Exchange::Results(results) => {
                let takes = |extent| self.attachments.accepts.takes(extent);
                let texts = results.iter().map(|result| result.text(takes));
                texts.map(|text| self.message(&text)).sum()
            }
        }
    }

    /// A reply that is sent back verbatim costs the output that its provider reported, unless some of
    /// its calls were left out.
    fn reply(&self, reply: &Reply) -> Count {
        let is_cut = reply.calls_left_out > 0;
        if reply.verbatim.is_some() && !is_cut && reply.usage.output > Tokens::ZERO {
            return exactly(reply.usage.output + self.overheads.message);
        }
        let calls = reply.calls.iter();
        let calls = calls.map(|call| self.message(&call.arguments) + self.text(&call.name));
        let verbatim = reply.verbatim.iter().filter(|_| is_cut);
        let verbatim = verbatim.map(|verbatim| self.text(verbatim));
        self.message(&reply.text) + calls.chain(verbatim).sum::<Count>()
    }

    fn message(&self, text: &str) -> Count {
        self.text(text) + exactly(self.overheads.message)
    }

    fn text(&self, text: &str) -> Count {
        (self.count)(text)
    }
}

impl std::fmt::Debug for Estimator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Estimator")
            .field("encoding", &self.encoding)
            .field("overheads", &self.overheads)
            .finish_non_exhaustive()
    }
}

fn exactly(tokens: Tokens) -> Count {
    Count::exact(tokens.0)
}

#[cfg(test)]
mod tests;
