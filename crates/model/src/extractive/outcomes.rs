//! One line for each tool result that gives ids: the name of the call, its outcome, and the ids that
//! no earlier message has: `open_ticket → Ticket TCK204816, status: open`.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use unisono_context::Ordinal;

use super::anchors::is_id;
use super::passage::{Passage, PassageKind};
use super::readability::bare;
use super::split::first_words;
use super::terms::{FoldedMap, FoldedSet};
use crate::date::Date;

/// Between the name of a call and its outcome.
const GIVES: &str = " → ";
/// Before the outcome of a call that failed.
const FAILED: &str = "failed: ";
/// The maximum number of ids in a line.
const IDS: usize = 3;
/// A result with more new ids, or a longer one, is what was read rather than done: only ids that later
/// messages use are of interest.
const LISTED: usize = 4;
const DONE_BYTES: usize = 400;
/// The minimum length of a path, and of an id with digits and letters.
const PATH_CHARS: usize = 5;
const ID_CHARS: usize = 4;
/// The maximum length of a piece.
const PIECE_BYTES: usize = 64;
/// Members with these names are the outcome of a call.
const OUTCOMES: [&str; 5] = ["status", "state", "error", "result", "outcome"];
/// Lines about the end of a program begin so, and are at most so long.
const EXITS: [&str; 4] = ["exit code", "exit_code", "exit status", "exited with"];
const EXIT_BYTES: usize = 12;

