//! Measures which facts of a conversation a kept text still contains.
//!
//! A [`Probe`] is a question with literal texts. It counts as kept if **one** passage of the kept
//! text contains a text of its answer and a text of its subject: an answer without its subject is
//! useless to a reader. A passage is a line, or at most two neighbouring sentences of it, with the
//! day and the speaker above it. Texts match whole words. [`baseline`] gives texts of the same size
//! to compare with.

pub mod baseline;
mod shown;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::date::Date;
use crate::extractive::unit_texts;

pub use shown::{ShownMessage, join};

/// The category of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// A finding, a cause, an amount.
    Fact,
    /// A decision.
    Decision,
    /// A requirement or prohibition.
    Constraint,
    /// A file, an id, a person or a thing: a name that must be spelt exactly.
    Name,
    /// An open task or question, with its owner and due date.
    Task,
}

unisono_context::names!(Category.name {
    Fact = "fact",
    Decision = "decision",
    Constraint = "constraint",
    Name = "name",
    Task = "task",
});

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fact that can be searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Its id within the set.
    pub id: String,
    /// Its category.
    pub category: Category,
    /// The question it answers.
    pub question: String,
    /// Texts of the subject; one match is enough.
    pub subject: Vec<String>,
    /// Texts of the answer; one match is enough.
    pub answer: Vec<String>,
    /// The messages with the fact, from 1.
    pub ordinals: Vec<u32>,
}

/// An invalid probe file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line is invalid.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The problem.
        reason: String,
    },
    /// There is no probe.
    #[error("it has no probe")]
    Empty,
}

/// Parses the probes of a conversation with this many messages: one JSON object per line; empty
/// lines are skipped.
///
/// # Errors
/// The first line that is not a probe, has no texts, repeats an id, or names a message that does
/// not exist; or the file has no probe.
pub fn parse(jsonl: &str, messages: u32) -> Result<Vec<Probe>, Error> {
    let mut ids = BTreeSet::new();
    let mut probes = Vec::new();
    // Editors on Windows begin a file with a mark.
    let jsonl = jsonl.trim_start_matches('\u{feff}');
    for (index, text) in jsonl.lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let wrong = |reason| Error::Line {
            line: index + 1,
            reason,
        };
        let probe: Probe =
            serde_json::from_str(text).map_err(|error| wrong(parse_reason(&error)))?;
        check(&probe, messages).map_err(wrong)?;
        if !ids.insert(probe.id.clone()) {
            return Err(wrong(format!("a probe `{}` occurs twice", probe.id)));
        }
        probes.push(probe);
    }
    if probes.is_empty() {
        return Err(Error::Empty);
    }
    Ok(probes)
}

/// The message of serde with the column and without the line, which is always the first.
fn parse_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} (column {column})"),
        None => text,
    }
}

fn check(probe: &Probe, messages: u32) -> Result<(), String> {
    let Probe { id, ordinals, .. } = probe;
    let blank = |needles: &[String]| needles.iter().all(|needle| needle.trim().is_empty());
    if blank(&probe.subject) || blank(&probe.answer) {
        return Err(format!("probe `{id}` needs a subject and an answer needle"));
    }
    let Some(last) = ordinals.iter().max() else {
        return Err(format!("probe `{id}` names no message in `ordinals`"));
    };
    if ordinals.contains(&0) {
        return Err(format!("probe `{id}` names message 0; the first one is 1"));
    }
    if *last > messages {
        return Err(format!(
            "probe `{id}` names message {last}; the conversation has {messages}"
        ));
    }
    Ok(())
}

/// Whether a kept text contains each probe, in order. Case is ignored.
pub fn kept(text: &str, probes: &[Probe]) -> Vec<bool> {
    let passages = passages(&text.to_lowercase());
    let holds = |probe: &Probe| {
        let (subject, answer) = (lowered(&probe.subject), lowered(&probe.answer));
        passages
            .iter()
            .any(|passage| contains_any(passage, &answer) && contains_any(passage, &subject))
    };
    probes.iter().map(holds).collect()
}

