//! Images and documents, on every way in: stored once, sent to models that take them, shown, exported.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::client_tools::Scene;
use crate::http::{Daemon, Reply, head};
use crate::support::{HasAll as _, Place, words};

const CHAT: &str = "/openai/v1/chat/completions";
const RESPONSES: &str = "/openai/v1/responses";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |n: usize| u32::from(three.get(n).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= three.len() { digit } else { '=' });
        }
    }
    text
}

/// An image of that size; `more` makes it another one.
pub(crate) fn png(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
    let chunk = |name: &[u8], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], name, data, &[0; 4]].concat()
    };
    let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
    let header = [&width[..], &height, &[8, 6, 0, 0, 0]].concat();
    let all = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &header),
        chunk(b"IDAT", more),
        chunk(b"IEND", b""),
    ];
    all.concat()
}

fn pdf() -> Vec<u8> {
    b"%PDF-1.7\n<< /Type /Page >>\n%%EOF\n".to_vec()
}

fn url(bytes: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(bytes))
}

fn scene() -> Scene {
    Scene::scripted(Script::always(Act::answer(Answer::text("A cat."))))
}

fn session(daemon: &Daemon) -> String {
    daemon.session(&json!({}))
}

fn upload(daemon: &Daemon, mime: &str, bytes: &[u8]) -> Reply {
    daemon.post_bytes("/v1/blobs", mime, bytes)
}

fn append(daemon: &Daemon, session: &str, part: Value) -> Reply {
    let parts = json!([{"type": "text", "text": "See."}, part]);
    daemon.post(
        &format!("/v1/sessions/{session}/messages"),
        &json!({"parts": parts}),
    )
}

fn attachment(name: &str, bytes: &[u8]) -> Value {
    json!({"type": "attachment", "filename": name, "data": base64(bytes)})
}

fn digest_of(daemon: &Daemon, session: &str) -> String {
    let path = format!("/v1/sessions/{session}/messages");
    let page = daemon.get(&path).expect(200).json();
    let last = page["items"].as_array().unwrap().last().unwrap().clone();
    last["parts"][1]["digest"].as_str().unwrap().to_owned()
}

#[test]
fn openais_clients_send_images() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let image = url(&png(640, 480, b"cat"));
    let text = "What is this?";
    let chat = json!({"model": "clerk", "messages": [{"role": "user", "content": [
        {"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}},
        {"type": "file", "file": {"filename": "plan.pdf",
            "file_data": format!("data:application/pdf;base64,{}", base64(&pdf()))}}]}]});
    let responses = json!({"model": "clerk", "input": [{"role": "user", "content": [
        {"type": "input_text", "text": text}, {"type": "input_image", "image_url": image}]}]});
    for (path, body) in [(CHAT, chat), (RESPONSES, responses)] {
        daemon.post(path, &body).expect(200);
        let sent = scene.sent().pop().unwrap();
        let said = sent["messages"].as_array().unwrap().last().unwrap().clone();
        let blocks = said["content"].as_array().unwrap();
        let shown = blocks.iter().find(|block| block["type"] == "image_url");
        assert_eq!(shown.unwrap()["image_url"]["url"], image.as_str(), "{said}");
        let named = said.to_string();
        assert!(named.contains("[attachment image image/png"), "{named}");
    }
    // In a session, the list is told again with the image, and goes on.
    let session = session(&daemon);
    let first = json!({"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": text}]});
    let ask = |messages: Value| {
        let headers = [("X-Unisono-Session", session.as_str())];
        let body = json!({"model": "clerk", "messages": messages});
        daemon.request_with("POST", CHAT, &headers, Some(&body))
    };
    ask(json!([first])).expect(200);
    let second = json!({"role": "user", "content": "Which colour?"});
    let answer = json!({"role": "assistant", "content": "A cat."});
    ask(json!([first, answer, second])).expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    assert_eq!(sent.matches(&image).count(), 1, "{sent}");
    daemon.stop();
}

