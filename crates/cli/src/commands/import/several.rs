//! Some of the conversations of a file, one after the other.

use serde_json::{Value, json};
use unisono::Service;
use unisono_api::Code;
use unisono_api::service::Error;
use unisono_api::session::{ImportLosses, ImportResult, Session};
use unisono_config::setup::Setup;
use unisono_interchange::transcript::Conversation;

use super::{Args, all_branches, as_json};
use crate::app::App;
use crate::conversation::{SkippedParts, Source, session_of_digest};
use crate::live::End;
use crate::problem::{Problem, Result};
use crate::show;

/// Characters of a title in a report.
const TITLE_CHARS: usize = 60;

pub(super) async fn import(
    app: &App,
    args: &Args,
    setup: &Setup,
    (mut source, chosen): (Source, Vec<Conversation>),
) -> Result<()> {
    let turns = app.new_idle_store(setup).await?.work(app, None).await?;
    let mut outcome = Outcome::default();
    let mut result = Ok(());
    for conversation in chosen {
        let service = turns.service();
        result = outcome
            .add(app, args, service, (&mut source, &conversation))
            .await;
        if result.is_err() {
            break;
        }
    }
    outcome.skipped.report(&source.name, &app.out);
    outcome.report(app);
    turns.stop(End::Ended).await;
    result.and_then(|()| outcome.skipped.ending())
}

/// The result so far.
#[derive(Default)]
struct Outcome {
    sessions: Vec<Value>,
    /// The number of sessions that are new.
    imported: u64,
    /// The number of conversations without a session.
    left_out: u64,
    skipped: SkippedParts,
}

impl Outcome {
    /// Imports a conversation, unless it was imported before.
    async fn add(
        &mut self,
        app: &App,
        args: &Args,
        service: &dyn Service,
        (source, conversation): (&mut Source, &Conversation),
    ) -> Result<()> {
        let number = conversation.number;
        if conversation.messages == 0 && !conversation.is_bad && args.all {
            let name = &source.name;
            app.out.warn(format_args!(
                "{name}: conversation {number} has no message; it was left out"
            ));
            self.left_out += 1;
            return Ok(());
        }
        let made = make(args, service, source, conversation).await?;
        let skipped = skipped(app, args, (source, conversation), &made);
        let read = skipped.and_then(|skipped| match made {
            Made::Known(session) => Ok((session, true, skipped)),
            Made::New(made) => Ok((made.session, false, skipped)),
            Made::Refused(error) => Err(error.into()),
        });
        let (session, is_known, skipped) = match read {
            Ok(read) => read,
            Err(problem) if args.all && is_of_one(&problem) => {
                app.out.warn(format_args!(
                    "conversation {number} is left out: {}",
                    problem.message
                ));
                self.skipped.conversations += 1;
                self.left_out += 1;
                return Ok(());
            }
            Err(problem) => return Err(problem),
        };
        let branches = all_branches(service, &session.session).await?;
        self.skipped.add(&skipped);
        self.imported += u64::from(!is_known);
        let mut described = as_json(&session, &branches, (is_known, &skipped));
        described["number"] = json!(number);
        self.sessions.push(described);
        if !app.out.json {
            let title = show::line(&session.title, TITLE_CHARS);
            let done = match is_known {
                true => "was imported before".to_owned(),
                false => format!("imported, {}", show::many(session.messages, "message")),
            };
            app.out
                .message(format_args!("conversation {number} {title:?}: {done}"));
            app.out.data(&session.session);
        }
        Ok(())
    }

    fn report(&self, app: &App) {
        let known = self.sessions.len() as u64 - self.imported;
        let json = json!({
            "imported": self.imported, "known": known, "left_out": self.left_out,
            "conversations": self.sessions,
        });
        let mut report = format!("imported {}", show::many(self.imported, "conversation"));
        if known > 0 {
            let were = if known == 1 { "was" } else { "were" };
            report += &format!(", {} {were} imported before", show::number(known));
        }
        if self.left_out > 0 {
            report += &format!(", {} left out", show::number(self.left_out));
        }
        app.out.outcome(&json, report);
    }
}

/// Whether a problem concerns only one conversation. The others are imported then.
fn is_of_one(problem: &Problem) -> bool {
    let codes = [Code::Refused, Code::Conflict, Code::TooLarge];
    codes.iter().any(|code| problem.code == code.name())
}

enum Made {
    /// Nothing: an earlier import made this session.
    Known(Session),
    New(ImportResult),
    Refused(Error),
}

/// Makes the session of a conversation, unless it was imported before.
async fn make(
    args: &Args,
    service: &dyn Service,
    source: &mut Source,
    conversation: &Conversation,
) -> Result<Made> {
    if !args.copy
        && let Some(known) = session_of_digest(service, &conversation.digest.to_string()).await?
    {
        return Ok(Made::Known(service.session(&known.session).await?));
    }
    let file = args.file(source.part(conversation)?)?;
    Ok(match service.import_file(file).await {
        Ok(made) => Made::New(made),
        Err(error) => Made::Refused(error),
    })
}

/// The parts of a conversation that were not imported. Only if there are any, or the service did not
/// read it, it is read here: problems are reported with their places in the whole file.
fn skipped(
    app: &App,
    args: &Args,
    (source, conversation): (&mut Source, &Conversation),
    made: &Made,
) -> Result<SkippedParts> {
    match made {
        Made::New(made) if is_complete(&made.losses) => Ok(SkippedParts {
            behind: made.losses.dropped_content.clone(),
            ..SkippedParts::default()
        }),
        _ => {
            let mut part = source.part(conversation)?;
            let (_, skipped) = part.read(args.format(), args.skip_bad, &app.out)?;
            Ok(skipped)
        }
    }
}

/// Whether every message was imported, and nothing may have been misread.
fn is_complete(losses: &ImportLosses) -> bool {
    losses.skipped_messages == 0 && losses.skipped_parts == 0 && losses.warnings.is_empty()
}
