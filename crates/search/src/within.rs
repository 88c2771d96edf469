//! A search within one path of a session's tree, up to its head.
//!
//! What it gives depends on the messages of that path and on the words, and on nothing else: not on
//! other sessions or branches, on what was said later, or on how the index lies on disk. So an agent
//! that asks again is told the same, whatever others have written meanwhile. For that the statistics
//! of BM25 are taken over the path, and scores are added up in the order of the words.

use std::collections::{BTreeMap, HashMap};

use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, Searcher, SegmentReader, Term};
use unisono_context::Ordinal;

use crate::branch::Branch;
use crate::cancel::Wanted;
use crate::error::Result;
use crate::find::clause_query;
use crate::guarded::guarded;
use crate::index::{Fields, Index};
use crate::query::Clause;

/// What was found on a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ranked {
    /// The best first; of equal ones, the newer first.
    pub(crate) hits: Vec<Hit>,
    /// For each clause, how many messages have it.
    pub(crate) found: Vec<u64>,
}

/// A message that has at least one of the clauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) ordinal: Ordinal,
    pub(crate) score: f32,
    /// How many of the clauses it has.
    pub(crate) clauses: usize,
}

/// Ranks all messages of a path that have at least one of the clauses.
pub(crate) fn rank(
    index: &Index,
    branch: &Branch,
    clauses: &[Clause],
    wanted: &Wanted,
) -> Result<Ranked> {
    let searcher = index.searcher();
    guarded("read", || {
        let path = OnPath::of(index.fields, &searcher, branch, clauses, wanted)?;
        path.rank(clauses)
    })
}

/// The documents of a path, and what BM25 wants to know of them.
struct OnPath<'a> {
    fields: Fields,
    searcher: &'a Searcher,
    wanted: &'a Wanted,
    /// Per segment, the ordinal of each document on the path; zero for all others.
    ordinals: Vec<Vec<u32>>,
    documents: u64,
    tokens: u64,
    frequencies: HashMap<Term, u64>,
}

impl<'a> OnPath<'a> {
    fn of(
        fields: Fields,
        searcher: &'a Searcher,
        branch: &Branch,
        clauses: &[Clause],
        wanted: &'a Wanted,
    ) -> tantivy::Result<OnPath<'a>> {
        let mut path = OnPath {
            fields,
            searcher,
            wanted,
            ordinals: Vec::new(),
            documents: 0,
            tokens: 0,
            frequencies: HashMap::new(),
        };
        for segment in searcher.segment_readers() {
            wanted.check()?;
            let ordinals = path.select(segment, branch)?;
            path.ordinals.push(ordinals);
        }
        for stem in clauses.iter().flat_map(|clause| &clause.stems) {
            let term = Term::from_field_text(fields.text, stem);
            if !path.frequencies.contains_key(&term) {
                let frequency = path.frequency(&term)?;
                path.frequencies.insert(term, frequency);
            }
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
                self.documents += 1;
                self.tokens += u64::from(lengths.fieldnorm(document));
            }
        })?;
        Ok(ordinals)
    }

    fn frequency(&self, term: &Term) -> tantivy::Result<u64> {
        let mut frequency = 0;
        for (segment, ordinals) in self.segments() {
            self.wanted.check()?;
            each(segment, term, self.wanted, |document| {
                frequency += u64::from(ordinals.get(document as usize).is_some_and(|n| *n > 0));
            })?;
        }
        Ok(frequency)
    }

    fn segments(&self) -> impl Iterator<Item = (&'a SegmentReader, &Vec<u32>)> {
        self.searcher.segment_readers().iter().zip(&self.ordinals)
    }

    fn rank(&self, clauses: &[Clause]) -> tantivy::Result<Ranked> {
        let mut hits: BTreeMap<u32, (f32, usize)> = BTreeMap::new();
        let mut found = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let mut times = 0;
            let query = clause_query(self.fields, clause);
            let scoring = EnableScoring::enabled_from_statistics_provider(self, self.searcher);
            let weight = query.weight(scoring)?;
            for (segment, ordinals) in self.segments() {
                self.wanted.check()?;
                let mut matching = weight.scorer(segment, 1.0)?;
                self.wanted.each(&mut *matching, |matching, document| {
                    let ordinal = ordinals.get(document as usize).copied().unwrap_or(0);
                    if ordinal > 0 {
                        let hit = hits.entry(ordinal).or_default();
                        *hit = (hit.0 + matching.score(), hit.1 + 1);
                        times += 1;
                    }
                })?;
            }
            found.push(times);
        }
        let hits = hits.into_iter().map(|(ordinal, (score, clauses))| Hit {
            ordinal: Ordinal(ordinal),
            score,
            clauses,
        });
        let mut hits: Vec<Hit> = hits.collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.ordinal.cmp(&a.ordinal)));
        Ok(Ranked { hits, found })
    }
}

/// Every document with a term that was not removed.
fn each(
    segment: &SegmentReader,
    term: &Term,
    wanted: &Wanted,
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

impl Bm25StatisticsProvider for OnPath<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.tokens)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.frequencies.get(term).copied().unwrap_or(0))
    }
}
