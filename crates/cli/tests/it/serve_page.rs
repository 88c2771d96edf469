//! The page, as a browser without scripts asks for it.

use serde_json::json;

use crate::http::{Daemon, Reply, head};
use crate::support::{HasAll as _, Place};

/// A browser that came by a link.
pub(crate) struct Browser<'d> {
    daemon: &'d Daemon,
    cookie: String,
}

impl<'d> Browser<'d> {
    pub(crate) fn enter(daemon: &'d Daemon) -> Browser<'d> {
        let link = daemon
            .request("POST", "/v1/login-links", None)
            .expect(201)
            .json();
        let url = link["url"].as_str().unwrap();
        let path = url.split_once(&daemon.address).unwrap().1;
        let host = [("Host", daemon.address.as_str())];
        let entered = daemon.send(&head("GET", path, &host, 0), b"").expect(303);
        let cookie = entered.header("set-cookie").unwrap().to_owned();
        cookie.has_all(&["HttpOnly", "SameSite=Strict"]);
        assert!(!cookie.contains(&daemon.token));
        daemon.send(&head("GET", path, &host, 0), b"").expect(401);
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Browser { daemon, cookie }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        let headers = [
            ("Host", self.daemon.address.as_str()),
            ("Cookie", &self.cookie),
        ];
        self.daemon.send(&head("GET", path, &headers, 0), b"")
    }

    /// The page at a path, which must be there.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        self.get(path).expect(200).text()
    }

    /// Sends a form of a page of this daemon.
    pub(crate) fn submit(&self, path: &str, form: &str) -> Reply {
        let own = format!("http://{}", self.daemon.address);
        self.post(path, Some(&own), form)
    }

    fn post(&self, path: &str, origin: Option<&str>, form: &str) -> Reply {
        let mut headers = vec![
            ("Host", self.daemon.address.as_str()),
            ("Cookie", &self.cookie),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        self.daemon
            .send(&head("POST", path, &headers, form.len()), form.as_bytes())
    }
}

#[test]
fn a_browser_stays_logged_in_when_the_daemon_is_started_again() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let cookie = Browser::enter(&daemon).cookie;
    daemon.stop();
    let daemon = Daemon::start(&place);
    let browser = |cookie: &str| Browser {
        daemon: &daemon,
        cookie: cookie.to_owned(),
    };
    browser(&cookie).get("/").expect(200);
    browser("unisono=0").get("/").expect(401);
    daemon.stop();
    // With another token nobody is.
    std::fs::remove_file(place.path("settings/unisono/token")).unwrap();
    let daemon = Daemon::start(&place);
    let browser = Browser {
        daemon: &daemon,
        cookie,
    };
    browser.get("/").expect(401);
    daemon.stop();
}

#[test]
fn what_a_person_wrote_is_in_the_page_of_a_refusal_without_a_login_or_beyond_a_limit() {
    let place = Place::with_config("[server]\ntoken_requests_per_minute = 1\n");
    let daemon = Daemon::start(&place);
    let ada = json!({"name": "ada", "scope": "ask"});
    let ada = daemon.post("/v1/tokens", &ada).expect(201).json();
    let ada = ada["secret"].as_str().unwrap();
    let link = daemon.request_as(ada, "POST", "/v1/login-links", &[], None);
    let link = link.expect(201).json()["url"].as_str().unwrap().to_owned();
    let path = link.split_once(&daemon.address).unwrap().1;
    let host = [("Host", daemon.address.as_str())];
    let entered = daemon.send(&head("GET", path, &host, 0), b"").expect(303);
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let own = format!("http://{}", daemon.address);
    let from = format!("{own}/sessions/s");
    for (cookie, status) in [(cookie, 429), ("unisono=0", 401)] {
        let headers = [
            ("Host", daemon.address.as_str()),
            ("Cookie", cookie),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Origin", &own),
            ("Referer", &from),
        ];
        let form = "task=We+ship+on+Friday.";
        let head = head("POST", "/sessions/s/ask", &headers, form.len());
        let page = daemon.send(&head, form.as_bytes()).expect(status).text();
        page.has_all(&["What you wrote is not lost", "We ship on Friday."]);
    }
    daemon.stop();
}

