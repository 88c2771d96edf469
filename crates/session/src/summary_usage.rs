//! The usage of a turn's requests for summaries: in total, and without a used summary.

use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::checkpoint::Writer;

/// The usage of a turn's requests for summaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryUsage {
    /// The total.
    pub total: Usage,
    /// The part of models whose summaries were not used: too long, refused, or replaced by quotes.
    pub unused: Usage,
    /// The number of steps with a summary that was not used.
    pub unused_steps: u32,
    /// The replies of the current step, with their models.
    step: Vec<(Arc<str>, Usage)>,
}

impl SummaryUsage {
    /// Whether a model was asked for a summary.
    pub fn is_used(&self) -> bool {
        self.total != Usage::NONE
    }

    /// A model replied.
    pub fn replied(&mut self, model: &Arc<str>, usage: Usage) {
        self.total = self.total + usage;
        self.step.push((model.clone(), usage));
    }

    /// The step ended with a summary. Returns the usage of the step, with all its tries.
    pub fn written(&mut self, writer: Writer, model: &Arc<str>) -> Usage {
        self.end_step((writer == Writer::Model).then_some(model))
    }

    /// The step ended without a summary.
    pub fn failed(&mut self) {
        self.end_step(None);
    }

    fn end_step(&mut self, writer: Option<&Arc<str>>) -> Usage {
        let (mut all, mut unused) = (Usage::NONE, None);
        for (model, usage) in self.step.drain(..) {
            all = all + usage;
            if writer != Some(&model) {
                unused = Some(unused.unwrap_or(Usage::NONE) + usage);
            }
        }
        if let Some(unused) = unused {
            self.unused = self.unused + unused;
            self.unused_steps += 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::Tokens;

    use super::*;

    fn used(input: u64) -> Usage {
        Usage {
            input: Tokens(input),
            ..Usage::NONE
        }
    }

    #[test]
    fn a_step_without_a_used_summary_is_counted_with_its_tokens() {
        let (first, second): (Arc<str>, Arc<str>) = ("a/first".into(), "b/second".into());
        let mut turn = SummaryUsage::default();
        assert!(!turn.is_used());
        // The second model wrote what the first could not.
        turn.replied(&first, used(5));
        turn.replied(&second, used(7));
        assert_eq!(turn.end_step(Some(&second)), used(12));
        assert_eq!((turn.unused, turn.unused_steps), (used(5), 1));
        // Quotes were used instead.
        turn.replied(&first, used(3));
        turn.failed();
        assert_eq!((turn.total, turn.unused), (used(15), used(8)));
        assert_eq!(turn.unused_steps, 2);
        // A step that asked no model changes nothing.
        turn.failed();
        assert_eq!(turn.unused_steps, 2);
    }
}
