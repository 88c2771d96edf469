//! The agent: it lists the names and ticket numbers that a reader of the conversation must know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unisono::{Agent, Answer, Ctx, Failure, Part, RunCause, Snapshot, Task};

/// Maximum number of entries of a glossary.
const ENTRIES: usize = 15;
/// Minimum number of mentions of an entry.
const MENTIONS: u32 = 3;

/// A name, the number of its mentions, and the first of them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Term {
    name: String,
    mentions: u32,
    /// The number of a message, as in #12.
    first: u32,
}

/// Lists what is written in `code` and looks like a ticket (`CHK-2207`). Deterministic.
#[derive(Debug)]
pub(crate) struct Glossary;

impl Agent for Glossary {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let nothing = || {
            Failure::new(
                RunCause::BadInput,
                "needs the conversation: context = snapshot",
            )
        };
        let snapshot = ctx.snapshot().ok_or_else(nothing)?;
        ctx.progress("reading");
        // On disk when it returns: after a crash, the next attempt gets this result.
        let terms = ctx.step("collect", async { Ok(collect(snapshot)) }).await?;
        Ok(Answer::text(write(&terms)))
    }
}

/// Every name in the messages that every agent of the turn sees.
fn collect(snapshot: &Snapshot) -> Vec<Term> {
    let mut terms: BTreeMap<String, Term> = BTreeMap::new();
    for entry in snapshot.entries() {
        let ordinal = entry.message().ordinal.0;
        for part in entry.parts().iter() {
            let Part::Text(text) = part else { continue };
            for name in names(text) {
                let term = terms.entry(name.to_lowercase()).or_insert_with(|| Term {
                    name: name.to_owned(),
                    mentions: 0,
                    first: ordinal,
                });
                term.mentions += 1;
            }
        }
    }
    let mut terms: Vec<Term> = terms
        .into_values()
        .filter(|t| t.mentions >= MENTIONS)
        .collect();
    terms.sort_by(|a, b| b.mentions.cmp(&a.mentions).then(a.first.cmp(&b.first)));
    terms.truncate(ENTRIES);
    terms
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    // Between the first and second backtick, the third and fourth, and so on.
    let code = text.split('`').skip(1).step_by(2);
    let code = code.filter(|name| (3..=30).contains(&name.len()) && !name.contains(['\n', ' ']));
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
    code.chain(words.filter(|word| is_ticket(word)))
}

/// `CHK-2207`: capitals, a hyphen, digits.
fn is_ticket(word: &str) -> bool {
    let Some((project, number)) = word.split_once('-') else {
        return false;
    };
    let capitals = project.len() >= 2 && project.chars().all(|c| c.is_ascii_uppercase());
    capitals && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

fn write(terms: &[Term]) -> String {
    let lines = terms.iter().map(
        |Term {
             name,
             mentions,
             first,
         }| { format!("- **{name}**: {mentions} times, first in #{first}\n") },
    );
    format!("## Glossary\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_tickets_are_names() {
        let text = "CHK-2207 drops `order_notes`, see `SELECT 1` and E-7.";
        assert_eq!(names(text).collect::<Vec<_>>(), ["order_notes", "CHK-2207"]);
    }
}