#[test]
fn a_person_logs_in_by_a_form_with_a_link_its_code_or_a_token() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let own = format!("http://{}", daemon.address);
    let send = |origin: Option<&str>, form: &str| {
        let mut headers = vec![
            ("Host", daemon.address.as_str()),
            ("Accept", "text/html"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let head = head("POST", "/login", &headers, form.len());
        daemon.send(&head, form.as_bytes())
    };
    let link = || {
        let made = daemon.request("POST", "/v1/login-links", None);
        let made = made.expect(201).json();
        made["url"].as_str().unwrap().to_owned()
    };
    let (whole, other) = (link(), link());
    let code = other.split_once("code=").unwrap().1;
    let ada = json!({"name": "ada", "scope": "read"});
    let ada = daemon.post("/v1/tokens", &ada).expect(201).json();
    let ada = ada["secret"].as_str().unwrap();
    for secret in [whole.as_str(), code, daemon.token.as_str(), ada] {
        let entered = send(Some(&own), &format!("secret=+{secret}+")).expect(303);
        assert_eq!(entered.header("location"), Some("/"));
        let cookie = entered.header("set-cookie").unwrap();
        cookie.has_all(&["HttpOnly"]);
        cookie.has_none(&[secret]);
        let browser = Browser {
            daemon: &daemon,
            cookie: cookie.split(';').next().unwrap().to_owned(),
        };
        let page = browser.get("/").expect(200).text();
        assert_eq!(page.contains("/logout"), secret == ada, "{page}");
    }
    // A link works once, and a revoked token not any more.
    daemon.delete("/v1/tokens/ada").expect(200);
    for secret in [whole.as_str(), code, ada, "wrong", ""] {
        let refused = send(Some(&own), &format!("secret={secret}")).expect(401);
        assert_eq!(refused.header("set-cookie"), None);
        let page = refused.text();
        assert!(page.contains("neither an unused login link"), "{page}");
        assert!(!page.contains(code) && !page.contains(ada), "{page}");
    }
    let valid = format!("secret={}", link());
    for origin in [None, Some("http://evil.example"), Some("null")] {
        send(origin, &valid).expect(403);
    }
    let long = format!("{valid}&more={}", "x".repeat(5_000));
    send(Some(&own), &long).expect(413);
    send(Some(&own), "code=x").expect(400);
    send(Some(&own), &valid).expect(303);
    let log = daemon.get("/v1/audit").expect(200).text();
    assert!(log.contains("/login") && !log.contains(ada), "{log}");
    assert!(!log.contains(code), "{log}");
    daemon.stop();
}

#[test]
fn a_login_leads_to_the_page_that_was_opened_also_after_a_refused_one() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let own = format!("http://{}", daemon.address);
    let send = |from: &str, form: &str| {
        let from = format!("{own}{from}");
        let headers = [
            ("Host", daemon.address.as_str()),
            ("Accept", "text/html"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Origin", own.as_str()),
            ("Referer", from.as_str()),
        ];
        let head = head("POST", "/login", &headers, form.len());
        daemon.send(&head, form.as_bytes())
    };
    let valid = format!("secret={}", daemon.token);
    let entered = send("/sessions/s?branch=b", &valid).expect(303);
    assert_eq!(entered.header("location"), Some("/sessions/s?branch=b"));
    let refused = send("/import/agents", "secret=wrong").expect(401).text();
    refused.has_all(&["name=\"page\" value=\"/import/agents\""]);
    for (page, expected) in [
        ("%2Fimport%2Fagents", "/import/agents"),
        ("%2F%2Fevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
    ] {
        let entered = send("/login", &format!("{valid}&page={page}")).expect(303);
        assert_eq!(entered.header("location"), Some(expected), "{page}");
    }
    daemon.stop();
}

#[test]
fn a_person_starts_a_conversation_asks_and_sees_what_came_of_it() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let empty = browser.get("/").expect(200);
    let policy = empty.header("content-security-policy").unwrap();
    policy.has_all(&["script-src 'self'"]);
    policy.has_none(&["unsafe"]);
    assert!(empty.text().contains("There is no conversation yet"));

    let made = browser
        .submit("/", "title=A+%3Cb%3Emove%3C%2Fb%3E&system=Be+brief.")
        .expect(303);
    let path = made.header("location").unwrap().to_owned();
    let listed = browser.get("/").expect(200).text();
    listed.has_all(&["A &lt;b&gt;move&lt;/b&gt;"]);
    listed.has_none(&["<b>"]);

    let task = "branch=main&agent=facts&agent=risks&task=The+move+is+on+6+March.+%3Cscript%3Ealert(1)%3C%2Fscript%3E+When%3F";
    browser.submit(&format!("{path}/ask"), task).expect(303);
    let id = path.rsplit('/').next().unwrap();
    let mut ended = daemon.events(id).filter(|event| event.name == "turn_ended");
    assert!(ended.next().is_some());
    let shown = browser.get(&path).expect(200).text();
    shown.has_all(&[
        "answered",
        "identical for 3 agents",
        "Context",
        "Full history",
    ]);
    assert!(!shown.contains("<script>alert"), "{shown}");
    // An agent that a task names is in its estimate.
    let estimate = "branch=main&lead=&task=%40facts%2C+when%3F";
    let estimate = browser.submit(&format!("{path}/estimate"), estimate);
    let estimate = estimate.expect(200).text();
    estimate.has_all(&["<th scope=\"row\">facts</th>"]);
    // What ended before it was cancelled leads to its page.
    let turns = daemon.get(&format!("/v1/sessions/{id}/turns")).json();
    let turn = &turns["items"][0];
    for ended in [
        format!("{path}/turns/{}", turn["turn"].as_str().unwrap()),
        format!("{path}/runs/{}", turn["runs"][0]["run"].as_str().unwrap()),
    ] {
        let late = browser.submit(&format!("{ended}/cancel"), "");
        let late = late.expect(303);
        assert_eq!(late.header("location"), Some(&*ended));
    }
    // A digest that is no text is refused by a page, too.
    let refused = browser.get("/blobs/%FF").expect(400);
    let kind = refused.header("content-type").unwrap();
    assert!(kind.starts_with("text/html"), "{kind}");
    // A part of the history behind its end is its end.
    let behind = browser.get(&format!("{path}/history?from=99"));
    assert!(behind.expect(200).text().contains("6 March"));
    let seen = browser.get(&format!("{path}/context")).expect(200).text();
    assert!(seen.contains("Be brief."), "{seen}");
    let typo = "branch=main&agent=fcts&task=Half+a+%3Cb%3E+task";
    let kept = browser.submit(&format!("{path}/ask"), typo);
    let kept = kept.expect(422).text();
    kept.has_all(&[
        "Half a &lt;b&gt; task",
        "unknown agent `fcts`",
        "role=\"alert\"",
    ]);
    // An attachment of a form that was open for long may be gone.
    let gone = format!(
        "branch=main&task=Half+a+task&stored={}/plan.png",
        "0".repeat(64)
    );
    let kept = browser.submit(&format!("{path}/ask"), &gone);
    let kept = kept.expect(404).text();
    kept.has_all(&[
        "Half a task</textarea>",
        "has no attachment",
        "role=\"alert\"",
    ]);

    let confirm = browser.text(&format!("{path}/compact?branch=main"));
    confirm.has_all(&["There is nothing to do: all remaining messages must stay."]);
    let form = "branch=main&keep=&instructions=";
    let compacted = browser.submit(&format!("{path}/compact"), form).expect(303);
    let turn = compacted.header("location").unwrap().to_owned();
    assert!(turn.starts_with(&format!("{path}/turns/")), "{turn}");
    assert!(browser.get(&turn).expect(200).text().contains("compact"));
    let messages = daemon.get(&format!("/v1/sessions/{id}/messages")).json();
    let at = messages["items"][0]["id"].as_str().unwrap();
    let fork = format!("name=plan+b&at={at}");
    let forked = browser.submit(&format!("{path}/fork"), &fork).expect(303);
    let there = forked.header("location").unwrap().to_owned();
    assert!(browser.get(&there).expect(200).text().contains("plan b"));
    let pin = format!("branch=main&message={at}&pinned=true");
    let pinned = browser.submit(&format!("{path}/pin"), &pin).expect(303);
    let there = pinned.header("location").unwrap();
    let there = there.split('#').next().unwrap();
    assert!(browser.get(there).expect(200).text().contains("pinned"));
    for page in ["/tree", "/history?q=move"] {
        let shown = browser.get(&format!("{path}{page}")).expect(200).text();
        assert!(!shown.contains("<script>alert"), "{shown}");
    }
    let found = browser.get("/?q=move").expect(200).text();
    assert!(
        found.contains("1 found") || found.contains("<mark>"),
        "{found}"
    );
    for page in ["/usage", "/settings"] {
        browser.get(page).expect(200);
    }
    let wrong = browser.submit(&format!("{path}/compact"), "keep=some&branch=main");
    wrong.expect(400);
    daemon.stop();
}

#[test]
fn the_page_shows_the_newest_topics_and_seals_only_what_can_be_sealed() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let made = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let session = made["session"].as_str().unwrap();
    let at = |rest: &str| format!("/v1/sessions/{session}{rest}");
    for n in 0..10 {
        for role in ["user", "assistant"] {
            let message = json!({"role": role, "text": format!("Topic {n}.")});
            daemon.post(&at("/messages"), &message).expect(201);
        }
        if n < 9 {
            daemon.post(&at("/topics/seal"), &json!({})).expect(200);
        }
    }
    let page = format!("/sessions/{session}");
    let (seal, all) = ("Seal the current topic", at("/topics?branch=main"));
    let shown = browser.get(&page).expect(200).text();
    shown.has_all(&["#5–#6", "#19–#20", "2 earlier topics", &all, seal]);
    assert!(!shown.contains("#3–#4"), "{shown}");
    let sealed = browser.submit(&format!("{page}/seal"), "branch=main");
    sealed.expect(303);
    let shown = browser.get(&page).expect(200).text();
    assert!(!shown.contains(seal), "{shown}");
    let listed = browser.get(&all).expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 10);
    daemon.stop();
}

