//! The tool `recall`: returns messages by number, or those that match some words best.
//!
//! Matches depend only on the branch and the frozen head, so a call has the same result at any
//! time. They are cited by number, with the messages around them, within a maximum number of
//! tokens. If the scope is larger than the branch ([`crate::RecallScope`]), matches outside it
//! follow.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use unisono_context::{Message, Ordinal, SessionId, Tokens};
use unisono_model::extractive::Passage;
use unisono_search::{RecallResult as OnBranch, excerpt};
use unisono_session::state::MAIN;

use crate::agent::{Ctx, Failure};
use crate::session_port::{MessagePlace, OutsideMessage, RecallResults};

use super::{
    MAX_CHARS, Outcome, RECALL, format_message, heading, no_message, paged_message, paged_text,
    parse, steps,
};

/// The maximum number of messages of one call by number.
const MAX_MESSAGES: u32 = 50;
/// The maximum number of messages of one search.
const MAX_FOUND: usize = 20;
/// The maximum size of a search result, in tokens of the agent's model, without the note at its
/// end.
const MAX_TOKENS: Tokens = Tokens(2_000);
/// The number of characters of a matching message.
const EXCERPT_CHARS: usize = 600;
/// The number of characters of the messages before and after it.
const NEIGHBOUR_CHARS: usize = 160;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    query: Option<String>,
    n: Option<u32>,
    from: Option<u32>,
    to: Option<u32>,
    #[serde(default)]
    steps: bool,
    #[serde(default)]
    skip: usize,
    session: Option<String>,
    branch: Option<String>,
}

