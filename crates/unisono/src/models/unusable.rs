//! A model that is unavailable, with the reason.

use std::sync::Arc;

use unisono_context::{Cost, Tokens};
use unisono_model::language::{Class, Completion, Error, LanguageModel, Request};

#[derive(Debug)]
pub(super) struct UnavailableModel {
    model: Arc<str>,
    lacks: Arc<str>,
}

impl UnavailableModel {
    pub(super) fn new(model: &str, lacks: impl Into<Arc<str>>) -> UnavailableModel {
        UnavailableModel {
            model: model.into(),
            lacks: lacks.into(),
        }
    }
}

impl LanguageModel for UnavailableModel {
    /// It never answers.
    fn worst_cost(&self, _: Tokens, _: Tokens) -> Option<Cost> {
        Some(Cost::ZERO)
    }

    fn complete(&self, _: Request) -> Completion<'_> {
        let error = Error::new(self.model.clone(), Class::Unauthorised, self.lacks.clone());
        Box::pin(async move { Err(error) })
    }
}
