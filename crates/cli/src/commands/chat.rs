//! `unisono chat`: a conversation, line by line.

mod input;
mod order;
mod talk;

use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::NewTurn;
use unisono_config::settings::SessionOverrides;

use self::input::{Input, InputEvent};
use self::order::{InputLine, ORDERS, Order};
use self::talk::{Next, Talk};
use crate::app::App;
use crate::live::{Interrupt, Interrupts};
use crate::options::Workers;
use crate::problem::{Exit, Problem, Result};
use crate::service::{own_settings, session_if_named};
use crate::show;
use crate::team::team;

const HELP: &str = "\
Each line is a message; a line that ends in a backslash continues in the next line. The answer is
streamed. Ctrl-C cancels the turn, Ctrl-D or /quit ends the chat. The prompt shows the branch and
how full its context is. Lines that begin with / are commands:

  /context [full]      shows the context and its occupancy
  /compact [TEXT]      summarises older messages now, by the instructions TEXT
  /branch [NAME [N]]   lists the branches; goes to one, or starts one at #N
                       or at the end
  /agents [A,B=TASK]   lists or selects delegates; none: the lead alone;
                       default: as configured
  /seal                ends the current topic
  /history [N]         shows the newest messages
  /help, /quit         a message that begins with a slash is written with two

Tool calls that need approval are decided here: y, or n with a reason. For a call whose outcome is
unknown, answer with its outcome. Invalid answers repeat the question; Ctrl-C and Ctrl-D cancel the turn.

If standard input, output or error is not a terminal, each line is one turn, nothing is asked, and the
exit code is that of the last failed turn or command.

Examples:
  unisono chat
  unisono chat latest --agents risks,facts
  printf 'What is decided?\\nWhat is open?\\n' | unisono chat latest

JSON: one line per turn, as for `run`; for commands, the output of the equivalent CLI command.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session to continue; without it, the first message starts a new one
    session: Option<String>,
    /// The branch of the session to continue
    #[arg(long, default_value = MAIN_BRANCH, requires = "session")]
    branch: String,
    #[command(flatten)]
    workers: Workers,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(args.workers.overrides())?;
    let asked = args.workers.apply_to(NewTurn::new(""));
    if args.session.is_none() && !app.has_daemon(&setup) {
        // Checked before the session is created.
        team(&setup, &asked)?;
    }
    let mut interrupts = Interrupts::listen()?;
    let idle_store = match args.session {
        Some(_) => app.idle_store(&setup).await?,
        None => app.new_idle_store(&setup).await?,
    };
    let known = session_if_named(idle_store.service(), args.session.as_deref()).await?;
    if let Some(url) = idle_store.daemon() {
        app.out.message(format_args!("daemon     {url}"));
    }
    let own = match &known {
        Some(session) => own_settings(idle_store.service(), session).await?,
        None => SessionOverrides::default(),
    };
    let turns = idle_store
        .for_many_turns()
        .work(app, Some((&own, &asked)))
        .await?;
    let mut talk = Talk::new(app, &setup, &turns, &args);
    let done = match known {
        Some(session) => talk.open(session).await,
        None => Ok(()),
    };
    let done = match done {
        Ok(()) => converse(app, &mut talk, &mut interrupts).await,
        Err(problem) => Err(problem),
    };
    let (session, end) = (talk.session().map(str::to_owned), talk.end());
    let branch = talk.other_branch().map(str::to_owned);
    turns.stop(end).await;
    if let Some(session) = session.filter(|_| app.out.watched) {
        let short = show::short_id(&session);
        let branch = branch.map(|name| format!(" --branch {}", show::argument(&name)));
        let branch = branch.unwrap_or_default();
        app.out
            .message(format_args!("`unisono chat {short}{branch}` continues it"));
    }
    done
}

/// Reads and handles lines until the input ends.
async fn converse(app: &App, talk: &mut Talk<'_>, interrupts: &mut Interrupts) -> Result<()> {
    let mut input = Input::open(&app.out)?;
    input.recall(talk.said_before().await?).await;
    if input.is_terminal() {
        talk.greet();
    }
    let mut failed = None;
    loop {
        let prompt = talk.prompt().await;
        let line = tokio::select! {
            line = input.line(prompt) => line?,
            who = interrupts.next() => match who {
                // An editor reads Ctrl-C itself. A terminal without one sends a signal.
                Interrupt::Person if input.is_terminal() => InputEvent::Nothing,
                _ => return Err(Problem::silent(Exit::Interrupted)),
            },
        };
        let said = match line {
            InputEvent::Line(line) => order::read(&line),
            InputEvent::Nothing => {
                app.out.message("/quit or Ctrl-D ends the chat");
                continue;
            }
            InputEvent::End => break,
        };
        let done = match said {
            InputLine::Empty => Ok(Next::GoOn),
            InputLine::Message(text) => talk.send(&text, &mut input, interrupts).await,
            InputLine::Order(order) => talk.carry_out(order, interrupts).await,
            InputLine::Unknown(problem) => Err(problem),
        };
        match done {
            Ok(Next::GoOn) => {}
            Ok(Next::Stop) => break,
            Ok(Next::Left) => return Err(Problem::silent(Exit::Interrupted)),
            Err(problem) => {
                if !problem.message.is_empty() {
                    app.out.report(&problem);
                }
                failed = Some(problem.exit);
            }
        }
    }
    match failed.filter(|_| !input.is_terminal()) {
        Some(exit) => Err(Problem::silent(exit)),
        None => Ok(()),
    }
}
