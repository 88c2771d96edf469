//! Errors and warnings of a configuration or an agent file: what, where, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Built into the program.
    Defaults,
    /// A file. Its path is stored for display: relative to the working directory if it is below it.
    File(PathBuf),
    /// The settings of a session.
    Session,
    /// An extension of the program in Rust.
    Program,
    /// An environment variable.
    Env(String),
    /// A command-line flag as the person wrote it, or another setting for a single request.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Defaults => f.write_str("defaults"),
            Origin::File(path) => fmt::Display::fmt(&path.display(), f),
            Origin::Session => f.write_str("session"),
            Origin::Program => f.write_str("program"),
            Origin::Env(name) => write!(f, "env {name}"),
            Origin::Flag(flag) if flag.starts_with('-') => write!(f, "flag {flag}"),
            Origin::Flag(asked) => f.write_str(asked),
        }
    }
}

/// A position in an origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, variable or flag.
    pub origin: Arc<Origin>,
    /// Line and column, from 1, the column in characters; none outside files.
    pub at: Option<(u32, u32)>,
}

impl Place {
    /// A whole origin.
    pub fn of_origin(origin: Origin) -> Place {
        Place {
            origin: Arc::new(origin),
            at: None,
        }
    }

    /// The file at that path as a whole.
    pub fn file(path: &Path) -> Place {
        Place::of_origin(Origin::File(path.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.origin),
            None => fmt::Display::fmt(&self.origin, f),
        }
    }
}

/// The text of an origin. Its lines are found once, not for each position.
pub(crate) struct Text<'t> {
    origin: Arc<Origin>,
    text: &'t str,
    /// The first byte of each line.
    lines: Vec<usize>,
}

impl<'t> Text<'t> {
    pub(crate) fn new(origin: Origin, text: &'t str) -> Text<'t> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Text {
            origin: Arc::new(origin),
            text,
            lines: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The position of a byte.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= end);
        let start = self.lines[line - 1];
        let column = self.text[start..end].chars().count() + 1;
        Place {
            origin: self.origin.clone(),
            at: Some((number(line), number(column))),
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program works, perhaps not as intended.
    Warning,
    /// The program refuses to start.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Its position.
    pub place: Place,
    /// Its dotted key.
    pub key: Option<String>,
    /// What happened.
    pub problem: String,
    /// What to do, "did you mean" included.
    pub help: Option<String>,
    /// Whether it is about an unknown key: a warning when running, an error in a check.
    pub unknown_key: bool,
    /// Whether it is about a model: reported when the model is used and in a check, not by every
    /// command.
    pub of_model: bool,
}

impl Diagnostic {
    /// An error, which keeps the program from starting.
    pub fn error(place: Place, problem: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            place,
            key: None,
            problem: problem.into(),
            help: None,
            unknown_key: false,
            of_model: false,
        }
    }

    /// A warning.
    pub fn warning(place: Place, problem: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(place, problem)
        }
    }

    /// Adds the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Diagnostic {
        self.key = Some(key.into());
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Suggests the known name most similar to `name`; without one, lists all known names.
    #[must_use]
    pub fn suggest<'a>(self, name: &str, known: impl Iterator<Item = &'a str>) -> Diagnostic {
        match suggestion(name, known) {
            Some(help) => self.help(help),
            None => self,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.severity, self.problem)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// All errors and warnings, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The errors, without the warnings.
    #[must_use]
    pub fn errors(&self) -> Diagnostics {
        let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
        self.0.iter().filter(is_error).cloned().collect()
    }

    /// Adds a diagnostic, unless it is already in the list. A problem of a model is listed once, not
    /// for every place that names the model.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_same = |one: &Diagnostic| {
            let of_model = diagnostic.of_model && one.of_model;
            *one == diagnostic || (of_model && one.problem == diagnostic.problem)
        };
        if !self.0.iter().any(is_same) {
            self.0.push(diagnostic);
        }
    }

    /// Adds all of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        other.0.into_iter().for_each(|d| self.push(d));
    }

    /// All diagnostics.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.0.iter()
    }

    pub(crate) fn has(&self, origin: &Origin, key: &str) -> bool {
        let of_key = |d: &&Diagnostic| d.key.as_deref() == Some(key);
        self.0
            .iter()
            .filter(of_key)
            .any(|d| *d.place.origin == *origin)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// The same list with unknown keys as errors.
    #[must_use]
    pub fn strict(mut self) -> Diagnostics {
        for diagnostic in self.0.iter_mut().filter(|d| d.unknown_key) {
            diagnostic.severity = Severity::Error;
        }
        self
    }

    /// The same list with unknown keys of one origin as errors.
    #[must_use]
    pub(crate) fn strict_in(mut self, origin: &Origin) -> Diagnostics {
        let own = |d: &&mut Diagnostic| d.unknown_key && *d.place.origin == *origin;
        for diagnostic in self.0.iter_mut().filter(own) {
            diagnostic.severity = Severity::Error;
        }
        self
    }

    /// The list as an error if it has errors, otherwise the warnings.
    ///
    /// # Errors
    /// There is an error; the list contains the warnings as well.
    pub fn into_result(self) -> Result<Diagnostics, Diagnostics> {
        if self.has_errors() {
            Err(self)
        } else {
            Ok(self)
        }
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.place.cmp(&b.place));
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics(vec![diagnostic])
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(iter: I) -> Diagnostics {
        let mut all = Diagnostics::default();
        iter.into_iter().for_each(|d| all.push(d));
        all
    }
}

/// The known name most similar to `name`, if any is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// "did you mean" with the nearest known name, otherwise the list of all names.
pub fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.collect();
    match nearest(name, known.iter().copied()) {
        Some(similar) => Some(format!("did you mean `{similar}`?")),
        None if known.is_empty() => None,
        None => Some(format!("known are: {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_a_line_and_a_column_in_characters() {
        let text = Text::new(Origin::Defaults, "ab\nü=1\r\n\nx");
        let places = [
            (0, (1, 1)),
            (2, (1, 3)),
            (3, (2, 1)),
            // In the middle of a character.
            (4, (2, 1)),
            (5, (2, 2)),
            (8, (2, 5)),
            (9, (3, 1)),
            (10, (4, 1)),
            (11, (4, 2)),
            (99, (4, 2)),
        ];
        for (offset, at) in places {
            assert_eq!(text.place(offset).at, Some(at), "{offset}");
        }
        assert_eq!(Text::new(Origin::Defaults, "").place(7).at, Some((1, 1)));
    }
}
