//! The count of a context by the provider of an agent's model.

use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::{Snapshot, Tokens};
use unisono_model::language::{self, CacheWarm, LanguageModel, Listener, Request};
use unisono_model::prompt::{Group, Persona, Shared};
use unisono_session::Definition;

use crate::agent::llm::meter;
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
    let (persona, messages) = meter::assignment(&request);
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
    Request {
        prefix: model.render(&shared),
        group,
        snapshot: Some(snapshot.clone()),
        tools,
        output_schema: agent.output_schema.clone(),
        persona: Persona {
            agent: agent.id.clone(),
            description: agent.description.clone(),
            instructions: agent.instructions.clone(),
        },
        allowed: agent.tools.as_slice().into(),
        colleagues: Arc::from([]),
        task: "".into(),
        results: Arc::from([]),
        summary: None,
        exchange: Vec::new(),
        wrap_up: None,
        client_options: ClientOptions::default(),
        max_output: agent.limits.max_output,
        temperature_milli: agent.temperature_milli,
        cache_warm: CacheWarm::Off,
        has_peers: false,
        place: 0,
        patience: None,
        bounded: false,
        listener: Listener::NONE,
    }
}
