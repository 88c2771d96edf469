//! Rebuilds a turn's requests from the journal alone, and compares their digests with the recorded
//! ones.
//!
//! This has no effects outside: models only render, no program is started, no actor runs.

mod rounds;
mod sent;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use unisono_context::attachment::{Files, LoadedBytes};
use unisono_context::{AgentId, Digest, RunId, Tokens};
use unisono_model::language::{LanguageModel, Models, Request};
use unisono_model::media::Accepts;
use unisono_model::prompt::Prefix;
use unisono_session::Replay;
use unisono_session::agent::AgentKind;
use unisono_session::assignment::RunAssignment;
use unisono_session::pending_effects::RenderRequest;
use unisono_session::run::tail::{self, Weight};
use unisono_session::run::{self, FallbackUsed, ModelCall, Run, RunBounds};
use unisono_session::turn::Phase;

use crate::agent::{request, results, size};
use crate::kinds::acp;
use crate::session::render;

/// A request, or the input of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RebuiltRequest {
    /// Its receiver: a model as in definitions, or a program.
    pub to: Arc<str>,
    /// Its two pieces: the shared one, and its own.
    pub body: [Bytes; 2],
    /// BLAKE3 of both pieces.
    pub digest: Digest,
    /// Digest of its prefix, if a fallback answered.
    pub fallback_prefix: Option<Digest>,
    /// The number of steps of its run before it.
    pub known: usize,
    /// The number of tool results that were replaced by a note.
    pub masked: usize,
    /// The reason why it was the last one of its run; none: it was not.
    pub wrap_up: Option<Arc<str>>,
    /// The index of the step with its reply; none: the reply ended the run, or there is no reply.
    pub reply: Option<usize>,
    /// For a program: the attempt.
    pub attempt: Option<u32>,
    /// Whether the journal shows that its receiver got it, or may have got it.
    pub sent: bool,
}

/// The requests of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Requests {
    /// The run.
    pub run: RunId,
    /// Its agent.
    pub agent: AgentId,
    /// Oldest first. The last one may be unsent.
    pub requests: Vec<RebuiltRequest>,
    /// The reason why some or all of them cannot be rebuilt.
    pub unknown: Option<String>,
}

/// A comparison of a recorded value with the rebuilt one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The kind of value: `snapshot`, `definition`, `prefix`, `steps`, `results`.
    pub what: &'static str,
    /// Its run; none: it belongs to the turn.
    pub run: Option<RunId>,
    /// The recorded value.
    pub recorded: String,
    /// The rebuilt value.
    pub rebuilt: String,
}

impl Check {
    /// Whether both are equal.
    pub fn is_equal(&self) -> bool {
        self.recorded == self.rebuilt
    }
}

/// A turn, rebuilt.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RebuiltTurn {
    /// Its runs, in the order in which they were opened.
    pub runs: Vec<Requests>,
    /// All comparisons.
    pub checks: Vec<Check>,
}

impl RebuiltTurn {
    /// The comparisons with different values.
    pub fn mismatches(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.is_equal())
    }
}

/// Rebuilds every request of every run of a turn. `models` may be unable to send requests; `files`
/// are those in the results of tools.
pub fn rebuild(replay: &Replay, models: &Models, files: &Files) -> RebuiltTurn {
    let mut rebuilt = RebuiltTurn::default();
    let Some(turn) = replay.turn() else {
        return rebuilt;
    };
    if let Phase::Frozen { snapshot, .. } = &turn.phase {
        rebuilt.checks.push(Check {
            what: "snapshot",
            run: None,
            recorded: snapshot.to_string(),
            rebuilt: match (replay.snapshot_error(), &turn.snapshot.0) {
                (Some(error), _) => error.to_string(),
                (None, Some(snapshot)) => snapshot.id().to_string(),
                (None, None) => "nothing".to_owned(),
            },
        });
    }
    let Some(snapshot) = turn.snapshot.0.clone() else {
        return rebuilt;
    };
    let prefixes = render::groups(
        &RenderRequest {
            turn: turn.accepted.id,
            snapshot,
            definitions: turn.distinct_definitions(),
        },
        models,
    );
    for run in replay.runs() {
        let prefix = prefixes.get(&run.definition);
        let (requests, checks) = rebuild_run(replay, run, prefix, (models, files));
        rebuilt.runs.push(requests);
        rebuilt.checks.extend(checks);
    }
    rebuilt
}

