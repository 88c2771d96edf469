//! The embedded model behind [`LanguageModel`]: it answers with quotes from the context, and joins
//! the results of delegates.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use unisono_context::checkpoint::Body;
use unisono_context::message::DELEGATE;
use unisono_context::snapshot::{Block, Entry};
use unisono_context::tokens::Count;
use unisono_context::{AgentId, Cost, Encoding, Ordinal, Part, Role, Snapshot, Tokens};

use super::{Class, Completion, Error, LanguageModel, Reply, Request, Stop, Usage};
use crate::catalogue::EXTRACTIVE;
use crate::extractive::{self, AnswerInput, Passage, SummaryText, SynthesisInput};
use crate::prompt::{Delegated, Outcome};
use crate::tokenizer::Tokenizer;

mod recalled;

/// The longest answer to a task: quotes beyond this are seldom about it.
const ANSWER_CAP: Tokens = Tokens(900);
/// The longest synthesis of several answers.
const SYNTHESIS_CAP: Tokens = Tokens(2_400);
/// The most that is told of why an answer is missing.
const REASON_CHARS: usize = 160;
/// What is said when the context holds nothing about the task.
const NOTHING: &str = "Nothing in the context bears on this task.";

/// The deterministic model that needs no key and no network. It writes nothing of its own: all
/// it says are quotes.
#[derive(Clone, Copy, Debug)]
pub struct Extractive;

impl LanguageModel for Extractive {
    fn worst_cost(&self, _: Tokens, _: Tokens) -> Option<Cost> {
        Some(Cost::ZERO)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            // Ranking and counting block; a panic in them is the caller's to see.
            let work = spawn_blocking(move || reply(&request)).await;
            work.map_err(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Error {
                    model: EXTRACTIVE.into(),
                    class: Class::Internal,
                    reason: error.to_string().into(),
                    request_id: None,
                    begun: false,
                },
            })
        })
    }
}

fn reply(request: &Request) -> Reply {
    let counter = Counter::new();
    if let Some(call) = recalled::wanted(request) {
        let called = format!("{}{}", call.name, call.arguments);
        return Reply {
            usage: Usage::free(counter.input(request), counter.tokens(&called)),
            calls: vec![call],
            ..Reply::default()
        };
    }
    let succeeded = |d: &Delegated| !matches!(d.outcome, Outcome::Failed(_));
    let text = if request.results.iter().any(succeeded) {
        synthesise(request, &counter)
    } else {
        answer(request, &counter)
    };
    let (text, stop) = match counter.beginning(&text, request.max_output) {
        beginning if beginning.len() < text.len() => (beginning, Stop::CutOff),
        whole => (whole, Stop::Complete),
    };
    Reply {
        text: text.into(),
        usage: Usage::free(counter.input(request), counter.tokens(text)),
        stop,
        ..Reply::default()
    }
}

/// Quotes from the context that are about the task, and what is missing.
fn answer(request: &Request, counter: &Counter) -> String {
    let missing = missing(&request.results);
    let cap = request.max_output.min(ANSWER_CAP);
    let entries = evidence(
        request
            .snapshot
            .as_deref()
            .map_or(&[][..], Snapshot::entries),
    );
    let parts: Vec<Cow<'_, [Part]>> = entries.iter().map(Entry::parts).collect();
    let blocks = request
        .snapshot
        .as_deref()
        .map_or(&[][..], Snapshot::blocks);
    let persona = &request.persona;
    let mut passages = recalled::passages(&request.exchange);
    let shown: HashSet<Ordinal> = entries.iter().map(|e| e.message().ordinal).collect();
    passages.retain(|passage| !shown.contains(&passage.ordinal));
    passages.extend(said(entries, &parts, &persona.agent));
    let answer = extractive::answer(&AnswerInput {
        passages: &passages,
        summaries: &blocks.iter().filter_map(summary).collect::<Vec<_>>(),
        persona: &format!("{}\n{}", persona.description, persona.instructions),
        task: &request.task,
        cap: cap.minus(counter.tokens(&missing)),
        count: &|text| counter.tokens(text).0,
    });
    with_note(answer.text, &missing)
}

/// The messages that can answer something: all but the input that asks, which stands last.
fn evidence(entries: &[Entry]) -> &[Entry] {
    match entries {
        [before @ .., last] if !before.is_empty() && last.message().role == Role::User => before,
        entries => entries,
    }
}

/// The delegates' answers as one, and what is missing.
fn synthesise(request: &Request, counter: &Counter) -> String {
    let missing = missing(&request.results);
    let results: Vec<_> = request.results.iter().filter_map(answered).collect();
    let cap = request.max_output.min(SYNTHESIS_CAP);
    let answer = extractive::synthesise(&SynthesisInput {
        task: &request.task,
        results: &results,
        cap: cap.minus(counter.tokens(&missing)),
        count: &|text| counter.tokens(text).0,
    });
    with_note(answer.text, &missing)
}

fn with_note(mut text: String, missing: &str) -> String {
    if text.trim().is_empty() {
        text = NOTHING.to_owned();
    }
    text.truncate(text.trim_end().len());
    text.push_str(missing);
    text
}