#[test]
fn a_setting_of_one_provider_is_changed_and_removed_where_it_is_listed() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let send = |form: &str| browser.submit("/settings", form);
    let listed = "id=\"key-compaction.providers.openai.preset\"";
    let page = || browser.get("/settings").expect(200).text();
    send("key=preset&of=openai&value=tiered&confirmed=true").expect(303);
    assert!(page().contains(listed));
    let key = "key=compaction.providers.openai.preset";
    let review = send(&format!("{key}&value=retention")).expect(200).text();
    review.has_all(&["tiered", "retention"]);
    send(&format!("{key}&value=retention&confirmed=true")).expect(303);
    assert!(page().contains(listed));
    send(&format!("{key}&confirmed=true")).expect(303);
    assert!(!page().contains(listed));
    daemon.stop();
}

#[test]
fn the_review_of_a_setting_does_not_follow_the_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let session = daemon.session(&json!({"title": "A move"}));
    let settings = format!("/sessions/{session}/settings");
    let form = "key=compaction.preset&value=off";
    let review = browser.submit(&settings, form).expect(200).text();
    review.has_all(&["A move", "Change ", "name=\"confirmed\"", "Save"]);
    // The next event would put the settings in its place.
    assert!(!review.contains("id=\"live\""), "{review}");
    let saved = browser.submit(&settings, &format!("{form}&confirmed=true"));
    saved.expect(303);
    daemon.stop();
}

