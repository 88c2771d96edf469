//! The place of corrections among the units of a summary.

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
    by: HashMap<usize, Correction>,
}

impl CorrectedChoice {
    /// The chosen units with the newest corrections of them.
    pub(in crate::extractive) fn new(pool: &Pool<'_>, chosen: &[usize]) -> CorrectedChoice {
        let mut found = corrections(pool, chosen);
        found.retain(|one| one.strength > Strength::Related);
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
        let units = ranked.into_iter().map(|(_, unit)| unit);
        let units = units.filter(|unit| seen.insert(*unit)).collect();
        CorrectedChoice { units, by }
    }

    /// Whether a later statement replaces a unit.
    pub(in crate::extractive) fn is_outdated(&self, unit: usize) -> bool {
        let correction = self.by.get(&unit);
        correction.is_some_and(|one| one.strength >= Strength::Differs)
    }

    /// Whether the correction of a unit is one of the choice, but not among these units.
    pub(in crate::extractive) fn lacks_correction(&self, unit: usize, among: &[usize]) -> bool {
        let lacks = |by: usize| self.units.contains(&by) && !among.contains(&by);
        let correction = self.by.get(&unit);
        correction.is_some_and(|one| lacks(one.by) || lacks(one.closest))
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::{Ordinal, Role, Timestamp};

    use super::*;
    use crate::extractive::Passage;
    use crate::extractive::fixture::{passages_of, pool_of};

    #[test]
    fn another_person_replaces_a_statement_only_by_denying_its_value() {
        let said = |texts: [(&'static str, &'static str); 2]| {
            let passage = |(n, (name, text)): (u32, (&'static str, &'static str))| Passage {
                author: Some(name.into()),
                ..Passage::text(Ordinal(n), Role::User, Timestamp(0), text)
            };
            let passages: Vec<Passage<'_>> = (1..).zip(texts).map(passage).collect();
            CorrectedChoice::new(&pool_of(&passages), &[0, 1])
        };
        let premiere = "The premiere is on 14 November.";
        let later = "Correction: the premiere is on 21 November.";
        let denied = "The premiere is on 21 November, not 14 November.";
        let rows = [
            ("Ana", later, true),
            ("Ben", later, false),
            ("Ben", denied, true),
        ];
        for (name, text, is_outdated) in rows {
            let choice = said([("Ana", premiere), (name, text)]);
            assert_eq!(choice.is_outdated(0), is_outdated, "{name}: {text}");
        }
    }

    #[test]
    fn a_statement_lacks_its_correction_until_it_is_there() {
        let texts = [
            "The premiere is on 14 November.",
            "I look for a band.",
            "The premiere moved to 21 November.",
        ];
        let passages = passages_of(texts);
        let mut choice = CorrectedChoice::new(&pool_of(&passages), &[0, 1]);
        assert!(choice.lacks_correction(0, &[1]));
        assert!(!choice.lacks_correction(0, &[1, 2]));
        assert!(!choice.lacks_correction(1, &[]));
        // It is carried elsewhere.
        choice.units.retain(|unit| *unit != 2);
        assert!(!choice.lacks_correction(0, &[1]));
    }

    #[test]
    fn a_newer_statement_about_another_thing_displaces_no_correction() {
        let texts = [
            "The price of the table is 30 euros.",
            "The price of the lamp is 40 euros.",
            "The price of the table is now 130 euros.",
            "The price of the lamp is now 140 euros.",
        ];
        let passages = passages_of(texts);
        let choice = CorrectedChoice::new(&pool_of(&passages), &[0]);
        assert_eq!(choice.units, [3, 2, 0]);
    }
}
