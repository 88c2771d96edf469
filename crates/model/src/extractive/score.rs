//! The worth of a unit by itself: its terms, its function, its speaker.

use unisono_context::Role;

use super::cues::{Cues, Demand};
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::readability::announces;
use super::select::Worth;
use super::split::Block;
use super::terms::{Class, FoldedMap, Term};
use super::weights;

/// Cues of information that must outlive the conversation.
const STRONG: Cues = Cues::DECISION.with(Cues::CONSTRAINT).with(Cues::CHANGE);
/// Cues of what people tell of themselves.
const PERSONAL: Cues = Cues::FIRST.with(Cues::PAST).with(Cues::TIME);
/// The minimum arguments of a call that is a record without an id, and members of a result that is
/// one.
const ARGUMENTS: usize = 3;
const MEMBERS: usize = 2;

/// Weighs every unit of a pool. Terms of `wanted` count more. `covered` is the number of messages
/// behind the pool for each new one.
pub(super) fn weigh(pool: &Pool<'_>, wanted: &[Term], covered: f32) -> Worth {
    let mut terms = term_weights(pool);
    for &term in wanted {
        terms[term as usize] *= weights::WANTED;
    }
    let brevity = brevity(pool);
    let copies = copies(pool, covered);
    let units = (0..pool.units.len())
        .map(|index| {
            let unit = &pool.units[index];
            if unit.block == Block::Heading || unit.is_failed_call {
                return 0.0;
            }
            let its_terms = pool.terms(index);
            let content: f32 = its_terms.iter().map(|&t| terms[t as usize]).sum();
            if terms.is_empty() {
                // A conversation without words: each text is worth the same.
                return 1.0;
            }
            let thin = (its_terms.len() as f32 / weights::FULL_TERMS).min(1.0);
            let brevity = match brevity.iter().find(|(role, _)| *role == unit.role) {
                Some((_, factor)) if unit.kind == PassageKind::Text && !unit.is_named() => *factor,
                _ => 1.0,
            };
            let factors = kind_factor(pool, index) * cue_factor(unit) * fact_factor(pool, index);
            let few = match unit.kind {
                PassageKind::Text => weights::FEW_COPIES,
                _ => 1.0,
            };
            let formula = copies.get(unit.text).map_or(1.0, |n| (n / few).max(1.0));
            content * thin * brevity * factors / formula.sqrt()
        })
        .collect();
    Worth { units, terms }
}

/// The number of units with the same text, for each text. Of earlier messages, whose copies are no
/// longer known, a repeated text is assumed to have more of them.
fn copies<'p>(pool: &'p Pool<'_>, covered: f32) -> FoldedMap<&'p str, f32> {
    let mut copies = FoldedMap::default();
    for unit in &pool.units {
        *copies.entry(unit.text).or_default() += 1.0;
    }
    let repeated = copies.values_mut().filter(|copies| **copies > 1.0);
    repeated.for_each(|copies| *copies *= covered.sqrt());
    copies
}

/// A factor for both sides of a conversation with an assistant: longer messages have less content
/// per sentence.
fn brevity(pool: &Pool<'_>) -> [(Role, f32); 2] {
    let sides = [Role::User, Role::Assistant].map(|role| {
        let (mut tokens, mut messages, mut last) = (0.0_f32, 0.0_f32, usize::MAX);
        let said = |unit: &&Unit<'_>| unit.kind == PassageKind::Text && !unit.prior;
        let units = pool.units.iter().filter(said);
        for unit in units.filter(|unit| unit.role == role && !unit.is_named()) {
            tokens += unit.tokens;
            if std::mem::replace(&mut last, unit.source) != unit.source {
                messages += 1.0;
            }
        }
        (role, tokens, messages)
    });
    let [(_, user, asked), (_, assistant, answered)] = sides;
    let mean = (user + assistant) / f32::max(asked + answered, 1.0);
    sides.map(|(role, tokens, messages)| {
        let own = tokens / f32::max(messages, 1.0);
        let ratio = mean / own.max(f32::MIN_POSITIVE);
        let factor = ratio.clamp(weights::BREVITY_MIN, weights::BREVITY_MAX);
        (role, factor)
    })
}

/// The weight of each term: its class, its rarity, and its frequency. A line of the previous summary
/// stands for several messages.
fn term_weights(pool: &Pool<'_>) -> Vec<f32> {
    let mut sources = vec![0_u32; pool.vocabulary.len()];
    let mut last = vec![usize::MAX; pool.vocabulary.len()];
    let (mut all, mut source) = (0, usize::MAX);
    // The line of an outcome repeats its result.
    let all_units = pool.units.iter().enumerate();
    for (index, unit) in all_units.filter(|(_, unit)| !unit.is_outcome || unit.prior) {
        let messages = if unit.prior { weights::PRIOR } else { 1 };
        if std::mem::replace(&mut source, unit.source) != unit.source {
            all += messages;
        }
        for &term in pool.terms(index) {
            if last[term as usize] != unit.source {
                last[term as usize] = unit.source;
                sources[term as usize] += messages;
            }
        }
    }
    let all = all.max(2) as f32;
    let weight = |(term, &n): (usize, &u32)| {
        let class = match pool.vocabulary.class(term as Term) {
            Class::Stop => 0.0,
            Class::Word => weights::WORD,
            Class::Name => weights::NAME,
            Class::Number => weights::NUMBER,
            Class::Identifier => weights::IDENTIFIER,
        };
        let n = n.max(1) as f32;
        let (rare, often) = ((all / n).ln_1p(), n.ln_1p());
        class * rare.powf(weights::RARE) * often.powf(weights::OFTEN)
    };
    sources.iter().enumerate().map(weight).collect()
}