#[test]
fn the_usage_of_an_agent_leads_to_its_page_if_there_is_one() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    for (agent, leads) in [
        ("facts", true),
        ("removed", false),
        ("%28summaries%29", false),
    ] {
        let shown = browser.text(&format!("/usage?agent={agent}"));
        assert_eq!(shown.contains("href=\"/agents/"), leads, "{shown}");
    }
    daemon.stop();
}

#[test]
fn a_refused_search_is_shown_again_with_the_reason() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let first = json!({"messages": [{"role": "user", "content": "We move on Friday."}]});
    let made = daemon.post("/v1/sessions", &first).expect(201).json();
    let session = made["session"].as_str().unwrap();
    for path in ["/".to_owned(), format!("/sessions/{session}/history")] {
        let refused = browser.get(&format!("{path}?q=role%3Anobody"));
        let refused = refused.expect(422).text();
        refused.has_all(&[
            "value=\"role:nobody\"",
            "nothing to search for",
            "role=\"alert\"",
        ]);
        let found = browser.get(&format!("{path}?q=friday")).expect(200);
        assert!(found.text().contains("value=\"friday\""), "{path}");
    }
    daemon.stop();
}

#[test]
fn a_page_of_a_turn_that_goes_on_is_told_of_its_end() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let messages: Vec<_> = (0..40)
        .map(|at| json!({"role": "user", "content": format!("Fact {at}: the move is on day {at}. {}", "Boxes are packed. ".repeat(20))}))
        .collect();
    let mut went_on = 0;
    for _ in 0..40 {
        let new = json!({"title": "A move", "messages": messages});
        let id = daemon.session(&new);
        let path = format!("/sessions/{id}");
        let form = "branch=main&keep=4&instructions=";
        let begun = browser.submit(&format!("{path}/compact"), form);
        let begun = begun.expect(303);
        let shown = browser.text(begun.header("location").unwrap());
        let (_, after) = shown.split_once("data-after=\"").unwrap();
        let (after, _) = after.split_once('"').unwrap();
        if !shown.contains("The context is being compacted") {
            continue;
        }
        went_on += 1;
        let events = daemon.get(&format!("/v1{path}/events?after={after}"));
        let mut ended = events.expect(200).events();
        assert!(ended.any(|event| event.name == "turn_ended"), "{shown}");
    }
    assert!(went_on > 0, "each was over before its page was shown");
    daemon.stop();
}