#[test]
fn a_file_is_stored_once_and_goes_with_the_last_session() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let image = png(32, 16, b"shared");
    let stored = upload(&daemon, "image/png", &image).expect(201).json();
    let digest = stored["digest"].as_str().unwrap().to_owned();
    assert_eq!(stored["width"], 32, "{stored}");
    assert_eq!(stored["size_bytes"], image.len());
    let (first, second) = (session(&daemon), session(&daemon));
    let named = json!({"type": "attachment", "filename": "a.png", "digest": digest});
    append(&daemon, &first, named).expect(201);
    append(&daemon, &second, attachment("b.png", &image)).expect(201);
    assert_eq!(digest_of(&daemon, &first), digest);
    assert_eq!(digest_of(&daemon, &second), digest);
    let address = format!("/v1/blobs/{digest}");
    let read = || daemon.get(&address);
    let got = read().expect(200);
    assert_eq!(got.header("content-type"), Some("image/png"));
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    assert!(
        got.header("content-security-policy")
            .unwrap()
            .contains("sandbox")
    );
    daemon.delete(&format!("/v1/sessions/{first}"));
    read().expect(200);
    daemon.delete(&format!("/v1/sessions/{second}"));
    read().expect(404);
    daemon.stop();
}

#[test]
fn what_was_acknowledged_is_there_after_the_program_was_killed() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let image = png(32, 16, &[7; 300_000]);
    let session = session(&daemon);
    append(&daemon, &session, attachment("a.png", &image)).expect(201);
    let digest = digest_of(&daemon, &session);
    daemon.kill();
    let daemon = Daemon::start(&scene.place);
    daemon.get(&format!("/v1/blobs/{digest}")).expect(200);
    let task = json!({"task": "What is it?"});
    daemon
        .post(&format!("/v1/sessions/{session}/turns"), &task)
        .expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    assert!(sent.contains(&url(&image)), "the model sees it");
    daemon.stop();
}

#[test]
fn a_turn_has_the_size_of_each_image_of_its_task() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let image = json!({"filename": "a.png", "data": base64(&png(32, 16, b"cat"))});
    let task = json!({"task": "What is it?", "attachments": [image]});
    let turn = daemon.posted(&format!("/v1/sessions/{session}/turns"), &task);
    let shown = &turn["attachments"][0];
    assert_eq!(
        (&shown["width"], &shown["height"]),
        (&json!(32), &json!(16)),
        "{turn:#}"
    );
    let path = format!(
        "/sessions/{session}/turns/{}",
        turn["turn"].as_str().unwrap()
    );
    let page = daemon.get(&path).expect(200).text();
    assert!(page.contains("width=\"32\" height=\"16\""), "{page}");
    daemon.stop();
}

