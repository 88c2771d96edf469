//! Prompt files: text with placeholders, checked when they are read.

use std::fmt;

use unisono_context::compaction::SECTIONS;

use super::{Style, words};

/// A place in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Conversation,
    Prior,
    Recent,
    Instructions,
    TargetTokens,
    Style,
}

impl Place {
    const ALL: [Place; 6] = [
        Place::Conversation,
        Place::Prior,
        Place::Recent,
        Place::Instructions,
        Place::TargetTokens,
        Place::Style,
    ];

    const fn name(self) -> &'static str {
        match self {
            Place::Conversation => "conversation",
            Place::Prior => "prior",
            Place::Recent => "recent",
            Place::Instructions => "instructions",
            Place::TargetTokens => "target_tokens",
            Place::Style => "style",
        }
    }

    /// Without what follows the cutoff a summary can be written, and in one style alone; not
    /// without the rest.
    fn is_required(self) -> bool {
        !matches!(self, Place::Recent | Place::Style)
    }
}

/// A prompt file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}{}", .similar.map(|name| format!(", did you mean `{{{{{name}}}}}`?")).unwrap_or_default())]
pub struct Error {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
    /// The placeholder that was most likely meant.
    pub similar: Option<&'static str>,
}

/// A prompt for a summariser.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompt {
    segments: Vec<Segment>,
    style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Text(Box<str>),
    Place(Place),
}

/// What a prompt's places are filled with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filling<'a> {
    /// Guarded.
    pub(super) conversation: &'a str,
    /// Complete with what it is introduced by, or empty; so are the two below.
    pub(super) prior: &'a str,
    pub(super) recent: &'a str,
    pub(super) instructions: &'a str,
    pub(super) target_tokens: u64,
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const COMMENT: (&str, &str) = ("<!--", "-->");

impl Prompt {
    /// Reads a prompt file; `file` is for errors. A comment `<!-- … -->` at its start is not part
    /// of the prompt.
    ///
    /// # Errors
    /// A placeholder is unknown, stands twice, or is missing.
    pub fn parse(file: &str, text: &str) -> Result<Prompt, Error> {
        let error = |at: usize, reason: String, similar| Error {
            file: file.to_owned(),
            line: text[..at].matches('\n').count() + 1,
            reason,
            similar,
        };
        let mut at = comment_end(text)
            .ok_or_else(|| error(0, "the comment at the start has no `-->`".to_owned(), None))?;
        let mut segments = Vec::new();
        while let Some(found) = text[at..].find(OPEN) {
            let open = at + found;
            let (name, end) = placeholder(text, open).ok_or_else(|| {
                error(
                    open,
                    "`{{` is not closed by `}}` on its line".to_owned(),
                    None,
                )
            })?;
            let Some(place) = Place::ALL.into_iter().find(|place| place.name() == name) else {
                let reason = format!("unknown placeholder `{{{{{name}}}}}`");
                return Err(error(open, reason, nearest(name)));
            };
            if segments.contains(&Segment::Place(place)) {
                let reason = format!("`{{{{{name}}}}}` stands twice in the prompt");
                return Err(error(open, reason, None));
            }
            segments.push(Segment::Text(text[at..open].into()));
            segments.push(Segment::Place(place));
            at = end;
        }
        segments.push(Segment::Text(text[at..].into()));
        let missing =
            |place: &Place| place.is_required() && !segments.contains(&Segment::Place(*place));
        if let Some(place) = Place::ALL.into_iter().find(missing) {
            let reason = format!("`{{{{{}}}}}` is missing in the prompt", place.name());
            return Err(error(text.trim_end().len(), reason, None));
        }
        Ok(Prompt {
            segments,
            style: Style::default(),
        })
    }

    /// The same that asks for summaries of that style, where it has a place that says so.
    #[must_use]
    pub fn in_style(self, style: Style) -> Prompt {
        Prompt { style, ..self }
    }

    /// Whether it names a section that a running summary must have one of. A summary written by
    /// a prompt that does not would never be taken.
    pub fn names_sections(&self) -> bool {
        let names = |text: &str| {
            let mut sections = SECTIONS.iter();
            sections.any(|section| text.contains(&format!("## {section}")))
        };
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::Text(text) if names(text)))
    }

    /// The prompt with its places filled. A place filled with nothing takes the empty lines after
    /// it along.
    pub(super) fn fill(&self, filling: &Filling<'_>) -> String {
        let conversation = words::conversation(filling.conversation);
        let target = filling.target_tokens.to_string();
        let mut out = String::new();
        let mut left_out = true;
        for segment in &self.segments {
            let text = match segment {
                Segment::Text(text) if left_out => text.trim_start_matches('\n'),
                Segment::Text(text) => text,
                Segment::Place(Place::Conversation) => &conversation,
                Segment::Place(Place::Prior) => filling.prior,
                Segment::Place(Place::Recent) => filling.recent,
                Segment::Place(Place::Instructions) => filling.instructions,
                Segment::Place(Place::TargetTokens) => &target,
                Segment::Place(Place::Style) => self.style.words(),
            };
            left_out = text.is_empty();
            out.push_str(text);
        }
        out.truncate(out.trim_end().len());
        out
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.segments).finish()
    }
}

/// Behind the comment that a file may begin with; none where it has no end.
fn comment_end(text: &str) -> Option<usize> {
    let (open, close) = COMMENT;
    let start = text.len() - text.trim_start().len();
    if !text[start..].starts_with(open) {
        return Some(start);
    }
    text.find(close).map(|at| at + close.len())
}

/// The name of the placeholder that opens there, and where it ends.
fn placeholder(text: &str, open: usize) -> Option<(&str, usize)> {
    let start = open + OPEN.len();
    let line = text[start..].lines().next().unwrap_or_default();
    let length = line.find(CLOSE)?;
    Some((line[..length].trim(), start + length + CLOSE.len()))
}

/// Names less alike than this (Jaro and Winkler's similarity, 0 to 1) are no slip of the keyboard.
const ALIKE: f64 = 0.7;

fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let scored = Place::ALL.map(|place| (strsim::jaro_winkler(&name, place.name()), place.name()));
    let alike = scored.into_iter().filter(|(score, _)| *score > ALIKE);
    alike
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
