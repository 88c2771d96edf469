//! Reasoning that a model writes into its text: a `<think>` block before its answer, as servers
//! pass it on if they are not configured to separate the reasoning.
//!
//! The chat templates of some models (DeepSeek-R1, QwQ, Qwen3 Thinking) end the prompt with the
//! opening tag, so that a reply has only the closing one. The first words of such a reply do not
//! differ from an answer, and text that was already streamed cannot be withdrawn. Such models are
//! therefore marked in the catalogue (`think_opened`), and their replies are read as reasoning from
//! the start.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Splits a streamed text into reasoning and answer, in pieces of any length.
#[derive(Debug, Default)]
pub(crate) struct ThinkSplitter {
    state: State,
    /// Undecided text: part of a tag, or white space.
    held: String,
    block: String,
    /// Whether the prompt opened the block.
    opened: bool,
}

/// The position relative to the block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Start,
    Inside,
    /// In the white space after the block.
    Gap,
    Answer,
}

impl ThinkSplitter {
    /// A splitter for a reply whose prompt ended with the opening tag.
    pub(crate) fn opened() -> ThinkSplitter {
        ThinkSplitter {
            state: State::Inside,
            opened: true,
            ..ThinkSplitter::default()
        }
    }

    /// The server reports reasoning separately: if no text was read yet, all of it is the answer.
    pub(crate) fn reasoning_is_separate(&mut self) {
        if self.opened && self.held.is_empty() && self.block.is_empty() {
            *self = ThinkSplitter::default();
        }
    }

    /// The reply is complete. A block that the prompt opened and that has neither tag is the answer
    /// of a model that did not reason.
    pub(crate) fn complete(&mut self) {
        let unmarked = !self.block.trim_start().starts_with(OPEN);
        if self.opened && self.state == State::Inside && unmarked {
            self.block.push_str(&self.held);
            self.held = std::mem::take(&mut self.block);
            self.state = State::Answer;
        }
    }

    /// Reads a piece and appends its part of the answer to `answer`.
    pub(crate) fn push(&mut self, piece: &str, answer: &mut String) {
        if self.state == State::Answer {
            return answer.push_str(piece);
        }
        self.held.push_str(piece);
        if self.state == State::Start {
            let text = self.held.trim_start();
            if text.starts_with(OPEN) {
                let opened = self.held.len() - text.len() + OPEN.len();
                self.block.extend(self.held.drain(..opened));
                self.state = State::Inside;
            } else if OPEN.starts_with(text) {
                return;
            } else {
                return self.finish(answer);
            }
        }
        if self.state == State::Inside {
            let close = self.held.find(CLOSE);
            let read = close.map_or_else(
                || self.held.len() - partial_close(&self.held),
                |at| at + CLOSE.len(),
            );
            self.block.extend(self.held.drain(..read));
            if close.is_none() {
                return;
            }
            self.state = State::Gap;
        }
        let gap = self.held.len() - self.held.trim_start().len();
        self.block.extend(self.held.drain(..gap));
        if !self.held.is_empty() {
            self.finish(answer);
        }
    }

    /// The text has ended: undecided text belongs to the answer, or to an unclosed block.
    pub(crate) fn finish(&mut self, answer: &mut String) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Inside => self.block.push_str(&held),
            State::Start | State::Gap | State::Answer => {
                answer.push_str(&held);
                self.state = State::Answer;
            }
        }
    }

    /// The verbatim block, with its tags and the white space around it; empty if there is none.
    pub(crate) fn block(&self) -> &str {
        &self.block
    }
}

/// The length of a possible beginning of the closing tag at the end of a text.
fn partial_close(text: &str) -> usize {
    let lengths = (1..CLOSE.len()).rev();
    let mut begun = lengths.filter(|length| text.ends_with(&CLOSE[..*length]));
    begun.next().unwrap_or(0)
}

pub(crate) fn answer(text: &str) -> String {
    let (mut splitter, mut answer) = (ThinkSplitter::default(), String::new());
    splitter.push(text, &mut answer);
    splitter.finish(&mut answer);
    answer
}

#[cfg(test)]
mod tests {
    //! Tests that a block is found however the text is split, and that nothing else is considered
    //! one.

    use super::*;

