//! The style of a summary: the instruction for its writer, and its maximum length.

use unisono_context::Tokens;

/// The detail and the wording of summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Style {
    /// As in the prompt.
    #[default]
    Standard,
    /// Twice as long, with reasons, alternatives and circumstances.
    Detailed,
    /// Half as long: decisions, current state, open points.
    Concise,
    /// As long as the standard, without articles and fillers, so that more fits.
    Telegraphic,
}

unisono_context::names!(Style {
    Standard = "standard",
    Detailed = "detailed",
    Concise = "concise",
    Telegraphic = "telegraphic",
});

impl Style {
    /// The maximum length of a summary in this style, for writers with and without a prompt.
    pub const fn scaled(self, cap: Tokens) -> Tokens {
        match self {
            Style::Standard | Style::Telegraphic => cap,
            Style::Detailed => Tokens(cap.0.saturating_mul(2)),
            Style::Concise => cap.half(),
        }
    }

    /// The instruction for the writer; empty for the standard style.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Style::Standard => "",
            Style::Detailed => {
                "Write in detail: besides what happened, give the reasons, the alternatives that \
                 were weighed and why they were rejected, and the circumstances under which each \
                 figure or decision holds. Use the length you are given."
            }
            Style::Concise => {
                "Write concisely: only what was decided, what holds now, and what is open. Leave \
                 out how it came about, and anything a reader can do without. Shorter than you \
                 are allowed is better."
            }
            Style::Telegraphic => {
                "Write in telegraphic style: leave out articles and fillers, so that more facts \
                 fit. Keep names, numbers, days, ids and every \"not\"."
            }
        }
    }
}
