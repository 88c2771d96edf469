//! A person's search: over one session or all, the best first.
//!
//! BM25 (S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009)
//! with k1 = 1.2 and b = 0.75, as in tantivy.

use std::ops::Bound;

use jiff::civil::Date;
use tantivy::collector::TopDocs;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, Occur, PhraseQuery, Query as Matching,
    RangeQuery, TermQuery,
};
use tantivy::schema::{IndexRecordOption, TantivyDocument, Value};
use tantivy::{DocAddress, Order, Searcher, Term};
use unisono_context::{SessionId, Timestamp};

use crate::answer::FoundMessage;
use crate::cancel::CancelFlag;
use crate::error::{Error, Result};
use crate::guarded::guarded;
use crate::index::{Fields, Index, Place};
use crate::joined::{self, join, keep_known};
use crate::named::{Days, NamedDay, day_of};
use crate::query::{Clause, Filters, Occurrence, Query};
use crate::times::Period;
use crate::words::name_key;

/// Of a query with more terms the search engine cannot leave out much, and its search can be ended
/// within a segment.
const PRUNED: usize = 16;
/// The score of a message for its time: less than for a word in its text.
const PERIOD_SCORE: f32 = 0.5;
/// The score of a message that is of a day that the query names, or speaks of it: as much as for a
/// rare word, and with another word of the query as much as for several.
const DAY_SCORE: f32 = 8.0;
const DAY_AND_WORD_SCORE: f32 = 20.0;

/// The best `limit` messages, limited to the named sessions, if any, and to the owner, if any.
pub(crate) fn find(
    index: &Index,
    query: &Query,
    sessions: &[SessionId],
    owner: Option<&str>,
    limit: usize,
    wanted_by: &CancelFlag,
) -> Result<Vec<FoundMessage>> {
    let searcher = index.searcher();
    let mut query = query.clone();
    join(&mut query.clauses);
    guarded("read", || {
        find_authors(&mut query.clauses, index.fields, &searcher)?;
        keep_known(&mut query.clauses, index.fields, &searcher)
    })?;
    let wanted = query.clauses.iter().any(|c| c.need != Occurrence::Excluded);
    let only = only(index.fields, &query.filters, sessions, owner);
    let matching = matching(index.fields, &query, only, wanted);
    let limit = limit.max(1);
    let prunes = query.terms() <= PRUNED;
    let best: Vec<(f32, DocAddress)> = guarded("read", || {
        if wanted {
            let best = TopDocs::with_limit(limit).order_by_score();
            return searcher.search(&*matching, &wanted_by.collect(best, prunes));
        }
        let newest = TopDocs::with_limit(limit).order_by_fast_field::<i64>("at", Order::Desc);
        let newest = searcher.search(&*matching, &wanted_by.collect(newest, false))?;
        let newest = newest.into_iter();
        Ok(newest.map(|(_, address)| (0.0, address)).collect())
    })?;
    let found = best
        .into_iter()
        .map(|(score, address)| found(index.fields, &searcher, score, address));
    found.collect()
}

fn found(
    fields: Fields,
    searcher: &Searcher,
    score: f32,
    address: DocAddress,
) -> Result<FoundMessage> {
    let document: TantivyDocument = guarded("read", || searcher.doc(address))?;
    let place = document.get_first(fields.place);
    let place = place
        .and_then(|value| value.as_bytes())
        .and_then(Place::read);
    let Some(place) = place else {
        let reason = "a message without its place was found".to_owned();
        return Err(Error::Damaged { reason });
    };
    Ok(FoundMessage {
        session: place.session,
        message: place.message,
        ordinal: place.ordinal,
        score,
    })
}

