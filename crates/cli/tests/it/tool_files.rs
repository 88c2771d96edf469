//! Images in the results of tools: in the request to the model, in the store, and in nothing else.

use std::fs;

use serde_json::{Value, json};

use crate::attachments::{base64, pdf_that_repeats, pdf_that_says, png};
use crate::support::HasAll as _;
use crate::tools::{Scene, program};

fn image(mime: &str, bytes: &[u8]) -> Value {
    json!({"type": "image", "data": base64(bytes), "mimeType": mime})
}

fn shows(parts: &Value) -> Value {
    json!({"text": "the screen", "parts": parts})
}

/// Two replies that call the tool with these parts, and one that answers.
fn scene(first: &Value, second: &Value, more: &str) -> Scene {
    let calls = [
        [("files__show", shows(first))],
        [("files__show", shows(second))],
    ];
    let replies: Vec<&[(&str, Value)]> = calls.iter().map(|calls| &calls[..]).collect();
    Scene::new(&replies, &program(""), more)
}

/// The messages of the nth request.
fn messages(scene: &Scene, n: usize) -> Vec<Value> {
    let body = scene.provider.requests()[n].json();
    body["messages"].as_array().unwrap().clone()
}

#[test]
fn an_image_of_a_tool_reaches_the_model_and_is_stored_once() {
    let (shot, plan) = (png(64, 48, b"shot"), b"%PDF-1.7\n/Type /Page\n%%EOF\n");
    let first = json!([image("image/png", &shot)]);
    let blob = json!({"uri": "file:///plans/plan.pdf", "blob": base64(plan)});
    let second = json!([image("image/png", &shot), {"type": "resource", "resource": blob}]);
    let scene = scene(&first, &second, "");
    scene.answer();
    let data = base64(&shot);
    let said = messages(&scene, 1);
    let [.., result, files] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(result["role"], "tool");
    let text = result["content"].as_str().unwrap();
    assert!(text.contains("[attachment file-1 image/png"), "{text}");
    assert!(text.contains("64 x 48 pixels]"), "{text}");
    assert_eq!(files["role"], "user");
    let url = format!("data:image/png;base64,{data}");
    assert_eq!(files["content"][1]["image_url"]["url"], url.as_str());
    let last = messages(&scene, 2);
    let all = Value::from(last.clone()).to_string();
    assert_eq!(all.matches(&url).count(), 2, "the first stays: {all}");
    all.has_all(&["file:///plans/plan.pdf: [attachment plan.pdf"]);
    let document = format!("data:application/pdf;base64,{}", base64(plan));
    assert!(all.contains(&document), "{all}");
    // It is rebuilt byte for byte from the journal and the store.
    let raw = scene
        .call(&["why", "clerk", "--request", "3", "--raw"])
        .expect(0);
    let rebuilt: Value = serde_json::from_str(&raw.stdout).unwrap();
    assert_eq!(rebuilt, scene.provider.requests()[2].json());
    assert_eq!(scene.json(&["replay"])["mismatches"], 0);
    // The steps name it by its digest; the journal has no bytes of it.
    let run = scene.json(&["why", "clerk"])["run"]
        .as_str()
        .unwrap()
        .to_owned();
    let steps = scene.json(&["runs", "show", &run])["steps"].clone();
    let file = &steps[1]["results"][0]["files"][0];
    assert_eq!(
        (&file["filename"], &file["width"]),
        (&json!("file-1"), &json!(64))
    );
    let again = &steps[3]["results"][0]["files"][0];
    assert_eq!(file["digest"], again["digest"], "{steps:#}");
    let results = [&steps[1], &steps[3]].map(|step| step["results"].to_string());
    assert!(!results.concat().contains(&data), "{results:?}");
    scene.call(&["doctor"]).expect(0);
    // An archive has it, and it goes with its session.
    let archived_image = |name: &str| {
        let archive = scene.place.path(name);
        let path = archive.to_str().unwrap();
        scene.call(&["export", "--all", path]).expect(0);
        let bytes = fs::read(&archive).unwrap();
        bytes.windows(shot.len()).any(|window| window == shot)
    };
    let before = archived_image("before.unisono");
    let sessions = scene.json(&["sessions", "list"]);
    let session = sessions[0]["session"].as_str().unwrap();
    scene
        .call(&["sessions", "delete", session, "--yes"])
        .expect(0);
    let after = archived_image("after.unisono");
    assert_eq!((before, after), (true, false));
}

