//! Pages stay small, whatever clients and models send.

use serde_json::{Value, json};

use crate::attachments::{base64, png};
use crate::http::Daemon;
use crate::support::{HasAll as _, Place, until};
use crate::tools::{Scene, program};

/// Maximum bytes of a compressed page.
const SMALL: usize = 60 * 1024;

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// Printable characters that hardly compress.
fn noise(bytes: usize, seed: u64) -> String {
    let mut next = random(seed);
    let each = (0..bytes).map(|_| char::from(b' ' + (next() % 95) as u8));
    each.collect()
}

/// Characters of four bytes that hardly compress.
fn wide_noise(chars: usize, seed: u64) -> String {
    let mut next = random(seed);
    let each = (0..chars).map(|_| char::from_u32(0x1_0000 + (next() % 0x10_0000) as u32).unwrap());
    each.collect()
}

/// Checks that a page is small. Returns its text.
fn small(daemon: &Daemon, path: &str) -> String {
    let accepts = [("Accept-Encoding", "gzip")];
    let sent = daemon.request_with("GET", path, &accepts, None).expect(200);
    let bytes: usize = sent.header("content-length").unwrap().parse().unwrap();
    assert!(bytes <= SMALL, "{path} has {bytes} bytes");
    daemon.get(path).expect(200).text()
}

/// Reads a text from its own page, part by part.
fn whole(daemon: &Daemon, path: &str) -> String {
    let (mut text, mut next) = (String::new(), Some(path.to_owned()));
    while let Some(path) = next {
        let page = small(daemon, &path);
        let (_, rest) = page.split_once("<pre>\n").unwrap();
        let (part, rest) = rest.split_once("</pre>").unwrap();
        text.push_str(part);
        let link = rest.split_once("\">Next part");
        let link = link.map(|(before, _)| before.rsplit_once("href=\"").unwrap().1);
        next = link.map(|link| link.replace("&amp;", "&"));
    }
    let marks = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    marks
        .iter()
        .fold(text, |text, (from, to)| text.replace(*from, to))
}

#[test]
fn a_call_with_long_arguments_is_shown_in_parts_and_no_page_of_it_is_large() {
    // Together they fit the window of the model.
    let texts: Vec<String> = [(60_000, 1), (20_000, 2), (20_000, 3)]
        .map(|(bytes, n)| format!("{}end of {n}", noise(bytes, n)))
        .to_vec();
    let calls: Vec<(&str, Value)> = texts
        .iter()
        .map(|text| ("files__send", json!({"text": text})))
        .collect();
    let scene = Scene::new(&[&calls[..]], &program("approve = [\"send\"]"), "");
    let daemon = Daemon::keyed(&scene.place);
    let session = daemon.session(&json!({"title": "Letters"}));
    let turns = format!("/v1/sessions/{session}/turns");
    let task = json!({"task": "Send them.", "wait": false});
    let begun = daemon.post(&turns, &task).expect(202).json();
    let turn = begun["turn"].as_str().unwrap();
    let waiting = || {
        let all = daemon.get("/v1/approvals").expect(200).json();
        all["items"].as_array().unwrap().clone()
    };
    until("the calls do not wait", || waiting().len() == 3);
    let waiting = waiting();
    let run = waiting[0]["run"].as_str().unwrap();
    let at = format!("/sessions/{session}");
    small(&daemon, &format!("{at}/runs/{run}"));
    for path in ["/approvals", &at, &format!("{at}/turns/{turn}")] {
        let page = small(&daemon, path);
        for call in &waiting {
            let own = format!("{at}/calls/{}", call["call"].as_str().unwrap());
            let link = format!("<a href=\"{own}\">look at all of its arguments first</a>");
            assert!(page.contains(&link), "{path}: {link}");
        }
    }
    for call in &waiting {
        let own = format!("{at}/calls/{}", call["call"].as_str().unwrap());
        let arguments: Value = serde_json::from_str(&whole(&daemon, &own)).unwrap();
        assert_eq!(arguments, call["arguments"]);
        assert!(small(&daemon, &own).contains("name=\"decision\""));
    }
    let cancel = format!("{turns}/{turn}/cancel");
    daemon.post(&cancel, &json!({})).expect(200);
    let own = format!("{at}/calls/{}", waiting[0]["call"].as_str().unwrap());
    let gone = daemon.get(&own).expect(404).text();
    gone.has_all(&["of this session waits for a person"]);
    daemon.stop();
}