/// The query for the search engine.
fn matching(
    fields: Fields,
    query: &Query,
    mut all: Vec<(Occur, Box<dyn Matching>)>,
    wanted: bool,
) -> Box<dyn Matching> {
    let of = |need: Occurrence| query.clauses.iter().filter(move |c| c.need == need);
    for clause in of(Occurrence::Excluded) {
        let mut any = vec![clause_query(fields, clause)];
        any.extend(of_period(fields, clause));
        all.push((Occur::MustNot, union(any)));
    }
    let required: Vec<_> = of(Occurrence::Required)
        .map(|clause| (Occur::Must, anywhere(fields, clause)))
        .collect();
    let mut optional: Vec<_> = of(Occurrence::Wanted)
        .map(|clause| (Occur::Should, anywhere(fields, clause)))
        .collect();
    optional.extend(favoured(fields, query));
    match (required.is_empty(), all.is_empty()) {
        // Only the best of these are read.
        (true, true) if wanted => return Box::new(BooleanQuery::new(optional)),
        (true, false) if wanted => {
            all.push((Occur::Must, Box::new(BooleanQuery::new(optional))));
        }
        _ => {
            all.extend(required);
            all.extend(optional);
        }
    }
    if !wanted {
        // All documents except cursors.
        all.push((Occur::Must, Box::new(AllQuery)));
        all.push((Occur::MustNot, of_term(fields.cursors())));
    }
    Box::new(BooleanQuery::new(all))
}

fn only(
    fields: Fields,
    filters: &Filters,
    sessions: &[SessionId],
    owner: Option<&str>,
) -> Vec<(Occur, Box<dyn Matching>)> {
    let roles = filters.roles.iter();
    let roles = roles.map(|role| Term::from_field_text(fields.role, role.name()));
    let agents = filters.agents.iter();
    let agents = agents.map(|agent| Term::from_field_text(fields.agent, &name_key(agent.as_str())));
    let sessions = sessions.iter().map(|session| fields.of_session(*session));
    let owner = owner.map(|owner| Term::from_field_text(fields.owner, owner));
    let mut all = Vec::new();
    for terms in [
        roles.collect::<Vec<_>>(),
        agents.collect(),
        sessions.collect(),
        owner.into_iter().collect(),
    ] {
        if !terms.is_empty() {
            let any = terms.into_iter().map(of_term).collect();
            all.push(unscored(Box::new(BooleanQuery::union(any))));
        }
    }
    if filters.since.is_some() || filters.until.is_some() {
        // Messages of an unknown time are neither before nor after another.
        let at = |at: Timestamp| Term::from_field_i64(fields.at, at.0);
        let since = filters
            .since
            .map_or(Bound::Excluded(at(Timestamp::default())), |since| {
                Bound::Included(at(since))
            });
        let until = filters
            .until
            .map_or(Bound::Unbounded, |u| Bound::Excluded(at(u)));
        all.push(unscored(Box::new(RangeQuery::new(since, until))));
    }
    all
}

fn unscored(query: Box<dyn Matching>) -> (Occur, Box<dyn Matching>) {
    (Occur::Must, Box::new(ConstScoreQuery::new(query, 0.0)))
}

fn of_term(term: Term) -> Box<dyn Matching> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

/// Notes the words that are in the name of an author. The others are not looked for in names: where no
/// message has an author, tantivy opens an empty dictionary several times for each segment and word.
fn find_authors(
    clauses: &mut [Clause],
    fields: Fields,
    searcher: &Searcher,
) -> tantivy::Result<()> {
    for clause in clauses {
        if let [word] = &clause.stems[..] {
            let name = Term::from_field_text(fields.author, word);
            clause.is_author = searcher.doc_freq(&name)? > 0;
        }
    }
    Ok(())
}

/// The words of a clause in a text, also joined with others, a single word in its author's name, or a
/// time of the message.
fn anywhere(fields: Fields, clause: &Clause) -> Box<dyn Matching> {
    let mut any = vec![clause_query(fields, clause)];
    if let ([word], true) = (&clause.stems[..], clause.is_author) {
        any.push(of_term(Term::from_field_text(fields.author, word)));
    }
    for stem in &clause.joined {
        let term = Term::from_field_text(fields.text, stem);
        let term = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        any.push(Box::new(BoostQuery::new(term, joined::WEIGHT)));
    }
    any.extend(of_period(fields, clause));
    union(any)
}

