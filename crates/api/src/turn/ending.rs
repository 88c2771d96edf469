//! Endings of turns for which protocols of clients have names of their own.

use super::{ErrorInfo, Turn};

/// The beginning of the reason of an answer whose last reply reached the model's output limit.
const CUT_OFF: &str = "cut off at the model's output limit";

/// The beginning and the end of the reason of an answer whose run reached its limit of model calls.
const STOPPED: (&str, &str) = ("stopped after ", " model calls");

/// The error code of a run whose model declined to answer.
const DECLINED: &str = "refused";

impl Turn {
    /// Whether the answer was cut at the output limit of the lead's model.
    pub fn is_cut_off(&self) -> bool {
        let error = self.lead_error();
        error.is_some_and(|error| error.reason.starts_with(CUT_OFF))
    }

    /// Whether the lead was stopped at its limit of model calls before it had answered.
    pub fn is_stopped(&self) -> bool {
        let reason = self.lead_error().map(|error| error.reason.as_str());
        let (beginning, end) = STOPPED;
        reason.is_some_and(|reason| reason.starts_with(beginning) && reason.ends_with(end))
    }

    /// The model's refusal; none: it did not decline to answer.
    pub fn refusal(&self) -> Option<&str> {
        let error = self.lead_error()?;
        (error.code == DECLINED).then_some(error.reason.as_str())
    }

    /// Why the lead failed or its answer is incomplete.
    fn lead_error(&self) -> Option<&ErrorInfo> {
        let lead = self.runs.iter().rfind(|run| run.role == "lead")?;
        lead.error.as_ref()
    }
}
