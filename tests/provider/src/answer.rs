//! What the fake model says, in no provider's form.

/// What the fake model says. Rendered in the dialect and the form that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The model's name as the reply gives it.
    pub model: String,
    /// What it thought before it spoke.
    pub reasoning: Option<Reasoning>,
    /// Its text, in the pieces in which a stream brings it. Empty: no text.
    pub text: Vec<String>,
    /// The tools it calls.
    pub calls: Vec<Call>,
    /// What it used. A cache simulation replaces the input's figures.
    pub usage: Usage,
    /// Why it ends.
    pub stop: Stop,
    /// Characters of reasoning and of a call's arguments in one piece of a stream.
    pub piece: usize,
}

/// Reasoning that a client has to send back as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// Its text, or a summary.
    pub text: String,
    /// What proves it to be the model's own: `signature`, `encrypted_content`,
    /// `thoughtSignature`. Chat Completions has no such field.
    pub signature: String,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its id. None: `call_1`, `toolu_1` and so on by its place; none at all in Gemini's dialect.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// Arguments. Should be the text of a JSON object; what is not JSON is sent as it is where
    /// the dialect has arguments as text, else as a JSON string.
    pub arguments: String,
}

/// Tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All of the input, cached or not.
    pub input: u64,
    /// All of the output, reasoning included.
    pub output: u64,
    /// Output that was reasoning.
    pub reasoning: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// The model was done, or waits for its tools.
    #[default]
    Complete,
    /// It had written all the tokens it was allowed.
    CutOff,
    /// The model declines. Its text is the refusal: `refusal` at OpenAI, `stop_reason` at
    /// Anthropic, `SAFETY` at Gemini.
    Refused,
    /// A filter stops it: `content_filter` at OpenAI; Anthropic does not tell it from a refusal;
    /// Gemini blocks the prompt and answers without a candidate.
    Filtered,
}

impl Answer {
    /// An answer of one piece of text.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer {
            text: vec![text.into()],
            ..Answer::empty()
        }
    }

    /// An answer whose text comes in these pieces.
    pub fn pieces<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Answer {
        Answer {
            text: pieces.into_iter().map(Into::into).collect(),
            ..Answer::empty()
        }
    }

    /// An answer that calls a tool and says nothing.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Answer {
        Answer::empty().and_call(name, arguments)
    }

    /// Neither text nor calls.
    pub fn empty() -> Answer {
        Answer {
            model: "fake-model".into(),
            reasoning: None,
            text: Vec::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            stop: Stop::Complete,
            piece: usize::MAX,
        }
    }

    /// Calls a tool, too. Several calls are parallel ones.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Answer {
        self.calls.push(Call {
            id: None,
            name: name.into(),
            arguments: arguments.into(),
        });
        self
    }

    /// Gives the newest call an id.
    #[must_use]
    pub fn call_id(mut self, id: impl Into<String>) -> Answer {
        if let Some(call) = self.calls.last_mut() {
            call.id = Some(id.into());
        }
        self
    }

    /// Thinks first.
    #[must_use]
    pub fn reasoning(mut self, text: impl Into<String>, signature: impl Into<String>) -> Answer {
        self.reasoning = Some(Reasoning {
            text: text.into(),
            signature: signature.into(),
        });
        self
    }

    /// Cuts text, reasoning and arguments into pieces of that many characters (at least one).
    #[must_use]
    pub fn in_pieces_of(mut self, characters: usize) -> Answer {
        self.piece = characters;
        self.text = pieces(&self.text.concat(), characters);
        self
    }

    /// Ends for another reason.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Answer {
        self.stop = stop;
        self
    }

    /// Reports this usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Answer {
        self.usage = usage;
        self
    }

    /// Says that this model answered.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Answer {
        self.model = model.into();
        self
    }

    /// The whole text.
    pub(crate) fn joined(&self) -> String {
        self.text.concat()
    }

    /// The reasoning's text in pieces.
    pub(crate) fn reasoning_pieces(&self) -> Vec<String> {
        let text = self.reasoning.as_ref().map(|r| r.text.as_str());
        pieces(text.unwrap_or_default(), self.piece)
    }

    /// A call's arguments in pieces.
    pub(crate) fn argument_pieces(&self, call: &Call) -> Vec<String> {
        pieces(&call.arguments, self.piece)
    }
}

/// A short answer.
impl Default for Answer {
    fn default() -> Answer {
        Answer::text("All good.")
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::text(text)
    }
}

impl Call {
    /// The id, made from a prefix and the call's place where none was given.
    pub(crate) fn id_or(&self, prefix: &str, place: usize) -> String {
        match &self.id {
            Some(id) => id.clone(),
            None => format!("{prefix}_{}", place + 1),
        }
    }
}

impl Usage {
    /// That much, nothing of it cached or reasoning.
    pub const fn new(input: u64, output: u64) -> Usage {
        Usage {
            input,
            output,
            reasoning: 0,
            cache_read: 0,
            cache_write: 0,
        }
    }

    /// With that much of the input read from and written to the cache.
    #[must_use]
    pub const fn cached(mut self, read: u64, write: u64) -> Usage {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// With that much of the output being reasoning.
    #[must_use]
    pub const fn reasoning(mut self, reasoning: u64) -> Usage {
        self.reasoning = reasoning;
        self
    }
}

/// A hundred tokens in, twenty out.
impl Default for Usage {
    fn default() -> Usage {
        Usage::new(100, 20)
    }
}

/// A text in pieces of at most that many characters; no piece for an empty text.
fn pieces(text: &str, characters: usize) -> Vec<String> {
    let mut rest = text;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.char_indices().nth(characters.max(1));
        let (piece, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        found.push(piece.to_owned());
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    //! How texts are cut into pieces.

    use super::*;

    #[test]
    fn pieces_are_whole_characters_and_join_to_the_text() {
        let answer = Answer::text("aé漢z").in_pieces_of(2);
        assert_eq!(answer.text, ["aé", "漢z"]);
        assert_eq!(Answer::text("ab").in_pieces_of(0).text, ["a", "b"]);
        assert!(Answer::text("").in_pieces_of(3).text.is_empty());
    }
}
