//! What is pinned, and what is carried verbatim, through twenty compactions in a row: real
//! actors, a real store, the extractive summariser.

use std::sync::Arc;

use unisono_context::checkpoint::{FACT_TOKENS_MAX, FACTS_MAX};
use unisono_context::message::{NewMessage, Role};
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{Encoding, MessageId, Snapshot, Timestamp, Tokens};
use unisono_model::tokenizer::Tokenizer;
use unisono_runtime::{Handle, clock};
use unisono_session::event::{Fact, Outcome};
use unisono_session::{Input, State};
use unisono_tests::agents::Echo;
use unisono_tests::scenario;
use unisono_tests::scenario::{definition, facts_until_end, new_session, new_turn, wait};

const ROUNDS: u32 = 20;

/// Constraints a person pins, each said once, early on.
const PINNED: [&str; 6] = [
    "Never delete the table orders_archive; the auditors read it every quarter.",
    "All amounts must stay in minor units, as 64-bit integers.",
    "The cut-over must not begin before 02:00 UTC on a Sunday.",
    "Nobody outside the team may be told the vendor's name before the contract is signed.",
    "The API must answer within 250 ms at the 99th percentile.",
    "Keep the rollback script in tools/rollback.sh working at every step.",
];

/// Constraints that are not pinned: the key facts carry them.
const CARRIED: [&str; 3] = [
    "The export must always be encrypted with the key named harrier-7.",
    "We decided to use port 6543 for the pooled connections.",
    "The deadline for the migration is 14 November 2031.",
];

/// What a model sees, as one text.
fn seen(state: &State) -> String {
    let head = state.tree().head("main").expect("main");
    let view = state.view(head, false).expect("a view");
    let preamble = unisono_context::snapshot::Preamble::new("", Vec::new());
    let snapshot = Snapshot::freeze(&view, preamble);
    let blocks = snapshot
        .blocks()
        .iter()
        .map(|block| block.text().to_string());
    let entries = snapshot.entries().iter();
    let entries = entries.map(|entry| entry.message().countable_text());
    blocks.chain(entries).collect::<Vec<_>>().join("\n")
}

async fn pin(handle: &Handle, messages: &[MessageId]) {
    let input = Input::Pin {
        branch: "main".into(),
        messages: messages.to_vec(),
        pinned: true,
    };
    handle.request(input).await.expect("pinned");
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_constraints_survive_twenty_compactions_in_a_row() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = Policy {
        trigger: Some(Trigger::Tokens(Tokens(1_500))),
        ..Policy::from_preset(Preset::Checkpoint)
    };
    let lead = definition("lead");
    let plan = scenario()
        .lead(lead, Echo(Default::default()))
        .policy(policy);
    let mut import = plan.import(new_session());
    let mut pins: Vec<MessageId> = Vec::new();
    for (n, text) in PINNED.iter().chain(&CARRIED).enumerate() {
        let id = MessageId::from_u128(clock::new_id());
        let parent = import.messages.last().map(|(_, message)| message.id);
        let at = Timestamp(clock::now().0 + n as i64);
        import
            .messages
            .push((parent, NewMessage::text(id, Role::User, *text, at)));
        if n < PINNED.len() {
            pins.push(id);
        }
    }
    let world = plan.start(directory.path()).await;
    let handle = world.runtime.create(import).await.expect("created");
    let mut events = handle.events(0).await.expect("events");
    // Half of them before anything is summarised, the others when summaries stand for them.
    let (early, late) = pins.split_at(3);
    pin(&handle, early).await;
    let mut compactions = 0;
    for round in 1..=ROUNDS {
        let filler = format!(
            "Round {round}: how far is part {round}? {}",
            "It went on as usual. ".repeat(220)
        );
        let turn = new_turn();
        handle
            .accept(plan.turn(turn, &filler))
            .await
            .expect("accepted");
        assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);
        let facts = facts_until_end(&mut events, turn).await;
        compactions += facts
            .iter()
            .filter(|f| matches!(f, Fact::Compacted { .. }))
            .count();
        if round == 2 {
            pin(&handle, late).await;
        }
        let (text, key_facts): (String, Vec<Arc<str>>) = handle
            .inspect(|state| {
                let newest = state.checkpoints().iter().last();
                let facts = newest.map(|c| c.key_facts.iter().map(ToString::to_string));
                let facts = facts.into_iter().flatten().map(Into::into);
                (seen(state), facts.collect())
            })
            .await
            .expect("inspected");
        let pinned = if round < 2 { &PINNED[..3] } else { &PINNED[..] };
        for constraint in pinned {
            assert!(
                text.contains(constraint),
                "round {round} lost: {constraint}\n{text}"
            );
        }
        for carried in CARRIED {
            assert!(
                text.contains(carried),
                "round {round} lost: {carried}\n{text}"
            );
        }
        let tokenizer = Tokenizer::load(Encoding::O200kBase).expect("a tokenizer");
        let lines: String = key_facts.iter().map(|fact| format!("{fact}\n")).collect();
        assert!(key_facts.len() <= FACTS_MAX);
        assert!(tokenizer.count(&lines).tokens <= FACT_TOKENS_MAX);
    }
    assert!(compactions >= ROUNDS as usize, "{compactions} compactions");
    drop((handle, events));
    world.stop().await;
}
