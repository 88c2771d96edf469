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
use crate::extractive::{self, AnswerInput, EXTRACTIVE, Passage, SummaryText, SynthesisInput};
use crate::prompt::{DelegateOutcome, DelegateResult};
use crate::tokenizer::Tokenizer;

mod recalled;

/// The maximum answer to a task: further quotes are seldom relevant.
const ANSWER_CAP: Tokens = Tokens(900);
/// The maximum synthesis of several answers.
const SYNTHESIS_CAP: Tokens = Tokens(2_400);
/// The maximum length of the reason for a missing answer.
const REASON_CHARS: usize = 160;
/// The heading of the missing results, as a synthesis has it.
const MISSING: &str = "\n\n## Missing\n";
/// The answer if the context has nothing relevant.
const NOTHING: &str = "Nothing in the context bears on this task.";

/// The deterministic model that needs no key and no network. Its replies consist of quotes.
#[derive(Clone, Copy, Debug)]
pub struct Extractive;

impl LanguageModel for Extractive {
    fn worst_cost(&self, _: Tokens, _: Tokens) -> Option<Cost> {
        Some(Cost::ZERO)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            // Ranking and counting block; a panic is passed to the caller.
            let work = spawn_blocking(move || reply(&request)).await;
            work.map_err(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Error::new(EXTRACTIVE, Class::Internal, error.to_string()),
            })
        })
    }
}

fn reply(request: &Request) -> Reply {
    let counter = Counter::new();
    let task = question_in_context(request);
    if let Some(call) = recalled::search_call(request, &task) {
        let called = format!("{}{}", call.name, call.arguments);
        return Reply {
            usage: Usage::free(counter.input(request), counter.tokens(&called)),
            calls: vec![call],
            ..Reply::default()
        };
    }
    let answered = |d: &DelegateResult| {
        let text = d.outcome.answer();
        text.is_some_and(|text| !text.trim().is_empty())
    };
    let text = if request.results.iter().any(answered) {
        synthesise(request, &counter)
    } else {
        answer(request, &task, &counter)
    };
    let (text, stop) = match counter.truncated(&text, request.max_output) {
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

/// Relevant quotes from the context, and the missing results.
fn answer(request: &Request, task: &str, counter: &Counter) -> String {
    let missing = missing(&request.results);
    let cap = request.max_output.min(ANSWER_CAP);
    let all = entries(request);
    let entries = evidence(all);
    let parts: Vec<Cow<'_, [Part]>> = entries.iter().map(Entry::parts).collect();
    let blocks = request
        .snapshot
        .as_deref()
        .map_or(&[][..], Snapshot::blocks);
    let persona = &request.persona;
    let mut passages = recalled::passages(&request.exchange);
    // A search also finds the turn's input.
    let shown: HashSet<Ordinal> = all.iter().map(|e| e.message().ordinal).collect();
    passages.retain(|passage| !shown.contains(&passage.ordinal));
    let mut quotable = quotable_passages(entries, &parts, &persona.agent);
    quotable.extend(request.snapshot.iter().flat_map(|s| document_passages(s)));
    quotable.sort_by_key(|passage| passage.ordinal);
    passages.extend(quotable);
    let answer = extractive::answer(&AnswerInput {
        passages: &passages,
        summaries: &blocks.iter().filter_map(summary).collect::<Vec<_>>(),
        persona: &format!("{}\n{}", persona.description, persona.instructions),
        task,
        cap: cap.minus(counter.tokens(&missing)),
        count: &|text| counter.tokens(text).0,
    });
    with_note(answer.text, &missing)
}

/// The task; if only an earlier question explains it, with the last one that stands alone. The task comes
/// first: it says what is asked for.
fn question_in_context(request: &Request) -> Cow<'_, str> {
    if !extractive::is_follow_up(&request.task) {
        return Cow::Borrowed(&request.task);
    }
    let entries = evidence(entries(request)).iter().rev();
    let by_user = entries.filter(|entry| entry.message().role == Role::User);
    let mut texts = by_user.map(|entry| Passage::text_of(entry.message()));
    let earlier = texts.find(|text| text.contains('?') && !extractive::is_follow_up(text));
    match earlier {
        Some(earlier) => Cow::Owned(format!("{}\n{earlier}", request.task)),
        None => Cow::Borrowed(&request.task),
    }
}

fn entries(request: &Request) -> &[Entry] {
    let snapshot = request.snapshot.as_deref();
    snapshot.map_or(&[][..], Snapshot::entries)
}

/// The messages that can answer the task: all except the turn's input, which is the last.
fn evidence(entries: &[Entry]) -> &[Entry] {
    match entries {
        [before @ .., last] if !before.is_empty() && last.message().role == Role::User => before,
        entries => entries,
    }
}

/// The delegates' answers combined, and the missing results.
fn synthesise(request: &Request, counter: &Counter) -> String {
    let missing = missing(&request.results);
    let results: Vec<_> = request.results.iter().filter_map(delegate_answer).collect();
    let cap = request.max_output.min(SYNTHESIS_CAP);
    let answer = extractive::synthesise(&SynthesisInput {
        task: &request.task,
        results: &results,
        cap: cap.minus(counter.tokens(&missing)),
        count: &|text| counter.tokens(text).0,
    });
    let has_section = answer.text.contains(MISSING);
    match missing.strip_prefix(MISSING).filter(|_| has_section) {
        Some(lines) => with_note(answer.text, &format!("\n{lines}")),
        None => with_note(answer.text, &missing),
    }
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
fn missing(results: &[DelegateResult]) -> String {
    let line = |delegated: &DelegateResult| {
        let (what, why) = match &delegated.outcome {
            DelegateOutcome::Complete(_) => return None,
            DelegateOutcome::Partial { missing, .. } => ("incomplete", missing),
            DelegateOutcome::Failed(reason) => ("no answer", reason),
        };
        // A reason may contain pages of a program's output.
        let short: String = why.chars().take(REASON_CHARS).collect();
        let rest = if short.len() < why.len() { "…" } else { "" };
        let reason = short.replace('\n', " ");
        Some(format!("- {}: {what} ({reason}{rest})", delegated.agent))
    };
    let lines: Vec<String> = results.iter().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("{MISSING}{}", lines.join("\n"))
}

fn delegate_answer(delegated: &DelegateResult) -> Option<extractive::DelegateAnswer<'_>> {
    Some(extractive::DelegateAnswer {
        agent: delegated.agent.as_str(),
        text: delegated.outcome.answer()?,
    })
}

/// The messages without answers that consist of quotes: those of leads with delegates, and those of
/// `reader`.
fn quotable_passages<'a>(
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
        delegated = parts.iter().any(is_delegation);
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

/// The texts of the documents in the context and in the task.
fn document_passages(snapshot: &Snapshot) -> impl Iterator<Item = Passage<'_>> {
    let shown = snapshot.entries().iter().filter(|e| e.shows_files());
    shown.flat_map(move |entry| {
        let message = entry.message();
        let contents = message.parts.iter().filter_map(Part::content);
        contents.filter_map(move |content| {
            let text = snapshot.file_text(content)?;
            Some(Passage::text(
                message.ordinal,
                message.role,
                message.at,
                &**text,
            ))
        })
    })
}

