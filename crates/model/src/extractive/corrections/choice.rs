//! The units that a summary quotes, with their corrections.

use std::collections::{HashMap, HashSet};

use super::{Correction, Strength, corrections};
use crate::extractive::pool::Pool;

/// The units of a summary in the order of choice, with their corrections.
#[derive(Clone, Debug, Default)]
pub(in crate::extractive) struct CorrectedChoice {
    /// Each correction stands before what it corrects, and in place of what it replaces, which gets
    /// room if twice as many units do.
    pub(in crate::extractive) units: Vec<usize>,
    /// The correction of each corrected unit.
    pub(super) by: HashMap<usize, Correction>,
}

impl CorrectedChoice {
    /// The chosen units with the newest corrections of them.
    pub(in crate::extractive) fn new(pool: &Pool<'_>, chosen: &[usize]) -> CorrectedChoice {
        let mut found = corrections(pool, chosen);
        found.retain(|one| one.strength > Strength::Related);
        let said = chosen.iter().copied();
        let newer = found.iter().flat_map(|one| [one.by, one.closest]);
        // A text that one speaker said twice is quoted once, where it was said last.
        let key = |unit: usize| (pool.units[unit].speaker, pool.units[unit].text);
        let mut last: HashMap<(&str, &str), usize> = HashMap::new();
        for unit in said.chain(newer) {
            let last = last.entry(key(unit)).or_insert(unit);
            *last = unit.max(*last);
        }
        let said_last = |unit: usize| last[&key(unit)];
        for one in &mut found {
            (one.by, one.closest) = (said_last(one.by), said_last(one.closest));
        }
        let by: HashMap<usize, Correction> = found.iter().map(|one| (one.of, *one)).collect();
        let mut ranked: Vec<(usize, usize)> = Vec::with_capacity(chosen.len());
        for (rank, &unit) in chosen.iter().enumerate() {
            let correction = by.get(&unit);
            let newer = correction.map(|one| [one.by, one.closest]);
            ranked.extend(newer.into_iter().flatten().map(|by| (2 * rank, by)));
            let is_outdated = correction.is_some_and(|one| one.strength == Strength::Replaces);
            let place = match is_outdated {
                true => 4 * rank + 3,
                false => 2 * rank + 1,
            };
            ranked.push((place, unit));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let mut seen = HashSet::new();
        let units = ranked.into_iter().map(|(_, unit)| said_last(unit));
        let units = units.filter(|unit| seen.insert(*unit)).collect();
        CorrectedChoice { units, by }
    }

    /// Whether a unit is wrong without its correction.
    pub(in crate::extractive) fn is_corrected(&self, unit: usize) -> bool {
        let correction = self.by.get(&unit);
        correction.is_some_and(|one| one.is_certain && one.strength >= Strength::Completes)
    }

    /// The units that are wrong without their corrections, in any order.
    pub(in crate::extractive) fn corrected(&self) -> impl Iterator<Item = usize> {
        let units = self.by.keys().copied();
        units.filter(move |unit| self.is_corrected(*unit))
    }

    /// Whether the correction of a unit is one of the choice, but not among these units.
    pub(in crate::extractive) fn lacks_correction(&self, unit: usize, among: &[usize]) -> bool {
        let lacks = |by: usize| self.units.contains(&by) && !among.contains(&by);
        let correction = self.by.get(&unit);
        correction.is_some_and(|one| lacks(one.by) || lacks(one.closest))
    }
}
