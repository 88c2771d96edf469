//! Measures the ids of tool results that a summary keeps: order numbers, hashes, paths, exit codes.
//!
//! The sessions are made by rule. No text of a person or of the model has one of these ids.

use std::fmt::Write as _;

use unisono_context::{Ordinal, Part, Role, Timestamp, Tokens};
use unisono_model::extractive::{AnswerInput, Passage, answer};

use crate::rolling::{count, summary};

const SESSIONS: u64 = 12;

/// Draws by xorshift (G. Marsaglia, 2003).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len() as u64) as usize]
    }

    fn hex(&mut self, digits: usize) -> String {
        let number = 0xa1b2_c3d4_e5f6_u64 ^ self.below(1 << 47);
        format!("{number:012x}")[..digits].to_owned()
    }

    fn number(&mut self, digits: u32) -> String {
        let least = 10_u64.pow(digits - 1);
        (least + self.below(9 * least)).to_string()
    }
}

/// A session and the ids that are the outcome of a call, and those that a later call uses.
#[derive(Default)]
struct Session {
    messages: Vec<(Role, Part)>,
    outcomes: Vec<String>,
    used: Vec<String>,
}

impl Session {
    fn say(&mut self, role: Role, text: &str) {
        self.messages.push((role, Part::text(text)));
    }

    fn call(&mut self, name: &str, arguments: &str, result: &str) {
        self.call_with(name, arguments, (result, false));
    }

    fn call_with(&mut self, name: &str, arguments: &str, (result, is_error): (&str, bool)) {
        let id = format!("c{}", self.messages.len());
        let call = Part::tool_call(id.as_str(), name, arguments);
        let result = Part::tool_result(id.as_str(), result, is_error);
        self.messages.push((Role::Assistant, call));
        self.messages.push((Role::Tool, result));
    }
}

const MODULES: [&str; 8] = [
    "parser",
    "scheduler",
    "indexer",
    "renderer",
    "mailer",
    "importer",
    "cache",
    "router",
];
const VERBS: [&str; 6] = ["flush", "merge", "decode", "retry", "split", "resolve"];
const ITEMS: [&str; 8] = [
    "tripod", "kettle", "router", "headset", "mattress", "blender", "backpack", "monitor",
];

