//! Measures which facts of a conversation a kept text still holds.
//!
//! A [`Probe`] is a question with literal needles. It counts as kept when **one** kept line
//! holds a needle of its answer and a needle of its subject: an answer without what it is about
//! is worth nothing to a reader. [`baseline`] gives texts of the same size to compare with.

pub mod baseline;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A fact that can be looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Its name within the set.
    pub id: String,
    /// `fact`, `decision`, `constraint` …
    pub category: String,
    /// The question it answers.
    pub question: String,
    /// Needles of what it is about; one is enough.
    pub subject: Vec<String>,
    /// Needles of the answer; one is enough.
    pub answer: Vec<String>,
    /// The messages that say it.
    pub ordinals: Vec<u32>,
}

/// A line of a probe file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("probe file line {line}: {reason}")]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads probes, one JSON object a line; empty lines are skipped.
///
/// # Errors
/// Names the first line that is not a probe, or whose needles are missing.
pub fn parse(jsonl: &str) -> Result<Vec<Probe>, Error> {
    let lines = jsonl
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| parse_line(index + 1, line))
        .collect()
}

fn parse_line(line: usize, text: &str) -> Result<Probe, Error> {
    let probe: Probe = serde_json::from_str(text).map_err(|error| Error {
        line,
        reason: error.to_string(),
    })?;
    let blank = |needles: &[String]| needles.iter().all(|needle| needle.trim().is_empty());
    if blank(&probe.subject) || blank(&probe.answer) {
        let reason = format!("probe `{}` needs a subject and an answer needle", probe.id);
        return Err(Error { line, reason });
    }
    Ok(probe)
}

/// Which probes a kept text holds, in their order. Case does not matter.
pub fn kept(text: &str, probes: &[Probe]) -> Vec<bool> {
    let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
    let holds = |probe: &Probe| {
        let (subject, answer) = (lowered(&probe.subject), lowered(&probe.answer));
        lines
            .iter()
            .any(|line| contains_any(line, &answer) && contains_any(line, &subject))
    };
    probes.iter().map(holds).collect()
}

fn lowered(needles: &[String]) -> Vec<String> {
    let needles = needles.iter().filter(|needle| !needle.trim().is_empty());
    needles.map(|needle| needle.to_lowercase()).collect()
}

fn contains_any(line: &str, needles: &[String]) -> bool {
    needles.iter().any(|needle| line.contains(needle.as_str()))
}

/// Probes kept and asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Kept.
    pub kept: usize,
    /// Asked.
    pub of: usize,
}

impl Score {
    /// The share kept, 0 to 1; nothing asked counts as 0.
    pub fn share(self) -> f64 {
        if self.of == 0 {
            0.0
        } else {
            self.kept as f64 / self.of as f64
        }
    }

    fn add(&mut self, kept: bool) {
        self.kept += usize::from(kept);
        self.of += 1;
    }
}

/// How much a kept text retains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All probes.
    pub all: Score,
    /// By category.
    pub by_category: BTreeMap<String, Score>,
}

/// Scores a kept text.
pub fn report(text: &str, probes: &[Probe]) -> Report {
    let mut report = Report::default();
    for (probe, kept) in probes.iter().zip(kept(text, probes)) {
        report.all.add(kept);
        report
            .by_category
            .entry(probe.category.clone())
            .or_default()
            .add(kept);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBES: &str = r#"{"id":"a","category":"fact","question":"?","subject":["Port","listener"],"answer":["5433"],"ordinals":[1]}

{"id":"b","category":"task","question":"?","subject":["backup"],"answer":["Ines"],"ordinals":[2]}"#;

    #[test]
    fn one_line_must_hold_answer_and_subject() {
        let probes = parse(PROBES).unwrap();
        assert_eq!(
            kept("the LISTENER is on 5433\nInes", &probes),
            [true, false]
        );
        assert_eq!(
            kept("the listener\nis on 5433; ines does the Backup", &probes),
            [false, true]
        );
        let report = report("port 5433", &probes);
        assert_eq!((report.all.kept, report.all.of), (1, 2));
        assert_eq!(report.by_category["task"], Score { kept: 0, of: 1 });
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(parse("\n{\"id\":").unwrap_err().line, 2);
        let empty = PROBES.replace("\"5433\"", "\"\"");
        assert!(
            parse(&empty)
                .unwrap_err()
                .to_string()
                .starts_with("probe file line 1: probe `a`")
        );
    }
}
