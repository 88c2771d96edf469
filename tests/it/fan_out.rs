//! Sixty-four agents on one snapshot, asked over HTTP: one rendering, the same leading bytes in
//! every request, and its digest in every run's record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use unisono_context::Digest;
use unisono_context::call::CacheWarm;
use unisono_fake_provider::{Answer, CacheSettings, CacheSim, FakeProvider, Script};
use unisono_model::client::Client;
use unisono_model::language::{Completion, LanguageModel, Request};
use unisono_model::prompt::{Prefix, Shared};
use unisono_model::remote::Remote;
use unisono_session::agent::Definition;
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::Ending;
use unisono_tests::scenario;
use unisono_tests::scenario::{facts_until_end, wait};
use unisono_tests::wire::{CLAUDE, asking_claude, claude};

const AGENTS: u32 = 64;

/// A model that counts how often it renders a context.
struct Counted {
    model: Remote<Client>,
    renderings: Arc<AtomicU32>,
}

impl LanguageModel for Counted {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        self.renderings.fetch_add(1, Ordering::SeqCst);
        self.model.render(shared)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        self.model.complete(request)
    }
}

fn agent(id: &str) -> Definition {
    Definition {
        instructions: format!("You are {id} and look at one thing only.").into(),
        cache_warm: CacheWarm::Leader,
        ..asking_claude(id)
    }
}

fn model(url: &str, renderings: &Arc<AtomicU32>) -> Counted {
    Counted {
        model: claude(url),
        renderings: renderings.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_requests_of_a_fan_out_begin_with_the_same_bytes() {
    let cache = CacheSim::new(CacheSettings::default());
    let provider = FakeProvider::builder()
        .script(Script::always(Answer::text("Nothing is late.")))
        .cache(&cache)
        .start()
        .await;
    let renderings = Arc::new(AtomicU32::new(0));
    let delegates = (0..AGENTS).map(|n| agent(&format!("agent-{n}")));
    let plan = scenario()
        .messages(200)
        .model(CLAUDE, model(&provider.url(), &renderings))
        .led_by(agent("lead"));
    let plan = delegates.fold(plan, |plan, agent| plan.asked(agent));
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    let mut events = handle.events(0).await.expect("events");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);

    assert_eq!(renderings.load(Ordering::SeqCst), 1, "one rendering");
    let facts = facts_until_end(&mut events, turn).await;
    let prefixes: BTreeSet<Digest> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::RunOpened { run } => Some(run.prefix),
            _ => None,
        })
        .collect();
    assert_eq!(prefixes.len(), 1, "one digest in all records");
    let recorded = *prefixes.first().expect("a digest");

    let requests = provider.requests();
    assert_eq!(requests.len(), AGENTS as usize + 1);
    let marked = br#""cache_control":{"type":"ephemeral"}"#;
    let first = &requests[0].body;
    let breakpoint = first
        .windows(marked.len())
        .rposition(|window| window == marked)
        .expect("a breakpoint");
    assert!(breakpoint > 20_000, "the whole conversation is before it");
    for request in &requests {
        assert_eq!(request.body[..breakpoint], first[..breakpoint]);
    }
    // What was hashed when it was rendered is what was sent.
    let end = (breakpoint..first.len()).find(|end| Digest::of_bytes(&first[..*end]) == recorded);
    assert!(
        end.is_some(),
        "the recorded digest is that of the bytes sent"
    );

    let (mut read, mut expected) = (Vec::new(), Vec::new());
    for fact in &facts {
        if let Fact::RunEnded { ending, .. } = fact
            && let Ending::Finished { usage, .. } = &**ending
        {
            read.push(usage.cache_read.0);
            expected.push(usage.cache_expected.0);
        }
    }
    let cold = |amounts: &[u64]| amounts.iter().filter(|amount| **amount == 0).count();
    assert_eq!(
        (cold(&read), cold(&expected)),
        (1, 1),
        "only the leader paid"
    );
    drop((handle, events));
    world.stop().await;
}