/// A factor for the kind of a text. Of what tools say, records are the most informative: the action,
/// the order, the amount.
fn kind_factor(pool: &Pool<'_>, index: usize) -> f32 {
    let unit = &pool.units[index];
    if unit.is_outcome {
        return weights::OUTCOME;
    }
    let is_record = match unit.kind {
        PassageKind::Text => return 1.0,
        PassageKind::Attachment => return weights::ATTACHMENT,
        PassageKind::ToolCall if unit.text.contains("id: ") => is_record(unit.text, 2),
        PassageKind::ToolCall => is_record(unit.text, 1 + ARGUMENTS),
        PassageKind::ToolResult => {
            let of_source = |other: Option<&Unit<'_>>| other.map(|u| u.source) == Some(unit.source);
            let before = index.checked_sub(1).and_then(|at| pool.units.get(at));
            let is_first = !of_source(before);
            let is_alone = is_first && !of_source(pool.units.get(index + 1));
            is_alone && is_record(unit.text, MEMBERS) || is_first && has_only_members(unit.text)
        }
    };
    match is_record {
        true => weights::RECORD,
        false => weights::TOOL,
    }
}

/// Whether a text consists of members, as the first line of an object does whose longer members
/// stand below it.
fn has_only_members(text: &str) -> bool {
    let mut members = text.split(", ");
    members.all(|member| member.contains(": ")) && is_record(text, MEMBERS + 1)
}

/// Whether a text is a record of at least so many members, `order: W-17, city: Oslo`, and not code.
fn is_record(text: &str, members: usize) -> bool {
    let sign = |c: char| matches!(c, ';' | '=' | '{' | '}' | '<' | '>' | '$' | '|' | '&');
    let called = |(at, _): (usize, &str)| text[..at].ends_with(char::is_alphanumeric);
    text.matches(": ").count() >= members
        && !text.contains(sign)
        && !text.match_indices('(').any(called)
}

/// A factor for the function of a sentence. People are asked about themselves and about past
/// events; work with an assistant, about decisions.
fn cue_factor(unit: &Unit<'_>) -> f32 {
    let is_text = unit.kind == PassageKind::Text;
    let of_speaker = match unit.is_named() {
        true if is_text => weights::PERSONAL.powi(unit.cues.count(PERSONAL) as i32),
        true => 1.0,
        false => 1.0 + weights::STRONG_CUE * unit.cues.count(STRONG) as f32,
    };
    let of_demand = match unit.demand {
        Demand::None => 1.0,
        Demand::Keep => weights::DEMANDS_TO_BE_KEPT,
        Demand::Command => weights::COMMAND,
    };
    let is_filler = is_text && unit.cues.intersects(Cues::FILLER);
    of_speaker
        * when(is_filler, weights::FILLER)
        * when(unit.cues.intersects(Cues::QUESTION), weights::QUESTION)
        * when(announces(unit), weights::LEAD_IN)
        * of_demand
}

/// A factor for facts: a name together with a value or a date.
fn fact_factor(pool: &Pool<'_>, index: usize) -> f32 {
    let has = |class| pool.has_class(index, class);
    let has_value = pool.units[index].cues.intersects(Cues::DATE) || has(Class::Number);
    let is_fact = has_value && (has(Class::Name) || has(Class::Identifier));
    when(is_fact, weights::NAME_AND_VALUE)
}

/// The factor if something is so.
pub(super) fn when(is_so: bool, factor: f32) -> f32 {
    if is_so { factor } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extractive::fixture::{passages_of, pool_of};

    fn worth_of_first(texts: &[&str], covered: f32) -> f32 {
        let passages = passages_of(texts.iter().copied());
        let pool = pool_of(&passages);
        let weighed = weigh(&pool, &[], covered);
        let terms = pool.terms(0).iter().map(|&t| weighed.terms[t as usize]);
        weighed.units[0] / terms.sum::<f32>()
    }

    #[test]
    fn a_text_is_a_formula_if_it_is_said_often() {
        let text = "Please mind the closing doors.";
        let once = worth_of_first(&[text, "The ferry is late."], 1.0);
        let few = worth_of_first(&[text; 4], 1.0);
        assert!((few - once).abs() < 1e-3, "{few} {once}");
        assert!(worth_of_first(&[text; 16], 1.0) < 0.6 * once);
        // Two of the last tenth are many of all messages; one is not.
        assert!(worth_of_first(&[text; 4], 10.0) < 0.6 * once);
        let single = worth_of_first(&[text, "The ferry is late."], 10.0);
        assert!((single - once).abs() < 1e-3, "{single} {once}");
    }
}
