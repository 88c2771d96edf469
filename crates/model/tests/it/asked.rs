//! Asks the offline model questions about the conversations in `asked`. The odd questions were used for
//! tuning.
//!
//! A file has days (`@ 2025-01-20`), messages (`Name: text`, `call NAME JSON`, `result TEXT`) and
//! questions (`? question | words of the short answer | further words`; `/` separates alternatives, `-`
//! stands for a question without an answer). The first, third, fifth question and so on are for tuning.

use std::fmt::Write as _;

use unisono_context::{Encoding, Ordinal, Part, Role, Timestamp, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{AnswerInput, Passage, answer};

const TALKS: [&str; 6] = [
    include_str!("asked/chat.txt"),
    include_str!("asked/support.txt"),
    include_str!("asked/coding.txt"),
    include_str!("asked/task.txt"),
    include_str!("asked/chat_german.txt"),
    include_str!("asked/support_german.txt"),
];
/// The characters of an answer that count.
const ANSWER_CHARS: usize = 1_400;

/// The results of some questions.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    asked: usize,
    /// Questions whose first quote has the answer.
    first: usize,
    words: usize,
    /// Words that are in the beginning of the answer.
    found: usize,
    /// Questions without an answer, and how many of them get one line.
    unanswerable: usize,
    unknown: usize,
}

impl Score {
    fn first_share(&self) -> f64 {
        self.first as f64 / self.asked as f64
    }

    fn word_share(&self) -> f64 {
        self.found as f64 / self.words as f64
    }
}

/// A message of a file: its speaker and its part.
struct Said<'a> {
    at: Timestamp,
    speaker: &'a str,
    part: Part,
}

struct Talk<'a> {
    said: Vec<Said<'a>>,
    questions: Vec<&'a str>,
}

impl<'a> Talk<'a> {
    fn read(text: &'a str) -> Talk<'a> {
        let mut talk = Talk {
            said: Vec::new(),
            questions: Vec::new(),
        };
        let mut at = Timestamp::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (head, rest) = line.split_once(' ').unwrap();
            let id = || format!("call-{}", talk.said.len());
            let (speaker, part) = match head {
                "?" => {
                    talk.questions.push(rest);
                    continue;
                }
                "@" => {
                    let day: jiff::Timestamp = format!("{rest}T09:00:00Z").parse().unwrap();
                    at = Timestamp(day.as_millisecond());
                    continue;
                }
                "call" => {
                    let (name, arguments) = rest.split_once(' ').unwrap();
                    ("assistant", Part::tool_call(id(), name, arguments))
                }
                "result" => {
                    let content = rest.replace("\\n", "\n");
                    ("tool", Part::tool_result(id(), content, false))
                }
                name => (name.trim_end_matches(':'), Part::Text(rest.into())),
            };
            talk.said.push(Said { at, speaker, part });
        }
        talk
    }

    fn passages(&self) -> Vec<Passage<'_>> {
        let each = (1..).zip(&self.said).filter_map(|(n, said)| {
            let role = Role::from_name(said.speaker);
            let author = role.is_none().then_some(said.speaker);
            let role = role.unwrap_or(Role::User);
            Passage::of_part(Ordinal(n), role, author, said.at, &said.part)
        });
        each.collect()
    }
}

/// Adds the result of a question to a score. Writes the question and its first quote to the report if
/// that quote has no answer.
fn add(score: &mut Score, question: &str, text: &str, report: &mut String) {
    let mut fields = question.split(" | ").map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (asked, short, further) = (next(), next(), next());
    let text = text.to_lowercase();
    let first = text.lines().find(|line| line.starts_with("- "));
    let first = first.unwrap_or_default();
    if short == "-" {
        score.unanswerable += 1;
        score.unknown += usize::from(text.lines().count() == 1);
        return;
    }
    let mut alternatives = short.split(" / ").map(str::to_lowercase);
    let is_first = alternatives.any(|words| first.contains(&words));
    score.asked += 1;
    score.first += usize::from(is_first);
    let beginning: String = text.chars().take(ANSWER_CHARS).collect();
    let short = short.split(" / ").next().unwrap_or_default();
    for word in short.split(' ').chain(further.split_whitespace()) {
        score.words += 1;
        score.found += usize::from(beginning.contains(&word.to_lowercase()));
    }
    if !is_first {
        writeln!(report, "{asked}\n    {first}").unwrap();
    }
}

#[test]
fn the_first_quote_has_the_short_answer() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let mut halves = [Score::default(); 2];
    let mut reports = [String::new(), String::new()];
    for talk in TALKS.map(Talk::read) {
        let passages = talk.passages();
        for (index, question) in talk.questions.iter().enumerate() {
            let answer = answer(&AnswerInput {
                passages: &passages,
                summaries: &[],
                persona: "",
                task: question.split(" | ").next().unwrap_or_default(),
                cap: Tokens(900),
                count: &count,
            });
            let half = index % 2;
            add(
                &mut halves[half],
                question,
                &answer.text,
                &mut reports[half],
            );
        }
    }
    // The halves reach .793 and .702 of the first quotes, .974 and .937 of the words.
    let floors = [(0.75, 0.94), (0.68, 0.91)];
    for ((score, report), (first, words)) in halves.iter().zip(&reports).zip(floors) {
        assert!(score.first_share() > first, "{score:?}\n{report}");
        assert!(score.word_share() > words, "{score:?}\n{report}");
        assert_eq!(score.unknown, score.unanswerable, "{score:?}");
    }
}