/// The passages of a text: lines, or pairs of neighbouring sentences.
fn passages(text: &str) -> Vec<String> {
    let (mut day, mut speaker) = (Cow::Borrowed(""), "");
    let mut passages = Vec::new();
    for line in text.lines() {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            (day, speaker) = (heading.trim().into(), "");
        } else if is_day(line) {
            (day, speaker) = (line.into(), "");
        } else if let Some(name) = shown_day(line) {
            (day, speaker) = (name.into(), "");
        } else if let Some(author) = shown_author(line) {
            speaker = author;
        } else if line.ends_with(':') && !line.contains(' ') {
            speaker = line;
        }
        let sentences: Vec<&str> = unit_texts(line).collect();
        let pairs = sentences.windows(2).map(|pair| pair.join(" "));
        let single = sentences.first().filter(|_| sentences.len() == 1);
        let found = pairs.chain(single.map(ToString::to_string));
        passages.extend(found.map(|found| format!("{day} {speaker} {found}")));
    }
    passages
}

/// The day of the messages below a line such as `[2023-05-07]`, also as summaries write it.
fn shown_day(line: &str) -> Option<String> {
    let day = line.strip_prefix('[')?.strip_suffix(']')?;
    let date: Date = day.parse().ok()?;
    let name = date.strftime("%-d %B %Y").to_string().to_lowercase();
    Some(format!("{day} {name}"))
}

/// The author of a message whose first line begins with its label: `#12 Ana: `; empty without an
/// author.
fn shown_author(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    let is_number = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
    let author = rest.split_once(": ").map_or("", |(author, _)| author);
    is_number.then_some(if author.contains(' ') { "" } else { author })
}

/// Whether a line is a day above quotes: `7 May 2023:`, `7 May:`.
fn is_day(line: &str) -> bool {
    let name = line.strip_suffix(':').unwrap_or_default();
    let known = |name: &str| Date::strptime("%d %B %Y", name).is_ok();
    known(name) || known(&format!("{name} 2000"))
}

fn lowered(needles: &[String]) -> Vec<String> {
    let needles = needles.iter().filter(|needle| !needle.trim().is_empty());
    needles.map(|needle| needle.to_lowercase()).collect()
}

fn contains_any(passage: &str, needles: &[String]) -> bool {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let inside = |needle: &str, at: usize, end: usize| {
        (letter(needle.chars().next()) && letter(passage[..at].chars().next_back()))
            || (letter(needle.chars().next_back()) && letter(passage[end..].chars().next()))
    };
    needles.iter().any(|needle| {
        let mut places = passage.match_indices(needle.as_str());
        places.any(|(at, found)| !inside(needle, at, at + found.len()))
    })
}

/// The number of kept probes and of all probes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Kept probes; a fraction if it is the mean over several texts.
    pub kept: f64,
    /// All probes.
    pub of: usize,
}

impl Score {
    /// The kept share, 0 to 1; 0 without probes.
    pub fn share(self) -> f64 {
        if self.of == 0 {
            0.0
        } else {
            self.kept / self.of as f64
        }
    }

    fn add(&mut self, kept: bool) {
        self.kept += f64::from(u8::from(kept));
        self.of += 1;
    }
}

/// The scores of a kept text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All probes.
    pub all: Score,
    /// By category.
    pub by_category: BTreeMap<Category, Score>,
}

impl Report {
    /// The mean of reports on the same probes; empty without reports.
    pub fn mean(reports: &[Report]) -> Report {
        let Some(first) = reports.first() else {
            return Report::default();
        };
        let mean = |of: &dyn Fn(&Report) -> Score| Score {
            kept: reports.iter().map(|report| of(report).kept).sum::<f64>() / reports.len() as f64,
            of: of(first).of,
        };
        let in_category = |report: &Report, category: &Category| {
            let score = report.by_category.get(category);
            score.copied().unwrap_or_default()
        };
        let categories = first.by_category.keys();
        Report {
            all: mean(&|report| report.all),
            by_category: categories
                .map(|category| (*category, mean(&|report| in_category(report, category))))
                .collect(),
        }
    }
}