/// One task of a coding session: look, edit, test, commit.
fn coding(session: &mut Session, draw: &mut Draw) {
    let (module, verb) = (draw.one(&MODULES), draw.one(&VERBS));
    let symptom = draw.one(&["hangs", "loses rows", "is slow", "fails on Windows"]);
    session.say(
        Role::User,
        &format!("The {module} {symptom} when it has to {verb} twice. Can you find out why?"),
    );
    let path = format!("src/{module}/{verb}_{}.rs", draw.number(2));
    let mut found = String::new();
    for at in 0..12 {
        let _ = writeln!(
            found,
            "src/{module}/mod.rs:{}:    let handle_{at} = self.{verb}(input, {at})?;",
            draw.number(3)
        );
    }
    let _ = writeln!(found, "{path}:{}:pub fn {verb}(&mut self)", draw.number(3));
    let asked = format!(r#"{{"command":"grep -rn {verb} src/{module}"}}"#);
    session.call("shell", &asked, &found);
    let mut source = String::new();
    for at in 0..20 {
        let _ = writeln!(source, "    let row_{at} = table.get({at}).cloned();");
    }
    session.call("read_file", &format!(r#"{{"path":"{path}"}}"#), &source);
    session.used.push(path);
    session.say(
        Role::Assistant,
        "The lock is taken twice. I release it before the second call.",
    );
    session.call("edit_file", r#"{"change":"drop the guard"}"#, "ok");
    let (code, failed) = (100 + draw.below(90), draw.number(3));
    let mut tests = String::new();
    for at in 0..14 {
        let _ = writeln!(tests, "test {module}::tests::case_{at} ... ok");
    }
    let _ = writeln!(
        tests,
        "test {module}::tests::t{failed} ... FAILED\nexit code: {code}"
    );
    session.call("shell", r#"{"command":"cargo test"}"#, &tests);
    session.outcomes.push(code.to_string());
    session.say(Role::User, "Hm, one is red. Please fix that one, too.");
    let commit = draw.hex(7);
    let done = format!(
        "[main {commit}] Release the lock of the {module} early\n 3 files changed, 41 insertions(+), \
         17 deletions(-)\n"
    );
    session.call("shell", r#"{"command":"git commit -am lock"}"#, &done);
    session.outcomes.push(commit);
    let build = draw.number(5);
    let pushed = format!(
        r#"{{"pipeline":{{"id":"{build}","status":"running","ref":"main","jobs":["lint","build","test"]}},"web_url":"https://ci.example.org/p"}}"#
    );
    session.call("start_pipeline", r#"{"ref":"main"}"#, &pushed);
    let waits = format!(r#"{{"id":"{build}"}}"#);
    session.call("wait_pipeline", &waits, r#"{"status":"passed"}"#);
    session.used.push(build);
    session.say(Role::Assistant, "It is green now, and pushed.");
}

/// One request to a support agent: look up, act, open a ticket.
fn support(session: &mut Session, draw: &mut Draw) {
    let item = draw.one(&ITEMS);
    let reason = draw.one(&["cracked", "leaking", "noisy", "scratched", "unstable"]);
    session.say(
        Role::User,
        &format!("Hello! The {item} that I ordered is {reason}. I want my money back."),
    );
    session.say(
        Role::Assistant,
        "I'm sorry to hear that. Let me look it up.",
    );
    let (order, card) = (format!("W{}", draw.number(7)), draw.number(6));
    let mut others = String::new();
    for _ in 0..6 {
        let _ = write!(
            others,
            r#"{{"order_id":"W{}","total":{},"status":"delivered"}},"#,
            draw.number(7),
            draw.number(3)
        );
    }
    let account = format!(
        r#"{{"account":{{"tier":"gold","since":"2021-04-02"}},"orders":[{others}{{"order_id":"{order}","total":{},"status":"delivered"}}],"payment":{{"method":"card_{card}","brand":"visa"}}}}"#,
        draw.number(3)
    );
    session.call("find_account", r#"{"query":"this customer"}"#, &account);
    let refund = format!("RF-{}-{}", draw.number(4), draw.hex(4).to_uppercase());
    let asked = format!(r#"{{"order_id":"{order}","payment":"card_{card}"}}"#);
    let refunded = format!(
        r#"{{"refund_id":"{refund}","status":"pending","amount":{},"currency":"EUR","expected":"five to seven business days","notice":"The customer is informed by mail as soon as the bank has confirmed the transfer."}}"#,
        draw.number(3)
    );
    session.call("refund_order", &asked, &refunded);
    session.used.extend([order, format!("card_{card}")]);
    session.outcomes.push(refund);
    session.say(
        Role::Assistant,
        "Your refund is on its way, it takes five to seven business days.",
    );
    session.say(Role::User, "Great, thanks! And please tell the warehouse.");
    let ticket = format!("TCK{}", draw.number(6));
    let opened =
        format!("Ticket {ticket} was created in queue returns.\nNobody is assigned yet.\n");
    session.call("open_ticket", r#"{"queue":"returns"}"#, &opened);
    session.outcomes.push(ticket);
    session.say(Role::Assistant, "Done. Anything else I can do for you?");
    session.say(Role::User, "No, that was all. Bye!");
}

fn session(seed: u64) -> Session {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut session = Session::default();
    for _ in 0..6 {
        match seed % 2 {
            0 => coding(&mut session, &mut draw),
            _ => support(&mut session, &mut draw),
        }
    }
    session
}

fn passages(session: &Session) -> Vec<Passage<'_>> {
    let each = (1..).zip(&session.messages);
    let passages = each.filter_map(|(n, (role, part))| {
        let at = Timestamp(1_736_121_600_000 + i64::from(n) * 3_600_000);
        Passage::of_part(Ordinal(n), *role, None, at, part)
    });
    passages.collect()
}

/// The kept and all ids.
fn kept(text: &str, ids: &[String]) -> [usize; 2] {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || ",;:()[]".contains(c))
        .map(|word| word.trim_end_matches('.'))
        .collect();
    let kept = ids.iter().filter(|id| words.contains(&&***id)).count();
    [kept, ids.len()]
}

/// Shares of outcomes and of used ids that summaries of a quarter keep, once and in four
/// generations.
#[test]
fn a_quarter_keeps_ids_that_only_results_have() {
    let mut shares = [[0, 0]; 4];
    let mut add = |at: usize, [kept, all]: [usize; 2]| {
        shares[at][0] += kept;
        shares[at][1] += all;
    };
    for seed in 0..SESSIONS {
        let session = session(seed);
        let passages = passages(&session);
        let size: u64 = passages.iter().map(|p| count(&p.text)).sum();
        let text = summary(&passages, None, size / 4);
        add(0, kept(&text, &session.outcomes));
        add(1, kept(&text, &session.used));
        let mut prior: Option<String> = None;
        for part in passages.chunks(passages.len().div_ceil(4)) {
            prior = Some(summary(part, prior.as_deref(), size / 4));
        }
        let rolled = prior.unwrap_or_default();
        add(2, kept(&rolled, &session.outcomes));
        add(3, kept(&rolled, &session.used));
    }
    let share = |[kept, all]: [usize; 2]| kept as f64 / all as f64;
    let [outcomes, used, rolled, rolled_used] = shares.map(share);
    assert!(outcomes > 0.65 && used > 0.95, "{shares:?}");
    assert!(rolled > 0.65 && rolled_used > 0.9, "{shares:?}");
}

#[test]
fn a_call_that_failed_is_not_quoted() {
    let mut session = Session::default();
    session.say(Role::User, "Please refund order W4471902 and look it up.");
    let asked = r#"{"order_id":"W4471902","amount":184.5,"payment":"card_471"}"#;
    let looked = r#"{"order_id":"W4471902","with_lines":true,"queue":"returns"}"#;
    for failure in [("The refund is locked.", true), ("Error: no rights", false)] {
        session.call_with("refund_order", asked, failure);
    }
    session.call("find_order", looked, r#"{"status":"delivered"}"#);
    let passages = passages(&session);
    for cap in [20, 60, 300] {
        let text = summary(&passages, None, cap);
        assert!(!text.contains("184.5"), "{text}");
    }
    let all = summary(&passages, None, 300);
    assert!(all.contains("find_order: order_id: W4471902"), "{all}");
    for (task, persona) in [
        ("What was the amount of the refund of order W4471902?", ""),
        ("Summarise it.", "You find facts and numbers."),
    ] {
        let answer = answer(&AnswerInput {
            passages: &passages,
            summaries: &[],
            persona,
            task,
            cap: Tokens(300),
            count: &count,
        });
        assert!(!answer.text.contains("184.5"), "{}", answer.text);
    }
}
