//! Asks the offline model the questions of the shipped probes.

use unisono_context::{Encoding, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{AnswerInput, answer};
use unisono_model::retention::Probe;

use crate::conversation::{SETS, passages, probed};

/// How many of the questions are answered by the first quote, and by any quote.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    asked: usize,
    first: usize,
    any: usize,
}

fn ask(set: &str, count: &dyn Fn(&str) -> u64) -> Answered {
    let (lines, probes) = probed(set);
    let passages = passages(&lines);
    let mut answered = Answered::default();
    for probe in probes {
        let text = answer(&AnswerInput {
            passages: &passages,
            summaries: &[],
            persona: "",
            task: &probe.question,
            cap: Tokens(900),
            count,
        });
        let quotes: Vec<&str> = text
            .text
            .lines()
            .filter(|line| line.starts_with("- "))
            .collect();
        let has = |quote: &&str| has_answer(quote, &probe);
        answered.asked += 1;
        answered.first += usize::from(quotes.iter().take(1).any(has));
        answered.any += usize::from(quotes.iter().any(has));
    }
    answered
}

fn has_answer(quote: &str, probe: &Probe) -> bool {
    let quote = quote.to_lowercase();
    let mut answers = probe.answer.iter();
    answers.any(|answer| quote.contains(&answer.to_lowercase()))
}

#[test]
fn the_first_quote_answers_most_questions() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let mut all = Answered::default();
    for set in SETS {
        let answered = ask(set, &count);
        all.asked += answered.asked;
        all.first += answered.first;
        all.any += answered.any;
    }
    assert!(2 * all.first > all.asked, "{all:?}");
}