/// The lines of the results among the passages, each at the index of its passage. `texts` are the
/// texts of the passages without credentials.
pub(super) fn outcome_lines(
    passages: &[Passage<'_>],
    texts: &[Cow<'_, str>],
) -> Vec<Option<String>> {
    let is_result = |passage: &Passage<'_>| passage.kind == PassageKind::ToolResult;
    if !passages.iter().any(is_result) {
        return vec![None; passages.len()];
    }
    let places = places(texts);
    let each = passages.iter().zip(answered_calls(passages)).enumerate();
    each.map(|(at, (passage, call))| {
        let pieces = match is_result(passage) {
            true => pieces(&texts[at], at, &places),
            false => Vec::new(),
        };
        let name = call.and_then(|call| texts[call].split_once(": "));
        let name = name.map_or("", |(name, _)| name);
        let failed = if passage.is_failure { FAILED } else { "" };
        let line = || format!("{name}{GIVES}{failed}{}", pieces.join(", "));
        (!pieces.is_empty()).then(line)
    })
    .collect()
}

/// Whether each passage is a call whose result is a failure. A quote of it would read as done.
pub(super) fn failed_calls(passages: &[Passage<'_>]) -> Vec<bool> {
    let mut is_failed = vec![false; passages.len()];
    for (passage, call) in passages.iter().zip(answered_calls(passages)) {
        if let Some(call) = call {
            is_failed[call] = passage.is_failure;
        }
    }
    is_failed
}

/// The index of the call that each passage is the result of.
fn answered_calls(passages: &[Passage<'_>]) -> Vec<Option<usize>> {
    // Calls of one message may have one id; a later message may use an id again.
    let mut unanswered: HashMap<&str, (Ordinal, VecDeque<usize>)> = HashMap::new();
    let each = passages.iter().enumerate();
    each.map(|(at, passage)| {
        let new = || (passage.ordinal, VecDeque::new());
        let (message, calls) = unanswered.entry(passage.call_id?).or_insert_with(new);
        if passage.kind != PassageKind::ToolCall {
            return calls.pop_front();
        }
        if *message != passage.ordinal {
            (*message, *calls) = new();
        }
        calls.push_back(at);
        None
    })
    .collect()
}

pub(super) fn is_outcome_line(quote: &str) -> bool {
    let head = quote.split_once(GIVES).map(|(name, _)| name);
    head.is_some_and(|name| !name.contains(char::is_whitespace))
}

/// The first and the last passage with each id.
fn places<'t>(texts: &'t [Cow<'_, str>]) -> FoldedMap<&'t str, (usize, usize)> {
    let mut places = FoldedMap::default();
    for (at, text) in texts.iter().enumerate() {
        for token in tokens(text) {
            places.entry(token).or_insert((at, at)).1 = at;
        }
    }
    places
}

/// The references in a text. Each has a digit or a slash, so that words without one are not read.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c| matches!(c, ',' | ';' | '<' | '>' | '"' | '\'' | '`' | '|' | '=');
    let is_bracket = |c| matches!(c, '(' | ')' | '[' | ']' | '{' | '}');
    let is_end = move |c: char| c.is_whitespace() || is_sign(c) || is_bracket(c);
    let mut rest = text;
    let words = std::iter::from_fn(move || {
        let is_mark = |byte: u8| byte.is_ascii_digit() || byte == b'/';
        let (before, after) = rest.split_at(rest.bytes().position(is_mark)?);
        let start = before.trim_end_matches(|c| !is_end(c)).len();
        let end = before.len() + after.find(is_end).unwrap_or(after.len());
        let word = &rest[start..end];
        rest = &rest[end..];
        Some(word)
    });
    words.map(bare).filter(|word| is_reference(word))
}

/// Whether a word is an id, a hash or a path, and no amount, day or time.
fn is_reference(token: &str) -> bool {
    let has = |is: fn(char) -> bool| token.contains(is);
    let has_letter = has(char::is_alphabetic);
    // A place in a file, `src/lib.rs:14`, is read and not made.
    if token.len() < ID_CHARS || token.contains(':') {
        return false;
    }
    if token.contains('/') && has_letter {
        return token.len() >= PATH_CHARS && token.contains('.');
    }
    if !has(|c| c.is_ascii_digit()) || token.parse::<Date>().is_ok() {
        return false;
    }
    let is_part = |c: char| c.is_alphanumeric() || "-_.#".contains(c);
    match token.starts_with(|c: char| c.is_ascii_digit()) {
        true => is_id(token),
        false => has_letter && token.chars().all(is_part),
    }
}

/// The outcome of a result and its best ids, in their order.
fn pieces<'t>(
    text: &'t str,
    at: usize,
    places: &FoldedMap<&str, (usize, usize)>,
) -> Vec<Cow<'t, str>> {
    let mut found: Vec<(bool, usize, &str, &str)> = Vec::new();
    let mut known: FoldedSet<&str> = FoldedSet::default();
    let mut outcome = None;
    for (place, member) in text.lines().flat_map(members).enumerate() {
        if outcome.is_none() && is_outcome(member) {
            outcome = Some((place, shortened(member)));
        }
        for token in tokens(member) {
            let Some(&(first, last)) = places.get(token) else {
                continue;
            };
            if first == at && known.insert(token) {
                found.push((last > at, place, member, token));
            }
        }
    }
    let is_list = found.len() > LISTED || text.len() > DONE_BYTES;
    found.retain(|(is_used, ..)| *is_used || !is_list);
    found.sort_by_key(|(is_used, place, ..)| (!is_used, *place));
    found.truncate(IDS);
    let outcome = outcome.filter(|(_, text)| is_exit(text) || !is_list && !found.is_empty());
    let ids = found
        .into_iter()
        .map(|(_, place, member, token)| (place, Cow::Borrowed(piece(member, token))));
    let mut pieces: Vec<(usize, Cow<'t, str>)> = ids.chain(outcome).collect();
    pieces.sort_by_key(|(place, _)| *place);
    pieces.dedup();
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// The beginning of an outcome. A mark says that its end is missing, which may deny it.
fn shortened(outcome: &str) -> Cow<'_, str> {
    match first_words(outcome, PIECE_BYTES) {
        whole if whole.len() == outcome.len() => Cow::Borrowed(whole),
        beginning => Cow::Owned(format!("{beginning} …")),
    }
}

/// The members of a line of a record, `order: W-17, city: Oslo`; else the line.
fn members(line: &str) -> Vec<&str> {
    let mut members = line.split(", ");
    match members.all(|member| member.contains(": ")) {
        true => line.split(", ").map(str::trim).collect(),
        false => vec![line.trim()],
    }
}

fn is_outcome(member: &str) -> bool {
    let key = member.split_once(": ").map_or("", |(key, _)| key);
    OUTCOMES.iter().any(|name| key.eq_ignore_ascii_case(name)) || is_exit(member)
}

/// Whether a line gives the exit code of a program that failed.
fn is_exit(line: &str) -> bool {
    let lower = line.get(..EXIT_BYTES.min(line.len())).unwrap_or(line);
    let lower = lower.to_lowercase();
    EXITS.iter().any(|exit| lower.starts_with(exit))
        && line.contains(|c: char| ('1'..='9').contains(&c))
}

/// An id with the name of its member, or with the word before it.
fn piece<'t>(member: &'t str, token: &str) -> &'t str {
    if member.len() <= PIECE_BYTES && member.split_once(": ").is_some() {
        return member;
    }
    let Some(at) = member.find(token) else {
        return member.get(..0).unwrap_or_default();
    };
    let before = member[..at].trim_end_matches(|c: char| !c.is_alphanumeric());
    let space = before.rfind(char::is_whitespace);
    let word = space.map_or(0, |space| space + 1);
    let joined = &member[word..at + token.len()];
    let joined = joined.trim_start_matches(|c: char| !c.is_alphanumeric());
    match joined.len() <= PIECE_BYTES && !joined.contains(['=', '{', '"']) {
        true => joined,
        false => &member[at..at + token.len()],
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::{Part, Role, Timestamp};

    use super::*;

    fn passages<'p>(parts: impl IntoIterator<Item = (u32, &'p Part)>) -> Vec<Passage<'p>> {
        let passage = |(n, part)| {
            let role = Role::Assistant;
            Passage::of_part(Ordinal(n), role, None, Timestamp(0), part)
        };
        parts.into_iter().filter_map(passage).collect()
    }

    fn lines(parts: &[Part]) -> Vec<String> {
        let passages = passages((1..).zip(parts));
        let texts: Vec<Cow<'_, str>> = passages.iter().map(|p| p.text.clone()).collect();
        let lines = outcome_lines(&passages, &texts);
        lines.into_iter().flatten().collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> Part {
        Part::tool_call(id, name, arguments)
    }

    fn result(id: &str, content: &str, is_error: bool) -> Part {
        Part::tool_result(id, content, is_error)
    }

    #[test]
    fn a_line_has_the_call_its_outcome_and_its_new_ids() {
        let refund =
            r#"{"order":"W4471902","refund_id":"RF-20-1A","status":"pending","amount":40}"#;
        let parts = [
            call("1", "refund", r#"{"order":"W4471902"}"#),
            result("1", refund, false),
            call("1", "shell", r#"{"command":"git commit"}"#),
            result(
                "1",
                "[main 9f3c1ab] Release the lock\n 3 files changed",
                false,
            ),
            call("1", "shell", r#"{"command":"cargo test"}"#),
            result("1", "running 2 tests\nexit code: 101", false),
            call("1", "shell", r#"{"command":"ls"}"#),
            result("1", "README\nsrc", false),
            call("1", "update", "{}"),
            result("1", "Reservation ZX12-4 cannot be changed.", true),
            call("1", "pay", "{}"),
            result(
                "1",
                r#"{"pay_id":"P-20-1A","status":"sent by the shop to the bank of the customer which did not pay it"}"#,
                false,
            ),
        ];
        let expected = [
            "refund → refund_id: RF-20-1A, status: pending",
            "shell → main 9f3c1ab",
            "shell → exit code: 101",
            "update → failed: Reservation ZX12-4",
            "pay → pay_id: P-20-1A, status: sent by the shop to the bank of the customer which did …",
        ];
        assert_eq!(lines(&parts), expected);
        assert!(expected.iter().all(|line| is_outcome_line(line)));
        assert!(!is_outcome_line("order: W-17, the way → home"));
    }

    #[test]
    fn a_line_names_the_call_with_the_id_of_its_result() {
        let parts = [
            call("a", "refund", "{}"),
            call("b", "update", "{}"),
            result("b", r#"{"update_id":"UP-20-1A"}"#, false),
            result("a", r#"{"refund_id":"RF-20-1A"}"#, false),
        ];
        let expected = [
            "update → update_id: UP-20-1A",
            "refund → refund_id: RF-20-1A",
        ];
        assert_eq!(lines(&parts), expected);
    }

    #[test]
    fn each_failure_belongs_to_the_call_with_its_id() {
        let parts = [
            (1, call("a", "refund", "{}")),
            (1, call("b", "update", "{}")),
            (2, result("b", "Error: no seat", false)),
            (2, result("a", "ok", false)),
            // Not answered.
            (3, call("a", "look", "{}")),
            // One message with two calls of one id.
            (4, call("a", "look", "{}")),
            (4, call("a", "cancel", "{}")),
            (5, result("a", "ok", false)),
            (5, result("a", "Error: too late", false)),
            (6, result("c", "Error: nobody asked", false)),
        ];
        let failed = failed_calls(&passages(parts.iter().map(|(n, part)| (*n, part))));
        let places: Vec<usize> = (0..parts.len()).filter(|at| failed[*at]).collect();
        assert_eq!(places, [1, 6]);
    }

    #[test]
    fn of_a_list_only_used_ids_are_kept() {
        let all: Vec<String> = (0..20)
            .map(|n| format!("{{\"id\":\"W10{n:02}\"}}"))
            .collect();
        let parts = [
            call("1", "list", "{}"),
            result("1", &format!("[{}]", all.join(",")), false),
            call("1", "show", r#"{"id":"W1007"}"#),
            result("1", r#"{"status":"open"}"#, false),
        ];
        assert_eq!(lines(&parts), ["list → id: W1007"]);
    }

    #[test]
    fn days_amounts_and_words_are_no_ids() {
        let others = "2026-05-04 10:30 1,250 25kg 12.50 Monday and/or 101 src/lib.rs:14";
        for word in others.split(' ') {
            assert_eq!(tokens(word).count(), 0, "{word}");
        }
        for word in ["9f3c1ab", "W-1742", "src/lib.rs", "card_4711", "252246"] {
            assert_eq!(tokens(word).count(), 1, "{word}");
        }
    }
}
