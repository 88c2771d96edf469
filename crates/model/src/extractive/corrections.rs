//! Later statements that change an earlier one.
//!
//! A statement changes an earlier one if both have the same subject and values of the same kind
//! that differ: another day, time, number, status. With a cue (`moved to`, `Korrektur`) less of the
//! subject has to be the same, and a name, a number or an id in common suffices. A statement that denies
//! the earlier value (`on 11 May, not 4 May`) names what it changes. Of several changes of one value the
//! newest is valid; if it may be about another thing, the newest one in closer words is needed too.
//! Within a message, a statement is changed by the next sentence if that takes it back (`No, at ten`). A
//! change may be two sentences (`4 May is full. The wedding moves to 11 May`).

mod choice;
mod proposal;
mod statement;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use unisono_context::Ordinal;

use super::cues::{Cues, may_mean_another, takes_back};
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::readability::dangles;
use super::split::Block;
use super::terms::{Class, FoldedMap, Term};
pub(super) use choice::CorrectedChoice;
use proposal::is_accepted;
use statement::{Kind, Statement};

/// A change that names no subject ("it moved to 21 May") refers to one of so many messages before
/// it.
const NEAR: u32 = 8;
/// A term points to one subject if at most this many messages have it, or this part of all.
const RARE_LEAST: usize = 4;
const RARE_PART: usize = 25;
/// More statements with a term, or more changes near a statement, are not compared.
const COMPARED: usize = 64;

/// A statement and the newest one that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correction {
    pub(super) of: usize,
    pub(super) by: usize,
    /// The newest one with more of its subject, if `by` may be about another thing; otherwise `by`.
    pub(super) closest: usize,
    /// How much of the earlier statement the later one makes superfluous.
    pub(super) strength: Strength,
    /// Whether the later one has another value or ends the matter, and can mean no other statement.
    pub(super) is_certain: bool,
}

/// How a statement changes an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// Both have a rare name, a number or an id, or the later one is in the next message.
    Related,
    /// It is the first sentence of the reply to it.
    Contradicts,
    /// It has another value of the same kind, but names no subject, names somebody or something else,
    /// or is another person's: both are needed.
    Completes,
    /// It has the subject and another value of the same kind, or takes back the sentence before it.
    Differs,
    /// The same, and it says that something changed.
    Replaces,
}

/// The newest correction of each unit that has one, in the order of `of`.
pub(super) fn corrections(pool: &Pool<'_>, of: &[usize]) -> Vec<Correction> {
    let later = LaterStatements::new(pool, of);
    let newest = |&unit: &usize| later.newest_correction(unit);
    of.iter().filter_map(newest).collect()
}

/// The statements that may change others.
struct LaterStatements<'p, 'a> {
    pool: &'p Pool<'a>,
    /// By term of the statements that may be changed.
    by_term: HashMap<Term, Vec<usize>>,
    /// The units for which [`Self::is_change`] is true, in order.
    changes: Vec<(Ordinal, usize)>,
    /// The number of messages with each of these terms.
    messages: HashMap<Term, usize>,
    /// The units that were compared.
    known: RefCell<FoldedMap<usize, Rc<Statement>>>,
}

impl<'p, 'a> LaterStatements<'p, 'a> {
    fn new(pool: &'p Pool<'a>, of: &[usize]) -> LaterStatements<'p, 'a> {
        let mut later = LaterStatements {
            pool,
            by_term: HashMap::new(),
            changes: Vec::new(),
            messages: HashMap::new(),
            known: RefCell::default(),
        };
        let mut is_wanted = vec![false; pool.vocabulary.len()];
        for &term in of.iter().flat_map(|&unit| pool.terms(unit)) {
            is_wanted[term as usize] = true;
        }
        let mut last: HashMap<Term, usize> = HashMap::new();
        for (index, unit) in pool.units.iter().enumerate() {
            let may_change = later.may_change(unit, index);
            let next = later.next_statement(index);
            let change = next.filter(|&next| later.is_change_in_two([index, next]));
            for &term in pool.terms(index) {
                if !is_wanted[term as usize] {
                    continue;
                }
                if last.insert(term, unit.source) != Some(unit.source) {
                    *later.messages.entry(term).or_default() += 1;
                }
                if may_change || change.is_some() {
                    let changing = may_change.then_some(index).into_iter().chain(change);
                    later.by_term.entry(term).or_default().extend(changing);
                }
            }
            if may_change && later.is_change(index) {
                later.changes.push((ordinal(unit), index));
            }
        }
        later.changes.sort_unstable();
        later
    }

