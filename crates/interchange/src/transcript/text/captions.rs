//! Captions of recordings, WebVTT and SubRip. The speaker is a voice (`<v Alice>…`), a label at the
//! beginning of a caption (`Alice: …`), or the first line of each caption.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::Labels;
use super::line::{SpeakerLine, SpeakerStyle, is_display_name};
use super::lines::Line;
use super::time::DayOrder;
use super::{above, push_message};
use crate::transcript::draft::Draft;
use crate::transcript::source::Problem;

/// The size from which a message of several captions ends with its caption.
const MESSAGE_BYTES: usize = 2_000;

pub(super) fn is_one(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_numbered = is_number(first) && lines.next().is_some_and(is_timing);
    let title = first.strip_prefix("WEBVTT");
    let is_web = title.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
    is_web || is_timing(first) || is_numbered
}

/// Reads captions. Those that follow each other and have one speaker are a message, with the time of
/// the first one.
pub(super) fn read<'t>(text: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let (mut lines, times) = caption_lines(text);
    name_speakers(&mut lines, draft);
    let mut current: Option<(&'t str, SpeakerLine<'t>, String)> = None;
    for (line, time) in lines.iter().zip(times) {
        let said = plain(line.spoken_text());
        let goes_on = current.as_ref().is_some_and(|(_, last, body)| {
            let is_same = line.start.is_none_or(|start| start.name == last.name);
            is_same && !(line.begins && body.len() >= MESSAGE_BYTES)
        });
        if let Some((_, _, body)) = current.as_mut().filter(|_| goes_on) {
            if !said.is_empty() {
                body.push(' ');
                body.push_str(&said);
            }
            continue;
        }
        let last = current.as_ref().map(|(_, last, _)| *last);
        let Some(start) = line.start.or(last) else {
            draft.omit("unattributed caption");
            continue;
        };
        let clock = Some(time);
        let start = SpeakerLine { clock, ..start };
        push_message(current.replace((line.text, start, said)), draft);
    }
    if current.is_none() {
        let reason = "no caption names a speaker, as in `<v Alice>…` or `Alice: …`";
        draft.bad(Problem::new(text, reason));
    }
    push_message(current, draft);
}

/// The lines of the captions, divided before each voice, and for each the time of its caption. The first
/// line of a caption begins a paragraph.
fn caption_lines(text: &str) -> (Vec<Line<'_>>, Vec<&str>) {
    let (mut lines, mut times) = (Vec::new(), Vec::new());
    let (mut time, mut begins) = (None, false);
    for line in text.lines() {
        if line.trim().is_empty() {
            time = None;
        } else if let Some(start) = timing(line) {
            (time, begins) = (Some(start), true);
        } else if let Some(time) = time {
            for piece in pieces(line) {
                times.push(time);
                lines.push(Line {
                    text: piece,
                    begins: std::mem::take(&mut begins),
                    in_code: false,
                    is_usual: false,
                    start: None,
                });
            }
        }
        // Other lines are numbers, notes and styles.
    }
    (lines, times)
}

fn name_speakers<'t>(lines: &mut [Line<'t>], draft: &mut Draft<'t, '_, '_>) {
    for line in lines.iter_mut() {
        line.start = voice(line.text);
    }
    if lines.iter().any(|line| line.start.is_some()) {
        return;
    }
    for line in lines.iter_mut() {
        line.start = label(line.text);
    }
    let (starts, doubts) = labelled(lines);
    let is_labelled = starts.contains(&true);
    for (line, is_start) in lines.iter_mut().zip(starts) {
        line.start = line.start.filter(|_| is_start);
    }
    if !is_labelled {
        return name_first_lines(lines);
    }
    for doubt in doubts {
        draft.warn(doubt);
    }
}

/// For each line, whether its label is a speaker; and labels that may have been misread.
fn labelled<'t>(lines: &[Line<'t>]) -> (Vec<bool>, Vec<Problem<'t>>) {
    let labels = Labels::find(lines);
    let mut chosen = labels.chosen(true);
    if chosen.is_empty() {
        chosen = labels.chosen(false);
    }
    (labels.starts(&chosen), labels.doubts(&chosen))
}

