//! `unisono store`: what the operator of a database needs.

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Prints the statements that make the tables in a PostgreSQL database
    ///
    /// unisono makes the tables itself where its role may. Any other role needs SELECT, INSERT, UPDATE
    /// and DELETE on tables that exist.
    Schema,
}

pub(crate) fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Schema => app.out.data(unisono_store::postgres::Postgres::schema()),
    }
    Ok(())
}