#[test]
fn files_that_are_no_images_are_refused_with_their_reason() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let whole = png(9, 9, b"x");
    let said = |mime: &str| json!({"type": "attachment", "filename": "a", "mime": mime, "data": base64(&whole)});
    let large = png(9, 9, &vec![0; 21 << 20]);
    for (part, status, reason) in rows! {
        (attachment("a.png", &whole[..whole.len() - 3]), 400, "damaged or truncated"),
        (
            said("image/jpeg"),
            400,
            "the declared type of the file is image/jpeg, but its content is image/png",
        ),
        (attachment("a.png", &png(30_000, 30_000, b"")), 400, "30000 x 30000 pixels"),
        (
            attachment("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
            400,
            "is not supported",
        ),
        (attachment("a.png", &large), 413, "the limit is 20971520"),
        (json!({"type": "attachment", "filename": "a", "data": "%%%"}), 400, "are not base64"),
        (
            json!({"type": "attachment", "filename": "a", "data": "", "digest": "00"}),
            400,
            "more than one of `data`, `digest` and `url`",
        ),
        (
            json!({"type": "attachment", "filename": "a", "digest": "0".repeat(64)}),
            404,
            "upload it first",
        ),
        (
            json!({"type": "attachment", "filename": "a", "digest": "../../etc"}),
            404,
            "upload it first",
        ),
    } {
        let refused = append(&daemon, &session, part).expect(status).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(reason), "{detail}: {reason}");
    }
    let nothing = json!({"task": "x", "attachments": [{"filename": "x.png"}]});
    let turns = format!("/v1/sessions/{session}/turns");
    let refused = daemon.post(&turns, &nothing).expect(400);
    assert!(
        refused
            .problem("invalid_request")
            .contains("needs `data`, `digest` or `url`")
    );
    upload(&daemon, "image/gif", &whole).expect(400);
    let messages = daemon.get(&format!("/v1/sessions/{session}/messages"));
    assert_eq!(
        messages.expect(200).json()["items"],
        json!([]),
        "nothing came of it"
    );
    // An address is not fetched, whatever it names.
    for address in [
        "http://127.0.0.1/a.png",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/a.png",
        "https://example.org/a.png",
        "file:///etc/passwd",
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": address}});
        let body = json!({"model": "clerk", "messages": [{"role": "user", "content": [part]}]});
        let error = daemon.post(CHAT, &body).expect(400).json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        message.has_all(&["with their content in the request"]);
    }
    let long = format!("data:{}", "x".repeat(200_000));
    let part = json!({"type": "image_url", "image_url": {"url": long}});
    let body = json!({"model": "clerk", "messages": [{"role": "user", "content": [part]}]});
    let error = daemon.post(CHAT, &body).expect(400).text();
    assert!(error.contains("xxxx") && error.len() < 1_000, "{error}");
    let cut = url(&whole[..20]);
    for cut in [cut.replace("data:", "DATA:"), cut] {
        let part = json!({"type": "image_url", "image_url": {"url": cut}});
        let body = json!({"model": "clerk", "messages": [{"role": "user", "content": [part]}]});
        let error = daemon.post(CHAT, &body).json()["error"].clone();
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("damaged or truncated"),
            "{error}"
        );
    }
    assert!(scene.sent().is_empty());
    daemon.stop();
}

/// A server of files.
fn file_server(cat: Vec<u8>) -> FakeProvider {
    let page = |status, body: Vec<u8>| Act::document(status, "text/html", body);
    let script = Script::by(move |request| match &*request.path {
        "/cat.png" => page(200, cat.clone()),
        "/cut.png" => page(200, cat[..20].to_vec()),
        "/wide.png" => page(200, png(10_000, 10_000, b"")),
        "/huge.png" => page(200, png(9, 9, &vec![0; 21 << 20])),
        "/page" => page(200, b"<html>".to_vec()),
        "/moved" => page(302, Vec::new()).header("location", "http://169.254.169.254/"),
        _ => page(404, Vec::new()),
    });
    let server = FakeProvider::builder().script(script);
    server.every_path().start_on_thread()
}

