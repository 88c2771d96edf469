//! Which words of the answers a text keeps, and which together with what they are about.

use std::collections::{BTreeMap, BTreeSet};

use super::talk::Question;

/// The words of a text, small.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Shares of the answers' words.
#[derive(Clone, Copy, Default)]
pub(crate) struct LimitShare {
    /// Anywhere in the text.
    pub(crate) bag: f64,
    /// In a sentence with the subject, or under its name.
    pub(crate) subject: f64,
}

/// What a text keeps of the questions' answers, the mean over the questions.
pub(crate) fn share<'a>(text: &str, questions: impl Iterator<Item = &'a Question>) -> LimitShare {
    let all: BTreeSet<String> = words(text).collect();
    let sentences = sentences(text);
    let mut holding: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, sentence) in sentences.iter().enumerate() {
        for word in sentence {
            holding.entry(word).or_default().push(index);
        }
    }
    let (mut sum, mut asked) = (LimitShare::default(), 0.0);
    for question in questions {
        let subject: Vec<String> = words(&question.subject).collect();
        let with = |word: &String| {
            let places = holding.get(word.as_str()).into_iter().flatten();
            places
                .copied()
                .any(|at| subject.iter().all(|s| sentences[at].contains(s)))
        };
        let of = question.words.len().max(1) as f64;
        let kept = |found: usize| found as f64 / of;
        sum.bag += kept(question.words.iter().filter(|w| all.contains(*w)).count());
        sum.subject += kept(question.words.iter().filter(|w| with(w)).count());
        asked += 1.0;
    }
    LimitShare {
        bag: sum.bag / f64::max(asked, 1.0),
        subject: sum.subject / f64::max(asked, 1.0),
    }
}

/// Words of wishes, decisions and feelings.
const TELLING: [&str; 40] = [
    "want", "wants", "need", "needs", "plan", "plans", "decided", "decide", "agreed", "must",
    "never", "always", "prefer", "will", "won't", "can't", "allergic", "love", "loved", "hate",
    "happy", "sad", "afraid", "scared", "glad", "proud", "angry", "worried", "nervous", "excited",
    "ill", "sick", "tired", "hurt", "lonely", "miss", "quit", "dream", "married", "pregnant",
];

/// The part of a summary's quotes, in words, that has no number, no name, and none of these words.
pub(crate) fn share_without_facts(summary: &str) -> f64 {
    let (mut all, mut idle) = (0, 0);
    for line in summary.lines().filter(|line| line.starts_with("- ")) {
        let is_number = |word: &&str| word.len() > 1 && word.starts_with('#');
        let quotes: Vec<&str> = line.split(' ').skip(1).collect();
        // The first part is the speaker.
        for quote in quotes.split(is_number).skip(1) {
            for sentence in pieces(&quote.join(" ")) {
                let words: Vec<&str> = sentence.split_whitespace().collect();
                all += words.len();
                idle += if says_something(&words) {
                    0
                } else {
                    words.len()
                };
            }
        }
    }
    f64::from(idle as u32) / f64::from(all.max(1) as u32)
}

fn says_something(words: &[&str]) -> bool {
    let is_name = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(char::is_uppercase) && !word.starts_with("I'") && word != "I"
    };
    let is_telling = |word: &&str| {
        let word = word
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        TELLING.contains(&&*word)
    };
    let has_digit = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    words.iter().any(|word| has_digit(word) || is_telling(word))
        || words.iter().skip(1).any(is_name)
}

/// Each sentence with the day and the speaker that it stands under.
fn sentences(text: &str) -> Vec<BTreeSet<String>> {
    let (mut day, mut speaker) = (String::new(), String::new());
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("## ") {
            speaker.clear();
            day.clear();
        } else if let Some(name) = line.strip_suffix(':').filter(|name| !name.contains(' ')) {
            name.clone_into(&mut speaker);
        } else if is_day(line) {
            line.clone_into(&mut day);
            speaker.clear();
        } else {
            let own = prefix(line);
            let under = if own.is_empty() { &speaker } else { own };
            for sentence in pieces(line) {
                let whole = format!("{day} {under} {sentence}");
                found.push(words(&whole).collect());
            }
        }
    }
    found
}

/// `7 May 2023`, as a line of its own.
fn is_day(line: &str) -> bool {
    let line = line.trim_matches(['*', '#', ':', ' ']);
    line.len() < 24
        && line.starts_with(|c: char| c.is_ascii_digit())
        && line.split(' ').count() <= 4
}

/// The name that a line begins with: `Name: …`, `- Name #12 …`.
fn prefix(line: &str) -> &str {
    let line = line.trim_start_matches("- ");
    match line.split_once(' ') {
        Some((name, rest)) if rest.starts_with('#') => name,
        Some((name, _)) => name.strip_suffix(':').unwrap_or_default(),
        None => "",
    }
}

fn pieces(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for mark in [". ", "! ", "? ", " … "] {
        found.extend(line.match_indices(mark).map(|(at, _)| at + 1));
    }
    found.sort_unstable();
    let mut pieces = Vec::new();
    for at in found {
        pieces.push(&line[from..at]);
        from = at;
    }
    pieces.push(&line[from..]);
    pieces
}
