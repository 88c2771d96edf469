//! Asks an agent of its own and a lead about the example conversation, and prints the lead's answer.
//!
//! For the whole command line with this agent, `main` is one line:
//! `unisono_cli::main(Extensions::default().agent("glossary", Glossary))`.

mod glossary;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use glossary::Glossary;
use unisono::{Ask, Local};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let local = Local::builder()
        .agent("glossary", Glossary)
        .directory(here)
        .in_memory();
    let local = local.start().await?;
    let talk = unisono::read_conversation(&here.join("../orders-migration.jsonl"))?;
    let session = local.import(talk.import).await?;
    let task = Ask::new("Which names does a newcomer have to know?");
    let finished = local.ask(&session, &task).await?;
    local.shutdown().await;
    let answer = finished
        .answer
        .ok_or_else(|| finished.outcome.to_string())?;
    writeln!(stdout(), "{answer}")?;
    Ok(())
}