    /// Text, the block and the answer.
    const CASES: [(&str, &str, &str); 14] = [
        ("", "", ""),
        ("Hello.", "", "Hello."),
        ("  Hello.", "", "  Hello."),
        ("\n", "", "\n"),
        ("<think>hm</think>Hello.", "<think>hm</think>", "Hello."),
        (
            "\n<think>\nhm, <b>größer</b> </thin\n</think>\n\nHello. <think>no</think>",
            "\n<think>\nhm, <b>größer</b> </thin\n</think>\n\n",
            "Hello. <think>no</think>",
        ),
        ("<think></think>Hello.", "<think></think>", "Hello."),
        ("<think>a</think> \n", "<think>a</think> \n", ""),
        // The reply has only thoughts.
        ("<think>hm </thi", "<think>hm </thi", ""),
        ("<think>a<</think>b", "<think>a<</think>", "b"),
        ("<thin", "", "<thin"),
        ("<thinking>a</thinking>b", "", "<thinking>a</thinking>b"),
        ("<b>no</b>", "", "<b>no</b>"),
        ("Use <think>a</think>.", "", "Use <think>a</think>."),
    ];

    #[test]
    fn a_leading_block_is_removed_for_every_cut() {
        for (text, block, expected) in CASES {
            assert_eq!(answer(text), expected, "{text:?}");
            let cuts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let cuts: Vec<usize> = cuts.collect();
            for (n, first) in cuts.iter().enumerate() {
                for second in &cuts[n..] {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    let (mut splitter, mut answer) = (ThinkSplitter::default(), String::new());
                    for piece in pieces {
                        let before = answer.clone();
                        splitter.push(piece, &mut answer);
                        assert!(answer.starts_with(&before), "it only grows");
                    }
                    splitter.finish(&mut answer);
                    assert_eq!(
                        (splitter.block(), &*answer),
                        (block, expected),
                        "{pieces:?}"
                    );
                }
            }
        }
    }

    /// Text after a prompt that opened the block, the block, the answer, and the answer if the
    /// reply is complete.
    const OPENED: [(&str, &str, &str, &str); 11] = rows! {
        ("", "", "", ""),
        ("hm</think>Hello.", "hm</think>", "Hello.", "Hello."),
        (
            "hm, größer </thin\n</think>\n\nHello. </think> <think>no</think>",
            "hm, größer </thin\n</think>\n\n",
            "Hello. </think> <think>no</think>",
            "Hello. </think> <think>no</think>",
        ),
        ("</think>Hello.", "</think>", "Hello.", "Hello."),
        // A template that leaves the opening tag to the model.
        ("<think>hm</think>Hello.", "<think>hm</think>", "Hello.", "Hello."),
        ("\n<think>hm", "\n<think>hm", "", ""),
        ("hm</think> \n", "hm</think> \n", "", ""),
        ("a<</think>b", "a<</think>", "b", "b"),
        // Truncated within its thoughts, or an answer without any.
        ("größer", "größer", "", "größer"),
        ("hm </thin", "hm </thin", "", "hm </thin"),
        (" \nHello.", " \nHello.", "", " \nHello."),
    };

    #[test]
    fn reasoning_opened_by_the_prompt_is_removed_for_every_cut() {
        for (text, block, cut_off, complete) in OPENED {
            let cuts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let cuts: Vec<usize> = cuts.collect();
            for (n, first) in cuts.iter().enumerate() {
                for second in &cuts[n..] {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    for ends in [false, true] {
                        let (mut splitter, mut answer) = (ThinkSplitter::opened(), String::new());
                        for piece in pieces {
                            splitter.push(piece, &mut answer);
                            assert!(
                                cut_off.starts_with(&answer),
                                "no thought is told: {answer:?}"
                            );
                        }
                        if ends {
                            splitter.complete();
                        }
                        splitter.finish(&mut answer);
                        let expected = if ends { complete } else { cut_off };
                        assert_eq!(answer, expected, "{pieces:?}");
                        let kept = if expected == text { "" } else { block };
                        assert_eq!(splitter.block(), kept, "{pieces:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn separate_reasoning_leaves_the_text_as_the_answer() {
        let (mut splitter, mut answer) = (ThinkSplitter::opened(), String::new());
        splitter.push("", &mut answer);
        splitter.reasoning_is_separate();
        splitter.push("Hello.", &mut answer);
        assert_eq!((splitter.block(), &*answer), ("", "Hello."));
        // Too late, because the text has begun.
        let (mut splitter, mut answer) = (ThinkSplitter::opened(), String::new());
        splitter.push("hm", &mut answer);
        splitter.reasoning_is_separate();
        splitter.push("</think>Hello.", &mut answer);
        assert_eq!((splitter.block(), &*answer), ("hm</think>", "Hello."));
    }

    #[test]
    fn each_character_by_itself() {
        for (text, block, expected) in CASES {
            let (mut splitter, mut answer) = (ThinkSplitter::default(), String::new());
            for piece in text.chars() {
                splitter.push(piece.encode_utf8(&mut [0; 4]), &mut answer);
            }
            splitter.finish(&mut answer);
            assert_eq!((splitter.block(), &*answer), (block, expected), "{text:?}");
        }
    }
}
