//! A search within one path of a session's tree, up to its head.
//!
//! The result depends only on the messages of that path and on the words: not on other sessions or
//! branches, on later messages, or on the layout of the index on disk. An agent that repeats a
//! search therefore gets the same result, whatever others have written meanwhile. For this reason
//! the statistics of BM25 are computed over the path.

use tantivy::postings::Postings as _;
use tantivy::query::EnableScoring;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Searcher, SegmentReader, Term};
use unisono_context::Timestamp;

use crate::branch::Branch;
use crate::cancel::CancelFlag;
use crate::error::Result;
use crate::find::clause_query;
use crate::guarded::guarded;
use crate::index::{Fields, Index, NAMED};
use crate::joined;
use crate::named::{Days, NamedDay, day_number, day_of, day_with_number};
use crate::query::{Clause, Query};
use crate::times::Period;
use crate::windows::{Ranked, Ranking};

/// The share of a day's score for a message that may speak of it: a weekday has many days.
const MAY_SPEAK_OF_IT: f32 = 0.5;

/// The best `limit` messages of a path: those with a clause, and their neighbours.
pub(crate) fn rank(
    index: &Index,
    branch: &Branch,
    question: &Query,
    limit: usize,
    wanted: &CancelFlag,
) -> Result<Ranked> {
    let searcher = index.searcher();
    guarded("read", || {
        let path = OnPath::read(index.fields, &searcher, branch, wanted)?;
        let mut ranking = Ranking::new(&path.lengths);
        let of_days = path.of_days(question)?;
        let is_any = of_days.iter().any(|share| *share > 0.0);
        for clause in &question.clauses {
            // The words of a day are also those of other days.
            if !(is_any && clause.is_day) {
                ranking.add(&path.times(clause)?);
            }
        }
        ranking.add_days(&of_days);
        Ok(ranking.best(limit))
    })
}

struct OnPath<'a> {
    fields: Fields,
    searcher: &'a Searcher,
    wanted: &'a CancelFlag,
    /// Per segment, the ordinal of each document on the path; zero for all others.
    ordinals: Vec<Vec<u32>>,
    /// The words of each message, from the first on.
    lengths: Vec<u32>,
}

