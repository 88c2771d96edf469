//! Attachments in each dialect's own form, and as notes where a model does not take them.

use std::sync::Arc;

use serde_json::Value;
use unisono_context::alteration::Form;
use unisono_context::attachment::{
    AttachedFile, Content, DocumentText, Extent, Files, LoadedBytes,
};
use unisono_context::call::{Reply, ToolResult};
use unisono_context::{Digest, Part, Role, Snapshot, Tokens};

use super::super::fixture::{SENDING, head_bytes, lines, made};
use super::*;
use crate::estimate::{Attachments, Estimator, Overheads};
use crate::fixture::{Chat, call, result};
use crate::language::Exchange;
use crate::prompt::{Group, Prefix};

const EVERYTHING: Accepts = Accepts {
    images: true,
    documents: true,
};
const IMAGES: Accepts = Accepts {
    images: true,
    documents: false,
};
const NOTHING: Accepts = Accepts {
    images: false,
    documents: false,
};

fn file(name: &str, mime: &str, bytes: &str, extent: Extent) -> Part {
    let bytes: Arc<[u8]> = Arc::from(bytes.as_bytes());
    Part::Attachment {
        filename: name.into(),
        mime: mime.into(),
        size_bytes: bytes.len() as u64,
        content: Some(Content::new(bytes, extent)),
    }
}

fn image(name: &str, bytes: &str) -> Part {
    let (width, height) = (640, 480);
    file(name, "image/png", bytes, Extent::Pixels { width, height })
}

/// The snapshot with the bytes that its parts hold.
fn loaded(chat: &Chat) -> Arc<Snapshot> {
    let snapshot = chat.freeze();
    let mut files = Files::default();
    for entry in snapshot.entries() {
        for content in entry.message().parts.iter().filter_map(Part::content) {
            let bytes = content.loaded.0.clone().unwrap();
            files.insert(content.digest, bytes);
        }
    }
    assert!(!snapshot.contents().is_empty());
    snapshot.load(files);
    Arc::new(snapshot)
}

/// An image with its question, one that a tool's result interrupts, one of the model's own, one in a
/// message that was cut, and one that the conversation ends with.
fn chat(seed: u64) -> Chat {
    let plan = file("plan.pdf", "application/pdf", "the plan", Extent::Pages(2));
    Chat::new(seed)
        .user(vec![Part::text("compare"), image("a.png", "one"), plan])
        .assistant(vec![call("c", "look", "{}")])
        .user(vec![image("held.png", "held")])
        .results(vec![result("c", "seen")])
        .assistant(vec![Part::text("Done."), image("own.png", "own")])
        .user(vec![Part::text("a long question"), image("cut.png", "cut")])
        .say(Role::Assistant, "Yes.")
        .user(vec![image("last.png", "last")])
        .alter(6, Form::Cut { target_chars: 4 })
}

fn asked(dialect: Dialect, snapshot: &Arc<Snapshot>, accepts: Accepts, marks: bool) -> String {
    let mut request = Request {
        snapshot: Some(snapshot.clone()),
        group: Group::Shared,
        ..request()
    };
    request.prefix = Prefix::new(head_bytes(dialect, "m", &request, marks, accepts));
    let tail = dialect.tail(&request, &SENDING);
    String::from_utf8([&request.prefix.bytes()[..], &tail].concat()).unwrap()
}

#[test]
fn each_dialect_sends_attachments_in_its_own_form() {
    let snapshot = loaded(&chat(1));
    for dialect in Dialect::ALL {
        let body = asked(dialect, &snapshot, EVERYTHING, true);
        insta::assert_snapshot!(format!("files-{}", dialect.name()), lines(&body));
        // `one`, `held`, `last`, and the plan.
        for (sent, times) in [
            ("b25l", 1),
            ("aGVsZA==", 1),
            ("bGFzdA==", 1),
            ("dGhlIHBsYW4=", 1),
        ] {
            assert_eq!(body.matches(sent).count(), times, "{sent} in {body}");
        }
        // A model has no images of its own, and a cut message has none.
        for kept in ["b3du", "Y3V0"] {
            assert!(!body.contains(kept), "{kept} in {body}");
        }
    }
}

