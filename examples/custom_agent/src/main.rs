//! Asks an agent of its own and a lead about the example conversation, and prints both answers.
//!
//! To have the whole command line with the agent in it instead, `main` is one line:
//! `unisono_cli::main(Extensions::default().agent("glossary", Glossary))`.

mod glossary;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use glossary::Glossary;
use unisono::{Ask, Daemon};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let daemon = Daemon::builder()
        .agent("glossary", Glossary)
        .directory(here)
        .in_memory();
    let daemon = daemon.start().await?;
    let talk = unisono::read_conversation(&here.join("../orders-migration.jsonl"))?;
    let session = daemon.import(talk.import).await?;
    let task = Ask::new("Which names does a newcomer have to know?");
    let finished = daemon.ask(&session, &task).await?;
    daemon.shutdown().await;
    let answer = finished
        .answer
        .ok_or_else(|| finished.outcome.to_string())?;
    writeln!(stdout(), "{answer}")?;
    Ok(())
}