#[test]
fn addresses_of_allowed_hosts_are_read_and_no_others() {
    let cat = png(640, 480, b"cat");
    let server = file_server(cat.clone());
    let scene = scene();
    let settings = scene.place.config();
    let allowed = "[attachments]\nallowed_hosts = [\"127.0.0.1\"]\n";
    scene.place.set_config(format!("{settings}{allowed}"));
    let daemon = Daemon::start(&scene.place);
    let at = |name: &str| format!("{}/{name}", server.url());
    let chat = |address: &str| {
        let part = json!({"type": "image_url", "image_url": {"url": address}});
        let body = json!({"model": "clerk", "messages": [{"role": "user", "content": [part]}]});
        daemon.post(CHAT, &body)
    };
    // The content is what is sent: a model's provider never gets the address.
    chat(&at("cat.png")).expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    sent.has_all(&[&url(&cat)]);
    sent.has_none(&["cat.png"]);
    let image = json!({"type": "input_image", "image_url": at("cat.png")});
    let input = json!([{"role": "user", "content": [image]}]);
    daemon
        .post(RESPONSES, &json!({"model": "clerk", "input": input}))
        .expect(200);
    assert!(scene.sent().pop().unwrap().to_string().contains(&url(&cat)));
    let session = session(&daemon);
    let turns = format!("/v1/sessions/{session}/turns");
    let task = json!({"task": "What?", "attachments": [{"url": at("cat.png")}]});
    daemon.post(&turns, &task).expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    assert!(sent.contains("[attachment cat.png image/png"), "{sent}");
    let part = json!({"type": "attachment", "filename": "c.png", "url": at("cat.png")});
    append(&daemon, &session, part).expect(201);
    digest_of(&daemon, &session);
    let parts = json!([{"text": "What?"}, {"url": at("cat.png"), "mediaType": "image/png"}]);
    let message = json!({"messageId": "m1", "role": "ROLE_USER", "parts": parts});
    let version = [("A2A-Version", "1.0")];
    let message = json!({"message": message});
    daemon
        .request_with("POST", "/a2a/message:send", &version, Some(&message))
        .expect(200);
    assert!(scene.sent().pop().unwrap().to_string().contains(&url(&cat)));
    let before = (scene.sent().len(), server.request_count());
    for (address, reason) in [
        (at("cut.png"), "damaged or truncated"),
        (at("wide.png"), "10000 x 10000 pixels"),
        (at("huge.png"), "more than 20971520 bytes"),
        (at("page"), "is not supported"),
        (at("moved"), "a redirection (status 302) is not followed"),
        (at("none"), "status 404"),
    ] {
        let error = chat(&address).expect(400).json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(reason), "{address}: {message}");
    }
    let asked_once = server.request_count();
    assert_eq!(asked_once, before.1 + 6, "each address once");
    for address in [
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "http://127.0.0.2/a.png",
        "http://0x7f.0.0.2/a.png",
        "https://127.0.0.1@evil.example/a.png",
        "file:///etc/passwd",
    ] {
        let refused = chat(address).expect(400).json();
        let new = json!({"task": "x", "attachments": [{"url": address}]});
        daemon.post(&turns, &new).expect(400);
        assert!(refused["error"]["message"].is_string(), "{refused}");
    }
    assert_eq!(
        (scene.sent().len(), server.request_count()),
        (before.0, asked_once)
    );
    let many = vec![json!({"url": at("cat.png")}); 17];
    let many = json!({"task": "x", "attachments": many});
    let refused = daemon.post(&turns, &many).expect(400).text();
    assert!(refused.contains("at most 16"), "{refused}");
    daemon.stop();
}

#[test]
fn a_repeated_request_does_not_read_its_addresses_again() {
    let server = file_server(png(640, 480, b"cat"));
    let scene = scene();
    let settings = scene.place.config();
    let allowed = "[attachments]\nallowed_hosts = [\"127.0.0.1\"]\n";
    scene.place.set_config(format!("{settings}{allowed}"));
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let address = format!("{}/cat.png", server.url());
    let task = json!({"task": "What?", "attachments": [{"url": address}]});
    let part = json!({"type": "attachment", "filename": "c.png", "url": address});
    let message = json!({"parts": [part]});
    for (list, body, id) in [("turns", task, "turn"), ("messages", message, "message")] {
        let path = format!("/v1/sessions/{session}/{list}");
        let key = [("Idempotency-Key", list)];
        let first = daemon.request_with("POST", &path, &key, Some(&body)).json();
        assert!(first[id].is_string(), "{first}");
        let read = server.request_count();
        let again = daemon.request_with("POST", &path, &key, Some(&body));
        assert_eq!(again.expect(200).json()[id], first[id]);
        assert_eq!(server.request_count(), read, "{list}");
    }
    daemon.stop();
}

