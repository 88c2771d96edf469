//! Ten images and sixty-four agents: each image is loaded once, and none is copied for an agent. An
//! image that cannot be read fails the turn with its reason.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use unisono_context::attachment::{Content, Extent};
use unisono_context::call::Reply;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{Digest, MessageId, Timestamp};
use unisono_model::client::Client;
use unisono_model::language::{Completion, LanguageModel, Request};
use unisono_model::prompt::{Prefix, Shared};
use unisono_model::remote::Remote;
use unisono_session::event::Outcome;
use unisono_session::machine::Import;
use unisono_store::{Append, Deletion};
use unisono_tests::scenario::{Scenario, World, new_session, new_turn, scenario, wait};
use unisono_tests::wire::{CLAUDE, asking_claude, claude};

const AGENTS: u32 = 64;
const IMAGES: u32 = 10;
const IMAGE_BYTES: usize = 1 << 20;

/// Where in memory the prompts and images are that requests have.
#[derive(Default)]
struct Places {
    prefixes: BTreeSet<usize>,
    images: BTreeSet<usize>,
    requests: usize,
    prefix_bytes: usize,
}

/// A model that answers at once and looks at what it is given.
struct Looking {
    model: Remote<Client>,
    places: Arc<Mutex<Places>>,
    images: Vec<Digest>,
}

impl LanguageModel for Looking {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        self.model.render(shared)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        let mut places = self.places.lock().expect("nobody panics");
        places.requests += 1;
        let bytes = request.prefix.bytes();
        places.prefixes.insert(bytes.as_ptr() as usize);
        places.prefix_bytes = bytes.len();
        let snapshot = request.snapshot.as_ref().expect("a context");
        for digest in &self.images {
            let image = snapshot.file(digest).expect("it is loaded");
            places.images.insert(image.as_ptr() as usize);
        }
        let reply = Reply {
            text: "Ten cats.".into(),
            ..Reply::default()
        };
        Box::pin(async { Ok(reply) })
    }
}

fn image(number: u32) -> Content {
    let bytes: Vec<u8> = number.to_le_bytes().repeat(IMAGE_BYTES / 4);
    let (width, height) = (640, 480);
    Content::new(bytes.into(), Extent::Pixels { width, height })
}

/// A session with the images.
fn album(plan: &Scenario) -> Import {
    let mut import = plan.import(new_session());
    let mut parent = import.messages.last().map(|(_, message)| message.id);
    for number in 0..IMAGES {
        let content = image(number);
        let message = NewMessage {
            id: MessageId::from_u128(u128::from(number) + 1),
            role: Role::User,
            parts: vec![Part::Attachment {
                filename: format!("{number}.png").into(),
                mime: "image/png".into(),
                size_bytes: IMAGE_BYTES as u64,
                content: Some(content),
            }],
            author: None,
            at: Timestamp(i64::from(number)),
            usage: None,
        };
        let id = message.id;
        import.messages.push((parent, message));
        parent = Some(id);
    }
    import
}

fn plan(agents: u32, places: &Arc<Mutex<Places>>) -> Scenario {
    let model = Looking {
        // Nobody listens there, and nobody is asked.
        model: claude("http://127.0.0.1:9"),
        places: places.clone(),
        images: (0..IMAGES).map(|number| image(number).digest).collect(),
    };
    let plan = scenario().messages(2).model(CLAUDE, model);
    let plan = plan.led_by(asking_claude("lead"));
    (0..agents).fold(plan, |plan, n| {
        plan.asked(asking_claude(&format!("agent-{n}")))
    })
}

async fn outcome(world: &World, plan: &Scenario, import: Import) -> Outcome {
    let created = world.runtime.create(import).await.expect("created");
    let turn = new_turn();
    let accepted = created.accept(plan.turn(turn, "How many cats?")).await;
    accepted.expect("accepted");
    wait(&created, turn).await.outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_has_a_copy_of_an_image() {
    let places = Arc::new(Mutex::new(Places::default()));
    let plan = plan(AGENTS, &places);
    let directory = tempfile::tempdir().expect("a directory");
    let world = plan.start(directory.path()).await;
    let outcome = outcome(&world, &plan, album(&plan)).await;
    assert_eq!(outcome, Outcome::Answered);
    let stored = world.runtime.journal().stored_blobs().await.expect("read");
    assert_eq!(stored.contents, u64::from(IMAGES));
    {
        let places = places.lock().expect("nobody panics");
        assert_eq!(places.requests, AGENTS as usize + 1);
        assert_eq!(places.prefixes.len(), 1, "one prompt in memory");
        assert_eq!(places.images.len(), IMAGES as usize, "each image once");
        let encoded = IMAGE_BYTES / 3 * 4 * IMAGES as usize;
        assert!(places.prefix_bytes > encoded, "the model gets all of them");
        assert!(places.prefix_bytes < encoded + 100_000);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_damaged_fails_the_turn_with_its_reason() {
    let places = Arc::new(Mutex::new(Places::default()));
    let plan = plan(1, &places);
    let directory = tempfile::tempdir().expect("a directory");
    let world = plan.start(directory.path()).await;
    let created = world.runtime.create(album(&plan)).await.expect("created");
    let engine = world.runtime.journal().engine().clone();
    let journals = engine.sessions(None, 100).await.expect("listed");
    let is_content = |info: &&unisono_store::SessionInfo| {
        info.session.0.as_u128() >> 104 == 0xff_ffff && info.payload_bytes > 1_000_000
    };
    let content = journals.iter().find(is_content).expect("a content").session;
    engine
        .delete_session(Deletion::of_session(content))
        .await
        .expect("deleted");
    let claim = engine.claim(content).await.expect("claimed");
    let append = Append::new(content, claim.epoch, 0, vec![b"\x01other bytes".to_vec()]);
    engine.append(append).await.expect("written");
    let turn = new_turn();
    let accepted = created.accept(plan.turn(turn, "How many cats?")).await;
    accepted.expect("accepted");
    let ended = wait(&created, turn).await;
    let Outcome::Failed { reason, .. } = &ended.outcome else {
        panic!("{:?}", ended.outcome);
    };
    assert!(reason.contains("an attachment cannot be read"), "{reason}");
    assert_eq!(places.lock().expect("nobody panics").requests, 0);
    // The store is let go of at the end.
    drop((created, engine));
    world.stop().await;
}