/// Whether a part is a call to a delegate or its result.
fn is_delegation(part: &Part) -> bool {
    match part {
        Part::ToolCall { name, .. } => **name == *DELEGATE,
        Part::ToolResult { call_id, .. } => call_id.starts_with("delegate_"),
        Part::Text(_) | Part::Attachment { .. } => false,
    }
}

/// The summary of a block; `None` for a block that only notes dropped messages.
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

    /// Loads the encoding the first time. If that fails, a quarter of the bytes is used.
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

    /// The longest beginning of a text with at most `most` tokens, in whole characters.
    fn truncated<'t>(&self, text: &'t str, most: Tokens) -> &'t str {
        if self.tokens(text) <= most {
            return text;
        }
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let fitting = ends.partition_point(|&end| self.tokens(&text[..end]) <= most);
        let last = fitting.checked_sub(1);
        last.map_or("", |last| &text[..ends[last]])
    }

    /// The tokens of the request: the context, counted when it was frozen, and the agent's own
    /// part.
    fn input(&self, request: &Request) -> Tokens {
        let persona = &request.persona;
        let task = (!request.is_task_in_context()).then_some(&request.task);
        let own = [&persona.description, &persona.instructions];
        let results = request.results.iter().map(|d| match &d.outcome {
            DelegateOutcome::Complete(text)
            | DelegateOutcome::Failed(text)
            | DelegateOutcome::Partial { text, .. } => text,
        });
        let texts = own.into_iter().chain(task).chain(results);
        let own: Tokens = texts.map(|text: &Arc<str>| self.tokens(text)).sum();
        let snapshot = request.snapshot.as_deref();
        own + snapshot.map_or(Tokens::ZERO, |snapshot| self.context(snapshot))
    }

    fn context(&self, snapshot: &Snapshot) -> Tokens {
        let system = self.tokens(snapshot.preamble().system());
        let known = snapshot.counts().get(Self::ENCODING);
        system + known.map_or_else(|| self.recount(snapshot), |count| count.tokens)
    }

    /// Counts again: a snapshot rebuilt from its manifest has no counts.
    fn recount(&self, snapshot: &Snapshot) -> Tokens {
        let blocks = snapshot.blocks().iter().map(|b| Cow::Borrowed(&**b.text()));
        let parts: Vec<_> = snapshot.entries().iter().map(Entry::parts).collect();
        let texts = parts.iter().flat_map(|parts| parts.iter());
        let texts: Vec<_> = blocks.chain(texts.map(Part::countable_text)).collect();
        match &self.0 {
            Some(tokenizer) => {
                let counts = tokenizer.count_many(&texts).into_iter();
                counts.map(|count| count.tokens).sum()
            }
            None => texts.iter().map(|text| self.tokens(text)).sum(),
        }
    }
}