#[test]
fn a_session_takes_so_many_bytes() {
    let scene = scene();
    let settings = scene.place.config();
    let bounds = "[attachments]\nmax_bytes = 4096\nsession_bytes = 6000\n";
    scene.place.set_config(format!("{settings}{bounds}"));
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let part = |byte: u8, bytes: usize| attachment("a.png", &png(9, 9, &vec![byte; bytes]));
    append(&daemon, &session, part(0, 5_000)).expect(413);
    append(&daemon, &session, part(1, 3_500)).expect(201);
    let refused = append(&daemon, &session, part(2, 3_500)).expect(413).json();
    let detail = refused["detail"].as_str().unwrap();
    detail.has_all(&["the session with its attachments"]);
    append(&daemon, &session, part(3, 1_000)).expect(201);
    daemon.stop();
}

#[test]
fn files_go_with_a_task_and_leave_with_an_export() {
    let scene = scene();
    let image = png(64, 64, b"on the command line");
    scene.place.write("screen.png", &image);
    scene.place.write("plan.pdf", pdf());
    scene
        .place
        .write("talk.jsonl", "{\"role\":\"user\",\"content\":\"Hello\"}\n");
    let output = scene.place.json(&[
        "run",
        "talk.jsonl",
        "--task",
        "What is wrong?",
        "--attach",
        "screen.png",
        "--attach",
        "plan.pdf",
    ]);
    assert_eq!(output["answer"], "A cat.", "{output}");
    let sent = scene.sent().pop().unwrap().to_string();
    sent.has_all(&[&base64(&image), &base64(&pdf())]);
    let session = output["session"].as_str().unwrap();
    scene
        .place
        .call(&["append", session, "Again:", "--attach", "screen.png"])
        .expect(0);
    scene
        .place
        .call(&["append", session, "--attach", "talk.jsonl"])
        .expect(2)
        .says(&["is not supported"]);
    let text = scene.place.stdout(&["export", session]);
    assert_eq!(text.matches(&base64(&image)).count(), 2, "{text}");
    let other = Place::with_config("");
    other.write("talk.jsonl", &text);
    other.call(&["import", "talk.jsonl"]).expect(0);
    // The first line has the digest of the file that it was imported from.
    let without_first = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let again = other.call(&["export", session]).expect(0).stdout;
    let (again, first) = (without_first(&again), without_first(&text));
    assert_eq!(again, first, "the same contents under the same digests");
    // A digest that does not fit is seen.
    let lie = text.replacen("\"digest\":\"", "\"digest\":\"0", 1);
    let third = Place::with_config("");
    third.write("talk.jsonl", lie);
    third
        .call(&["import", "talk.jsonl"])
        .says(&["the digest of"]);
    // An archive has them, too.
    let archive = scene.place.path("all.unisono");
    let archive = archive.to_str().unwrap();
    scene.place.call(&["export", "--all", archive]).expect(0);
    let fourth = Place::with_config("");
    fourth.call(&["import", archive]).expect(0);
    assert_eq!(fourth.call(&["export", session]).expect(0).stdout, text);
    fourth.call(&["doctor"]).says(&[]);
}

pub(crate) fn pdf_that_says(text: &str) -> Vec<u8> {
    pdf_that_repeats(text, 1)
}

/// A PDF of one page that says this so many times, with one copy of the text.
pub(crate) fn pdf_that_repeats(text: &str, times: usize) -> Vec<u8> {
    let contents = "4 0 R ".repeat(times);
    let content = format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET");
    let length = content.len();
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /Contents [{contents}] /MediaBox [0 0 595 842] \
             /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        format!("<< /Length {length} >>\nstream\n{content}\nendstream"),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>".to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = String::new();
    for (number, object) in (1..).zip(&objects) {
        places += &format!("{:010} 00000 n \n", file.len());
        file += &format!("{number} 0 obj\n{object}\nendobj\n");
    }
    let table = file.len();
    file += &format!("xref\n0 6\n0000000000 65535 f \n{places}");
    file += &format!("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n");
    file.into_bytes()
}

/// A conversation, the document, and a task with it, for a model that takes documents or not.
fn task_with(plan: &[u8], takes: bool) -> (Scene, Vec<&'static str>) {
    let scene = scene();
    let own = format!("[models.\"openai/gpt-4o\"]\ndocuments = {takes}\n");
    scene.place.set_catalogue(&own);
    scene.place.write("plan.pdf", plan);
    scene
        .place
        .write("talk.jsonl", "{\"role\":\"user\",\"content\":\"Hello\"}\n");
    let task = words("run talk.jsonl --task When? --attach plan.pdf");
    (scene, task)
}