pub(super) async fn recall(arguments: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    let asked: Recall = match parse(RECALL, arguments) {
        Ok(asked) => asked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let (session, branch) = (&asked.session, &asked.branch);
    if session.is_some() || branch.is_some() {
        return elsewhere(&asked, ctx).await;
    }
    match asked.target() {
        Some(RecallTarget::Steps(n, skip)) => steps::read_steps(n, skip, ctx).await,
        Some(RecallTarget::Words(text)) => match named_message(&text, ctx).await? {
            Some(message) => Ok(paged_message(RECALL, &message, 0)),
            None => search(text.trim(), ctx).await,
        },
        Some(RecallTarget::Message(n, skip)) => by_number(n, skip, ctx).await,
        Some(RecallTarget::Range(from, to)) => read_range(from, to, ctx).await,
        None => Ok(Err(format!(
            r#"{RECALL} takes one of {{"query":"words"}}, {{"n":12}}, {{"n":12,"steps":true}}, {{"from":1,"to":9}} with `from` not after `to`"#
        ))),
    }
}

/// The requested messages.
enum RecallTarget {
    Words(String),
    Message(u32, usize),
    Steps(u32, usize),
    Range(u32, u32),
}

impl Recall {
    /// None if the arguments contradict each other.
    fn target(&self) -> Option<RecallTarget> {
        let by_number = (self.n, self.from, self.to);
        match (&self.query, by_number, self.steps, self.skip) {
            (Some(text), (None, None, None), false, 0) => Some(RecallTarget::Words(text.clone())),
            (None, (Some(n), None, None), true, skip) => Some(RecallTarget::Steps(n, skip)),
            (None, (Some(n), None, None), false, skip) => Some(RecallTarget::Message(n, skip)),
            (None, (None, Some(from), Some(to)), false, 0) if from <= to => {
                Some(RecallTarget::Range(from, to))
            }
            _ => None,
        }
    }

    /// The number of the message to read in another session or branch; none if the arguments
    /// request something else there.
    fn outside_message(&self) -> Option<u32> {
        match (&self.query, (self.n, self.from, self.to), self.steps) {
            (None, (n, None, None), false) => n,
            _ => None,
        }
    }

    /// The call that reads on in a message of another session or branch.
    fn next_call(&self, n: u32, skip: usize) -> String {
        let mut place = String::new();
        for (key, value) in [("session", &self.session), ("branch", &self.branch)] {
            if let Some(value) = value {
                let _ = write!(place, "\"{key}\":{},", Value::from(value.as_str()));
            }
        }
        format!("{RECALL} {{{place}\"n\":{n},\"skip\":{skip}}}")
    }
}

/// A message of another branch, or of another session, or as much of it as fits.
async fn elsewhere(asked: &Recall, ctx: &Ctx) -> Result<Outcome, Failure> {
    let Some(n) = asked.outside_message() else {
        let one = r#"{"session":"…","n":12} or {"branch":"…","n":12}"#;
        return Ok(Err(format!(
            "of other sessions and branches {RECALL} reads one message: {one}"
        )));
    };
    let session = asked.session.as_deref();
    let session = match session.map(str::parse::<SessionId>).transpose() {
        Ok(session) => session,
        Err(_) => return Ok(Err("`session` is the whole id of a session".to_owned())),
    };
    let place = MessagePlace {
        session,
        branch: asked.branch.clone().unwrap_or_else(|| MAIN.to_owned()),
        ordinal: Ordinal(n),
    };
    let message = ctx.read_outside_message(place).await?;
    Ok(message.and_then(|message| {
        let next = |end| asked.next_call(n, end);
        paged_text(&format_message(&message), Ordinal(n), asked.skip, next)
    }))
}

/// The message that a text names by the number by which masks refer to messages: `#12`. A number that no
/// message has is a word, such as the number of an issue.
async fn named_message(text: &str, ctx: &Ctx) -> Result<Option<Arc<Message>>, Failure> {
    let number = text.trim().strip_prefix('#');
    match number.and_then(|number| number.parse().ok()) {
        Some(n) => ctx.read_message(Ordinal(n)).await,
        None => Ok(None),
    }
}

async fn by_number(n: u32, skip: usize, ctx: &Ctx) -> Result<Outcome, Failure> {
    let message = ctx.read_message(Ordinal(n)).await?;
    Ok(message.map_or_else(
        || Err(no_message(n)),
        |message| paged_message(RECALL, &message, skip),
    ))
}

async fn search(text: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    let recalled = match ctx.recall(text, MAX_FOUND).await? {
        Ok(recalled) => recalled,
        Err(reason) => {
            let other = format!(r#"{RECALL} {{"from":1,"to":9}} reads messages by number"#);
            return Ok(Err(format!("{reason}; {other}")));
        }
    };
    let RecallResults {
        on_branch,
        elsewhere,
    } = recalled;
    if on_branch.messages.is_empty() && elsewhere.is_empty() {
        return Ok(Ok(nothing(text, &on_branch)));
    }
    let mut blocks = Vec::new();
    for ordinal in &on_branch.messages {
        let found = format_found(*ordinal, &on_branch, ctx).await?;
        blocks.extend(found.map(|text| (text, Some(*ordinal))));
    }
    let beside = elsewhere.iter().map(|found| {
        let text = format_outside_message(found, &on_branch.stems);
        (text, None)
    });
    blocks.extend(beside);
    let texts = blocks.iter().map(|(text, _)| text.clone()).collect();
    let counts = ctx.count(texts).await;
    let cited = format_cited_line(&on_branch, !elsewhere.is_empty());
    let (mut out, mut used, mut given) = (cited, Tokens::ZERO, 0);
    for ((block, _), tokens) in blocks.iter().zip(counts) {
        used = Tokens(used.0.saturating_add(tokens.0));
        if used > MAX_TOKENS && given > 0 {
            break;
        }
        out.push_str("\n\n");
        out.push_str(block);
        given += 1;
    }
    out.push_str(&format_rest(&blocks, given));
    Ok(Ok(out))
}

/// A note about the omitted matches, and how to read on.
fn format_rest(blocks: &[(String, Option<Ordinal>)], given: usize) -> String {
    let (shown, left) = blocks.split_at(given);
    let mut notes = Vec::new();
    if let Some(first) = shown.iter().find_map(|(_, ordinal)| *ordinal) {
        notes.push(format!(
            "{RECALL} {{\"n\":{}}} reads {first} whole",
            first.0
        ));
    }
    let numbers: Vec<String> = left
        .iter()
        .filter_map(|(_, ordinal)| ordinal.as_ref().map(ToString::to_string))
        .collect();
    if !numbers.is_empty() {
        notes.push(format!("found as well: {}", numbers.join(", ")));
    }
    match left.len() - numbers.len() {
        0 => {}
        more => notes.push(format!("{more} more outside this branch")),
    }
    match &notes[..] {
        [] => String::new(),
        notes => format!("\n\n[{}]", notes.join("; ")),
    }
}

fn nothing(text: &str, recalled: &OnBranch) -> String {
    if recalled.nowhere.is_empty() {
        return format!("there is no word to search for in {text:?}; give names or terms");
    }
    format!(
        "nothing found: no message has any of {}; try other words for it",
        recalled.nowhere.join(", ")
    )
}

/// A matching message outside the branch, with the one before it.
fn format_outside_message(found: &OutsideMessage, stems: &[String]) -> String {
    let message = &found.message;
    let mut call = String::new();
    let mut place = match &found.session {
        Some((session, title)) => {
            let _ = write!(call, "\"session\":\"{session}\",");
            format!("in session {title:?}")
        }
        None => "in this session".to_owned(),
    };
    if let Some(branch) = &found.branch {
        let _ = write!(place, ", branch {branch}");
        if **branch != *MAIN {
            let _ = write!(call, "\"branch\":{},", Value::from(&**branch));
        } else if call.is_empty() {
            let _ = write!(call, "\"branch\":\"{MAIN}\",");
        }
        let n = message.ordinal.0;
        let _ = write!(place, "; {RECALL} {{{call}\"n\":{n}}} reads it whole");
    }
    let part = |message: &Message, chars| excerpt(&Passage::text_of(message), stems, chars).text;
    let text = part(message, EXCERPT_CHARS);
    let mut out = format!("[{place}]\n{}:\n{text}", heading(message));
    if let Some(before) = &found.before {
        let text = part(before, NEIGHBOUR_CHARS);
        let _ = write!(out, "\n(before: {}: {text})", heading(before));
    }
    out
}

/// The search and its matches, in one line. `elsewhere` says whether matches outside the branch
/// follow: they may have the words that the branch does not have.
fn format_cited_line(recalled: &OnBranch, elsewhere: bool) -> String {
    let place = if elsewhere { "on this branch " } else { "" };
    match &recalled.nowhere[..] {
        [] => "[found, the best first]".to_owned(),
        nowhere => format!(
            "[found, the best first; {place}nowhere: {}]",
            nowhere.join(", ")
        ),
    }
}

/// A matching message, with its neighbours that do not match.
async fn format_found(
    ordinal: Ordinal,
    recalled: &OnBranch,
    ctx: &Ctx,
) -> Result<Option<String>, Failure> {
    let Some(message) = ctx.read_message(ordinal).await? else {
        return Ok(None);
    };
    let part = |message: &Message, stems: &[String], chars| {
        excerpt(&Passage::text_of(message), stems, chars).text
    };
    let mut out = heading(&message);
    let _ = write!(out, ":\n{}", part(&message, &recalled.stems, EXCERPT_CHARS));
    let around = [("before", ordinal.0 - 1), ("after", ordinal.0 + 1)];
    for (which, n) in around {
        if n == 0 || recalled.messages.contains(&Ordinal(n)) {
            continue;
        }
        if let Some(message) = ctx.read_message(Ordinal(n)).await? {
            let text = part(&message, &recalled.stems, NEIGHBOUR_CHARS);
            let _ = write!(out, "\n({which}: {}: {text})", heading(&message));
        }
    }
    Ok(Some(out))
}

/// Complete messages from `from` on, as many as fit; the first may be cut.
async fn read_range(from: u32, to: u32, ctx: &Ctx) -> Result<Outcome, Failure> {
    let last = to.min(from.saturating_add(MAX_MESSAGES - 1));
    let (mut out, mut room) = (String::new(), MAX_CHARS);
    for n in from..=last {
        let Some(message) = ctx.read_message(Ordinal(n)).await? else {
            if n == from {
                return Ok(Err(no_message(n)));
            }
            let _ = write!(out, "\n\n[{} is the last message]", Ordinal(n - 1));
            return Ok(Ok(out));
        };
        if n == from {
            out = match paged_message(RECALL, &message, 0) {
                Ok(text) => text,
                wrong => return Ok(wrong),
            };
            room = room.saturating_sub(out.chars().count());
            continue;
        }
        let text = format_message(&message);
        let chars = text.chars().count();
        if chars > room {
            return Ok(Ok(with_rest(out, n, to)));
        }
        room -= chars;
        out.push_str("\n\n");
        out.push_str(&text);
    }
    Ok(Ok(if last < to {
        with_rest(out, last + 1, to)
    } else {
        out
    }))
}

fn with_rest(mut out: String, next: u32, to: u32) -> String {
    let rest = format!("{RECALL} {{\"from\":{next},\"to\":{to}}} reads on");
    let _ = write!(
        out,
        "\n\n[stopped before {}, to stay within bounds; {rest}]",
        Ordinal(next)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_elsewhere_is_read_on_where_it_is() {
        let id = SessionId::from_u128(7);
        let session = format!(r#"{{"session":"{id}","n":2}}"#);
        let branch = r#"{"branch":"an \"idea\"","n":2,"skip":16000}"#;
        for (arguments, expected) in [
            (
                &*session,
                format!(r#"recall {{"session":"{id}","n":2,"skip":32000}}"#),
            ),
            (
                branch,
                r#"recall {"branch":"an \"idea\"","n":2,"skip":32000}"#.to_owned(),
            ),
        ] {
            let asked: Recall = serde_json::from_str(arguments).unwrap();
            assert_eq!(asked.outside_message(), Some(2));
            assert_eq!(asked.next_call(2, 32_000), expected);
        }
        let steps = r#"{"branch":"idea","n":2,"steps":true}"#;
        let steps: Recall = serde_json::from_str(steps).unwrap();
        assert_eq!(steps.outside_message(), None);
    }

    #[test]
    fn a_word_that_the_branch_does_not_have_may_be_elsewhere() {
        let mut recalled = OnBranch::default();
        let line = |recalled: &OnBranch, elsewhere| format_cited_line(recalled, elsewhere);
        assert_eq!(line(&recalled, true), "[found, the best first]");
        recalled.nowhere.push("elderflower".into());
        assert_eq!(
            line(&recalled, false),
            "[found, the best first; nowhere: elderflower]"
        );
        assert_eq!(
            line(&recalled, true),
            "[found, the best first; on this branch nowhere: elderflower]"
        );
    }
}