/// An agent that works for a minute.
const SLOW: &str = "[agents.slow]\ndescription = \"Waits\"\nkind = \"command\"\ncommand = \"sleep\"\n\
                    args = [\"60\"]\n";

#[test]
fn the_turn_that_is_worked_on_is_shown_also_if_many_wait_for_it() {
    let place = Place::with_config(SLOW);
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let session = daemon.session(&json!({}));
    let turns: Vec<String> = (0..7)
        .map(|at| {
            let new = json!({"task": format!("Task {at}."), "agents": ["slow"], "wait": false});
            let asked = daemon.post(&format!("/v1/sessions/{session}/turns"), &new);
            let asked = asked.expect(202).json();
            asked["turn"].as_str().unwrap().to_owned()
        })
        .collect();
    let shown = browser.text(&format!("/sessions/{session}"));
    for shows in [
        format!("id=\"under-way-{}\"", turns[0]),
        format!("action=\"/sessions/{session}/turns/{}/cancel\"", turns[0]),
        format!("id=\"under-way-{}\"", turns[6]),
    ] {
        assert_eq!(shown.matches(&shows).count(), 1, "{shows}: {shown}");
    }
    for turn in turns.iter().rev() {
        let cancel = format!("/v1/sessions/{session}/turns/{turn}/cancel");
        daemon.post(&cancel, &json!({})).expect(200);
    }
    daemon.stop();
}