#[test]
fn a_pdf_of_many_pages_fits_a_model_that_gets_its_text_only() {
    let pages = "<< /Type /Page >>\n".repeat(60);
    let plan = format!("%PDF-1.7\n{pages}%%EOF\n").into_bytes();
    let (scene, task) = task_with(&plan, false);
    scene.place.json(&task);
    let sent = scene.sent().pop().unwrap().to_string();
    assert!(sent.contains("60 pages]"), "{sent}");
    // One that takes it has no room for 60 pages.
    let (scene, task) = task_with(&plan, true);
    let refused = scene.place.call(&task);
    assert_ne!(refused.code, Some(0));
    refused.stderr.has_all(&["context_overflow"]);
}

#[test]
fn a_model_that_takes_no_pdfs_gets_their_text() {
    let plan = pdf_that_says("We ship on Friday.");
    for takes in [true, false] {
        let (scene, task) = task_with(&plan, takes);
        scene.place.json(&task);
        let sent = scene.sent().pop().unwrap().to_string();
        sent.has_all(&["[attachment plan.pdf application/pdf"]);
        let (file, text) = (base64(&plan), "[text of attachment plan.pdf]");
        assert_eq!(
            (sent.contains(&file), sent.contains(text)),
            (takes, !takes),
            "{sent}"
        );
        assert_eq!(sent.contains("We ship on Friday."), !takes, "{sent}");
        // The same bytes again from the journal and the store.
        assert_eq!(scene.place.json(&["replay"])["mismatches"], 0);
    }
}

#[test]
fn the_context_counts_the_files_of_messages_that_had_no_turn_yet() {
    let (scene, _) = task_with(&pdf(), true);
    let place = &scene.place;
    place.json(&["import", "talk.jsonl"]);
    let used = || place.json(&["context"])["used_tokens"].as_u64().unwrap();
    let before = used();
    place.json(&words("append latest See. --attach plan.pdf"));
    // A page has 3,000 tokens at most.
    assert!(used() > before + 3_000, "{before} and {}", used());
    // Without a model that takes it, the context and its parts have the same tokens, too.
    for takes in [true, false] {
        let own = format!("[models.\"openai/gpt-4o\"]\ndocuments = {takes}\n");
        place.write("config/models.toml", own);
        let context = place.json(&["context"]);
        let messages = context["messages"].as_array().unwrap().iter();
        let all: u64 = messages
            .map(|message| message["tokens"].as_u64().unwrap())
            .sum();
        assert_eq!(context["used_tokens"], all, "{context:#}");
        let pins = place.json(&["pin", "latest", "2"]);
        let shown = &context["messages"][1]["tokens"];
        assert_eq!(&pins["pinned"][0]["tokens"], shown, "{pins:#}");
    }
}

#[test]
fn a_past_context_counts_its_files_as_the_models_got_them() {
    // Whether the models of the lead and of its delegate take PDFs, and whether a page is counted.
    for (lead, delegate, is_counted) in [
        (false, None, false),
        (false, Some(false), false),
        (false, Some(true), true),
        (true, Some(false), true),
    ] {
        let (scene, task) = task_with(&pdf(), lead);
        if let Some(takes) = delegate {
            let one = "[models.\"openai/gpt-4o\"]\ndocuments";
            let other = "[models.\"openai/gpt-4o-mini\"]\ndocuments";
            let own = format!("{one} = {lead}\n{other} = {takes}\n");
            scene.place.write("config/models.toml", own);
            let config = scene.place.config();
            let config = config.replacen("agents = []", "agents = [\"helper\"]", 1);
            let helper = "description = \"helps\"\nmodel = \"openai/gpt-4o-mini\"\n";
            scene
                .place
                .set_config(format!("{config}[agents.helper]\n{helper}"));
        }
        let report = scene.place.json(&task);
        let session = report["session"].as_str().unwrap();
        let daemon = Daemon::start(&scene.place);
        let at = |rest: &str| daemon.json(&format!("/v1/sessions/{session}{rest}"));
        let size = at("/context/history")["items"][0].clone();
        let turn = at(&format!("/turns/{}", size["turn"].as_str().unwrap()));
        let frozen = at(&format!(
            "/snapshots/{}",
            turn["snapshot"].as_str().unwrap()
        ));
        let messages = at("/messages");
        for tokens in [
            &messages["items"][1]["tokens"],
            &frozen["messages"][1]["tokens"],
            &size["tokens"],
        ] {
            // A page has 3,000 tokens at most.
            let tokens = tokens.as_u64().unwrap();
            assert_eq!(tokens > 3_000, is_counted, "{lead} {delegate:?}: {tokens}");
        }
        daemon.stop();
    }
}

