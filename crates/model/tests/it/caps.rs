//! Tests of a checkpoint's block with every cap: it stays within the cap, and is always accepted.

use std::sync::Arc;

use unisono_context::checkpoint::{Body, KeyFact, Span, Tier, block_text};
use unisono_context::compaction::{Draft, Stop, accept};
use unisono_context::{Encoding, Ordinal, Role, Timestamp, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{Passage, SummaryDraft, SummaryInput, checkpoint, key_facts};

use crate::conversation;

/// The smallest cap that a summary can be requested to keep.
const CAP_LEAST: u64 = 64;

fn count(text: &str) -> u64 {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    tokenizer.count(text).tokens.0
}

fn covers(passages: &[Passage<'_>]) -> Vec<Span> {
    let last = passages.last().map_or(1, |passage| passage.ordinal.0);
    vec![Span::new(Ordinal(1), Ordinal(last))]
}

/// Condenses, with the checks that the session makes.
fn accepted(
    passages: &[Passage<'_>],
    prior: Option<&str>,
    facts: &[KeyFact],
    cap: u64,
) -> SummaryDraft {
    let covers = covers(passages);
    let input = SummaryInput {
        prior,
        prior_facts: facts,
        ..SummaryInput::new(passages, Tokens(cap), &count)
    };
    let draft = checkpoint(&input, &covers);
    // The same facts are kept, whichever model writes the summary.
    assert_eq!(key_facts(&input), draft.key_facts);
    let body = Body::Summary(draft.text.as_str().into());
    let block = block_text(&covers, &body, &draft.key_facts);
    let tokens = Tokens(count(&block));
    assert_eq!(draft.tokens, tokens);
    let judged = Draft {
        text: &draft.text,
        stop: Stop::Complete,
        tokens,
    };
    let taken = accept(&judged, Tier::Conversation, Tokens(cap), Tokens(u64::MAX));
    let shown: String = passages[0].text.chars().take(20).collect();
    assert!(taken.is_ok(), "cap {cap}, {shown}: {taken:?}\n{block}");
    draft
}

fn orders() -> Vec<conversation::Line> {
    conversation::messages("orders-migration")
}

fn caps(step: usize) -> impl Iterator<Item = u64> {
    (CAP_LEAST..=200).chain((201..2_100).step_by(step))
}

#[test]
fn every_cap_is_kept_and_no_quote_is_repeated() {
    let lines = orders();
    let all = conversation::passages(&lines);
    let passages = &all[..40];
    for cap in caps(47) {
        let draft = accepted(passages, None, &[], cap);
        for fact in &draft.key_facts {
            assert!(!draft.text.contains(&*fact.text), "cap {cap}: {fact}");
        }
    }
    let whole = accepted(&all, None, &[], 2_048);
    assert!(whole.tokens >= Tokens(1_950), "{}", whole.tokens);
    let total: u64 = lines.iter().map(|line| count(&line.text())).sum();
    assert!(!whole.key_facts.is_empty() && whole.tokens.0 * 5 < total);
}

#[test]
fn a_chain_of_checkpoints_keeps_every_cap() {
    let lines = orders();
    let passages = conversation::passages(&lines);
    for cap in [CAP_LEAST, 90, 300, 2_048] {
        let (mut prior, mut facts) = (None::<String>, Vec::new());
        for part in passages.chunks(20) {
            let draft = accepted(part, prior.as_deref(), &facts, cap);
            (prior, facts) = (Some(draft.text), draft.key_facts);
        }
    }
}

#[test]
fn hostile_messages_keep_every_cap() {
    let texts = [
        "x".repeat(3_000),
        "会議は火曜日に延期された。".repeat(60),
        "🦀 crab ".repeat(400),
        "a b c d e f ".repeat(200),
        "?".repeat(900) + " yes",
        "# heading only".to_owned(),
        "one".to_owned(),
    ];
    for text in &texts {
        let ordinal = Ordinal(1_234_567);
        let passages = [Passage::text(
            ordinal,
            Role::User,
            Timestamp(0),
            text.as_str(),
        )];
        for cap in caps(400) {
            accepted(&passages, None, &[], cap);
        }
    }
}

/// Facts of other summaries, oldest first.
const RULES: [&str; 8] = [
    "Ada Lovelace: The gate must never be locked by children.",
    "Visitors must not feed the ponies at noon.",
    "Painters may not enter the cellar alone.",
    "Invoices must be signed with two names.",
    "Nobody may park behind the bakery.",
    "The boiler must stay below ninety degrees.",
    "Dogs must not sleep in the library.",
    "Candles must be kept away from curtains.",
];

#[test]
fn a_fact_without_room_among_the_key_facts_is_quoted() {
    let fact = |(n, text): (u32, &&str)| KeyFact {
        text: (*text).into(),
        ordinal: Ordinal(n),
    };
    let facts: Vec<KeyFact> = (1..).zip(&RULES).map(fact).collect();
    let at = Timestamp(1_736_121_600_000);
    let mut said = Passage::text(Ordinal(20), Role::User, at, "The tea is cold again.");
    said.author = Some("Ada\u{a0}Lovelace".into());
    let draft = accepted(&[said], None, &facts, 600);
    assert!((1..facts.len()).contains(&draft.key_facts.len()));
    for fact in &facts {
        let quote = fact.text.trim_start_matches("Ada Lovelace: ");
        let is_quoted = draft.text.contains(&format!("{} {quote}", fact.ordinal));
        let is_carried = draft.key_facts.contains(fact);
        assert!(is_quoted != is_carried, "{fact}\n{}", draft.text);
    }
    let named = "- Ada\u{a0}Lovelace #1 The gate";
    assert!(draft.text.contains(named), "{}", draft.text);
    // The next generation knows which message says what.
    let later = [Passage::text(
        Ordinal(21),
        Role::User,
        at,
        "The tea is hot.",
    )];
    let again = accepted(&later, Some(&draft.text), &draft.key_facts, 600);
    assert!(
        again.text.contains("#2 Visitors must not feed"),
        "{}",
        again.text
    );
    assert!(again.text.contains("#3 Painters may not"), "{}", again.text);
}

#[test]
fn facts_so_far_leave_room_for_the_summary() {
    let lines = orders();
    let all = conversation::passages(&lines);
    let long: Arc<str> = "the pooler must never be restarted during checkout"
        .repeat(3)
        .into();
    let facts: Vec<KeyFact> = (1..=50)
        .map(|n| KeyFact {
            text: format!("{n} {long}").into(),
            ordinal: Ordinal(n),
        })
        .collect();
    for cap in caps(300) {
        let draft = accepted(&all[..30], None, &facts, cap);
        let tokens: u64 = draft.key_facts.iter().map(|f| count(&f.to_string())).sum();
        assert!(tokens * 3 <= cap, "{tokens} of {cap}");
    }
}
