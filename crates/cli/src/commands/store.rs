//! `unisono store`: commands for the operator of a database.

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Prints the SQL statements that create the tables in PostgreSQL
    ///
    /// unisono creates the tables if its role may. Any other role needs SELECT, INSERT, UPDATE and
    /// DELETE on existing tables.
    Schema,
}

pub(crate) fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Schema => app.out.data(unisono_store::postgres::Postgres::schema()),
    }
    Ok(())
}
