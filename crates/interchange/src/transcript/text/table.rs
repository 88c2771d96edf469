//! Chats that KakaoTalk exports as a table (CSV) with the columns `Date`, `User` and `Message`.

use unisono_context::message::Part;

use super::role_of;
use super::time::{DayOrder, moment};
use crate::transcript::draft::{Draft, DraftMessage};
use crate::transcript::source::Problem;

const HEADER: &str = "Date,User,Message";

pub(super) fn is_one(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty()) == Some(HEADER)
}

pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let (_, mut rest) = record(text.trim_start());
    while !rest.is_empty() {
        let row = rest;
        let (fields, next) = record(row);
        rest = next;
        match fields.as_slice() {
            [at, name, said] => push(row, [at, name, said], draft),
            [only] if only.trim().is_empty() => {}
            _ => draft.bad(Problem::new(row, "a row has a date, a user and a message")),
        }
    }
}

fn push<'t>(row: &'t str, [at, name, said]: [&str; 3], draft: &mut Draft<'t, '_, '_>) {
    let said = said.trim();
    if said.is_empty() {
        return draft.omit("empty message");
    }
    let (role, author) = role_of(name.trim());
    let message = DraftMessage {
        author,
        at: moment(at, DayOrder::Unknown).flatten(),
        ..DraftMessage::new(role, vec![Part::text(said)])
    };
    draft.push_or_system(row, message);
}

/// The fields of the first row, and the rest of the text. A field that begins with a quotation mark may have
/// several lines, and doubles its own marks.
fn record(text: &str) -> (Vec<String>, &str) {
    let (mut fields, mut field) = (Vec::new(), String::new());
    // Whether the field began with a mark, and whether its quotation is open.
    let (mut has_marks, mut is_quoted) = (false, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, is_quoted) {
            ('"', true) if chars.next_if(|(_, next)| *next == '"').is_some() => field.push(c),
            ('"', _) if has_marks || field.is_empty() => {
                has_marks = true;
                is_quoted = !is_quoted;
            }
            (',', false) => {
                fields.push(std::mem::take(&mut field));
                has_marks = false;
            }
            ('\n', false) => {
                fields.push(field);
                return (fields, &text[at + 1..]);
            }
            _ => field.push(c),
        }
    }
    fields.push(field);
    (fields, "")
}
