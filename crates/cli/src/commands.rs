//! The definition of the command line, and its verbs, one file each.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod append;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod checkpoints;
pub(crate) mod cluster;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod delegate;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod pin;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod seal;
pub(crate) mod serve;
pub(crate) mod sessions;
mod stdio;
pub(crate) mod store;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod vacuum;
pub(crate) mod why;

use clap::{Parser, Subcommand};

use crate::app::App;
use crate::options::Global;
use crate::problem::Result;

const EXAMPLES: &str = "\
Examples:
  unisono run talk.jsonl        import, compact, ask the configured agents
  unisono run talk.jsonl --task \"What is left?\" --agents risks,facts
  unisono chat latest           continue the conversation
  unisono context latest        the context and its occupancy
  unisono sessions list         all sessions of the store

Data goes to stdout, messages go to stderr. SESSION is an id, a unique start or end of one, or
`latest`. With --json, an error is the last line on stderr: {error: {code (that of HTTP problems, or
of the turn), exit, message, hint}}.
Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 daemon unreachable, 4 some agents failed
or an import skipped something, 5 budget exceeded, 124 timeout, 130 interrupted.";

/// Runs several agents on one frozen snapshot of a conversation.
#[derive(Debug, Parser)]
#[command(name = "unisono", version, after_help = EXAMPLES)]
#[command(infer_subcommands = false, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Imports a conversation, compacts it, and runs agents on one frozen snapshot of it
    Run(run::Args),
    /// Delegates tasks to agents on one frozen snapshot of a session
    Delegate(delegate::Args),
    /// Chats with the agents, line by line
    Chat(chat::Args),
    /// Shows the messages of a session
    History(history::Args),
    /// Adds a message to a session without a turn
    Append(append::Args),
    /// Runs the daemon: HTTP API, web page, and an endpoint for OpenAI's clients
    #[command(visible_alias = "up")]
    Serve(serve::Args),
    /// Serves MCP clients on standard input and output
    Mcp(mcp::Args),
    /// Serves editors (ACP) on standard input and output
    Acp(acp::Args),
    /// Continues interrupted turns
    Resume(resume::Args),
    /// Imports conversations, or the archive of a store
    Import(import::Args),
    /// Writes a session, or the whole store, to a file
    Export(export::Args),
    /// Lists, shows, searches and deletes sessions
    #[command(subcommand)]
    Sessions(sessions::Command),
    /// Lists, shows and cancels runs of agents
    #[command(subcommand)]
    Runs(runs::Command),
    /// Lists and decides tool calls that wait for a person
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// Lists, starts and pauses schedules
    #[command(subcommand)]
    Schedules(schedules::Command),
    /// Shows the exact bytes of a request, and its chain of causes
    Why(why::Args),
    /// Rebuilds every request of a turn from the journal and checks every digest
    Replay(replay::Args),
    /// Shows the context of a session, section by section, and its occupancy
    Context(context::Args),
    /// Summarises the older messages of a session
    Compact(compact::Args),
    /// Pins messages so that they stay verbatim; without numbers, lists the pinned messages
    Pin(pin::Args),
    /// Unpins messages
    Unpin(pin::UnpinArgs),
    /// Ends the current topic of a session
    Seal(seal::Args),
    /// Lists, shows, edits and reverts checkpoints: stored summaries
    #[command(subcommand)]
    Checkpoints(checkpoints::Command),
    /// Lists, checks, reloads and imports agent definitions
    #[command(subcommand, visible_alias = "agent")]
    Agents(agents::Command),
    /// Lists known models with their windows, prices and availability
    Models(models::Args),
    /// Shows tokens and cost of model calls, by agent and model
    Usage(usage::Args),
    /// Measures how well conversations are compacted
    #[command(subcommand)]
    Eval(eval::Command),
    /// Shows, changes and checks settings
    #[command(subcommand)]
    Config(config::Command),
    /// Writes a starter project: settings and agents to change
    Init(init::Args),
    /// Checks the store, providers and tool servers
    Doctor(doctor::Args),
    /// Frees the disk space of deleted data
    Vacuum(vacuum::Args),
    /// Prints the statements that create the tables of a database
    #[command(subcommand)]
    Store(store::Command),
    /// Creates, lists and revokes tokens of people and programs
    #[command(subcommand)]
    Tokens(tokens::Command),
    /// Lists changes and refused requests
    Audit(audit::Args),
    /// Lists and drains the daemons on one database
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Prints the completions for a shell
    Completions(completions::Args),
    /// Prints the manual pages
    Man(man::Args),
}

pub(crate) fn carry_out(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Run(args) => app.wait_for(run::run(app, args)),
        Command::Delegate(args) => app.wait_for(delegate::run(app, args)),
        Command::Chat(args) => app.wait_for(chat::run(app, args)),
        Command::History(args) => app.wait_for(history::run(app, args)),
        Command::Append(args) => app.wait_for(append::run(app, args)),
        Command::Serve(args) => app.wait_for(serve::run(app, args)),
        Command::Mcp(args) => app.wait_for(mcp::run(app, args)),
        Command::Acp(args) => app.wait_for(acp::run(app, args)),
        Command::Resume(args) => app.wait_for(resume::run(app, args)),
        Command::Import(args) => app.wait_for(import::run(app, args)),
        Command::Export(args) => app.wait_for(export::run(app, args)),
        Command::Sessions(command) => app.wait_for(sessions::run(app, command)),
        Command::Runs(command) => app.wait_for(runs::run(app, command)),
        Command::Approvals(command) => app.wait_for(approvals::run(app, command)),
        Command::Schedules(command) => app.wait_for(schedules::run(app, command)),
        Command::Why(args) => app.wait_for(why::run(app, args)),
        Command::Replay(args) => app.wait_for(replay::run(app, args)),
        Command::Context(args) => app.wait_for(context::run(app, args)),
        Command::Compact(args) => app.wait_for(compact::run(app, args)),
        Command::Pin(args) => app.wait_for(pin::pin(app, args)),
        Command::Unpin(args) => app.wait_for(pin::unpin(app, args)),
        Command::Seal(args) => app.wait_for(seal::run(app, args)),
        Command::Checkpoints(command) => app.wait_for(checkpoints::run(app, command)),
        Command::Agents(command) => agents::run(app, command),
        Command::Models(args) => app.wait_for(models::run(app, args)),
        Command::Usage(args) => app.wait_for(usage::run(app, args)),
        Command::Eval(command) => app.wait_for(eval::run(app, command)),
        Command::Config(command) => config::run(app, command),
        Command::Init(args) => init::run(app, args),
        Command::Doctor(args) => doctor::run(app, args),
        Command::Vacuum(args) => vacuum::run(app, args),
        Command::Store(command) => store::run(app, command),
        Command::Tokens(command) => app.wait_for(tokens::run(app, command)),
        Command::Audit(args) => app.wait_for(audit::run(app, args)),
        Command::Cluster(command) => app.wait_for(cluster::run(app, command)),
        Command::Man(args) => man::run(app, args),
        Command::Completions(args) => completions::run(app, args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