/// The queries that put messages of the days that the query names first.
fn favoured(fields: Fields, query: &Query) -> Vec<(Occur, Box<dyn Matching>)> {
    let days = query.days();
    if days.is_empty() {
        return Vec::new();
    }
    let sought = |clause: &&Clause| clause.need != Occurrence::Excluded;
    let clauses = || query.clauses.iter().filter(sought);
    let has_others = clauses().any(|clause| !clause.is_day);
    let words = clauses().filter(|clause| !(has_others && clause.is_day));
    let words = words.map(|clause| anywhere(fields, clause)).collect();
    let both = vec![
        (Occur::Must, of_days(fields, &days)),
        (Occur::Must, union(words)),
    ];
    let both = Box::new(BooleanQuery::new(both));
    let scored = |query, score| -> (Occur, Box<dyn Matching>) {
        (Occur::Should, Box::new(ConstScoreQuery::new(query, score)))
    };
    vec![
        scored(both, DAY_AND_WORD_SCORE),
        scored(of_days(fields, &days), DAY_SCORE),
    ]
}

/// The messages of days, and those that name one of them.
fn of_days(fields: Fields, days: &[Days]) -> Box<dyn Matching> {
    let mut any: Vec<Box<dyn Matching>> = Vec::new();
    for days in days {
        any.extend(days.period().map(|period| of_time(fields, period)));
        let (first, last) = NamedDay::values(*days);
        let value = |value| Bound::Included(Term::from_field_i64(fields.named, value));
        any.push(Box::new(RangeQuery::new(value(first), value(last))));
    }
    union(any)
}

/// The day of the newest message of these sessions, if any are named, and of the owner, if any.
pub(crate) fn newest_day(
    index: &Index,
    sessions: &[SessionId],
    owner: Option<&str>,
    wanted: &CancelFlag,
) -> Result<Option<Date>> {
    let only = only(index.fields, &Filters::default(), sessions, owner);
    let newest = TopDocs::with_limit(1).order_by_fast_field::<i64>("at", Order::Desc);
    let newest = guarded("read", || {
        let matching = BooleanQuery::new(only);
        index
            .searcher()
            .search(&matching, &wanted.collect(newest, false))
    })?;
    let at = newest.first().and_then(|(at, _)| *at);
    Ok(at.and_then(|at| day_of(Timestamp(at))))
}

/// The messages of a clause's day or month.
fn of_period(fields: Fields, clause: &Clause) -> Option<Box<dyn Matching>> {
    let range = of_time(fields, clause.period?);
    Some(Box::new(ConstScoreQuery::new(range, PERIOD_SCORE)))
}

fn of_time(fields: Fields, Period { since, until }: Period) -> Box<dyn Matching> {
    let at = |at: Timestamp| Term::from_field_i64(fields.at, at.0);
    let range = RangeQuery::new(Bound::Included(at(since)), Bound::Excluded(at(until)));
    Box::new(range)
}

fn union(mut any: Vec<Box<dyn Matching>>) -> Box<dyn Matching> {
    match (any.len(), any.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            any.extend(last);
            Box::new(BooleanQuery::union(any))
        }
    }
}

/// The words of a clause, one after the other.
pub(crate) fn clause_query(fields: Fields, clause: &Clause) -> Box<dyn Matching> {
    let mut terms: Vec<Term> = clause
        .stems
        .iter()
        .map(|stem| Term::from_field_text(fields.text, stem))
        .collect();
    match (terms.len(), terms.pop()) {
        (1, Some(term)) => Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)),
        (_, last) => {
            terms.extend(last);
            Box::new(PhraseQuery::new(terms))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_authors_are_looked_for_in_their_names() {
        let index = Index::in_memory().unwrap();
        let mut document = TantivyDocument::new();
        document.add_text(index.fields.author, "risks");
        let mut writer = index.index.writer_with_num_threads(1, 32 << 20).unwrap();
        writer.add_document(document).unwrap();
        writer.commit().unwrap();
        index.refresh().unwrap();
        let mut query = Query::parse("risks orders", Timestamp(0)).unwrap();
        find_authors(&mut query.clauses, index.fields, &index.searcher()).unwrap();
        let terms = query.clauses.iter().map(|clause| {
            let mut terms = 0;
            anywhere(index.fields, clause).query_terms(&mut |_, _| terms += 1);
            terms
        });
        assert_eq!(terms.collect::<Vec<_>>(), [2, 1]);
    }
}