#[test]
fn texts_that_do_not_compress_make_no_page_of_a_session_large() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut messages: Vec<Value> = (0..23)
        .map(|n| {
            let role = ["user", "assistant"][n % 2];
            json!({"role": role, "content": noise([900, 5_000, 12_000][n % 3], n as u64)})
        })
        .collect();
    let last = format!("({})", noise(60_000, 77));
    messages.push(json!({"role": "assistant", "content": last}));
    let new = json!({"title": noise(3_000, 99), "messages": messages});
    let session = daemon.session(&new);
    let turns = format!("/v1/sessions/{session}/turns");
    let asked = json!({"task": noise(10_000, 7), "agents": ["facts", "risks"]});
    let turn = daemon.post(&turns, &asked).expect(200).json();
    let id = |of: &Value| of.as_str().unwrap().to_owned();
    let runs = turn["runs"].as_array().unwrap().iter();
    let mut paths: Vec<String> = runs
        .map(|run| format!("/runs/{}", id(&run["run"])))
        .collect();
    paths.push(format!("/turns/{}", id(&turn["turn"])));
    paths.push(format!("/snapshots/{}", id(&turn["snapshot"])));
    let fixed = [
        "",
        "/history",
        "/history?from=1",
        "/context",
        "/tree",
        "/turns",
        "/delete",
        "/export",
        "/settings",
    ];
    paths.extend(fixed.map(str::to_owned));
    for path in paths {
        small(&daemon, &format!("/sessions/{session}{path}"));
    }
    assert_eq!(
        whole(
            &daemon,
            &format!("/sessions/{session}/messages/24?branch=main")
        ),
        last
    );
    daemon.stop();
}

#[test]
fn many_agents_and_attachments_make_no_page_large_and_all_of_them_can_be_seen() {
    let names: Vec<String> = (0_u64..300)
        .map(|n| format!("agent-{n}-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let agents = names.iter().zip(0..).map(|(name, n)| {
        let about = json!(noise(300, n).replace('$', "S"));
        format!("[agents.{name}]\ndescription = {about}\nkind = \"extractive\"\n")
    });
    let place = Place::with_config(&agents.collect::<String>());
    let daemon = Daemon::start(&place);
    let session = daemon.session(&json!({}));
    let messages = format!("/v1/sessions/{session}/messages");
    let file = |n: u64| {
        let name = format!("{:016x}.png", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let image = png(9, 9, &n.to_be_bytes());
        json!({"type": "attachment", "filename": name, "data": base64(&image)})
    };
    let append = |files: std::ops::Range<u64>| {
        let text = json!({"type": "text", "text": "Look."});
        let parts: Vec<Value> = std::iter::once(text).chain(files.map(file)).collect();
        daemon.post(&messages, &json!({"parts": parts})).expect(201);
    };
    (0..25).for_each(|n| append(n * 11..n * 11 + 11));
    append(1_000..1_060);
    let at = format!("/sessions/{session}");
    for path in ["", "/history", "/history?from=1"] {
        let page = small(&daemon, &format!("{at}{path}"));
        assert!(page.contains("the whole message</a>"), "{path}");
    }
    let own = format!("{at}/messages/26?branch=main");
    let first = small(&daemon, &own);
    assert!(first.contains("12 more attachments"), "{first}");
    let last = small(&daemon, &format!("{own}&files=48"));
    assert_eq!(last.matches("<figure").count(), 12);
    let pages = [
        "/agents",
        "/agents?from=100",
        "/agents?from=200",
        "/agents?from=300",
    ];
    let pages = pages.map(|path| small(&daemon, path)).concat();
    let missing = names.iter().find(|name| !pages.contains(name.as_str()));
    assert_eq!(missing, None);
    daemon.stop();
}

#[test]
fn the_list_of_sessions_is_small_with_labels_and_titles_that_do_not_compress() {
    type Noise = fn(usize, u64) -> String;
    let rows: [(u64, Noise, [usize; 2], u64); 2] = [
        (50, noise, [500, 30], 12),
        (55, wide_noise, [2_000, 300], 10),
    ];
    for (sessions, text, [title, side], many) in rows {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        for n in 0..sessions {
            let label = |at: u64| {
                let (name, value) = (text(side, 100 * n + at), text(side, 200 * n + at + 7));
                (name, json!(value))
            };
            let labels: serde_json::Map<String, Value> = (0..many).map(label).collect();
            daemon.session(&json!({"title": text(title, n), "labels": labels}));
        }
        small(&daemon, "/");
        small(&daemon, "/usage?by=session");
        daemon.stop();
    }
}
