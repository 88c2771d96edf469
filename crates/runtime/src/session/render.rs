//! Renders a frozen context: once for all agents that read the same bytes.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use unisono_context::{Digest, Snapshot, Tokens};
use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::language::Models;
use unisono_model::prompt::{self, Group, Prefix, Shared};
use unisono_session::Definition;
use unisono_session::agent::AgentKind;
use unisono_session::pending_effects::RenderRequest;

use crate::agent;
use crate::failure::panic_text;

/// The maximum size of a context that the session renders itself, which is faster than using
/// another thread.
const SHORT_CONTEXT: Tokens = Tokens(32_768);

/// Whether a context is that small.
pub(crate) fn is_short(snapshot: &Snapshot) -> bool {
    let counts = snapshot.counts();
    let known = counts.iter().next();
    known.is_some_and(|(_, count)| count.tokens <= SHORT_CONTEXT)
}

/// As [`groups`]. An error says that a model panicked: the turn fails, and its session goes on.
pub(crate) fn try_groups(
    request: &RenderRequest,
    models: &Models,
) -> Result<HashMap<Digest, Prefix>, String> {
    let rendered = catch_unwind(AssertUnwindSafe(|| groups(request, models)));
    rendered.map_err(|panic| format!("a model panicked: {}", panic_text(panic.as_ref())))
}

/// One rendering per audience; its agents share the bytes.
pub(crate) fn groups(request: &RenderRequest, models: &Models) -> HashMap<Digest, Prefix> {
    let mut rendered: Vec<(Audience, Prefix)> = Vec::new();
    let mut prefixes = HashMap::new();
    for (digest, definition) in &request.definitions {
        let audience = Audience::for_agent(definition);
        let known = rendered.iter().find(|(known, _)| *known == audience);
        let prefix = match known {
            Some((_, prefix)) => prefix.clone(),
            None => {
                let prefix = audience.render(&request.snapshot, models);
                rendered.push((audience, prefix.clone()));
                prefix
            }
        };
        prefixes.insert(*digest, prefix);
    }
    prefixes
}

/// The common properties of agents that share a rendering: the model, and everything on which the
/// rendering depends. No rendering contains the choice of tools: it is part of the cache key
/// (`cache_warming::Key`).
#[derive(PartialEq)]
struct Audience {
    /// The model; none for programs and the embedded model, which get the native rendering.
    model: Option<Arc<str>>,
    group: Group,
    output_schema: Option<Arc<str>>,
}

impl Audience {
    fn for_agent(definition: &Definition) -> Audience {
        let program = matches!(
            definition.kind,
            AgentKind::Command(_)
                | AgentKind::Http(_)
                | AgentKind::A2a(_)
                | AgentKind::Acp(_)
                | AgentKind::Pipeline
        );
        let native = program || &*definition.model == EXTRACTIVE;
        Audience {
            model: (!native).then(|| definition.model.clone()),
            group: agent::group(definition),
            output_schema: definition.output_schema.clone(),
        }
    }

    /// The context in the form for these agents. An unknown model is reported when it is called.
    fn render(&self, snapshot: &Snapshot, models: &Models) -> Prefix {
        let model = self.model.as_ref().and_then(|name| models.get(name).ok());
        let shared = Shared {
            snapshot: Some(snapshot),
            group: &self.group,
            tools: snapshot.preamble().tools(),
            output_schema: self.output_schema.as_deref(),
        };
        match model {
            Some(model) => model.render(&shared),
            None => prompt::render(Some(snapshot), &self.group),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Agents that share a rendering.

    use std::sync::atomic::{AtomicU32, Ordering};

    use unisono_context::TurnId;
    use unisono_model::language::{Completion, LanguageModel, Request};
    use unisono_session::agent::{ContextMode, PrefixMode};

    use super::*;
    use crate::agent::fixture::{Attempt, sh};

    /// A model with its own rendering.
    struct Reader {
        name: &'static str,
        renderings: Arc<AtomicU32>,
    }

    impl LanguageModel for Reader {
        fn render(&self, shared: &Shared<'_>) -> Prefix {
            self.renderings.fetch_add(1, Ordering::SeqCst);
            let schema = shared.output_schema.unwrap_or("none");
            let tools = shared.tools.len();
            let group = match shared.group {
                Group::Shared => String::new(),
                Group::TaskOnly => " task only".to_owned(),
                Group::Own(persona) => format!(" of {}", persona.agent),
            };
            Prefix::new(format!("{} {schema} {tools}{group}", self.name))
        }

        fn complete(&self, _: Request) -> Completion<'_> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn agents_share_a_rendering_when_all_it_depends_on_is_equal() {
        let renderings = Arc::new(AtomicU32::new(0));
        let reader = |name| Reader {
            name,
            renderings: renderings.clone(),
        };
        let models = Models::default()
            .with("a/1", reader("one"))
            .with("a/2", reader("two"));
        let attempt = Attempt::new(AgentKind::Llm, &["hello"]);
        let agent = |id: &str, model: &str, kind: AgentKind| {
            let mut definition = attempt.definition.clone();
            definition.id = unisono_context::AgentId::new(id);
            definition.model = model.into();
            definition.kind = kind;
            definition
        };
        let mut with_schema = agent("schema", "a/1", AgentKind::Llm);
        with_schema.output_schema = Some("{}".into());
        let definitions = vec![
            agent("first", "a/1", AgentKind::Llm),
            agent("second", "a/1", AgentKind::Llm),
            agent("custom", "a/1", AgentKind::Custom("own".into())),
            agent("other", "a/2", AgentKind::Llm),
            with_schema,
            agent("offline", EXTRACTIVE, AgentKind::Llm),
            agent("program", "a/1", AgentKind::Command(sh("true"))),
            Definition {
                prefix: PrefixMode::Own,
                ..agent("own", "a/1", AgentKind::Llm)
            },
            Definition {
                context: ContextMode::TaskOnly,
                ..agent("task", "a/1", AgentKind::Llm)
            },
            Definition {
                context: ContextMode::TaskOnly,
                ..agent("errand", "a/1", AgentKind::Llm)
            },
        ];
        let digests: Vec<Digest> = definitions.iter().map(Definition::digest).collect();
        let request = RenderRequest {
            turn: TurnId::from_u128(1),
            snapshot: Arc::new(attempt.snapshot()),
            definitions: definitions
                .into_iter()
                .map(|agent| (agent.digest(), Arc::new(agent)))
                .collect(),
        };
        let rendered = groups(&request, &models);
        let text = |at: usize| String::from_utf8_lossy(rendered[&digests[at]].bytes()).into_owned();
        let tools = crate::tools::specs(crate::RecallScope::Branch).len();
        assert_eq!(text(0), format!("one none {tools}"));
        assert_eq!(text(3), format!("two none {tools}"));
        assert_eq!(text(4), format!("one {{}} {tools}"));
        assert_eq!(text(7), format!("one none {tools} of own"));
        assert_eq!(text(8), format!("one none {tools} task only"));
        assert_eq!(renderings.load(Ordering::SeqCst), 5);
        let at = |n: usize| rendered[&digests[n]].bytes().as_ptr();
        assert_eq!(
            [at(0), at(0)],
            [at(1), at(2)],
            "one allocation for the group"
        );
        assert_eq!(at(8), at(9), "those that get their task only");
        assert_eq!(
            at(5),
            at(6),
            "programs and the embedded model read the same bytes"
        );
        assert!(text(5).starts_with(r#"{"unisono":1"#));
    }
}