    fn may_change(&self, unit: &Unit<'_>, index: usize) -> bool {
        (is_statement(unit) || is_accepted(self.pool, index))
            && (has_cue(unit)
                || unit.cues.intersects(Cues::DATE)
                || self.pool.has_class(index, Class::Number)
                || unit.cues.intersects(Cues::STATUS))
    }

    /// Each unit is read once.
    fn statement(&self, unit: usize) -> Rc<Statement> {
        let read = || Rc::new(Statement::new(self.pool, unit));
        let mut known = self.known.borrow_mut();
        Rc::clone(known.entry(unit).or_insert_with(read))
    }

    fn newest_correction(&self, of: usize) -> Option<Correction> {
        let earlier = self.statement(of);
        let mut found: Vec<(Strength, Ordinal, usize)> = Vec::new();
        for by in self.candidates(of) {
            let later = self.statement(by);
            let is_taken_back = self.taken_back_by(of) == Some(by);
            let strength = self
                .denial_or_change((of, &*earlier), (by, &*later))
                .max(is_taken_back.then_some(Strength::Differs));
            found.extend(strength.map(|strength| (strength, ordinal(&self.pool.units[by]), by)));
        }
        let (strength, at, by) = found.iter().max().copied()?;
        let common = |by: usize| earlier.common_with(&self.statement(by));
        let as_strong = found
            .iter()
            .filter(|(one, ..)| *one >= strength.min(Strength::Differs));
        let closest = as_strong.max_by_key(|(_, at, by)| (common(*by), *at, *by));
        let closest = closest.map_or(by, |(.., closest)| *closest);
        // A newer statement about the same value is valid even if its evidence is weaker.
        found.retain(|(strength, later, newer)| {
            let changes = self.statement(*newer).changes_value_of(&self.statement(by));
            *strength >= Strength::Differs && *later > at && changes
        });
        let newest = found.iter().max_by_key(|(_, at, by)| (*at, *by));
        let by = newest.map_or(by, |(.., newest)| *newest);
        let later = self.statement(by);
        let has_another = common(by) < later.subject.len();
        let is_closer = has_another && common(closest) > common(by);
        Some(Correction {
            of,
            by,
            closest: if is_closer { closest } else { by },
            strength,
            is_certain: match strength {
                Strength::Differs => true,
                Strength::Replaces => !later.may_mean_like_thing(&earlier),
                _ => self.is_certain((of, &*earlier), (by, &*later)),
            },
        })
    }

    /// Whether a change says another value or the end of what a statement says, and can mean no other
    /// statement. A proposal is never certain.
    fn is_certain(
        &self,
        (of, earlier): (usize, &Statement),
        (by, later): (usize, &Statement),
    ) -> bool {
        let unit = &self.pool.units[by];
        let ends = unit.cues.intersects(Cues::ENDS) && earlier.has_time();
        let before = self.sentence_before(by);
        let before = before.filter(|&of| self.is_change_in_two([of, by]));
        let is_named = || {
            earlier.common_with(later) > 0
                || before.is_some_and(|unit| self.statement(unit).common_with(earlier) > 0)
        };
        let is_of_same = match later.subject.is_empty() {
            true => later.may_give_value_to(earlier) && !self.may_mean_between((of, by)),
            false => is_named() && (ends || later.changes_value_of(earlier)),
        };
        is_statement(unit)
            && is_of_same
            && !later.names_others_than(earlier)
            && !later.may_mean_like_thing(earlier)
            && !later.names_another_thing_than(earlier)
    }

    /// Whether a statement between two has another value than the first one, which the second one without
    /// a subject may mean instead.
    fn may_mean_between(&self, (of, by): (usize, usize)) -> bool {
        let (earlier, later) = (self.statement(of), self.statement(by));
        let mut between = of + 1..by;
        let is_meant = |unit: usize| {
            let other = self.statement(unit);
            later.may_give_value_to(&other) && other.has_value_beside(&earlier)
        };
        between.len() > COMPARED
            || between.any(|unit| is_statement(&self.pool.units[unit]) && is_meant(unit))
    }

