//! OpenRouter's blocks of reasoning, signed or encrypted. It refuses a call of Gemini that comes back
//! without them. A stream has them in pieces: a block's text first, its signature at the end.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

type Block = Map<String, Value>;

#[derive(Debug, Default)]
pub(super) struct Details(Vec<Block>);

impl Details {
    /// Adds a list of blocks, or of pieces of them. Anything else is not read.
    pub(super) fn add(&mut self, pieces: &RawValue) {
        let pieces: Vec<Block> = serde_json::from_str(pieces.get()).unwrap_or_default();
        for piece in pieces {
            match self.0.last_mut() {
                Some(block) if is_continued(block, &piece) => extend(block, piece),
                _ => self.0.push(piece),
            }
        }
    }

    /// The list, as it is sent back; none without blocks.
    pub(super) fn written(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        serde_json::to_string(&self.0).ok()
    }
}

fn known<'b>(block: &'b Block, key: &str) -> Option<&'b Value> {
    block.get(key).filter(|value| !value.is_null())
}

/// Whether the piece continues the block. A signature ends a block, and encrypted data is whole.
fn is_continued(block: &Block, piece: &Block) -> bool {
    let kind = known(piece, "type").and_then(Value::as_str);
    let is_text = matches!(kind, Some("reasoning.text" | "reasoning.summary"));
    let same = |key| known(block, key) == known(piece, key);
    let same_id = known(piece, "id").is_none() || known(block, "id").is_none() || same("id");
    is_text && same("type") && same("index") && same_id && known(block, "signature").is_none()
}

fn extend(block: &mut Block, piece: Block) {
    for (key, value) in piece {
        if value.is_null() {
            continue;
        }
        let is_text = key == "text" || key == "summary";
        match block.get_mut(&key) {
            Some(Value::String(text)) if is_text => {
                text.push_str(value.as_str().unwrap_or_default());
            }
            _ => {
                block.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(pieces: &[Value]) -> Option<Value> {
        let mut details = Details::default();
        for piece in pieces {
            let raw = RawValue::from_string(piece.to_string()).unwrap();
            details.add(&raw);
        }
        let written = details.written()?;
        Some(serde_json::from_str(&written).unwrap())
    }

    #[test]
    fn the_pieces_of_a_block_are_joined() {
        let pieces = [
            json!([{"type": "reasoning.text", "text": "Let", "index": 0, "signature": null}]),
            json!([{"type": "reasoning.text", "text": " me.", "index": 0}]),
            json!([{"type": "reasoning.text", "text": null, "index": 0, "signature": "s"}]),
            json!([]),
            json!([{"type": "reasoning.text", "text": "Then", "index": 1}]),
            json!([
                {"type": "reasoning.encrypted", "data": "x", "id": "a", "index": 2},
                {"type": "reasoning.encrypted", "data": "y", "id": "b", "index": 2},
            ]),
        ];
        let expected = json!([
            {"type": "reasoning.text", "text": "Let me.", "index": 0, "signature": "s"},
            {"type": "reasoning.text", "text": "Then", "index": 1},
            {"type": "reasoning.encrypted", "data": "x", "id": "a", "index": 2},
            {"type": "reasoning.encrypted", "data": "y", "id": "b", "index": 2},
        ]);
        assert_eq!(merged(&pieces), Some(expected));
    }

    #[test]
    fn whole_blocks_stay_apart_and_other_values_are_not_read() {
        let signed = json!({"type": "reasoning.text", "text": "a", "signature": "s"});
        let named = |id: &str| json!({"type": "reasoning.summary", "summary": "b", "id": id});
        let blocks = json!([signed, signed, named("1"), named("2")]);
        assert_eq!(merged(std::slice::from_ref(&blocks)), Some(blocks));
        for other in [json!("x"), json!({}), json!([1]), json!([])] {
            assert_eq!(merged(std::slice::from_ref(&other)), None, "{other}");
        }
    }
}
