//! The person who is asked about calls of tools, and answers the same to each whenever it is asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::life::{self, Death};
use crate::office::did;
use crate::scene::{INVOICE, LETTER, Scene, THREAT};
use crate::support::finish;

/// Why the one call is denied.
pub(crate) const REASON: &str = "we do not threaten";

/// A call that waits, and what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) call: String,
    /// As the API and the journal call it: `approve`, `deny`, `done`, `repeat`.
    pub(crate) verdict: &'static str,
    pub(crate) text: Option<String>,
}

impl Question {
    /// What has to be said of the calls that are listed as waiting.
    pub(crate) fn all(listed: &Value, scene: &Scene) -> Result<Vec<Question>, String> {
        let listed = listed.as_array().ok_or(format!("no list: {listed}"))?;
        let each = listed.iter().map(|waiting| Question::read(waiting, scene));
        each.collect()
    }

    fn read(waiting: &Value, scene: &Scene) -> Result<Question, String> {
        let field = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let call = field(&waiting["call"]);
        let text = field(&waiting["arguments"]["text"]);
        let (verdict, text) = match (field(&waiting["kind"]).as_str(), text.as_str()) {
            ("approval", INVOICE) => ("approve", None),
            ("approval", THREAT) => ("deny", Some(REASON.to_owned())),
            // What the server would have said, so that the model is told the same as ever.
            ("in_doubt", LETTER | INVOICE) => match did(&scene.called(), &call) {
                true => ("done", Some(format!("send: {text}"))),
                false => ("repeat", None),
            },
            _ => return Err(format!("nobody has to be asked about this: {waiting}")),
        };
        Ok(Question {
            call,
            verdict,
            text,
        })
    }

    /// The journal's word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self.verdict {
            "approve" => "approved",
            "deny" => "denied",
            "repeat" => "repeated",
            verdict => verdict,
        }
    }

    fn args(&self) -> Vec<&str> {
        let text = self.text.as_deref().unwrap_or_default();
        let more = match self.verdict {
            "approve" => vec!["approve", &self.call],
            "deny" => vec!["deny", &self.call, "--reason", text],
            "done" => vec!["settle", &self.call, "--done", text],
            _ => vec!["settle", &self.call, "--repeat"],
        };
        [&["approvals"][..], &more].concat()
    }

    /// Answers by `unisono approvals`; whether that was acknowledged.
    pub(crate) fn answer(&self, scene: &Scene, death: Death) -> Result<(bool, String), String> {
        let args = self.args();
        let mut command = scene.command(&args);
        death.tell(&mut command);
        let done = finish(command.spawn().map_err(|error| error.to_string())?, &args);
        Ok((done.code == Some(0), done.stderr))
    }
}

/// What was acknowledged: the last word about each call.
pub(crate) type Acknowledged = BTreeMap<String, &'static str>;

/// Answers what waits while there is no daemon. Whether all of it is answered: else the command
/// that was to tell of it died.
pub(crate) fn answer_all(
    scene: &Scene,
    death: &mut Death,
    acknowledged: &mut Acknowledged,
) -> Result<bool, String> {
    let args = ["approvals", "list", "--json"];
    let listed = scene.call(&args);
    if listed.code != Some(0) {
        return Err(format!("what waits is not listed: {}", listed.stderr));
    }
    let listed: Value = serde_json::from_str(&listed.stdout).map_err(|error| error.to_string())?;
    for question in Question::all(&listed, scene)? {
        asked_once(&question, acknowledged)?;
        let death = std::mem::replace(death, Death::None);
        match question.answer(scene, death)? {
            (true, _) => acknowledged.insert(question.call.clone(), question.word()),
            (false, _) if death != Death::None => return Ok(false),
            (false, why) => return Err(format!("{question:?} is not taken: {why}")),
        };
    }
    Ok(true)
}

/// A decision that was acknowledged is not asked for again. A call that was to be made again may
/// be in doubt again.
pub(crate) fn asked_once(question: &Question, known: &Acknowledged) -> Result<(), String> {
    let first = known.get(&question.call);
    let again = match first {
        None => true,
        Some(&"approved" | &"repeated") => matches!(question.verdict, "done" | "repeat"),
        Some(_) => false,
    };
    match again {
        true => Ok(()),
        false => Err(format!(
            "{first:?} was acknowledged, then asked: {question:?}"
        )),
    }
}

/// Starts a command and kills it once it says that a call waits. Whether it ended well by itself;
/// none: it was killed for that.
pub(crate) fn until_it_waits(
    scene: &Scene,
    args: &[&str],
    death: Death,
) -> Result<Option<bool>, String> {
    let mut command = scene.command(args);
    death.tell(&mut command);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let pid = child.id();
    let said = BufReader::new(child.stderr.take().ok_or("it says nothing")?);
    let waits = AtomicBool::new(false);
    let listen = || {
        for line in said.lines().map_while(Result::ok) {
            if line.contains("requires approval") {
                waits.store(true, Ordering::SeqCst);
            }
        }
    };
    let waits = || waits.load(Ordering::SeqCst);
    life::watch(scene, death, pid, || {
        thread::scope(|scope| {
            scope.spawn(listen);
            let ended = life::wait(&mut child, waits)?;
            Ok((!waits() || ended).then_some(ended))
        })
    })
}