#[test]
fn a_long_task_that_is_queued_is_shown_whole_on_its_page() {
    let place = Place::with_config(SLOW);
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let session = daemon.session(&json!({}));
    let ask = |task: &str| {
        let new = json!({"task": task, "agents": ["slow"], "wait": false});
        let asked = daemon.post(&format!("/v1/sessions/{session}/turns"), &new);
        asked.expect(202).json()["turn"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = ask("Wait.");
    let task = format!("{}The end.", "Look at the plan. ".repeat(300));
    let second = ask(&task);
    let path = format!("/sessions/{session}/turns/{second}");
    let conversation = browser.text(&format!("/sessions/{session}"));
    assert!(!conversation.contains("The end."), "{conversation}");
    let whole = format!("<a href=\"{path}\">the whole text</a>");
    assert!(conversation.contains(&whole), "{conversation}");
    let page = browser.get(&path).expect(200).text();
    assert!(page.contains("The end."), "{page}");
    for turn in [second, first] {
        let cancel = format!("/v1/sessions/{session}/turns/{turn}/cancel");
        daemon.post(&cancel, &json!({})).expect(200);
    }
    daemon.stop();
}

/// The addresses of style, scripts and the icon that a page names.
fn assets(page: &str) -> Vec<String> {
    let named = page.split("\"/static/").skip(1);
    let named = named.filter_map(|rest| rest.split_once('"'));
    let all: Vec<String> = named.map(|(path, _)| format!("/static/{path}")).collect();
    assert!(all.len() >= 4, "{page}");
    all
}

#[test]
fn nobody_sees_or_changes_anything_who_did_not_come_by_a_link() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let host = [("Host", daemon.address.as_str())];
    let refused = daemon
        .send(&head("GET", "/", &host, 0), b"")
        .expect(401)
        .text();
    refused.has_all(&["not logged in", "login-links"]);
    daemon
        .send(&head("GET", "/sessions/x", &host, 0), b"")
        .expect(401);
    for open in assets(&refused) {
        let asset = daemon.send(&head("GET", &open, &host, 0), b"").expect(200);
        let kept = asset.header("cache-control").unwrap();
        assert!(kept.contains("immutable"), "{open}: {kept}");
    }
    daemon
        .send(&head("GET", "/static/0/none.js", &host, 0), b"")
        .expect(404);
    let older = daemon.send(&head("GET", "/static/0/page.css", &host, 0), b"");
    assert_eq!(older.expect(200).header("cache-control"), Some("no-cache"));
    let browser = [host[0], ("Accept", "text/html,*/*;q=0.8")];
    for (link, why) in [
        ("/login?code=x", "used before"),
        ("/login?code=", "used before"),
        ("/login?code=x&code=y", "has no code"),
        ("/login?x=y", "has no code"),
        ("/login", "has no code"),
    ] {
        let page = daemon.send(&head("GET", link, &browser, 0), b"");
        let page = page.expect(401).text();
        for shows in ["<h1>You are not logged in</h1>", why, "/v1/login-links"] {
            assert!(page.contains(shows), "{link} {shows}: {page}");
        }
        let problem = daemon.send(&head("GET", link, &host, 0), b"").expect(401);
        let kind = problem.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{link}");
    }
    let mistyped = daemon.send(&head("GET", "/session/x", &browser, 0), b"");
    assert!(mistyped.expect(401).text().contains("not logged in"));
    let forged = [host[0], ("Cookie", "unisono=0000")];
    daemon.send(&head("GET", "/", &forged, 0), b"").expect(401);

    let browser = Browser::enter(&daemon);
    let form = "title=x&system=";
    browser.post("/", None, form).expect(403);
    browser
        .post("/", Some("http://evil.example"), form)
        .expect(403);
    browser.get("/v1/sessions").expect(200);
    let nobody = "/sessions/01900000-0000-7000-8000-000000000000";
    let missing = browser.get(nobody).expect(404).text();
    assert!(missing.contains("not found"), "{missing}");
    browser.get("/sessions/x").expect(400);
    // The token alone is not a browser's: a page is shown to it as well.
    daemon.get("/").expect(200);
    let listed = daemon.get("/v1/sessions").json();
    assert_eq!(listed["items"], json!([]));
    daemon.stop();
}

#[test]
fn a_refused_file_keeps_no_other_one_out_and_a_file_keeps_its_name() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let session = daemon.session(&json!({}));
    let part = |named: &str, text: &str| {
        format!("--x\r\nContent-Disposition: form-data; {named}\r\n\r\n{text}\r\n")
    };
    let file = |name: &str, text: &str| part(&format!("name=\"file\"; filename=\"{name}\""), text);
    let form = [
        part("name=\"branch\"", "main"),
        part("name=\"task\"", "See."),
        // As browsers write the name `5" plan.pdf`.
        file("5%22 plan.pdf", "%PDF-1.7\n/Type /Page\n%%EOF\n"),
        file("bad.txt", "no"),
        file("worse.txt", "no"),
        file("last.pdf", "%PDF-1.7\n%\n/Type /Page\n%%EOF\n"),
        "--x--\r\n".to_owned(),
    ]
    .concat();
    let own = format!("http://{}", daemon.address);
    let headers = [
        ("Host", daemon.address.as_str()),
        ("Cookie", browser.cookie.as_str()),
        ("Content-Type", "multipart/form-data; boundary=x"),
        ("Origin", own.as_str()),
    ];
    let path = format!("/sessions/{session}/ask");
    let head = head("POST", &path, &headers, form.len());
    let kept = daemon.send(&head, form.as_bytes()).expect(400).text();
    kept.has_all(&[
        ">5&quot; plan.pdf</label>",
        ">last.pdf</label>",
        "bad.txt: ",
        "; worse.txt: ",
        "See.</textarea>",
    ]);
    daemon.stop();
}

#[test]
fn behind_a_proxy_with_tls_a_browser_sends_its_login_with_tls_only() {
    let config =
        "[server]\npublic_url = \"https://agents.example\"\nhosts = [\"agents.example\"]\n";
    let place = Place::with_config(config);
    let daemon = Daemon::start(&place);
    for (host, is_secure) in [("agents.example", true), (daemon.address.as_str(), false)] {
        let link = daemon.request("POST", "/v1/login-links", None);
        let link = link.expect(201).json();
        let url = link["url"].as_str().unwrap();
        let (_, path) = url.split_once(&daemon.address).unwrap();
        let entered = daemon.send(&head("GET", path, &[("Host", host)], 0), b"");
        let entered = entered.expect(303);
        let cookie = entered.header("set-cookie").unwrap();
        assert_eq!(cookie.contains("; Secure"), is_secure, "{cookie}");
    }
    daemon.stop();
}

#[test]
fn a_form_with_very_many_agents_is_refused_at_once() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let session = daemon.session(&json!({}));
    let form = format!("branch=main&task=x{}", "&agent=a".repeat(1_000));
    for route in ["ask", "estimate"] {
        let refused = browser.submit(&format!("/sessions/{session}/{route}"), &form);
        let refused = refused.expect(400).text();
        assert!(refused.contains("at most 1000 fields"), "{refused}");
    }
    daemon.stop();
}