/// Scores a kept text.
pub fn report(text: &str, probes: &[Probe]) -> Report {
    let mut report = Report::default();
    for (probe, kept) in probes.iter().zip(kept(text, probes)) {
        report.all.add(kept);
        let score = report.by_category.entry(probe.category).or_default();
        score.add(kept);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBES: &str = r#"{"id":"a","category":"fact","question":"?","subject":["Port","listener"],"answer":["5433"],"ordinals":[1]}

{"id":"b","category":"task","question":"?","subject":["backup"],"answer":["Ines"],"ordinals":[2]}"#;

    #[test]
    fn a_file_of_windows_has_the_same_probes() {
        let text = format!("\u{feff}{}", PROBES.replace('\n', "\r\n"));
        assert_eq!(parse(&text, 2), parse(PROBES, 2));
    }

    #[test]
    fn one_passage_must_contain_answer_and_subject() {
        let probes = parse(PROBES, 2).unwrap();
        assert_eq!(
            kept("the LISTENER is on 5433\nInes", &probes),
            [true, false]
        );
        assert_eq!(
            kept("the listener\nis on 5433; ines does the Backup", &probes),
            [false, true]
        );
        let half = report("port 5433", &probes);
        assert_eq!((half.all.kept, half.all.of), (1.0, 2));
        assert_eq!(
            half.by_category[&Category::Task],
            Score { kept: 0.0, of: 1 }
        );
        let mean = Report::mean(&[half.clone(), half, report("", &probes)]);
        assert_eq!(
            mean.all,
            Score {
                kept: 2.0 / 3.0,
                of: 2
            }
        );
        assert_eq!(
            mean.by_category[&Category::Fact],
            Score {
                kept: 2.0 / 3.0,
                of: 1
            }
        );
    }

    #[test]
    fn a_message_has_the_day_and_the_author_above_it() {
        let kept = |subject: &str, answer: &str| {
            let probe = Probe {
                id: "p".into(),
                category: Category::Fact,
                question: "?".into(),
                subject: vec![subject.into()],
                answer: vec![answer.into()],
                ordinals: vec![1],
            };
            let text = "[2026-05-07]\n#12 Ana: I moved. The boiler broke. The cat is old.\n\
                        [2026-05-08]\n#13 And the dog?\nIt sleeps.";
            kept(text, &[probe])[0]
        };
        for answer in ["2026-05-07", "7 May 2026", "Ana"] {
            assert!(kept("cat", answer), "{answer}");
            assert!(!kept("sleeps", answer), "{answer}");
        }
        assert!(kept("sleeps", "8 May 2026"));
    }

    #[test]
    fn a_passage_has_its_heading_and_two_sentences_at_most() {
        let probes = parse(PROBES, 2).unwrap();
        let rows = [
            ("### Backup\n- Ines does it.", [false, true]),
            ("## Backup\n## Work\n- Ines does it.", [false, false]),
            ("The backup. Ines.", [false, true]),
            ("The backup. It is late. Ines left.", [false, false]),
            ("port 54330", [false, false]),
            ("ports: port=5433,", [true, false]),
        ];
        for (text, expected) in rows {
            assert_eq!(kept(text, &probes), expected, "{text}");
        }
    }

    #[test]
    fn a_passage_has_its_day() {
        let probes = PROBES.replace("\"Ines\"", "\"29 february\"");
        let probes = parse(&probes, 2).unwrap();
        let text = "29 February:\n- Ines does the backup.\n\n7 May 2023:\n- Ines left.";
        assert_eq!(kept(text, &probes), [false, true]);
        assert!(!is_day("7 left:") && !is_day("7 May"));
    }

    #[test]
    fn a_bad_line_is_named_with_its_reason() {
        let rows = rows! {
            (
                PROBES.replace("\"5433\"", "\"\""),
                "line 1: probe `a` needs a subject and an answer needle",
            ),
            (PROBES.replace("\"b\"", "\"a\""), "line 3: a probe `a` occurs twice"),
            (
                PROBES.replace("[2]", "[3]"),
                "line 3: probe `b` names message 3; the conversation has 2",
            ),
            (PROBES.replace("[2]", "[0]"), "line 3: probe `b` names message 0; the first one is 1"),
            (PROBES.replace("[2]", "[]"), "line 3: probe `b` names no message in `ordinals`"),
            (
                PROBES.replace("task", "todo"),
                "line 3: unknown variant `todo`, expected one of `fact`, `decision`, `constraint`, \
                 `name`, `task` (column 27)",
            ),
            (
                PROBES.replace("\"question\":\"?\",\"subject\":[\"backup\"],", ""),
                "line 3: missing field `question` (column 61)",
            ),
            ("\n{\"id\":".to_owned(), "line 2: EOF while parsing a value (column 6)"),
            ("\n \n".to_owned(), "it has no probe"),
        };
        for (text, expected) in rows {
            assert_eq!(parse(&text, 2).unwrap_err().to_string(), expected);
        }
    }
}