#[test]
fn a_damaged_or_huge_image_of_a_tool_is_a_note_and_the_run_goes_on() {
    let whole = png(9, 9, b"x");
    let first = json!([
        image("image/png", &whole[..40]),
        image("image/jpeg", &whole)
    ]);
    let second = json!([
        image("image/png", &png(10_000, 10_000, b"")),
        image("image/png", &png(9, 9, &[0; 5_000])),
    ]);
    let bounds = "[attachments]\nmax_bytes = 4096\n";
    let scene = scene(&first, &second, bounds);
    scene.answer();
    let all = Value::from(messages(&scene, 2)).to_string();
    assert!(!all.contains("image_url"), "{all}");
    all.has_all(&[
        "damaged or truncated",
        "is image/jpeg, but its content is image/png",
        "10000 x 10000 pixels",
        "the limit is 4096",
    ]);
}

#[test]
fn a_session_that_is_full_keeps_the_text_of_a_result() {
    let shot = png(9, 9, &[7; 3_000]);
    let first = json!([image("image/png", &shot)]);
    let other = json!([image("image/png", &png(9, 9, &[8; 3_000]))]);
    let bounds = "[attachments]\nmax_bytes = 4096\nsession_bytes = 4096\n";
    let scene = scene(&first, &other, bounds);
    scene.answer();
    let all = Value::from(messages(&scene, 2)).to_string();
    assert_eq!(all.matches("image_url").count(), 2, "one image: {all}");
    assert!(all.contains("its attachments are not kept"), "{all}");
}

fn document(name: &str, bytes: &[u8]) -> Value {
    let resource = json!({"uri": format!("file:///{name}"), "blob": base64(bytes)});
    json!({"type": "resource", "resource": resource})
}

/// The model takes documents or not, and has a context window of that many tokens.
fn set_model(scene: &Scene, documents: bool, window: u32) {
    let own = format!(
        "[models.\"openai/gpt-4o\"]\ndocuments = {documents}\nwindow = {window}\n\
         max_output = 1000\n"
    );
    scene.place.set_catalogue(&own);
}

/// `replay` and `why` rebuild all requests from the journal and the store.
fn all_are_rebuilt(scene: &Scene) {
    assert_eq!(scene.json(&["replay"])["mismatches"], 0);
    for (n, sent) in (1..).zip(scene.provider.requests()) {
        let args = ["why", "clerk", "--request", &n.to_string(), "--raw"];
        let rebuilt: Value = serde_json::from_str(&scene.call(&args).expect(0).stdout).unwrap();
        assert_eq!(rebuilt, sent.json(), "request {n}");
    }
}

#[test]
fn a_model_without_documents_gets_the_text_of_a_pdf_in_a_result_also_after_a_kill() {
    let plan = pdf_that_says("We ship on Friday.");
    for takes in [true, false] {
        let scene = Scene::new(
            &[
                &[("files__show", shows(&json!([document("plan.pdf", &plan)])))],
                &[("files__put", json!({"text": "x", "until": "go"}))],
            ],
            &program(""),
            "",
        );
        set_model(&scene, takes, 128_000);
        scene.killed_at("call put ");
        scene.place.write("go", "");
        scene.json(&["resume"]);
        // The request before the kill and the one after it.
        for n in [1, 2] {
            let all = Value::from(messages(&scene, n)).to_string();
            let behind = "[attachment plan.pdf application/pdf";
            let text = "1 page]\\n[text of attachment plan.pdf]\\n[page 1]\\nWe ship on Friday.";
            assert!(all.contains(behind), "{all}");
            let file = format!("data:application/pdf;base64,{}", base64(&plan));
            let has = (all.contains(&file), all.contains(text));
            assert_eq!(has, (takes, !takes), "{all}");
        }
        all_are_rebuilt(&scene);
    }
}

#[test]
fn the_text_of_a_pdf_in_a_result_is_cut_and_leaves_the_exchange_with_it() {
    let says = |word: &str| {
        let sentences = format!("{word} ships the orders. ").repeat(15);
        pdf_that_repeats(&sentences, 100)
    };
    let first = json!([document("long.pdf", &says("Ada"))]);
    let second = json!([document("other.pdf", &says("Bob"))]);
    let scene = scene(&first, &second, "");
    set_model(&scene, false, 16_000);
    scene.answer();
    let seen = |n, word: &str| {
        let all = Value::from(messages(&scene, n)).to_string();
        all.matches(word).count()
    };
    let (all, cut) = (1_500, "characters left out; ask the tool for less");
    let ada = seen(1, "Ada ships");
    assert!(ada > 100 && ada < all, "{ada}");
    assert_eq!(seen(1, cut), 1);
    // The second does not fit beside the first, which is a note now.
    assert_eq!(seen(2, "Ada ships"), 0);
    assert!(seen(2, "Bob ships") > 100);
    assert_eq!(seen(2, "left out to make room"), 1);
    all_are_rebuilt(&scene);
}