    /// The later statements that may change one, in order.
    fn candidates(&self, of: usize) -> Vec<usize> {
        let unit = &self.pool.units[of];
        if !is_statement(unit) {
            return Vec::new();
        }
        let said = ordinal(unit);
        let from = self.changes.partition_point(|(at, _)| *at <= said);
        let near = self.changes[from..]
            .iter()
            .take_while(|(at, _)| at.0 - said.0 <= NEAR)
            .take(COMPARED);
        let mut others: Vec<usize> = near.map(|(_, unit)| *unit).collect();
        for term in self.pool.terms(of) {
            let sharing = self.by_term.get(term).into_iter().flatten().rev();
            others.extend(sharing.take(COMPARED));
        }
        let next = self.taken_back_by(of);
        others.extend(next);
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| {
            let by = &self.pool.units[other];
            let may_change = || {
                self.is_change(other)
                    || describes_the_present([unit, by])
                    || by.cues.intersects(Cues::NOT)
            };
            next == Some(other) || ordinal(by) > said && may_change()
        });
        others
    }

    /// The next sentence of a unit's message, if it is a statement.
    fn next_statement(&self, of: usize) -> Option<usize> {
        let (unit, next) = (&self.pool.units[of], self.pool.units.get(of + 1)?);
        let is_next = next.source == unit.source && next.place == unit.place + 1;
        (is_next && is_statement(next)).then_some(of + 1)
    }

    /// The next sentence of a unit's message, if that takes the unit back.
    fn taken_back_by(&self, of: usize) -> Option<usize> {
        let next = self.next_statement(of)?;
        let text = self.pool.units[next].text;
        let changes_value = || {
            let [earlier, later] = [of, next].map(|at| self.statement(at));
            later.changes_value_of(&earlier)
        };
        (takes_back(text) && (!may_mean_another(text) || changes_value())).then_some(next)
    }

    /// The sentence before a statement in its message.
    fn sentence_before(&self, by: usize) -> Option<usize> {
        let is_before = |of: &usize| self.next_statement(*of) == Some(by);
        by.checked_sub(1).filter(is_before)
    }

    /// Whether a unit or the sentence before it has a cue of a change, or it is an accepted proposal.
    fn is_change(&self, by: usize) -> bool {
        has_cue(&self.pool.units[by]) || self.follows_cue(by) || is_accepted(self.pool, by)
    }

    fn follows_cue(&self, by: usize) -> bool {
        let before = self.sentence_before(by);
        before.is_some_and(|before| has_cue(&self.pool.units[before]))
    }

    /// Whether a speaker's statement is only another number after a cue: `Oh wait. 600 please.`
    fn is_other_number(
        &self,
        (of, earlier): (usize, &Statement),
        (by, later): (usize, &Statement),
    ) -> bool {
        let [speaker, other] = [of, by].map(|unit| self.pool.units[unit].speaker);
        let is_alone = later.subject.is_empty() && later.has_other_number(earlier);
        is_alone && speaker == other && self.follows_cue(by)
    }

    /// Whether a unit takes back a value of the sentence before it.
    fn takes_back_value(&self, by: usize, later: &Statement) -> bool {
        let is_taken_back = |of: &usize| self.taken_back_by(*of) == Some(by);
        let of = self.sentence_before(by).filter(is_taken_back);
        of.is_some_and(|of| later.changes_value_of(&self.statement(of)))
    }

    /// Whether adjacent sentences may be one change: the second has the new value, one of both a cue.
    fn is_change_in_two(&self, [of, by]: [usize; 2]) -> bool {
        let [first, second] = [of, by].map(|unit| &self.pool.units[unit]);
        (has_cue(second) || has_cue(first) && self.may_change(second, by))
            && self.taken_back_by(of) != Some(by)
    }

    /// Whether the sentence before a statement names what both change, by its day or by its subject: `The
    /// hall is closed on 28 June. The party moves to 5 July`, `The party is delayed. It is on 5 July`.
    fn changes_with_before(&self, earlier: &Statement, (by, later): (usize, &Statement)) -> bool {
        let before = self.sentence_before(by);
        let is_change = |of: &usize| self.is_change_in_two([*of, by]);
        let before = before.filter(is_change);
        let Some(of) = before.filter(|_| later.changes_time_of(earlier)) else {
            return false;
        };
        let before = self.statement(of);
        let has_subject = has_cue(&self.pool.units[of]) && before.has_subject_of(earlier);
        has_subject || before.has_day_of(earlier)
    }

    /// Like [`Self::change`]. A statement that denies a value of the earlier one changes it if it has a
    /// word of its subject; a day or a time that was said shortly before needs none.
    fn denial_or_change(
        &self,
        (of, earlier): (usize, &Statement),
        (by, later): (usize, &Statement),
    ) -> Option<Strength> {
        let shares_subject = || earlier.common_with(later) > 0;
        let [said, denied] = [of, by].map(|unit| ordinal(&self.pool.units[unit]).0);
        let is_of_another = self.are_of_two_people(of, by) || !is_statement(&self.pool.units[by]);
        let change = || {
            let change = self.change((of, earlier), (by, later));
            let change = change.map(|strength| match is_of_another {
                true => strength.min(Strength::Completes),
                false => strength,
            });
            // Without the subject in common it is about the sentence before it.
            change.filter(|one| *one > Strength::Completes || !self.takes_back_value(by, later))
        };
        let is_near = denied - said <= NEAR;
        if !is_statement(&self.pool.units[by]) {
            let is_of_same = later.subject.is_empty() || shares_subject();
            let is_time = is_near && is_of_same && later.changes_time_of(earlier);
            let other = || change().filter(|_| has_cue(&self.pool.units[by]));
            return is_time.then_some(Strength::Completes).or_else(other);
        }
        match later.denied_value_of(earlier) {
            Some(_) if shares_subject() => Some(Strength::Replaces),
            Some(Kind::Day | Kind::Weekday | Kind::Time) if is_near => {
                change().max(Some(Strength::Completes))
            }
            None if self.changes_with_before(earlier, (by, later))
                || is_near && self.is_other_number((of, earlier), (by, later)) =>
            {
                change().max(Some(Strength::Completes))
            }
            _ => change(),
        }
    }

    /// How the second statement changes the first one, if it does.
    fn change(
        &self,
        (of, earlier): (usize, &Statement),
        (by, later): (usize, &Statement),
    ) -> Option<Strength> {
        let units = [&self.pool.units[of], &self.pool.units[by]];
        let is_shared = |term: &&Term| later.subject.contains(term);
        let common = || earlier.subject.iter().filter(is_shared);
        let shared = common().count();
        // Whether the common part is this share of both subjects.
        let covers = |earlier_part: f32, later_part: f32| {
            let part_of = |statement: &Statement| shared as f32 / statement.subject.len() as f32;
            shared > 0 && part_of(earlier) >= earlier_part && part_of(later) >= later_part
        };
        let has_cue = has_cue(units[1]);
        if !has_cue && shared == 0 {
            return None;
        }
        let is_same = match (has_cue, later.says_now) {
            (true, _) => shared > 1 && covers(0.0, 0.5) || covers(0.25, 0.5) || covers(0.5, 0.33),
            (false, true) => shared > 1 && covers(0.0, 0.5) || covers(0.5, 0.5),
            // Statements in similar words may be about different things.
            (false, false) => {
                (later.has_other(Kind::Day, earlier)
                    || later.has_other(Kind::Weekday, earlier)
                    || common().any(|&term| self.is_name(term)))
                    && (covers(0.5, 1.0) || shared > 2 && covers(0.33, 1.0))
            }
        };
        let is_certain = || has_cue || describes_the_present(units) && later.contradicts(earlier);
        let is_other = shared < 2 && later.names_another_thing_than(earlier);
        let is_same = is_same && !(later.says_now && is_other);
        let is_changed = is_same && is_certain() && later.changes_value_of(earlier);
        let by_another = || later.has_other(Kind::Name, earlier) && shared > 1 && covers(0.0, 0.5);
        let contradicts = units[1].cues.intersects(Cues::CORRECTION);
        let is_of_same = || !later.has_only_others(Kind::Name, earlier);
        if has_cue && is_changed && is_of_same() || contradicts && by_another() {
            return Some(match later.may_be_of_others_than(earlier) {
                true => Strength::Completes,
                false => Strength::Replaces,
            });
        }
        if !has_cue {
            return is_changed.then_some(Strength::Differs);
        }
        let distance = ordinal(units[1]).0 - ordinal(units[0]).0;
        let changes = later.changes_value_of(earlier);
        let says_other = changes || units[1].cues.intersects(Cues::STATUS);
        let is_ended = units[1].cues.intersects(Cues::ENDS) && !is_other && covers(0.5, 0.5);
        let is_like = contradicts && shared > 1 && covers(0.33, 0.5) || is_ended;
        let has_rare = || self.rare_in_both(of, by).next().is_some();
        let is_of_id = || says_other && later.has_id_of(earlier) && has_rare();
        if changes && later.subject.is_empty() && distance <= NEAR || is_like || is_of_id() {
            return Some(Strength::Completes);
        }
        if distance == 1 && contradicts && self.is_reply(of, by) {
            return Some(Strength::Contradicts);
        }
        (distance <= 1 || has_rare()).then_some(Strength::Related)
    }

    /// The rare names, numbers and ids that two units have.
    fn rare_in_both(&self, of: usize, by: usize) -> impl Iterator<Item = Term> {
        let is_common = move |term: &Term| self.pool.terms(by).contains(term);
        let terms = self.pool.specific_terms(of).filter(is_common);
        terms.filter(move |&term| self.is_rare(term))
    }

    fn is_name(&self, term: Term) -> bool {
        let class = self.pool.vocabulary.class(term);
        matches!(class, Class::Name | Class::Identifier)
    }

    /// Whether the second unit begins a message, and the first one ends another.
    fn is_reply(&self, of: usize, by: usize) -> bool {
        let source = |unit: Option<usize>| Some(self.pool.units.get(unit?)?.source);
        let ends = source(Some(of + 1)) != source(Some(of));
        let speaker = |unit: usize| self.pool.units[unit].speaker;
        ends && speaker(of) != speaker(by) && source(by.checked_sub(1)) != source(Some(by))
    }

    /// Whether two people say them, each with a name.
    fn are_of_two_people(&self, of: usize, by: usize) -> bool {
        let named = |unit: usize| {
            let unit = &self.pool.units[unit];
            let is_named = !unit.speaker.is_empty() && unit.is_named();
            is_named.then_some(unit.speaker)
        };
        let both = named(of).zip(named(by));
        both.is_some_and(|(one, other)| one != other)
    }

    fn is_rare(&self, term: Term) -> bool {
        let messages = self.messages.get(&term).copied().unwrap_or(0);
        messages <= RARE_LEAST.max(self.pool.sources / RARE_PART)
    }
}