#[test]
fn a_model_that_takes_none_gets_notes() {
    let snapshot = loaded(&chat(1));
    for dialect in Dialect::ALL {
        let notes = asked(dialect, &snapshot, NOTHING, false);
        for name in [
            "a.png image/png",
            "plan.pdf application/pdf",
            "last.png",
            "cut.png",
        ] {
            assert!(
                notes.contains(&format!("[attachment {name}")),
                "{name} in {notes}"
            );
        }
        assert!(!notes.contains("b25l"), "{notes}");
        // As if nothing had ever been loaded.
        let unloaded = Arc::new(chat(1).freeze());
        assert_eq!(notes, asked(dialect, &unloaded, EVERYTHING, false));
        let some = asked(dialect, &snapshot, IMAGES, false);
        assert!(
            some.contains("b25l") && !some.contains("dGhlIHBsYW4="),
            "{some}"
        );
    }
}

#[test]
fn a_model_that_takes_no_documents_gets_their_text() {
    let mut plan = file("plan.pdf", "application/pdf", "the plan", Extent::Pages(2));
    let said = "[page 1]\n#9 user\nWe ship on Friday.";
    let text = DocumentText {
        digest: Digest::of_bytes(said.as_bytes()),
        tokens: Tokens(12),
    };
    let content = plan.content_mut().unwrap();
    content.text = Some(text);
    let digest = content.digest;
    let chat = Chat::new(1)
        .user(vec![Part::text("compare"), plan.clone()])
        .assistant(vec![Part::text("So:"), plan])
        .counted();
    let with_text = |is_known: bool| {
        let snapshot = chat.freeze();
        let mut files = Files::default();
        files.insert(digest, Arc::from(&b"the plan"[..]));
        if is_known {
            files.insert_text(text.digest, said.into());
        }
        snapshot.load(files);
        Arc::new(snapshot)
    };
    let snapshot = with_text(true);
    for dialect in Dialect::ALL {
        let body = asked(dialect, &snapshot, IMAGES, false);
        let text = "[text of attachment plan.pdf]\\n[page 1]\\n";
        assert_eq!(body.matches(text).count(), 1, "{body}");
        assert_eq!(body.matches("We ship on Friday.").count(), 1, "{body}");
        let whole = asked(dialect, &snapshot, EVERYTHING, false);
        assert!(!whole.contains("We ship"), "{whole}");
        let without = asked(dialect, &with_text(false), IMAGES, false);
        assert!(!without.contains("[text of"), "{without}");
    }
}

#[test]
fn equal_content_is_equal_bytes_and_other_content_another_snapshot() {
    let (one, other) = (loaded(&chat(1)), loaded(&chat(7)));
    assert_eq!(one.id(), other.id());
    for dialect in Dialect::ALL {
        let bodies = [&one, &other].map(|of| asked(dialect, of, EVERYTHING, true));
        assert_eq!(bodies[0], bodies[1]);
    }
    let with = |bytes: &str| {
        let chat = Chat::new(1).user(vec![image("a.png", bytes)]);
        chat.freeze().id()
    };
    assert_ne!(with("one"), with("two"));
    let note = Part::attachment("a.png", "image/png", 3, None);
    let note = Chat::new(1).user(vec![note]);
    assert_ne!(with("one"), note.freeze().id());
}

