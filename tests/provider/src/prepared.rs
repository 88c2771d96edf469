//! An answer with its bytes, rendered once for each form in which it is asked for.

use std::sync::OnceLock;

use crate::answer::Answer;
use crate::dialect::{Dialect, Endpoint, Mode};
use crate::render::{self, Body};
use crate::sse::Style;

/// An answer, and what has been rendered of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    answer: Answer,
    /// By dialect and form.
    bodies: [OnceLock<Body>; 16],
}

impl Prepared {
    pub(crate) fn new(answer: Answer) -> Prepared {
        Prepared {
            answer,
            bodies: Default::default(),
        }
    }

    pub(crate) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The answer as it is, in the form that is asked for.
    pub(crate) fn body(&self, endpoint: Endpoint) -> Body {
        self.bodies[place(endpoint)]
            .get_or_init(|| render(endpoint, &self.answer, &Style::PLAIN))
            .clone()
    }
}

/// An answer in the form that is asked for.
pub(crate) fn render(endpoint: Endpoint, answer: &Answer, style: &Style) -> Body {
    let Endpoint {
        dialect,
        mode,
        stream_usage,
    } = endpoint;
    render::body(dialect, mode, stream_usage, answer, style)
}

fn place(endpoint: Endpoint) -> usize {
    let dialect = match endpoint.dialect {
        Dialect::OpenAiChat => 0,
        Dialect::OpenAiResponses => 1,
        Dialect::Anthropic => 2,
        Dialect::Gemini => 3,
    };
    let form = match endpoint.mode {
        Mode::Stream if endpoint.stream_usage => 0,
        // Only one dialect streams without usage, and it has no arrays.
        Mode::Stream | Mode::Array => 1,
        Mode::Whole => 2,
        Mode::Count => 3,
    };
    dialect * 4 + form
}