#[test]
fn the_offline_model_quotes_the_text_of_a_pdf() {
    let place = Place::with_config(
        "[models]\ndefault = \"extractive\"\n[turn]\nlead = \"facts\"\nagents = []\n",
    );
    place.write("plan.pdf", pdf_that_says("We ship the orders on Friday."));
    place.write("talk.jsonl", "{\"role\":\"user\",\"content\":\"Hello\"}\n");
    let task = [
        "--task",
        "When do we ship the orders?",
        "--attach",
        "plan.pdf",
    ];
    let report = place.json(&[&["run", "talk.jsonl"][..], &task].concat());
    let answer = report["answer"].as_str().unwrap();
    assert!(answer.contains("on Friday"), "{answer}");
}

#[test]
fn exports_of_other_formats_carry_the_contents() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let image = png(64, 64, b"in an export");
    append(&daemon, &session, attachment("cat.png", &image)).expect(201);
    append(&daemon, &session, attachment("plan.pdf", &pdf())).expect(201);
    daemon.stop();
    let digests = |place: &Place, session: &str| {
        let own = place.call(&["export", session]).expect(0).stdout;
        let lines = own
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let parts = lines.flat_map(|line| line["parts"].as_array().cloned().unwrap_or_default());
        let kept = parts.filter(|part| part["type"] == "attachment");
        let kept = kept.map(|part| part["digest"].as_str().unwrap().to_owned());
        kept.collect::<Vec<_>>()
    };
    let known = digests(&scene.place, &session);
    assert_eq!(known.len(), 2);
    for (format, form) in [
        ("openai", format!("{{\"url\":\"{}\"}}", url(&image))),
        ("anthropic", format!("\"data\":\"{}\"", base64(&image))),
    ] {
        let written = scene.place.call(&["export", &session, "--format", format]);
        let written = written.expect(0).stdout;
        assert!(written.contains(&form), "{written}");
        written.has_all(&["plan.pdf", &base64(&pdf())]);
        let other = Place::with_config("");
        other.write("talk.jsonl", &written);
        other
            .call(&["import", "talk.jsonl", "--format", format])
            .expect(0);
        assert_eq!(digests(&other, "latest"), known, "{format}");
    }
    let plain = scene
        .place
        .call(&["export", &session, "--format", "sharegpt"]);
    let plain = plain.expect(0).stdout;
    assert!(plain.contains("[attachment cat.png") && !plain.contains(&base64(&image)));
}