impl<'a> OnPath<'a> {
    fn read(
        fields: Fields,
        searcher: &'a Searcher,
        branch: &Branch,
        wanted: &'a CancelFlag,
    ) -> tantivy::Result<OnPath<'a>> {
        let mut path = OnPath {
            fields,
            searcher,
            wanted,
            ordinals: Vec::new(),
            lengths: Vec::new(),
        };
        for segment in searcher.segment_readers() {
            wanted.check()?;
            let ordinals = path.select(segment, branch)?;
            path.ordinals.push(ordinals);
        }
        Ok(path)
    }

    fn select(&mut self, segment: &SegmentReader, branch: &Branch) -> tantivy::Result<Vec<u32>> {
        let mut ordinals = vec![0; segment.max_doc() as usize];
        let fast = segment.fast_fields();
        let (ordinal, strand) = (fast.u64("ordinal")?, fast.u64("strand")?);
        let lengths = segment.get_fieldnorms_reader(self.fields.text)?;
        let session = self.fields.of_session(branch.session);
        each(segment, &session, self.wanted, |document| {
            let (Some(ordinal), Some(strand)) = (ordinal.first(document), strand.first(document))
            else {
                return;
            };
            if branch.contains(strand, ordinal)
                && let Some(place) = ordinals.get_mut(document as usize)
            {
                *place = u32::try_from(ordinal).unwrap_or(0);
                let position = (*place as usize).saturating_sub(1);
                let end = self.lengths.len().max(position + 1);
                self.lengths.resize(end, 0);
                if let Some(length) = self.lengths.get_mut(position) {
                    *length = lengths.fieldnorm(document);
                }
            }
        })?;
        Ok(ordinals)
    }

    /// 1 for each message of the days that a question names, and for one that speaks of them;
    /// [`MAY_SPEAK_OF_IT`] for one that may do so. Days without a year and distances are relative to
    /// the newest message; if nothing was said on such a day, it is that of an earlier year.
    fn of_days(&self, question: &Query) -> tantivy::Result<Vec<f32>> {
        let mut of_days = vec![0.0; self.lengths.len()];
        if question.mentions.is_empty() {
            return Ok(of_days);
        }
        let mut times = vec![None; self.lengths.len()];
        self.each_column("at", |position, at| {
            if let Some(time) = times.get_mut(position) {
                *time = day_of(Timestamp(at)).map(day_number);
            }
        })?;
        let newest = times.iter().flatten().max();
        let Some(newest) = newest.and_then(|day| day_with_number(*day)) else {
            return Ok(of_days);
        };
        let mut named: Vec<(usize, NamedDay)> = Vec::new();
        self.each_column(NAMED, |position, value| {
            named.push((position, NamedDay::of_value(value)));
        })?;
        let is_said = |days: &Days| {
            let mut said = times.iter().flatten();
            said.any(|day| days.numbers().contains(day))
        };
        let is_there = |days: &Days| {
            let mut named = named.iter();
            is_said(days) || named.any(|(_, day)| days.numbers().contains(&day.number))
        };
        let mut days: Vec<Days> = Vec::new();
        for mention in &question.mentions {
            let nearest = mention.resolve(newest);
            if !nearest.iter().any(is_said) {
                days.extend(mention.in_earlier_years(newest).find(is_there));
            }
            days.extend(nearest);
        }
        let is_named = |day: i64| days.iter().any(|days| days.numbers().contains(&day));
        for (of_day, day) in of_days.iter_mut().zip(&times) {
            if day.is_some_and(is_named) {
                *of_day = 1.0;
            }
        }
        for (position, day) in named {
            let share = if day.is_certain { 1.0 } else { MAY_SPEAK_OF_IT };
            if let Some(of_day) = of_days.get_mut(position)
                && is_named(day.number)
            {
                *of_day = share.max(*of_day);
            }
        }
        Ok(of_days)
    }

    /// Every value of a column, with the position of its message.
    fn each_column(&self, name: &str, mut f: impl FnMut(usize, i64)) -> tantivy::Result<()> {
        for (segment, ordinals) in self.searcher.segment_readers().iter().zip(&self.ordinals) {
            self.wanted.check()?;
            let Some(column) = segment.fast_fields().column_opt::<i64>(name)? else {
                continue;
            };
            for (document, ordinal) in (0..).zip(ordinals) {
                if let Some(position) = (*ordinal as usize).checked_sub(1) {
                    column
                        .values_for_doc(document)
                        .for_each(|value| f(position, value));
                }
            }
        }
        Ok(())
    }

    /// The frequency of a clause in each message. A word is looked for in texts, days and names of
    /// authors, and joined with other words in texts; a phrase in texts, and as the day or month of
    /// messages.
    fn times(&self, clause: &Clause) -> tantivy::Result<Vec<f32>> {
        let mut times = vec![0.0; self.lengths.len()];
        for (segment, ordinals) in self.searcher.segment_readers().iter().zip(&self.ordinals) {
            self.wanted.check()?;
            let mut add = |document: DocId, count: f32| {
                let ordinal = ordinals.get(document as usize).copied().unwrap_or(0);
                let position = (ordinal as usize).checked_sub(1);
                if let Some(times) = position.and_then(|at| times.get_mut(at)) {
                    *times += count;
                }
            };
            let [stem] = &clause.stems[..] else {
                let scoring = EnableScoring::disabled_from_searcher(self.searcher);
                let phrase = clause_query(self.fields, clause).weight(scoring)?;
                let mut matching = phrase.scorer(segment, 1.0)?;
                self.wanted
                    .each(&mut *matching, |_, document| add(document, 1.0))?;
                if let Some(period) = clause.period {
                    each_within(segment, ordinals, period, |document| add(document, 1.0))?;
                }
                continue;
            };
            let own = [self.fields.text, self.fields.day, self.fields.author];
            let own = own.map(|field| (field, stem, 1.0));
            let joins = clause.joined.iter();
            let joins = joins.map(|stem| (self.fields.text, stem, joined::WEIGHT));
            for (field, stem, weight) in own.into_iter().chain(joins) {
                let term = Term::from_field_text(field, stem);
                let index = segment.inverted_index(field)?;
                let postings = index.read_postings(&term, IndexRecordOption::WithFreqs)?;
                if let Some(mut postings) = postings {
                    self.wanted.each(&mut postings, |postings, document| {
                        add(document, weight * postings.term_freq() as f32);
                    })?;
                }
            }
        }
        Ok(times)
    }
}

/// Every document on the path whose message is from a period.
fn each_within(
    segment: &SegmentReader,
    ordinals: &[u32],
    period: Period,
    mut f: impl FnMut(DocId),
) -> tantivy::Result<()> {
    let at = segment.fast_fields().i64("at")?;
    let times = period.since.0..period.until.0;
    for (document, ordinal) in (0..).zip(ordinals) {
        if *ordinal > 0 && at.first(document).is_some_and(|at| times.contains(&at)) {
            f(document);
        }
    }
    Ok(())
}

/// Every document with a term, without removed ones.
fn each(
    segment: &SegmentReader,
    term: &Term,
    wanted: &CancelFlag,
    mut f: impl FnMut(DocId),
) -> tantivy::Result<()> {
    let terms = segment.inverted_index(term.field())?;
    let Some(mut postings) = terms.read_postings(term, IndexRecordOption::Basic)? else {
        return Ok(());
    };
    wanted.each(&mut postings, |_, document| {
        if !segment.is_deleted(document) {
            f(document);
        }
    })
}