/// Makes the first lines of captions speakers if most are names above a text, and names occur again.
fn name_first_lines(lines: &mut [Line<'_>]) {
    let is_inner = |at: usize| lines.get(at).is_some_and(|line| !line.begins);
    let first = lines.iter().enumerate().filter(|(_, line)| line.begins);
    let captions = first.clone().count();
    let names: BTreeMap<usize, SpeakerLine<'_>> = first
        .filter(|(at, _)| is_inner(at + 1))
        .filter_map(|(at, line)| Some((at, above::alone(line.text)?)))
        .collect();
    let different: BTreeSet<_> = names.values().filter_map(|start| start.name).collect();
    if names.len() * 3 < captions * 2 || different.len() == names.len() {
        return;
    }
    for (at, start) in names {
        if let Some(line) = lines.get_mut(at) {
            line.start = Some(start);
        }
    }
}

/// A line divided before each voice: `- <v Alice>Yes.</v> <v Bob>No.</v>` has two pieces.
fn pieces(line: &str) -> Vec<&str> {
    let is_voice = |at: &usize| line.get(*at..).and_then(voice).is_some();
    let voices = line.match_indices("<v").map(|(at, _)| at).filter(is_voice);
    let (mut pieces, mut from) = (Vec::new(), 0);
    for at in voices {
        pieces.push(before_voice(&line[from..at]));
        from = at;
    }
    pieces.push(&line[from..]);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// The text before a voice, without the dash and the tags that belong to the voice.
fn before_voice(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(shorter) = without_opening_tag(text).or_else(|| without_dash(text)) {
        text = shorter.trim_end();
    }
    text
}

/// A text without the tag at its end, such as `<i>`.
fn without_opening_tag(text: &str) -> Option<&str> {
    let (before, tag) = text.strip_suffix('>')?.rsplit_once('<')?;
    let is_tag = tag.starts_with(|c: char| c.is_ascii_alphanumeric()) && !tag.contains('>');
    is_tag.then_some(before)
}

/// A text without the dash at its end, if only tags or nothing stand before it.
fn without_dash(text: &str) -> Option<&str> {
    let before = text.strip_suffix(['-', '–', '—'])?.trim_end();
    (before.is_empty() || before.ends_with('>')).then_some(before)
}

/// `<v Alice>Good morning.`; classes may stand behind the `v`.
fn voice(piece: &str) -> Option<SpeakerLine<'_>> {
    let (tag, text) = piece.strip_prefix("<v")?.split_once('>')?;
    let (classes, name) = tag.split_once(char::is_whitespace)?;
    let is_voice = classes.is_empty() || classes.starts_with('.');
    (is_voice && !name.trim().is_empty()).then_some(named(name, text))
}

/// `Alice: Good morning.`, `- Alice: …`, `>> ALICE: …`.
fn label(line: &str) -> Option<SpeakerLine<'_>> {
    let is_sign = |c: char| c.is_whitespace() || matches!(c, '-' | '>');
    let line = line.trim_start_matches(is_sign);
    let plain = SpeakerStyle::Plain.start(line, DayOrder::Unknown);
    plain.or_else(|| {
        let (name, text) = line.split_once(": ")?;
        is_display_name(name).then_some(named(name, text))
    })
}

fn named<'t>(name: &'t str, text: &'t str) -> SpeakerLine<'t> {
    SpeakerLine::untimed(Some(name.trim()), text.trim())
}

fn is_number(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit())
}

fn is_timing(line: &str) -> bool {
    timing(line).is_some()
}

/// The beginning of a caption in `00:00:03.120 --> 00:00:05.320`, without the fraction.
fn timing(line: &str) -> Option<&str> {
    let (begin, rest) = line.split_once("-->")?;
    clock(rest.split_whitespace().next()?)?;
    clock(begin.trim())
}

fn clock(time: &str) -> Option<&str> {
    let clock = time.split(['.', ',']).next()?;
    let parts = clock.split(':');
    let is_time = (2..=3).contains(&parts.clone().count()) && parts.clone().all(is_number);
    (is_time && clock.len() <= MAX_CLOCK_BYTES).then_some(clock)
}

/// The maximum size of the time of a caption.
const MAX_CLOCK_BYTES: usize = 12;

/// Characters that captions write as names.
const ENTITIES: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&nbsp;", " "),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&amp;", "&"),
];

/// A text without tags such as `<i>`, `</v>` and `<00:00:04.100>`.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        let is_tag = tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
        match tag.split_once('>').filter(|_| is_tag) {
            Some((_, behind)) => rest = behind,
            None => {
                plain.push('<');
                rest = tag;
            }
        }
    }
    plain.push_str(rest);
    if plain.contains('&') {
        for (name, character) in ENTITIES {
            plain = plain.replace(name, character);
        }
    }
    plain.trim().to_owned()
}