#[test]
fn roles_alternate_beside_images() {
    let snapshot = loaded(&chat(1));
    for marks in [false, true] {
        let body = asked(Dialect::OpenAiChat, &snapshot, EVERYTHING, marks);
        let body: Value = serde_json::from_str(&body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        // A marked message is closed, as it is without images.
        let twice = roles.windows(2).any(|two| two == ["user", "user"]);
        assert!(!twice || marks, "{roles:?}");
    }
}

/// An exchange with a tool that gave an image and a document, and one that failed.
fn with_results(held: bool) -> Request {
    let file = |name: &str, mime: &str, bytes: &str, extent| {
        let mut content = Content::new(Arc::from(bytes.as_bytes()), extent);
        if !held {
            content.loaded = LoadedBytes::default();
        }
        AttachedFile {
            filename: name.into(),
            mime: mime.into(),
            size_bytes: bytes.len() as u64,
            content,
            text: None,
        }
    };
    let (width, height) = (640, 480);
    let shot = file(
        "shot",
        "image/png",
        "shot",
        Extent::Pixels { width, height },
    );
    let plan = file("plan.pdf", "application/pdf", "the plan", Extent::Pages(2));
    let result = |id: &str, is_error, files: Vec<AttachedFile>| {
        let notes: Vec<String> = files.iter().map(AttachedFile::note).collect();
        ToolResult {
            call_id: id.into(),
            content: notes.join("\n").into(),
            is_error,
            files,
        }
    };
    Request {
        exchange: vec![
            Exchange::Reply(Reply {
                calls: vec![made("one", "look", "{}"), made("two", "look", "{}")],
                ..Reply::default()
            }),
            Exchange::Results(vec![
                result("one", false, vec![shot.clone(), plan]),
                result("two", true, vec![shot]),
            ]),
        ],
        ..request()
    }
}

#[test]
fn each_dialect_sends_the_files_of_results_in_its_own_form() {
    let (shot, plan) = ("c2hvdA==", "dGhlIHBsYW4=");
    for dialect in Dialect::ALL {
        let sent = |request: &Request, accepts| {
            let sending = Sending { accepts, ..SENDING };
            let head = head_bytes(dialect, "m", request, false, accepts);
            let request = Request {
                prefix: Prefix::new(head.clone()),
                ..request.clone()
            };
            String::from_utf8([head, dialect.tail(&request, &sending)].concat()).unwrap()
        };
        let body = sent(&with_results(true), EVERYTHING);
        insta::assert_snapshot!(format!("results-{}", dialect.name()), lines(&body));
        // No provider takes a file with an error.
        let times = |body: &str| (body.matches(shot).count(), body.matches(plan).count());
        assert_eq!(times(&body), (1, 1), "{body}");
        assert_eq!(times(&sent(&with_results(true), IMAGES)), (1, 0));
        let notes = sent(&with_results(true), NOTHING);
        assert_eq!(times(&notes), (0, 0));
        assert!(
            notes.contains("[attachment plan.pdf application/pdf"),
            "{notes}"
        );
        assert_eq!(notes, sent(&with_results(false), EVERYTHING));
    }
}

#[test]
fn the_text_of_a_document_in_a_result_is_sent_and_counted_for_models_without_documents() {
    let mut request = with_results(true);
    for file in request.files_mut() {
        let is_document = &*file.mime == "application/pdf";
        file.text = is_document.then(|| "[page 1]\nWe ship on Friday.".into());
    }
    for dialect in Dialect::ALL {
        let sent = |accepts| {
            let sending = Sending { accepts, ..SENDING };
            String::from_utf8(dialect.tail(&request, &sending).to_vec()).unwrap()
        };
        let behind = "2 pages]\\n[text of attachment plan.pdf]\\n[page 1]\\nWe ship on Friday.\"";
        for (accepts, times) in [(EVERYTHING, 0), (IMAGES, 1), (NOTHING, 1)] {
            let body = sent(accepts);
            assert_eq!(body.matches(behind).count(), times, "{dialect:?}: {body}");
            let estimator = Estimator {
                encoding: unisono_context::Encoding::O200kBase,
                overheads: Overheads::for_dialect(dialect, unisono_context::Tokens(0)),
                attachments: Attachments::for_dialect(dialect, accepts),
                count: &|text| {
                    let has = text.matches("We ship on Friday.").count() as u64;
                    unisono_context::tokens::Count::exact(has * 1_000_000)
                },
            };
            let counted = estimator.tail(&request).tokens.0 / 1_000_000;
            assert_eq!(counted, times as u64, "{dialect:?}");
        }
    }
}

#[test]
fn an_image_costs_what_its_provider_says() {
    let chat = Chat::new(1).user(vec![image("a.png", "one")]).counted();
    let snapshot = loaded(&chat);
    let request = Request {
        snapshot: Some(snapshot),
        group: Group::Shared,
        ..request()
    };
    let entry = crate::catalogue::Catalogue::built_in().unwrap();
    let encoding = entry.get(None, "gpt-4o").unwrap().encoding;
    let tokens = |dialect, accepts| {
        let estimator = Estimator {
            encoding,
            overheads: Overheads::for_dialect(dialect, unisono_context::Tokens(0)),
            attachments: Attachments::for_dialect(dialect, accepts),
            count: &|_| unisono_context::tokens::Count::default(),
        };
        estimator.prefix(&request.shared()).tokens.0
    };
    for (dialect, image) in [
        (Dialect::OpenAiChat, 425),
        (Dialect::OpenAiResponses, 425),
        (Dialect::Anthropic, 410),
        (Dialect::Gemini, 258),
    ] {
        let more = tokens(dialect, EVERYTHING) - tokens(dialect, NOTHING);
        assert_eq!(more, image, "{dialect:?}");
        // The same in the result of a tool; none with an error.
        let attachments = Attachments::for_dialect(dialect, IMAGES);
        let (tokens, bytes) = attachments.in_exchange(&with_results(true).exchange);
        assert_eq!((tokens.0, bytes), (image, 8), "{dialect:?}");
    }
}
