//! Questions that propose something, and the replies that accept them.

use crate::extractive::cues::Cues;
use crate::extractive::days::has_word;
use crate::extractive::passage::PassageKind;
use crate::extractive::pool::Pool;
use crate::extractive::split::Block;
use crate::extractive::terms::in_small_letters;

/// Words with which a reply accepts a proposal, and words before a condition.
const ACCEPTING: &str = "yes yeah yep ok okay fine sure perfect agreed works ja gut passt gern \
    gerne prima einverstanden";
const CONDITIONS: &str = "but if aber wenn";

/// Whether a unit is a question at the end of a message which the next message accepts: `14 April at
/// 11:15?`, `Yes, that's fine.`
pub(super) fn is_accepted(pool: &Pool<'_>, index: usize) -> bool {
    let unit = &pool.units[index];
    let asks = unit.cues.intersects(Cues::QUESTION)
        && unit.kind == PassageKind::Text
        && matches!(unit.block, Block::Prose | Block::Item);
    asks && pool.units.get(index + 1).is_some_and(|reply| {
        let next = pool.units.get(index + 2);
        let next = next.filter(|next| next.source == reply.source);
        reply.source != unit.source
            && reply.speaker != unit.speaker
            && reply.kind == PassageKind::Text
            && accepts(reply.text)
            && next.is_none_or(|next| words(next.text).next().is_none_or(is_free))
    })
}

fn accepts(text: &str) -> bool {
    let first = words(text).next().unwrap_or_default();
    has_word(ACCEPTING, &in_small_letters(first)) && words(text).all(is_free)
}

/// Whether a word begins no condition.
fn is_free(word: &str) -> bool {
    !has_word(CONDITIONS, &in_small_letters(word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}