/// The requests of a run, and the comparisons of its recorded values.
fn rebuild_run(
    replay: &Replay,
    run: &Run,
    prefix: Option<&Prefix>,
    known: (&Models, &Files),
) -> (Requests, Vec<Check>) {
    let mut requests = Requests {
        run: run.id,
        agent: run.agent.clone(),
        requests: Vec::new(),
        unknown: None,
    };
    let Some(assignment) = replay.assignment(run.id) else {
        requests.unknown = Some("its input is not in the journal".to_owned());
        return (requests, Vec::new());
    };
    let mut compared = digests(run, &assignment, prefix);
    if let Some(prefix) = prefix {
        let conversation = conversation((run, &assignment), prefix, known);
        requests.requests = conversation.requests;
        requests.unknown = conversation.unknown;
        compared.extend(conversation.checks);
        let results = rounds::compared(replay, run).into_iter();
        compared.extend(results.map(|(recorded, rebuilt)| ("results", recorded, rebuilt)));
    } else {
        requests.unknown = Some("its prompt cannot be rendered".to_owned());
    }
    let checks = compared.into_iter().map(|(what, recorded, rebuilt)| Check {
        what,
        run: Some(run.id),
        recorded,
        rebuilt,
    });
    (requests, checks.collect())
}

/// The digests of a run's definition and of its prefix.
fn digests(run: &Run, assignment: &RunAssignment, prefix: Option<&Prefix>) -> Vec<Comparison> {
    let definition = assignment.definition.digest().to_string();
    let nothing = || "nothing: it was not rendered".to_owned();
    let rendered = prefix.map_or_else(nothing, |prefix| prefix.digest().to_string());
    vec![
        ("definition", run.definition.to_string(), definition),
        ("prefix", run.prefix.to_string(), rendered),
    ]
}

/// The requests of a run by the kind of its agent.
fn conversation(
    (run, assignment): (&Run, &RunAssignment),
    prefix: &Prefix,
    known: (&Models, &Files),
) -> Conversation {
    match &assignment.definition.kind {
        AgentKind::Command(_) | AgentKind::Http(_) | AgentKind::A2a(_) | AgentKind::Acp(_) => {
            Conversation {
                requests: documents(run, assignment, prefix),
                ..Conversation::default()
            }
        }
        // It gets results, and returns the last one.
        AgentKind::Pipeline => Conversation::default(),
        AgentKind::Custom(kind) => {
            Conversation::unknown(format!("the code of kind `{kind}` writes its requests"))
        }
        AgentKind::Llm => match known.0.get(&assignment.definition.model) {
            Ok(model) => Conversation::retrace((run, assignment), prefix, &*model, known),
            Err(error) => Conversation::unknown(error.to_string()),
        },
    }
}

/// The inputs of a program or a server in each of its attempts.
fn documents(run: &Run, assignment: &RunAssignment, prefix: &Prefix) -> Vec<RebuiltRequest> {
    let to = match &assignment.definition.kind {
        AgentKind::Command(command) => &command.program,
        AgentKind::Acp(acp) => &acp.command.program,
        AgentKind::Http(http) => &http.url,
        AgentKind::A2a(remote) => &remote.url,
        AgentKind::Llm | AgentKind::Custom(_) | AgentKind::Pipeline => return Vec::new(),
    };
    let attempts = 1..=assignment.attempt;
    let documents = attempts.map(|attempt| {
        let assignment = RunAssignment {
            attempt,
            ..assignment.clone()
        };
        let body = match &assignment.definition.kind {
            AgentKind::Acp(_) => acp::prompt(&assignment, prefix),
            _ => request::document(&assignment, prefix),
        };
        RebuiltRequest {
            to: to.clone(),
            digest: digest_of(&body),
            fallback_prefix: None,
            body,
            known: 0,
            masked: 0,
            wrap_up: None,
            reply: None,
            attempt: Some(attempt),
            sent: false,
        }
    });
    let mut documents: Vec<_> = documents.collect();
    sent::mark_documents(run, &assignment.definition.kind, &mut documents);
    documents
}

