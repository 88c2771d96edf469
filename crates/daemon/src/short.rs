//! Long things made short for people: texts, ids, steps.

use unisono_context::compaction::Step;
use unisono_session::event::RunRole;
use unisono_session::trace::RunTrace;

/// As many last hex digits of an id as are shown: the first ones are the time, which the runs of a
/// turn share.
const SHOWN: usize = 12;

/// A text on one line, without control characters, cut to so many characters.
pub fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole: String = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    if whole.chars().count() <= most {
        return whole;
    }
    let mut cut: String = whole.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The end of an id.
pub fn end(id: &impl ToString) -> String {
    let plain = id.to_string();
    plain
        .get(plain.len().saturating_sub(SHOWN)..)
        .unwrap_or(&plain)
        .to_owned()
}

/// A compaction step. Who may write the summary is left out: its checkpoint says who did.
pub fn step(step: &Step) -> String {
    let text = step.to_string();
    let writers = [", by a model", ", without a model"];
    let writer = writers
        .into_iter()
        .find_map(|writer| text.strip_suffix(writer));
    writer.map_or(text.clone(), str::to_owned)
}

/// A run's place in its turn.
pub fn role(run: &RunTrace) -> String {
    match run.opened.1.role {
        RunRole::Lead => "lead".to_owned(),
        RunRole::Delegate { index } => format!("delegate {}", index + 1),
        RunRole::Child { parent, round, .. } => format!("round {round} of {}", end(&parent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_harmless() {
        assert_eq!(line("a  b\n\x1b[31mc", 20), "a b [31mc");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(end(&"01900000-0000-7000-8000-0123456789ab"), "0123456789ab");
        assert_eq!(end(&"short"), "short");
    }
}
