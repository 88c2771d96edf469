//! Measures how much information a summary keeps, with the shipped conversations and their probes.

use unisono_context::{Encoding, Tokens};
use unisono_model::Tokenizer;
use unisono_model::extractive::{SummaryInput, summarise};
use unisono_model::retention::baseline::{Baseline, measure};
use unisono_model::retention::{Category, Probe, ShownMessage, report};

use crate::conversation::{self, SETS, probed};

#[test]
fn a_tenth_retains_more_than_the_tail_and_random_text() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let (mut own, mut tail, mut random, mut mmr) = (0.0, 0.0, 0.0, 0.0);
    for set in SETS {
        let (lines, probes) = probed(set);
        let texts: Vec<String> = lines.iter().map(conversation::Line::text).collect();
        let messages: Vec<&str> = texts.iter().map(String::as_str).collect();
        let cap = messages.iter().map(|text| count(text)).sum::<u64>() / 10;
        let passages = conversation::passages(&lines);
        let draft = summarise(&SummaryInput::new(&passages, Tokens(cap), &count));
        assert!(
            draft.tokens.0 <= cap && draft.tokens.0 * 100 >= cap * 95,
            "{}",
            draft.tokens
        );
        let share = |text: &str| report(text, &probes).all.share();
        let shown = messages.iter().map(|text| ShownMessage::unlabelled(*text));
        let shown: Vec<ShownMessage<'_>> = shown.collect();
        let by = |baseline| {
            measure(baseline, &shown, cap, &count, &probes)
                .1
                .all
                .share()
        };
        own += share(&draft.text);
        tail += by(Baseline::Tail);
        random += by(Baseline::Random);
        mmr += by(Baseline::TfIdfMmr);
    }
    assert!(own > 1.5 * tail, "{own:.3} against the tail's {tail:.3}");
    assert!(own > 1.8 * random, "{own:.3} against random's {random:.3}");
    assert!(
        own > 1.6 * mmr,
        "{own:.3} against {mmr:.3} by TF-IDF with MMR"
    );
}

#[test]
fn every_probe_set_has_all_categories_and_its_conversation_answers() {
    for set in SETS {
        let (lines, probes) = probed(set);
        let all: Vec<String> = lines.iter().map(conversation::Line::text).collect();
        let whole = report(&all.join("\n"), &probes);
        assert!(whole.all.share() > 0.9, "{}: {:?}", set, whole.all);
        for category in Category::ALL {
            let asked = whole.by_category.get(&category).map_or(0, |score| score.of);
            assert!(asked >= 8, "{}: {asked} of {category}", set);
        }
    }
}

#[test]
fn ten_compactions_in_a_row_keep_old_facts() {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    let count = |text: &str| tokenizer.count(text).tokens.0;
    let (lines, probes) = probed(SETS[0]);
    let passages = conversation::passages(&lines);
    let cap = lines.iter().map(|line| count(&line.text())).sum::<u64>() / 10;
    let mut prior: Option<String> = None;
    for part in passages.chunks(passages.len().div_ceil(10)) {
        let draft = summarise(&SummaryInput {
            prior: prior.as_deref(),
            ..SummaryInput::new(part, Tokens(cap), &count)
        });
        prior = Some(draft.text);
    }
    let half = lines.len() as u32 / 2;
    let old: Vec<Probe> = probes
        .into_iter()
        .filter(|probe| probe.ordinals.iter().all(|&n| n <= half))
        .collect();
    let kept = report(&prior.unwrap_or_default(), &old).all;
    assert!(
        kept.share() > 0.2,
        "{} of {} facts of the first half",
        kept.kept,
        kept.of
    );
}