/// The kind of a value, the recorded value and the rebuilt one.
type Comparison = (&'static str, String, String);

/// The requests of a run, and their comparison with the recorded steps.
#[derive(Default)]
struct Conversation {
    requests: Vec<RebuiltRequest>,
    checks: Vec<Comparison>,
    /// The reason why some or all requests cannot be rebuilt.
    unknown: Option<String>,
}

impl Conversation {
    fn unknown(reason: String) -> Conversation {
        Conversation {
            unknown: Some(reason),
            ..Conversation::default()
        }
    }

    /// The requests to a model.
    fn retrace(
        (run, assignment): (&Run, &RunAssignment),
        prefix: &Prefix,
        model: &dyn LanguageModel,
        (models, files): (&Models, &Files),
    ) -> Conversation {
        let weights = weights(assignment, model.accepts());
        let first = first(assignment, prefix);
        let bounded = first.and_then(|first| Ok((bounds(assignment, &first)?, first)));
        let Ok((bounds, first)) = bounded else {
            // It ended before its model was called.
            return Conversation::default();
        };
        let (mut fallbacks, mut unknown) = (FallbackPrefixes::default(), None);
        let retraced = run::retrace(&assignment.steps, &weights, bounds);
        let requests = retraced.calls.iter().filter_map(|asked| {
            let known = assignment.steps.get(..asked.known).unwrap_or_default();
            let wrap_up = wrap_up(assignment, asked);
            let mut request = request::continuation(&first, known, &asked.masked, wrap_up);
            for file in request.files_mut() {
                file.content.loaded = LoadedBytes(files.get(&file.content.digest).cloned());
            }
            let replied = asked.reply.and_then(|at| assignment.steps.get(at));
            let reply = replied.and_then(|step| step.reply());
            if let Some(by) = reply.and_then(|reply| reply.fallback.as_ref()) {
                return match fallbacks.body(assignment, by, request, models) {
                    Ok((prefix, body)) => Some(RebuiltRequest {
                        fallback_prefix: Some(prefix),
                        ..rebuilt_request(assignment, asked, (&by.model, body))
                    }),
                    Err(reason) => {
                        unknown = Some(reason);
                        None
                    }
                };
            }
            let request = request.without_foreign_reasoning(None);
            let body = rendered_body(model, &request, assignment);
            Some(rebuilt_request(
                assignment,
                asked,
                (&assignment.definition.model, body),
            ))
        });
        let mut requests: Vec<_> = requests.collect();
        sent::mark_model_requests(run, assignment, &mut requests);
        let mut checks = fallbacks.checks();
        let follow = || "each step follows from the earlier ones".to_owned();
        let steps = retraced.divergence.map_or_else(follow, |at| at.to_string());
        checks.push(("steps", follow(), steps));
        Conversation {
            requests,
            checks,
            unknown,
        }
    }
}

/// A request as it is sent. The embedded model is called in this process and reads the input of a
/// program.
fn rendered_body(
    model: &dyn LanguageModel,
    request: &Request,
    assignment: &RunAssignment,
) -> [Bytes; 2] {
    let body = model.body(request);
    body.unwrap_or_else(|| request::document_with(assignment, &request.prefix, &request.results))
}

#[derive(Default)]
struct FallbackPrefixes {
    /// Their prefixes, rendered once each.
    prefixes: BTreeMap<Arc<str>, Prefix>,
    recorded: BTreeSet<(Arc<str>, Digest)>,
}

impl FallbackPrefixes {
    /// The request that a fallback got: the same context in its own dialect, and the recorded
    /// maximum reply.
    fn body(
        &mut self,
        assignment: &RunAssignment,
        by: &FallbackUsed,
        mut request: Request,
        models: &Models,
    ) -> Result<(Digest, [Bytes; 2]), String> {
        let model = models
            .get(&by.model)
            .map_err(|error| format!("the request of a fallback model is missing: {error}"))?;
        let prefix = self.prefixes.entry(by.model.clone());
        let prefix = prefix.or_insert_with(|| model.render(&request.shared()));
        request.prefix = prefix.clone();
        if let Some(sent) = by.sent {
            request.max_output = sent.max_output;
            self.recorded.insert((by.model.clone(), sent.prefix));
        }
        let request = request.without_foreign_reasoning(Some(&*by.model));
        Ok((
            prefix.digest(),
            rendered_body(&*model, &request, assignment),
        ))
    }

    /// The recorded prefixes and the rendered ones.
    fn checks(&self) -> Vec<Comparison> {
        let named = |model: &Arc<str>, digest: Digest| format!("{model}: {digest}");
        let checks = self.recorded.iter().filter_map(|(model, recorded)| {
            let rebuilt = self.prefixes.get(model)?.digest();
            Some(("prefix", named(model, *recorded), named(model, rebuilt)))
        });
        checks.collect()
    }
}

/// The reason why a call was the last of its run: from its steps, or from a budget, which only the
/// journal knows.
fn wrap_up(assignment: &RunAssignment, asked: &ModelCall) -> Option<Arc<str>> {
    let by_budget = assignment.wrapped_up.as_ref();
    let by_budget = by_budget.filter(|(known, _)| *known == asked.known);
    let by_budget = by_budget.map(|(_, why)| why.clone());
    asked.wrap_up.clone().or(by_budget)
}

fn rebuilt_request(
    assignment: &RunAssignment,
    asked: &ModelCall,
    (to, body): (&Arc<str>, [Bytes; 2]),
) -> RebuiltRequest {
    RebuiltRequest {
        to: to.clone(),
        digest: digest_of(&body),
        fallback_prefix: None,
        body,
        known: asked.known,
        masked: asked.masked.len(),
        wrap_up: wrap_up(assignment, asked),
        reply: asked.reply,
        attempt: None,
        sent: false,
    }
}

/// The first request of a run, or the reason why there is none. It never waits: counts are
/// available.
fn first(assignment: &RunAssignment, prefix: &Prefix) -> Result<Request, String> {
    let counted = |texts: Vec<String>| std::future::ready(count(assignment, &texts));
    let first = pin!(results::first_request(assignment, prefix.clone(), counted));
    match first.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(first) => first,
        Poll::Pending => Err("its results are not counted".to_owned()),
    }
}