fn has_cue(unit: &Unit<'_>) -> bool {
    unit.cues.intersects(Cues::ANY_CHANGE)
}

fn is_statement(unit: &Unit<'_>) -> bool {
    unit.kind == PassageKind::Text
        && matches!(unit.block, Block::Prose | Block::Item)
        && !unit.cues.intersects(Cues::QUESTION)
}

/// The message of a unit; lines of an earlier summary without a number are the oldest.
fn ordinal(unit: &Unit<'_>) -> Ordinal {
    unit.ordinal.unwrap_or(Ordinal(0))
}

/// Whether two statements are about how something is. What happened is not changed by what happens
/// later, unless it was a change; and a pronoun or two people may mean different things.
fn describes_the_present(units: [&Unit<'_>; 2]) -> bool {
    let is_personal = units.iter().any(|unit| unit.cues.intersects(Cues::FIRST));
    let happened = |unit: &&Unit<'_>| unit.cues.intersects(Cues::PAST) && !has_cue(unit);
    let is_past = units.iter().any(happened);
    let is_of_one = units[0].speaker == units[1].speaker;
    !is_past && (is_of_one || !is_personal) && !units.iter().any(|unit| dangles(unit))
}

#[cfg(test)]
mod tests {
    use unisono_context::{Role, Timestamp};

    use super::*;
    use crate::extractive::Passage;
    use crate::extractive::fixture::{passages_of, pool_of};

    fn found(texts: &[&str]) -> Vec<(usize, usize, Strength)> {
        let passages = passages_of(texts.iter().copied());
        let pool = pool_of(&passages);
        let all: Vec<usize> = (0..pool.units.len()).collect();
        let found = corrections(&pool, &all);
        found.iter().map(|c| (c.of, c.by, c.strength)).collect()
    }

    #[test]
    fn another_value_of_the_same_kind_changes_a_statement() {
        let rows = rows! {
            ["The premiere is on 14 November.", "The premiere moved to 21 November."],
            ["The launch is planned for 1 June.", "The launch moves to 15 June."],
            ["Die Premiere ist am 14. November.", "Die Premiere ist am 21. November."],
            ["Now the hall in Ghent has room for 120 guests.",
             "Now the hall in Ghent has room for 95 guests."],
            ["The invoice of Feldkamp is open.", "The invoice of Feldkamp is paid."],
            ["My train leaves at 10:30.", "Correction: my train leaves at 11:15."],
            ["My train leaves at 10:30.", "Scratch that, my train leaves at 11:15."],
            ["My train leaves at 10:30.", "Sorry, that's wrong, my train leaves at 11:15."],
            ["My train leaves at 10:30.", "I was wrong about the train: it leaves at 11:15."],
            ["My train is at 10:30.", "My train is actually at 11:15."],
            ["The launch is on 1 June.", "New launch date: 4 June."],
            ["Der Termin beim Notar ist am Montag.",
             "Der Termin beim Notar wurde auf Mittwoch verlegt."],
        };
        for row in rows {
            let [(0, 1, strength)] = found(&row)[..] else {
                panic!("{row:?}");
            };
            assert!(strength >= Strength::Differs, "{row:?}");
        }
    }

    #[test]
    fn other_subjects_and_equal_values_change_nothing() {
        let rows = rows! {
            ["The premiere is on 14 November.", "The dentist is on 21 November."],
            ["We pay 300 euros for the hall.", "We pay 200 euros for the band."],
            ["The premiere is on 14 November.", "Remember, the premiere is on 14 November."],
            ["The invoice is open.", "The shop is closed."],
            ["The hall has room for 120 guests.", "The garden was lovely in the sun."],
            ["The dentist is on 4 May.", "If not Monday, the wedding is on Friday."],
            ["The invoice costs 480 euros.", "The garden has 95 roses, not 480."],
        };
        for row in rows {
            assert_eq!(found(&row), [], "{row:?}");
        }
    }

    #[test]
    fn the_next_sentence_of_a_message_takes_a_statement_back() {
        let rows = rows! {
            ("We take the red tiles. No, wait, better the white ones.", true),
            ("The delivery is on 14 April. No, sorry, it is on 24 April.", true),
            ("The painter comes on Tuesday. Actually, no, he said Thursday.", true),
            ("Dann nehme ich Rot. Nein, doch lieber Weiß.", true),
            ("The delivery is on 14 April. Correction: it is on 24 April.", true),
            ("The delivery is on 14 April. Sorry, scratch that, it is on 24 April.", true),
            ("The delivery is on 14 April. That's wrong, it is on 24 April.", true),
            ("The delivery is on 14 April. That's wrong in the list.", false),
            ("The delivery is on 14 April. Correction: the shelf costs 300 euros.", false),
            ("The delivery is on 14 April. Sorry, correction: the shelf costs 300 euros.", false),
            ("We take the red tiles. No other tiles are left.", false),
            ("We take the red tiles. Oh no, the lamp is broken.", false),
            ("Is the red lamp left? No, they sold it.", false),
            ("You asked for a red lamp. No, Ben.", false),
        };
        for (text, is_taken_back) in rows {
            let found = found(&[text]);
            let by: Vec<(usize, usize)> = found.iter().map(|one| (one.0, one.1)).collect();
            let expected: &[(usize, usize)] = if is_taken_back { &[(0, 1)] } else { &[] };
            assert_eq!(by, expected, "{text}");
            let is_outdated = |one: &(usize, usize, Strength)| one.2 >= Strength::Differs;
            assert!(found.iter().all(is_outdated), "{text}");
        }
    }

    #[test]
    fn what_takes_back_the_sentence_before_it_changes_no_earlier_message() {
        let rows = rows! {
            "The delivery is on 14 April.",
            "The shelf costs 300 euros.",
        };
        for row in rows {
            let of_bath = "The budget for the bath is 4,500 euros. No, sorry, it is 5,400 euros.";
            let found = found(&[row, of_bath]);
            let by: Vec<(usize, usize)> = found.iter().map(|one| (one.0, one.1)).collect();
            assert_eq!(by, [(1, 2)], "{row}");
        }
    }

    #[test]
    fn a_denied_value_is_changed() {
        let rows = rows! {
            ["The wedding was planned for 4 May in Ghent, with a band.",
             "Small change: the wedding is on 11 May, not 4 May."],
            ["The wedding was planned for 4 May in Ghent, with a band.",
             "Our wedding is not on 4 May but on 11 May."],
            ["Die Hochzeit war für den 4. Mai in Gent geplant.",
             "Die Hochzeit ist am 11. Mai, nicht am 4. Mai."],
            ["The hall in Ghent had room for 120 guests.",
             "In the hall is room for 95 guests, not 120."],
        };
        for row in rows {
            assert_eq!(found(&row), [(0, 1, Strength::Replaces)], "{row:?}");
        }
        let without_subject = ["We thought 4 May.", rows[0][1]];
        assert_eq!(found(&without_subject), [(0, 1, Strength::Completes)]);
    }

    #[test]
    fn a_change_completes_what_the_sentence_before_it_names() {
        let rows = rows! {
            ["The party is on Saturday 6 September.",
             "They booked 6 September twice. They offer Sunday 7 September instead."],
            ["Der Termin ist laut Frau Behrens der 28. Juni.",
             "Der Platz ist am 28. Juni gesperrt. Das Fest wird auf den 5. Juli verschoben."],
            ["The limit is 300 seconds.", "Hmm wait, Bremen has many pages. 600 please."],
            ["The move to Frome is on 28 March.",
             "Our move is delayed, the chain broke. New completion date is 11 April."],
        };
        for row in rows {
            assert_eq!(found(&row), [(0, 2, Strength::Completes)], "{row:?}");
        }
        let of_others = [
            "The party is on Saturday 6 September.",
            "They booked 5 September twice. They offer Sunday 7 September instead.",
        ];
        let found_of_others = found(&of_others);
        let mut strengths = found_of_others.iter().map(|(.., strength)| *strength);
        assert!(
            strengths.all(|one| one < Strength::Completes),
            "{found_of_others:?}"
        );
        let taken_back = [
            "The delivery is on 14 April.",
            "The concert is on 14 April. No, sorry, it is on 24 April.",
        ];
        let found = found(&taken_back);
        let by: Vec<(usize, usize)> = found.iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(by, [(1, 2)]);
    }

    #[test]
    fn what_ends_or_changes_a_thing_of_an_id_completes_its_statements() {
        let rows = rows! {
            ["The technician comes on 23 May, ticket TK-3390.",
             "All right, I moved TK-3390 to 26 May."],
            ["You send it with the label RL-77310, valid until 23 May.",
             "I have cancelled the return RL-77310 and the refund."],
            ["The launch is on 1 June.", "The launch is cancelled."],
            ["The launch is on 1 June.", "The launch is postponed."],
            ["The review is on Thursday 20 November at 15:00.", "Friday 21 November 11:00 then."],
        };
        for row in rows {
            let [(0, 1, strength)] = found(&row)[..] else {
                panic!("{row:?}");
            };
            assert!(strength >= Strength::Completes, "{row:?}");
        }
    }

    #[test]
    fn an_accepted_proposal_of_a_time_completes_a_statement() {
        let of_first = |first: &'static str, question: &'static str, reply: &'static str| {
            let said = [
                ("Ana", first),
                ("Ben", "I am in Graz then."),
                ("Ana", question),
                ("Ben", reply),
            ];
            let passage = |(n, (name, text)): (u32, (&'static str, &'static str))| Passage {
                author: Some(name.into()),
                ..Passage::text(Ordinal(n), Role::User, Timestamp(0), text)
            };
            let passages: Vec<Passage<'_>> = (1..).zip(said).map(passage).collect();
            let found = corrections(&pool_of(&passages), &[0]);
            let found = found.iter().map(|one| (one.by, one.strength));
            found.collect::<Vec<(usize, Strength)>>()
        };
        let rows = [
            ("Yes, that's fine.", true),
            ("I will ask my daughter.", false),
            ("Yes, but she is in Graz too.", false),
            ("Yes. But she is in Graz too.", false),
        ];
        for (reply, is_accepted) in rows {
            let dentist = "The dentist is on 10 April at 8:30.";
            let completes = is_accepted.then_some((2, Strength::Completes));
            let found = of_first(dentist, "14 April at 11:15?", reply);
            assert_eq!(found, Vec::from_iter(completes), "{reply}");
        }
        let [gate, question] = [
            "The gate of Feldkamp is open.",
            "Is the gate of Feldkamp closed?",
        ];
        assert_eq!(of_first(gate, question, "Ok, I will look."), []);
    }

    #[test]
    fn the_newest_change_of_a_value_is_valid() {
        let texts = [
            "The premiere is on 14 November.",
            "The premiere moved to 21 November.",
            "The premiere is on 28 November now.",
        ];
        let by: Vec<(usize, usize)> = found(&texts).iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(by, [(0, 2), (1, 2)]);
    }

    #[test]
    fn the_present_state_of_another_thing_changes_nothing() {
        let rows = rows! {
            (["Gate 4 is now open.", "Gate 7 is now closed."], Strength::Related),
            (["Gate 4 is now open.", "Gate 4 is now closed."], Strength::Replaces),
            (["The port in src/config.toml with the other hosts is 8080.",
              "I changed the default retries of the client in src/config.toml to 5."],
             Strength::Related),
            (["My train leaves at 10:30 from track 5.",
              "Correction: my train leaves at 11:15 from track 7."], Strength::Replaces),
        };
        for (texts, strength) in rows {
            assert_eq!(found(&texts), [(0, 1, strength)], "{texts:?}");
        }
    }

    #[test]
    fn a_quotation_changes_nothing() {
        let texts = [
            "The premiere is on 14 November.",
            "The premiere moved to 21 November.",
            "> The premiere is on 14 November.\nAgreed.",
        ];
        let by: Vec<(usize, usize)> = found(&texts).iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(by, [(0, 1)]);
    }

    #[test]
    fn a_text_that_was_said_twice_is_quoted_once() {
        let texts = [
            "The premiere moved to 21 November.",
            "The premiere is on 14 November.",
            "The garden was lovely in the sun.",
            "The premiere moved to 21 November.",
        ];
        let passages = passages_of(texts);
        let pool = pool_of(&passages);
        for chosen in [&[0, 1, 2][..], &[1, 0, 2], &[2, 1, 0]] {
            let mut units = CorrectedChoice::new(&pool, chosen).units;
            units.sort_unstable();
            assert_eq!(units, [1, 2, 3], "{chosen:?}");
        }
        // Two people who say the same are both quoted.
        let mut passages = passages_of(["I will come on Friday."; 2]);
        passages[1].author = Some("Ben".into());
        let pool = pool_of(&passages);
        assert_eq!(CorrectedChoice::new(&pool, &[0, 1]).units, [0, 1]);
    }

    #[test]
    fn each_of_several_chains_of_changes_leads_to_its_newest_statement() {
        let rows = rows! {
            ("The", ""),
            ("Moved: the", ""),
            ("The", " in Bergen"),
            ("Moved: the", " in Bergen"),
        };
        let names = ["Priya Ramanathan", "Tom Rivera"];
        for (begin, place) in rows {
            let said = |at: usize| {
                let (name, day) = (names[at % 2], 3 + at);
                if at < 2 {
                    format!("The meeting with {name}{place} is on {day} April.")
                } else {
                    format!("{begin} meeting with {name}{place} is now on {day} April.")
                }
            };
            let texts: Vec<String> = (0..10).map(said).collect();
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            let mut found = found(&texts);
            found.retain(|(.., strength)| *strength >= Strength::Differs);
            let by: Vec<(usize, usize)> = found.iter().map(|one| (one.0, one.1)).collect();
            let newest = |of: usize| (of, 8 + of % 2);
            let expected: Vec<(usize, usize)> = (0..8).map(newest).collect();
            assert_eq!(by, expected, "{begin}{place}");
        }
    }

    #[test]
    fn a_change_without_a_subject_completes_the_statement_before_it() {
        let texts = [
            "The wedding is on 14 September in Ghent.",
            "I look for a band.",
            "Correction: it moved to 21 September.",
        ];
        assert_eq!(found(&texts)[0], (0, 2, Strength::Completes));
    }

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
            let correction = choice.by.get(&0);
            let differs = correction.is_some_and(|one| one.strength >= Strength::Differs);
            assert_eq!(differs, is_outdated, "{name}: {text}");
        }
    }

    #[test]
    fn what_is_actually_so_changes_a_statement_only_with_another_value() {
        for (text, is_changed) in [
            ("That is actually a good idea.", false),
            ("It’s actually really nice there.", false),
            ("The party is actually on 11 May.", true),
        ] {
            let mut passages = passages_of(["The party in the garden is on 4 May.", text]);
            passages[0].author = Some("Ana".into());
            passages[1].author = Some("Ben".into());
            let choice = CorrectedChoice::new(&pool_of(&passages), &[0]);
            let expected: &[usize] = if is_changed { &[1, 0] } else { &[0] };
            assert_eq!(choice.units, expected, "{text}");
        }
    }

    #[test]
    fn a_change_of_another_thing_leaves_a_statement_valid() {
        let rows: [(&[&str], bool); 11] = rows! {
            (&["The move to Frome is on 28 March.",
               "Our move is delayed, the chain broke. New completion date is 11 April."], true),
            (&["The limit is 300 seconds.", "Hmm wait, Bremen has many pages. 600 please."], true),
            (&["The limit is 300 seconds.", "The limit is 300 seconds, all right.",
               "Hmm wait, Bremen has many pages. 600 please."], true),
            (&["The budget is 500 euros.", "The tiles cost 280 euros.", "Correction: 300 euros."],
             false),
            (&["The dentist is on 28 June.",
               "The field is closed on 28 June. The party moves to 5 July."], false),
            (&["The launch has 3 speakers.", "The launch is postponed."], false),
            (&["The launch is on 1 June.", "The launch is postponed."], true),
            (&["The price of the table is 30 euros.", "The price of the lamp is now 40 euros."],
             false),
            (&["The price of the table is 30 euros.",
               "I raised the price of the lamp to 40 euros."], false),
            (&["The price of the table is 30 euros.", "I raised the price to 40 euros."], true),
            (&["The price of the table is 30 euros.",
               "The price in the list is 40 euros, not 30 euros."], true),
        };
        for (texts, is_corrected) in rows {
            let passages = passages_of(texts.iter().copied());
            let choice = CorrectedChoice::new(&pool_of(&passages), &[0]);
            assert_eq!(choice.is_corrected(0), is_corrected, "{texts:?}");
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
