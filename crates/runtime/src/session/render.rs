//! Rendering a frozen context: once for all agents that read the same bytes.

use std::collections::HashMap;
use std::sync::Arc;

use unisono_context::{Digest, Snapshot, Tokens};
use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::language::Models;
use unisono_model::prompt::{self, Group, Prefix, Shared};
use unisono_session::Definition;
use unisono_session::agent::Kind;
use unisono_session::pending_effects::RenderRequest;

use crate::agent;

/// A context of at most so many tokens is rendered by the session itself, in less time than it
/// takes to have it done by another thread.
const SHORT: Tokens = Tokens(4_096);

/// Whether a context is that short.
pub(crate) fn is_short(snapshot: &Snapshot) -> bool {
    let counts = snapshot.counts();
    let known = counts.iter().next();
    known.is_some_and(|(_, count)| count.tokens <= SHORT)
}

/// One rendering per audience; its agents share the bytes.
pub(crate) fn groups(request: &RenderRequest, models: &Models) -> HashMap<Digest, Prefix> {
    let mut rendered: Vec<(Audience, Prefix)> = Vec::new();
    let mut prefixes = HashMap::new();
    for (digest, definition) in &request.definitions {
        let audience = Audience::of(definition);
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

/// What agents have in common that share a rendering: who reads it, and what it depends on. The
/// choice of tools is in no rendering: it is in what a cache is known by (`cache_warming::Key`).
#[derive(PartialEq)]
struct Audience {
    /// The model; none for programs and the embedded model, which are given the native rendering.
    model: Option<Arc<str>>,
    group: Group,
    output_schema: Option<Arc<str>>,
}

impl Audience {
    fn of(definition: &Definition) -> Audience {
        let program = matches!(
            definition.kind,
            Kind::Command(_) | Kind::Http(_) | Kind::A2a(_) | Kind::Acp(_) | Kind::Pipeline
        );
        let native = program || &*definition.model == EXTRACTIVE;
        Audience {
            model: (!native).then(|| definition.model.clone()),
            group: agent::group(definition),
            output_schema: definition.output_schema.clone(),
        }
    }

    /// The context as they read it. A model that nobody has is told of when it is asked.
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
    //! Tests of which agents share a rendering.

    use std::sync::atomic::{AtomicU32, Ordering};

    use unisono_context::TurnId;
    use unisono_model::language::{Completion, LanguageModel, Request};
    use unisono_session::agent::{ContextMode, PrefixMode};

    use super::*;
    use crate::agent::fixture::{Attempt, sh};

    /// A model with a rendering of its own.
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
        let attempt = Attempt::new(Kind::Llm, &["hello"]);
        let agent = |id: &str, model: &str, kind: Kind| {
            let mut definition = attempt.definition.clone();
            definition.id = unisono_context::AgentId::new(id);
            definition.model = model.into();
            definition.kind = kind;
            definition
        };
        let mut with_schema = agent("schema", "a/1", Kind::Llm);
        with_schema.output_schema = Some("{}".into());
        let definitions = vec![
            agent("first", "a/1", Kind::Llm),
            agent("second", "a/1", Kind::Llm),
            agent("custom", "a/1", Kind::Custom("own".into())),
            agent("other", "a/2", Kind::Llm),
            with_schema,
            agent("offline", EXTRACTIVE, Kind::Llm),
            agent("program", "a/1", Kind::Command(sh("true"))),
            Definition {
                prefix: PrefixMode::Own,
                ..agent("own", "a/1", Kind::Llm)
            },
            Definition {
                context: ContextMode::TaskOnly,
                ..agent("task", "a/1", Kind::Llm)
            },
            Definition {
                context: ContextMode::TaskOnly,
                ..agent("errand", "a/1", Kind::Llm)
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
        let tools = crate::tools::specs(crate::Reach::Branch).len();
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