/// One line for each delegate whose answer is not complete, or that gave none.
fn missing(results: &[Delegated]) -> String {
    let line = |delegated: &Delegated| {
        let (what, why) = match &delegated.outcome {
            Outcome::Complete(_) => return None,
            Outcome::Partial { missing, .. } => ("incomplete", missing),
            Outcome::Failed(reason) => ("no answer", reason),
        };
        // A reason may end in pages of a program's output.
        let short: String = why.chars().take(REASON_CHARS).collect();
        let rest = if short.len() < why.len() { "…" } else { "" };
        let reason = short.replace('\n', " ");
        Some(format!("- {}: {what} ({reason}{rest})", delegated.agent))
    };
    let lines: Vec<String> = results.iter().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n\n## Missing\n{}", lines.join("\n"))
}

fn answered(delegated: &Delegated) -> Option<extractive::Delegated<'_>> {
    match &delegated.outcome {
        Outcome::Complete(text) | Outcome::Partial { text, .. } => Some(extractive::Delegated {
            agent: delegated.agent.as_str(),
            result: Ok(text),
        }),
        Outcome::Failed(_) => None,
    }
}

/// The messages, without answers made of quotes: those of leads with delegates, and those of `reader`.
fn said<'a>(
    entries: &'a [Entry],
    parts: &'a [Cow<'a, [Part]>],
    reader: &AgentId,
) -> Vec<Passage<'a>> {
    let mut delegated = false;
    let mut passages = Vec::new();
    for (entry, parts) in entries.iter().zip(parts) {
        let message = entry.message();
        let own = message.author.as_ref() == Some(reader);
        let answers = (delegated || own) && message.role == Role::Assistant;
        delegated = parts.iter().any(of_delegation);
        if answers || delegated {
            continue;
        }
        let author = message.author.as_ref().map(AgentId::as_str);
        passages.extend(parts.iter().filter_map(|part| {
            Passage::of_part(message.ordinal, message.role, author, message.at, part)
        }));
    }
    passages
}

/// Whether a part is a call to a delegate or what came back from one.
fn of_delegation(part: &Part) -> bool {
    match part {
        Part::ToolCall { name, .. } => **name == *DELEGATE,
        Part::ToolResult { call_id, .. } => call_id.starts_with("delegate_"),
        Part::Text(_) | Part::Attachment { .. } => false,
    }
}

/// What can be quoted of a block; none of one that only notes what was dropped.
fn summary(block: &Block) -> Option<SummaryText<'_>> {
    let checkpoint = block.checkpoint();
    matches!(checkpoint.body, Body::Summary(_)).then(|| SummaryText {
        first: checkpoint.first(),
        last: checkpoint.cutoff,
        text: block.text(),
    })
}

/// Counts in the model's own encoding.
struct Counter(Option<Tokenizer>);

impl Counter {
    const ENCODING: Encoding = Encoding::O200kBase;

    /// Loads the encoding the first time; a quarter of the bytes stands in where it cannot be.
    fn new() -> Counter {
        Counter(Tokenizer::load(Self::ENCODING).ok())
    }

    fn count(&self, text: &str) -> Count {
        match &self.0 {
            Some(tokenizer) => tokenizer.count(text),
            None => Count::approximate(text.len() as u64),
        }
    }

    fn tokens(&self, text: &str) -> Tokens {
        self.count(text).tokens
    }

    /// The longest beginning of a text that has so many tokens at most, in whole characters.
    fn beginning<'t>(&self, text: &'t str, most: Tokens) -> &'t str {
        if self.tokens(text) <= most {
            return text;
        }
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let fits = |end: &usize| self.tokens(text.get(..*end).unwrap_or(text)) <= most;
        let after = ends.partition_point(fits);
        let end = ends.get(after.saturating_sub(1)).copied().unwrap_or(0);
        text.get(..end).unwrap_or_default()
    }

    /// What the request is: the context, counted when it was frozen, and the agent's own part.
    fn input(&self, request: &Request) -> Tokens {
        let persona = &request.persona;
        let task = (!request.task_is_shown()).then_some(&request.task);
        let own = [&persona.description, &persona.instructions];
        let results = request.results.iter().map(|d| match &d.outcome {
            Outcome::Complete(text) | Outcome::Failed(text) | Outcome::Partial { text, .. } => text,
        });
        let texts = own.into_iter().chain(task).chain(results);
        let own: Tokens = texts.map(|text: &Arc<str>| self.tokens(text)).sum();
        own + request
            .snapshot
            .as_deref()
            .map_or(Tokens::ZERO, |s| self.context(s))
    }

    fn context(&self, snapshot: &Snapshot) -> Tokens {
        let system = self.tokens(snapshot.preamble().system());
        let known = snapshot.counts().get(Self::ENCODING);
        system + known.map_or_else(|| self.recount(snapshot), |count| count.tokens)
    }

    /// A snapshot that was rebuilt from its manifest carries no counts.
    fn recount(&self, snapshot: &Snapshot) -> Tokens {
        let blocks = snapshot.blocks().iter().map(|b| Cow::Borrowed(&**b.text()));
        let parts: Vec<_> = snapshot.entries().iter().map(Entry::parts).collect();
        let texts = parts.iter().flat_map(|parts| parts.iter());
        let texts: Vec<_> = blocks.chain(texts.map(Part::countable_text)).collect();
        match &self.0 {
            Some(tokenizer) => tokenizer
                .count_many(&texts)
                .into_iter()
                .map(|c| c.tokens)
                .sum(),
            None => texts.iter().map(|text| self.tokens(text)).sum(),
        }
    }
}
