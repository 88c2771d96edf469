//! The cost of attachments for the models of a team.

use std::iter::Sum;
use std::ops::Add;

use super::{Content, Extent, Rule};
use crate::tokens::{Count, Tokens};

/// Number of ways to get attachments: four for each rule.
const WAYS: u16 = 12;

/// A set of ways in which models get attachments: the rule of the provider, and whether the model
/// takes images and documents. A model that takes no documents gets their texts. An attachment costs what
/// it costs in the most expensive way of the set. In the empty set the models are unknown, and the largest
/// rule of all applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileRules(u16);

impl FileRules {
    /// A model that takes no attachments.
    pub const TEXTS: FileRules = FileRules(1);

    /// The way of one model.
    pub fn for_model(rule: Rule, images: bool, documents: bool) -> FileRules {
        if !images && !documents {
            return FileRules::TEXTS;
        }
        let way = rule as u16 * 4 + u16::from(images) * 2 + u16::from(documents);
        FileRules(1 << way)
    }

    /// The set as a number, for records.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set of that number; none if it has ways that are not known here.
    pub fn from_bits(bits: u16) -> Option<FileRules> {
        (bits >> WAYS == 0).then_some(FileRules(bits))
    }

    /// The ways of both; unknown if one is.
    #[must_use]
    pub fn union(self, other: FileRules) -> FileRules {
        match (self.0, other.0) {
            (0, _) | (_, 0) => FileRules::default(),
            (one, other) => FileRules(one | other),
        }
    }

    /// Tokens of attachments.
    pub fn tokens(self, files: &FileTokens) -> Tokens {
        let ways = (0..WAYS).filter(|way| self.0 >> way & 1 == 1);
        let each = ways.map(|way| {
            let rule = usize::from(way / 4);
            let images = match way & 2 {
                0 => Tokens::ZERO,
                _ => files.images[rule],
            };
            let documents = match way & 1 {
                0 => files.texts,
                _ => files.documents[rule],
            };
            images + documents
        });
        each.max().unwrap_or(files.largest)
    }

    /// The count of messages with these attachments, in which they have the largest rule, by these
    /// rules.
    pub(crate) fn recounted(self, counted: Count, files: &FileTokens) -> Count {
        files.without_files(counted) + self.count(files)
    }

    /// Tokens of attachments, as a count.
    pub(crate) fn count(self, files: &FileTokens) -> Count {
        Count::exact(self.tokens(files).0)
    }
}

type ByRule = [Tokens; Rule::ALL.len()];

/// Tokens of attachments in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTokens {
    images: ByRule,
    documents: ByRule,
    texts: Tokens,
    /// Of all of them, each by the rule that gives the most.
    largest: Tokens,
}

impl FileTokens {
    /// The tokens of one content.
    pub fn for_content(content: &Content) -> FileTokens {
        let by_rule = Rule::ALL.map(|rule| content.extent.tokens(rule));
        let mut files = FileTokens {
            texts: content.text.map(|text| text.tokens).unwrap_or_default(),
            largest: content.extent.at_most(),
            ..FileTokens::default()
        };
        match content.extent {
            Extent::Pixels { .. } => files.images = by_rule,
            Extent::Pages(_) => files.documents = by_rule,
        }
        files
    }

    /// A count without these attachments, which have the largest rule in it.
    pub(crate) fn without_files(&self, counted: Count) -> Count {
        counted.minus(Count::exact(self.largest.0))
    }

    /// These without others, which must be part of them.
    #[must_use]
    pub(crate) fn minus(&self, other: &FileTokens) -> FileTokens {
        self.zipped(other, Tokens::minus)
    }

    fn zipped(&self, other: &FileTokens, by: impl Fn(Tokens, Tokens) -> Tokens) -> FileTokens {
        let each = |one: &ByRule, other: &ByRule| -> ByRule {
            std::array::from_fn(|rule| by(one[rule], other[rule]))
        };
        FileTokens {
            images: each(&self.images, &other.images),
            documents: each(&self.documents, &other.documents),
            texts: by(self.texts, other.texts),
            largest: by(self.largest, other.largest),
        }
    }
}

impl Add for FileTokens {
    type Output = FileTokens;

    fn add(self, other: FileTokens) -> FileTokens {
        self.zipped(&other, Tokens::add)
    }
}

impl Sum for FileTokens {
    fn sum<I: Iterator<Item = FileTokens>>(iter: I) -> FileTokens {
        iter.fold(FileTokens::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::attachment::DocumentText;
    use crate::digest::Digest;

    #[test]
    fn attachments_cost_by_the_most_expensive_way_of_the_team() {
        let content = |extent| Content::new(Arc::from(&b"bytes"[..]), extent);
        let image = content(Extent::Pixels {
            width: 1_000,
            height: 1_000,
        });
        let document = Content {
            text: Some(DocumentText {
                digest: Digest([1; 32]),
                tokens: Tokens(4_000),
            }),
            ..content(Extent::Pages(10))
        };
        let files = FileTokens::for_content(&image) + FileTokens::for_content(&document);
        let way = FileRules::for_model;
        let (texts, unknown) = (FileRules::TEXTS, FileRules::default());
        let images = way(Rule::Anthropic, true, false);
        let gemini = way(Rule::Gemini, true, true);
        for (rules, tokens) in [
            (texts, 4_000),
            (way(Rule::Gemini, false, false), 4_000),
            (images, 5_334),
            (gemini, 1_032 + 2_580),
            (way(Rule::OpenAi, true, true), 765 + 30_000),
            (way(Rule::OpenAi, false, true), 30_000),
            (gemini.union(texts), 4_000),
            (gemini.union(images), 5_334),
            (unknown, 1_334 + 30_000),
            (gemini.union(unknown), 1_334 + 30_000),
        ] {
            assert_eq!(rules.tokens(&files), Tokens(tokens), "{rules:?}");
            assert_eq!(FileRules::from_bits(rules.bits()), Some(rules));
        }
        assert_eq!(FileRules::from_bits(1 << WAYS), None);
        // Records have these numbers.
        let bits = [texts, images, gemini].map(FileRules::bits);
        assert_eq!(bits, [1, 1 << 2, 1 << 11]);
        let counted = Count::exact(100 + 1_334 + 30_000);
        let recounted = gemini.recounted(counted, &files);
        assert_eq!(recounted, Count::exact(100 + 1_032 + 2_580));
        let rest = files.minus(&FileTokens::for_content(&image));
        assert_eq!(rest, FileTokens::for_content(&document));
    }
}