#[test]
fn the_summary_of_a_document_with_a_text_is_imported_with_it() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let at = |rest: &str| format!("/v1/sessions/{session}/{rest}");
    let long = "The orders of the old shop move to the new warehouse on Friday. ".repeat(40);
    let plan = attachment("plan.pdf", &pdf_that_says("We ship on Friday."));
    let parts = json!([{"type": "text", "text": long}, plan]);
    for message in [
        json!({"parts": parts}),
        json!({"text": "Twelve, then."}),
        json!({"text": "And when?"}),
    ] {
        daemon.post(&at("messages"), &message).expect(201);
    }
    let compacted = daemon.post(&at("compactions"), &json!({"keep_messages": 1}));
    assert_eq!(compacted.expect(200).json()["checkpoints"], json!([1]));
    daemon.stop();
    let written = scene.place.call(&["export", &session]).expect(0).stdout;
    let other = Place::with_config("");
    other.write("talk.jsonl", &written);
    other.call(&["import", "talk.jsonl"]).expect(0);
    let context = other.json(&["context"]);
    let summaries = context["summaries"].as_array().unwrap();
    assert_eq!(summaries.len(), 1, "{context}");
}

#[test]
fn a_chat_of_the_ai_sdk_sends_files() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let image = png(64, 64, b"from a chat");
    let chat = |parts: Value| {
        let message = json!({"id": "m1", "role": "user", "parts": parts});
        let body = json!({"id": "chat", "messages": [message]});
        daemon.post(&format!("/v1/sessions/{session}/chat"), &body)
    };
    let file = |url: &str| json!({"type": "file", "mediaType": "image/png", "filename": "cat.png", "url": url});
    let text = json!({"type": "text", "text": "What is this?"});
    let cut = chat(json!([text, file(&url(&image[..40]))]))
        .expect(400)
        .text();
    assert!(cut.contains("damaged or truncated"), "{cut}");
    let other = file("https://example.org/cat.png");
    let other = chat(json!([text, other])).expect(400).text();
    assert!(other.contains("attachments.allowed_hosts"), "{other}");
    assert!(scene.sent().is_empty());
    let answered = chat(json!([text, file(&url(&image))])).expect(200).text();
    assert!(answered.contains("A cat."), "{answered}");
    let sent = scene.sent().pop().unwrap().to_string();
    assert!(sent.contains(&url(&image)), "{sent}");
    assert!(sent.contains("[attachment cat.png image/png"), "{sent}");
    daemon.stop();
}

#[test]
fn the_page_shows_images_and_nothing_else() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    append(&daemon, &session, attachment("cat.png", &png(9, 9, b"cat"))).expect(201);
    append(&daemon, &session, attachment("plan.pdf", &pdf())).expect(201);
    let document = digest_of(&daemon, &session);
    let page = daemon.text(&format!("/sessions/{session}"));
    assert_eq!(page.matches("<img src=\"/blobs/").count(), 1, "{page}");
    let at = page.find("<img src=\"/blobs/").unwrap() + "<img src=\"".len();
    let address = page[at..].split('"').next().unwrap();
    let image = daemon.get(address).expect(200);
    assert_eq!(image.header("content-type"), Some("image/png"));
    assert_eq!(image.header("x-content-type-options"), Some("nosniff"));
    let own = daemon.text(&format!("/sessions/{session}/messages/1"));
    assert!(own.contains(&format!("<img src=\"{address}\"")), "{own}");
    let file = daemon.get(&format!("/blobs/{document}")).expect(200);
    assert_eq!(
        file.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(file.header("content-disposition"), Some("attachment"));
    daemon.get("/blobs/00").expect(404);
    let head = head("GET", address, &[("Host", &daemon.address)], 0);
    assert_ne!(
        daemon.send(&head, b"").status,
        200,
        "only for who is logged in"
    );
    daemon.stop();
}

#[test]
fn an_image_that_was_summarised_is_named_and_not_sent() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let image = png(64, 64, b"early");
    append(&daemon, &session, attachment("early.png", &image)).expect(201);
    let task = json!({"task": "And now?"});
    let turns = format!("/v1/sessions/{session}/turns");
    daemon.post(&turns, &task).expect(200);
    let compacted = daemon.post(
        &format!("/v1/sessions/{session}/compactions"),
        &json!({"keep_messages": 1, "wait": true}),
    );
    compacted.expect(200);
    daemon.post(&turns, &task).expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    assert!(!sent.contains(&base64(&image)), "{sent}");
    assert!(sent.contains("early.png"), "{sent}");
    daemon.stop();
}
