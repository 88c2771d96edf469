//! The count of a context by the provider of an agent's model.

use std::sync::Arc;

use unisono_context::{Snapshot, Tokens};
use unisono_model::language::{self, LanguageModel, Request};
use unisono_model::prompt::{Group, Shared};
use unisono_session::Definition;

use crate::agent::{persona, size};
use crate::tokenizer;

/// The provider's count of a context with the agent's persona and nothing else; none if the
/// provider cannot count. Takes time.
///
/// # Errors
/// The model is unknown, or its provider does not answer.
pub async fn measure_all(
    model: &dyn LanguageModel,
    agent: &Definition,
    snapshot: Arc<Snapshot>,
) -> Result<Option<Tokens>, language::Error> {
    model.count(request(model, agent, snapshot)).await
}

/// The same without the persona, which is estimated.
pub(crate) async fn context(
    model: &dyn LanguageModel,
    agent: &Definition,
    snapshot: Arc<Snapshot>,
) -> Result<Option<Tokens>, language::Error> {
    let request = request(model, agent, snapshot);
    let (persona, messages) = size::assignment(&request);
    let limits = agent.limits;
    let counting = tokio::task::spawn_blocking(move || {
        let counts = tokenizer::count(&[persona], limits.encoding);
        counts.into_iter().map(|count| count.tokens).sum::<Tokens>()
    });
    let own = counting.await.unwrap_or_default() + limits.per_message.times(messages);
    let counted = model.count(request).await?;
    Ok(counted.map(|tokens| tokens.minus(own)))
}

fn request(model: &dyn LanguageModel, agent: &Definition, snapshot: Arc<Snapshot>) -> Request {
    let (tools, group) = (snapshot.preamble().tools().clone(), Group::Shared);
    let shared = Shared {
        snapshot: Some(&snapshot),
        group: &group,
        tools: &tools,
        output_schema: agent.output_schema.as_deref(),
    };
    let prefix = model.render(&shared);
    let max_output = agent.limits.max_output;
    Request {
        snapshot: Some(snapshot.clone()),
        tools,
        output_schema: agent.output_schema.clone(),
        allowed: agent.tools.as_slice().into(),
        temperature_milli: agent.temperature_milli,
        ..Request::new(prefix, group, persona(agent), "".into(), max_output)
    }
}