/// The limits of a run; an error if its assignment alone does not fit.
fn bounds(assignment: &RunAssignment, first: &Request) -> Result<RunBounds, String> {
    let (text, messages) = size::assignment(first);
    let needed = count(assignment, &[text]).into_iter().sum();
    Ok(RunBounds {
        max_model_calls: assignment.definition.max_model_calls,
        room: size::headroom(assignment, messages, needed)?,
    })
}

fn weights(assignment: &RunAssignment, accepts: Accepts) -> Vec<Weight> {
    let per_message = assignment.definition.limits.per_message;
    let weights = assignment.steps.iter().map(|step| {
        let texts = count(
            assignment,
            &tail::countable(step, |extent| accepts.takes(extent)),
        );
        let file = |extent| size::file_tokens(accepts, extent);
        Weight::of_step(step, &texts, per_message, file)
    });
    weights.collect()
}

/// Upper bounds of the tokens of texts for the definition's model.
fn count(assignment: &RunAssignment, texts: &[String]) -> Vec<Tokens> {
    let counts = crate::tokenizer::count(texts, assignment.definition.limits.encoding);
    counts.into_iter().map(|count| count.at_most).collect()
}

fn digest_of(body: &[Bytes; 2]) -> Digest {
    Digest::of_bytes(&body.concat())
}
