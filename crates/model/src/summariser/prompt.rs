//! Prompt files: text with placeholders, checked when they are read.

use std::fmt;

use unisono_context::compaction::SECTIONS;

use super::{Style, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    Conversation,
    Prior,
    Recent,
    Instructions,
    TargetTokens,
    Style,
}

impl Placeholder {
    const ALL: [Placeholder; 6] = [
        Placeholder::Conversation,
        Placeholder::Prior,
        Placeholder::Recent,
        Placeholder::Instructions,
        Placeholder::TargetTokens,
        Placeholder::Style,
    ];

    const fn name(self) -> &'static str {
        match self {
            Placeholder::Conversation => "conversation",
            Placeholder::Prior => "prior",
            Placeholder::Recent => "recent",
            Placeholder::Instructions => "instructions",
            Placeholder::TargetTokens => "target_tokens",
            Placeholder::Style => "style",
        }
    }

    /// Whether a prompt must have it. The messages after the cutoff and the style are optional.
    fn is_required(self) -> bool {
        !matches!(self, Placeholder::Recent | Placeholder::Style)
    }
}

/// An invalid prompt file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}{}", .similar.map(|name| format!(", did you mean `{{{{{name}}}}}`?")).unwrap_or_default())]
pub struct Error {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub reason: String,
    /// The most similar placeholder, if there is one.
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
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PromptValues<'a> {
    /// The guarded text of the messages.
    pub(super) conversation: &'a str,
    /// The text with its introduction, or empty; so are the next two.
    pub(super) prior: &'a str,
    pub(super) recent: &'a str,
    pub(super) instructions: &'a str,
    pub(super) target_tokens: u64,
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const COMMENT: (&str, &str) = ("<!--", "-->");

impl Prompt {
    /// Parses a prompt file; `file` is for errors. A comment `<!-- … -->` at its start is not part
    /// of the prompt.
    ///
    /// # Errors
    /// A placeholder is unknown, duplicate, or missing.
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
            let Some(place) = Placeholder::ALL
                .into_iter()
                .find(|place| place.name() == name)
            else {
                let reason = format!("unknown placeholder `{{{{{name}}}}}`");
                return Err(error(open, reason, nearest(name)));
            };
            if segments.contains(&Segment::Placeholder(place)) {
                let reason = format!("`{{{{{name}}}}}` occurs twice in the prompt");
                return Err(error(open, reason, None));
            }
            segments.push(Segment::Text(text[at..open].into()));
            segments.push(Segment::Placeholder(place));
            at = end;
        }
        segments.push(Segment::Text(text[at..].into()));
        let missing = |place: &Placeholder| {
            place.is_required() && !segments.contains(&Segment::Placeholder(*place))
        };
        if let Some(place) = Placeholder::ALL.into_iter().find(missing) {
            let reason = format!("`{{{{{}}}}}` is missing in the prompt", place.name());
            return Err(error(text.trim_end().len(), reason, None));
        }
        Ok(Prompt {
            segments,
            style: Style::default(),
        })
    }

    /// The prompt with another style, if it has the placeholder for it.
    #[must_use]
    pub fn in_style(self, style: Style) -> Prompt {
        Prompt { style, ..self }
    }

    /// Its style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Whether it names a section that a rolling summary must have. A summary by another prompt
    /// would always be rejected.
    pub fn names_sections(&self) -> bool {
        let names = |text: &str| {
            let mut sections = SECTIONS.iter();
            sections.any(|section| text.contains(&format!("## {section}")))
        };
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::Text(text) if names(text)))
    }

    /// The prompt with its placeholders replaced. An empty value removes the empty lines after it
    /// too.
    pub(super) fn fill(&self, values: &PromptValues<'_>) -> String {
        let conversation = words::conversation(values.conversation);
        let target = values.target_tokens.to_string();
        let mut out = String::new();
        let mut left_out = true;
        for segment in &self.segments {
            let text = match segment {
                Segment::Text(text) if left_out => text.trim_start_matches('\n'),
                Segment::Text(text) => text,
                Segment::Placeholder(Placeholder::Conversation) => &conversation,
                Segment::Placeholder(Placeholder::Prior) => values.prior,
                Segment::Placeholder(Placeholder::Recent) => values.recent,
                Segment::Placeholder(Placeholder::Instructions) => values.instructions,
                Segment::Placeholder(Placeholder::TargetTokens) => &target,
                Segment::Placeholder(Placeholder::Style) => self.style.words(),
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

/// The position after the comment at the start, if any; `None` if the comment has no end.
fn comment_end(text: &str) -> Option<usize> {
    let (open, close) = COMMENT;
    let start = text.len() - text.trim_start().len();
    if !text[start..].starts_with(open) {
        return Some(start);
    }
    text.find(close).map(|at| at + close.len())
}

/// The name of the placeholder that begins at `open`, and the position after it.
fn placeholder(text: &str, open: usize) -> Option<(&str, usize)> {
    let start = open + OPEN.len();
    let line = text[start..].lines().next().unwrap_or_default();
    let length = line.find(CLOSE)?;
    Some((line[..length].trim(), start + length + CLOSE.len()))
}

/// The minimum similarity (Jaro and Winkler, 0 to 1) of a name that is probably a typing error.
const ALIKE: f64 = 0.7;

fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let scored =
        Placeholder::ALL.map(|place| (strsim::jaro_winkler(&name, place.name()), place.name()));
    let alike = scored.into_iter().filter(|(score, _)| *score > ALIKE);
    alike
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
