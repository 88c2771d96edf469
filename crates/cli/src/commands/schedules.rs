//! `unisono schedules`: turns that begin at times.

use clap::Subcommand;
use unisono::fmt::end;
use unisono_api::schedule::{Schedule, ScheduledTurn};

use crate::app::App;
use crate::live::{Interrupts, Limits, Screen, conclude, follow};
use crate::problem::{Problem, Result};
use crate::service::all_pages;
use crate::show;

/// Characters of a reason in the list.
const REASON_CHARS: usize = 200;

const LIST_HELP: &str = "\
The setting [schedules.NAME] has the times and the task; `unisono serve` starts the turns.

JSON: a list of {name, rule, state (on, paused, off), missed (run, skip), next_at, last
{scheduled_at, started_at, session, turn, state, error}, skipped {scheduled_at, reason}}.";

const RUN_HELP: &str = "\
The times of the schedule do not change. Refused while the last turn of the schedule is open. If a
daemon has the store open, it works on the turn; otherwise this process does.

JSON: as for `run`.";

const PAUSE_HELP: &str = "\
A schedule stays paused after a restart of the daemon. Times that pass meanwhile are skipped.

JSON: as an item of `schedules list`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists schedules with their next time and last turn
    #[command(after_help = LIST_HELP)]
    List,
    /// Starts the turn of a schedule now, and follows it
    #[command(after_help = RUN_HELP)]
    Run(NameArgs),
    /// Pauses a schedule
    #[command(after_help = PAUSE_HELP)]
    Pause(NameArgs),
    /// Resumes a paused schedule
    #[command(after_help = PAUSE_HELP)]
    Resume(NameArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NameArgs {
    /// The schedule
    #[arg(value_name = "NAME")]
    schedule: String,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List => list(app).await,
        Command::Run(args) => begin(app, &args.schedule).await,
        Command::Pause(args) => pause(app, &args.schedule, true).await,
        Command::Resume(args) => pause(app, &args.schedule, false).await,
    }
}

async fn list(app: &App) -> Result<()> {
    let service = app.reader().await?;
    let all = all_pages(async |page| service.schedules(&page).await).await?;
    let header = ["SCHEDULE", "WHEN", "NEXT (UTC)", "LAST TURN", "STATE"];
    let none = "there are no schedules: add one as [schedules.NAME] in the settings";
    app.out.list(&all, none, (&header, &[]), row);
    service.close().await;
    Ok(())
}

fn row(one: &Schedule) -> Vec<String> {
    let next = one.next_at.as_deref().map(show::minute);
    vec![
        one.name.clone(),
        one.rule.clone(),
        next.unwrap_or_else(|| one.state.clone()),
        one.last.as_ref().map(turn).unwrap_or_default(),
        state(one),
    ]
}

/// The state of the last turn, with the reason if it has no answer, and the newest skipped time after
/// it.
fn state(one: &Schedule) -> String {
    let last = one.last.as_ref();
    let since = last.map(|last| last.scheduled_at.as_ref().unwrap_or(&last.started_at));
    let is_new = |at: &String| since.is_none_or(|since| at > since);
    let last = last.map(|last| match &last.error {
        Some(error) => format!("{}: {}", last.state, show::line(error, REASON_CHARS)),
        None => last.state.clone(),
    });
    let skipped = one.skipped.as_ref();
    let skipped = skipped.filter(|skipped| is_new(&skipped.scheduled_at));
    let skipped = skipped.map(|skipped| {
        let at = show::minute(&skipped.scheduled_at);
        format!(
            "{at} skipped: {}",
            show::line(&skipped.reason, REASON_CHARS)
        )
    });
    let all: Vec<String> = last.into_iter().chain(skipped).collect();
    all.join("; ")
}

fn turn(last: &ScheduledTurn) -> String {
    let turn = last.turn.as_ref().map(end).unwrap_or_default();
    format!("{} {turn}", show::minute(&last.started_at))
        .trim_end()
        .to_owned()
}

async fn begin(app: &App, name: &str) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut interrupts = Interrupts::listen()?;
    let turns = app.new_idle_store(&setup).await?.work(app, None).await?;
    let begun = turns.service().run_schedule(name).await?;
    let Some(turn) = &begun.turn else {
        let why = begun.error.unwrap_or(begun.state);
        return Err(Problem::failed(format!("no turn began: {why}")));
    };
    let mut followed = turns.join(&begun.session, turn).await?;
    let mut screen = Screen::new(&app.out);
    let text = format!("{name} in session {}", show::short_id(&begun.session));
    screen.headline("schedule", &text);
    let limits = Limits::leaving(&mut interrupts);
    let end = follow(turns.service(), &mut followed, &mut screen, limits).await?;
    drop(screen);
    let concluded = conclude(&app.out, &followed.leave(), end);
    turns.stop(end).await;
    concluded
}

async fn pause(app: &App, name: &str, paused: bool) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    // A missing store is created to record the pause.
    let service = app.maker(&setup).await?;
    let changed = service.pause_schedule(name, paused).await?;
    let next = match &changed.next_at {
        Some(at) => format!("next at {} UTC", show::minute(at)),
        None => format!("it is {}", changed.state),
    };
    let message = format!("schedule {name}: {next}");
    app.out.outcome(&changed, message);
    service.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use unisono_api::schedule::SkippedTime;

    use super::*;

    #[test]
    fn the_list_has_the_reason_of_a_refused_turn_and_the_newest_skipped_time() {
        let last = |state: &str, error: Option<&str>| ScheduledTurn {
            scheduled_at: Some("2026-03-02T07:00:00Z".to_owned()),
            started_at: "2026-03-02T07:00:01Z".to_owned(),
            session: String::new(),
            turn: None,
            state: state.to_owned(),
            error: error.map(str::to_owned),
        };
        let skipped = |at: &str| SkippedTime {
            scheduled_at: at.to_owned(),
            reason: "busy".to_owned(),
        };
        for (last, skipped, expected) in rows! {
            (None, None, ""),
            (Some(last("answered", None)), None, "answered"),
            (Some(last("refused", Some("no agent"))), None, "refused: no agent"),
            (Some(last("open", None)), Some(skipped("2026-03-03T07:00:00Z")), "open; 2026-03-03 07:00 skipped: busy"),
            (Some(last("answered", None)), Some(skipped("2026-03-01T07:00:00Z")), "answered"),
            (None, Some(skipped("2026-03-01T07:00:00Z")), "2026-03-01 07:00 skipped: busy"),
        } {
            let one = Schedule {
                name: "beat".to_owned(),
                rule: "every 1h".to_owned(),
                state: "on".to_owned(),
                missed: "run".to_owned(),
                next_at: None,
                last,
                skipped,
            };
            assert_eq!(state(&one), expected);
        }
    }
}
