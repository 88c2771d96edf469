//! Kinds of facts that a question asks for by their name: `Which dates changed?`

use super::messages::rarity;
use super::weights;
use super::words;
use crate::extractive::cues::Cues;
use crate::extractive::pool::{Pool, Unit};

/// The words that name a kind, and the cues of the facts.
const KINDS: [(&[&str], Cues); 2] = [
    (
        &[
            "date",
            "dates",
            "deadline",
            "deadlines",
            "daten",
            "termin",
            "termine",
        ],
        Cues::DATE,
    ),
    (
        &[
            "change",
            "changes",
            "changed",
            "postponed",
            "moved",
            "geändert",
            "verschoben",
        ],
        Cues::CHANGE,
    ),
];

/// What each unit gains if it has facts of the kinds that the question names.
pub(super) fn gains(pool: &Pool<'_>, task: &str) -> Vec<f32> {
    let words: Vec<String> = words(task).collect();
    let is_named = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    let mut gains = vec![0.0; pool.units.len()];
    for (_, cues) in KINDS.iter().filter(|(names, _)| is_named(names)) {
        let has = |unit: &Unit<'_>| unit.cues.intersects(*cues);
        let n = pool.units.iter().filter(|unit| has(unit)).count();
        let gain = weights::KIND * rarity(pool.units.len(), n);
        let having = gains.iter_mut().zip(&pool.units);
        having
            .filter(|(_, unit)| has(unit))
            .for_each(|(all, _)| *all += gain);
    }
    gains
}
