//! The head of a summary: the texts of persons that wrote an earlier one.
//!
//! All later summaries keep them unchanged, up to half of the cap, or up to 100 tokens if that is more. The
//! rest of a longer text is summarised like the text of any earlier summary.

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_context::checkpoint::{Checkpoint, Span, kept_text, without_kept};
use unisono_model::extractive::CountTokens;
use unisono_model::summariser::beginning;

use super::extract::summary_of;

/// The part of a summary's cap for its head.
const HEAD_PART: u64 = 2;
/// The tokens that a head may have in a smaller cap, as far as the cap has them: a summary of few messages
/// would end what its successors keep.
const HEAD_LEAST: u64 = 100;

/// The head of a summary, and the earlier summaries without it.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// The texts of persons, between marks; empty if there are none.
    pub(super) text: String,
    /// Its tokens, with the lines below it.
    pub(super) tokens: Tokens,
    /// The texts to summarise, oldest first.
    pub(super) rest: Vec<(Span, String)>,
}

impl Head {
    /// The head of a summary with at most `cap` tokens. `kept` are the summaries of persons, `prior`
    /// those that it replaces.
    pub(super) fn new(
        kept: &[Arc<Checkpoint>],
        prior: &[Arc<Checkpoint>],
        cap: Tokens,
        count: CountTokens<'_>,
    ) -> Head {
        let room = (cap.0 / HEAD_PART).max(HEAD_LEAST.min(cap.0));
        let share = Tokens(room / kept.len().max(1) as u64);
        let (mut texts, mut rest) = (Vec::new(), Vec::new());
        for made in kept {
            let (span, whole) = (made.range(), made.text_to_keep());
            let text = match count(&kept_text(span, &whole, true)) <= share.0 {
                true => &*whole,
                false => {
                    let marks = Tokens(count(&kept_text(span, "", false)));
                    beginning(&whole, share.minus(marks), count)
                }
            };
            let left = whole[text.len()..].trim();
            if !text.is_empty() {
                texts.push(kept_text(span, text, left.is_empty()));
            }
            rest.push((span, left.to_owned()));
        }
        let is_kept = |made: &&Arc<Checkpoint>| kept.iter().any(|kept| kept.id == made.id);
        for made in prior.iter().filter(|made| !is_kept(made)) {
            let text = summary_of(made).unwrap_or_default().to_owned();
            let text = kept
                .iter()
                .fold(text, |text, kept| without_kept(&text, kept.range()));
            rest.push((made.range(), text));
        }
        rest.retain(|(_, text)| !text.is_empty());
        rest.sort_by_key(|(span, _)| span.first);
        let text = texts.join("\n\n");
        let tokens = match text.is_empty() {
            true => Tokens::ZERO,
            false => Tokens(count(&format!("{text}\n\n"))),
        };
        Head { text, tokens, rest }
    }

    /// A summary with this head.
    pub(super) fn above(&self, text: &str) -> String {
        let mut parts = vec![&*self.text, text];
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::checkpoint::{Body, Kind, Tier, Writer};
    use unisono_context::policy::Preset;
    use unisono_context::tokens::Counts;
    use unisono_context::{CheckpointId, Digest, MessageId, Ordinal, Timestamp};

    use super::*;

    fn summary(number: u32, text: &str) -> Arc<Checkpoint> {
        let span = Span::new(Ordinal(1), Ordinal(10 * number));
        Arc::new(Checkpoint {
            id: CheckpointId::from_u128(number.into()),
            number,
            parent: MessageId::from_u128(1),
            covers: vec![span],
            cutoff: span.last,
            cutoff_digest: Digest([0; 32]),
            supersedes: Vec::new(),
            kind: Kind::Manual,
            tier: Tier::Conversation,
            preset: Preset::Checkpoint,
            writer: Writer::Deterministic,
            model: "person".into(),
            body: Body::Summary(text.into()),
            original: Tokens(1_000),
            counts: Counts::default(),
            messages_included: span.len(),
            key_facts: Vec::new(),
            cost_micros: None,
            duration_ms: 0,
            degraded: false,
            at: Timestamp(0),
            coverage: None,
        })
    }

    fn bytes(text: &str) -> u64 {
        text.len() as u64
    }

    #[test]
    fn a_text_stays_the_same_from_summary_to_summary() {
        let person = summary(1, "## Context\nThe gate is shut.");
        let mut before = person.clone();
        let kept = [person.clone()];
        let mut heads = Vec::new();
        for n in 2..12 {
            let head = Head::new(&kept, &[before], Tokens(1_000), &bytes);
            let rest: Vec<&str> = head.rest.iter().map(|(_, text)| &**text).collect();
            match n {
                2 => assert!(rest.is_empty(), "{rest:?}"),
                _ => assert_eq!(rest, ["## Key points\n- It rains."]),
            }
            before = summary(n, &head.above("## Key points\n- It rains."));
            assert!(before.keeps(&person));
            heads.push(head.text);
        }
        heads.dedup();
        let expected = kept_text(person.range(), "## Context\nThe gate is shut.", true);
        assert_eq!(heads, [expected]);
    }

    #[test]
    fn the_end_of_a_long_text_is_summarised() {
        let line = "The gate is shut.\n".repeat(40);
        let person = summary(1, &line);
        let kept = [person.clone()];
        let head = Head::new(&kept, &kept, Tokens(800), &bytes);
        assert!(head.tokens <= Tokens(400) + Tokens(2), "{}", head.tokens);
        assert!(
            head.text
                .contains("shut.\n[summary of #1–#10 ends; the rest")
        );
        let lines = |text: &str| text.matches("The gate is shut.").count();
        let [(span, rest)] = &head.rest[..] else {
            panic!("{:?}", head.rest);
        };
        assert_eq!(*span, person.range());
        assert_eq!(lines(&head.text) + lines(rest), 40);
        assert!(lines(&head.text) > 5);
    }

    #[test]
    fn a_summary_of_few_messages_keeps_a_short_text() {
        let person = summary(1, "Shut.");
        let whole = kept_text(person.range(), "Shut.", true);
        let kept = [person];
        let head = |cap| Head::new(&kept, &kept, Tokens(cap), &bytes);
        assert_eq!(head(whole.len() as u64).text, whole);
        assert_eq!(head(whole.len() as u64 - 1).text, "");
    }

    #[test]
    fn several_texts_share_the_room() {
        let kept = [
            summary(1, &"A is open. ".repeat(90)),
            summary(2, "B is shut."),
        ];
        let head = Head::new(&kept, &kept, Tokens(1_200), &bytes);
        assert!(head.tokens <= Tokens(602), "{}", head.tokens);
        assert!(head.text.contains("A is open.") && head.text.contains("B is shut.\n[summary"));
        assert_eq!(head.rest.len(), 1);
        assert_eq!(
            Head::new(&[], &[], Tokens(99), &bytes).above("text"),
            "text"
        );
    }
}
