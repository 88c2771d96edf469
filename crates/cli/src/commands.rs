//! The verbs, one file each.

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

use crate::app::App;
use crate::args::Command;
use crate::problem::Result;

/// Carries a verb out.
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
