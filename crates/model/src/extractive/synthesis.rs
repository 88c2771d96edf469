//! Combines the answers of several agents into one.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use unisono_context::{Ordinal, Tokens};

use super::answer::UNKNOWN;
use super::focus::Focus;
use super::prior::ordinal;
use super::quote::{GAP, MARKS};
use super::split::first_words;
use super::terms::{Term, Vocabulary};
use super::{Answer, DelegateAnswer, SynthesisInput};

/// The share of known terms from which on a text is a repetition.
const REPEATED: f32 = 0.8;
/// The maximum lines of an agent; an answer is no place for a log.
const MAX_LINES: usize = 200;
/// The maximum length of the heading; a long task leaves no room for the answers.
const TITLE_BYTES: usize = 200;

/// The text for an agent whose lines are all repetitions.
pub(super) const NOTHING_NEW: &str = "nothing beyond the above";

/// A line of an agent's answer, in its section.
struct Item<'a> {
    agent: usize,
    place: usize,
    text: Cow<'a, str>,
    day: &'a str,
    heading: &'a str,
}

/// Combines the delegates' answers: each quote once, by agent.
pub fn synthesise(input: &SynthesisInput<'_>) -> Answer {
    let unknown = |one: &DelegateAnswer<'_>| one.text.trim() == UNKNOWN;
    if !input.results.is_empty() && input.results.iter().all(unknown) {
        let tokens = Tokens((input.count)(UNKNOWN));
        let answer = (tokens <= input.cap).then(|| Answer {
            text: UNKNOWN.to_owned(),
            tokens,
            ..Answer::default()
        });
        return answer.unwrap_or_default();
    }
    let items = distinct(read(input.results));
    let mut order: Vec<usize> = (0..items.len()).collect();
    // Takes one line of each agent in turn, so that a small cap keeps something of each.
    order.sort_by_key(|&index| {
        let of_agent = items[..index].iter().map(|item| item.agent);
        let agent = items[index].agent;
        (of_agent.filter(|one| *one == agent).count(), agent)
    });
    let fits = |n: usize| {
        let text = lay_out(input, &items, &order[..n]);
        let tokens = (input.count)(&text);
        (tokens <= input.cap.0).then_some((text, tokens))
    };
    let (mut low, mut high) = (0, order.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        match fits(middle) {
            Some(_) => low = middle,
            None => high = middle - 1,
        }
    }
    let Some((text, tokens)) = fits(low) else {
        return Answer::default();
    };
    let quotes = order[..low].iter().map(|&index| &*items[index].text);
    let quotes: BTreeSet<Ordinal> = quotes.flat_map(ordinals).collect();
    Answer {
        text,
        tokens: Tokens(tokens),
        quotes: quotes.into_iter().collect(),
    }
}

/// The lines of all answers, without headings.
fn read<'a>(results: &[DelegateAnswer<'a>]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for (agent, result) in results.iter().enumerate() {
        let (mut day, mut heading) = ("", "");
        let lines = result.text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty()).take(MAX_LINES);
        for (place, line) in lines.enumerate() {
            let bold = line.strip_prefix("**");
            if let Some(date) = bold.and_then(|rest| rest.strip_suffix("**")) {
                day = date;
            } else if line.starts_with('#') && ordinals(line).next().is_none() {
                (heading, day) = (line.trim_start_matches('#').trim(), "");
            } else {
                let item = line.strip_prefix("- ").or(line.strip_prefix("* "));
                let text = item.unwrap_or(line);
                items.push(Item {
                    agent,
                    place,
                    text: Cow::Borrowed(text),
                    day,
                    heading,
                });
            }
        }
    }
    items
}

/// Removes repetitions of earlier lines: whole lines, and parts of a quote. Lines under facts come
/// last, since another agent may have found more in them.
fn distinct(mut items: Vec<Item<'_>>) -> Vec<Item<'_>> {
    items.sort_by_key(|item| Focus::detect(item.heading).first() == Some(&Focus::Facts));
    let mut vocabulary = Vocabulary::new();
    let mut seen: Vec<HashSet<Term>> = Vec::new();
    let mut kept = Vec::new();
    for mut item in items {
        let mut fresh = |stretch: &str| {
            let mut terms = Vec::new();
            vocabulary.read(stretch, &mut terms);
            let repeated = seen.iter().any(|old| repeats(&terms, old));
            if !repeated {
                seen.push(terms.into_iter().collect());
            }
            !repeated
        };
        let (head, quote, tail) = parts(&item.text);
        let stretches: Vec<&str> = quote.split(GAP).filter(|part| fresh(part)).collect();
        if !stretches.is_empty() {
            item.text = Cow::Owned(format!("{head}{}{tail}", stretches.join(GAP)));
            kept.push(item);
        }
    }
    kept.sort_by_key(|item| (item.agent, item.place));
    kept
}

fn repeats(new: &[Term], old: &HashSet<Term>) -> bool {
    let shared = new.iter().filter(|term| old.contains(term)).count();
    match new.is_empty() {
        true => old.is_empty(),
        false => shared as f32 >= REPEATED * new.len() as f32,
    }
}

/// The text before a line's quote, the quote, and its closing mark.
fn parts(line: &str) -> (&str, &str, &str) {
    for (open, close) in MARKS {
        if let Some(start) = line.find(open)
            && line.ends_with(close)
            && line.starts_with('#')
            && start + open.len_utf8() + close.len_utf8() <= line.len()
        {
            let start = start + open.len_utf8();
            let end = line.len() - close.len_utf8();
            return (&line[..start], &line[start..end], &line[end..]);
        }
    }
    ("", line, "")
}

/// The ordinals in a line, such as `#3` and `#17`.
fn ordinals(line: &str) -> impl Iterator<Item = Ordinal> + '_ {
    let signs = line.split(|c: char| !(c == '#' || c.is_ascii_digit()));
    signs.filter_map(ordinal)
}

fn lay_out(input: &SynthesisInput<'_>, items: &[Item<'_>], chosen: &[usize]) -> String {
    let task: Vec<&str> = input.task.split_whitespace().collect();
    let task = task.join(" ");
    let title = first_words(&task, TITLE_BYTES);
    let rest = if title.len() < task.len() { " …" } else { "" };
    let mut text = format!("# {title}{rest}\n");
    for (agent, result) in input.results.iter().enumerate() {
        let own = chosen.iter().map(|&index| &items[index]);
        let mut own: Vec<&Item<'_>> = own.filter(|item| item.agent == agent).collect();
        own.sort_by_key(|item| item.place);
        for section in own.chunk_by(|one, next| one.heading == next.heading) {
            let title = match section[0].heading {
                "" => result.agent,
                heading => heading,
            };
            let _ = writeln!(text, "\n## {title} ({})", result.agent);
            for item in section {
                let _ = match item.day {
                    "" => writeln!(text, "- {}", item.text),
                    day => writeln!(text, "- {} ({day})", item.text),
                };
            }
        }
    }
    let is_silent = |agent: &usize| !items.iter().any(|item| item.agent == *agent);
    let silent = (0..input.results.len()).filter(is_silent);
    let missing = silent.map(|agent| format!("- {}: {NOTHING_NEW}", input.results[agent].agent));
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        let _ = write!(text, "\n## Missing\n{}\n", missing.join("\n"));
    }
    text.truncate(text.trim_end().len());
    text
}
