//! Chooses the next step of a schedule: a function of its rule, its recorded state and an instant.

use std::sync::Arc;

use unisono_config::automation::{MissedPolicy, Schedule};
use unisono_context::Timestamp;
use unisono_store::starts::{Source, Start};

/// A time that passed longer ago was missed: nothing worked then.
const LATE_MS: i64 = 60_000;

/// The recorded rule of a schedule that is switched off.
const OFF: &str = "off";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The schedule is new or has a changed rule: its times count from now on.
    Follow(Arc<str>),
    /// Begins a turn whose start is recorded but has no result yet.
    Resume(Start),
    /// The schedule was paused after this start was recorded: its turn does not begin any more.
    Withdraw(Start),
    /// A turn begins for this instant.
    Start(Timestamp),
    /// This instant was missed, and counts for nothing.
    Skip(Timestamp),
    /// Nothing, before this instant; none: for ever.
    Wait(Option<Timestamp>),
}

/// `is_followed`: whether this program has recorded its rule, or found it recorded, since it began. Another rule
/// that is recorded then is that of a daemon with other settings: if each of them recorded its own one again,
/// they would do so for ever, and skip the times between.
pub(crate) fn decide(
    schedule: &Schedule,
    known: &Source,
    is_followed: bool,
    now: Timestamp,
) -> Step {
    if let Some(start) = known.intended() {
        // A person who asks for a turn gets it, also of a paused schedule.
        return match known.paused && start.scheduled.is_some() {
            true => Step::Withdraw(start.clone()),
            false => Step::Resume(start.clone()),
        };
    }
    let rule = match schedule.enabled {
        true => schedule.rule.to_string(),
        false => OFF.to_owned(),
    };
    if !is_in_force(&rule, known, is_followed) {
        return Step::Follow(rule.into());
    }
    if !schedule.enabled || known.paused {
        return Step::Wait(None);
    }
    match schedule.rule.newest(known.settled, now) {
        None => Step::Wait(schedule.rule.next(known.settled.max(now))),
        Some(at) if schedule.missed == MissedPolicy::Skip && now.0 - at.0 > LATE_MS => {
            Step::Skip(at)
        }
        Some(at) => Step::Start(at),
    }
}

/// Whether the times of a rule count for this program.
fn is_in_force(rule: &str, known: &Source, is_followed: bool) -> bool {
    let recorded = known.rule.as_deref();
    recorded.is_some_and(|recorded| is_followed || recorded == rule)
}

/// The newest due time behind a start whose turn has waited for more than a minute to begin: no turn
/// begins for it. `is_followed` is that of [`decide`].
pub(crate) fn behind(
    schedule: &Schedule,
    known: &Source,
    is_followed: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let start = known.intended()?;
    let is_waiting = now.0 - start.at.0 > LATE_MS;
    let counts = schedule.enabled
        && !known.paused
        && is_in_force(&schedule.rule.to_string(), known, is_followed);
    match is_waiting && counts {
        true => schedule.rule.newest(known.settled, now),
        false => None,
    }
}

/// The next time of a schedule; none if it is switched off or its times are over.
pub(crate) fn next(schedule: &Schedule, known: &Source, now: Timestamp) -> Option<Timestamp> {
    match schedule.enabled && !known.paused {
        true => schedule.rule.next(known.settled.max(now)),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use unisono_config::automation::{DueTimes, NewTask, Rule, Target, zone};
    use unisono_context::{SessionId, TurnId};
    use unisono_runtime::agent::template::Template;
    use unisono_store::starts::Progress;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn schedule(missed: MissedPolicy, enabled: bool) -> Schedule {
        Schedule {
            name: "hourly".into(),
            rule: Rule {
                when: DueTimes::Every(HOUR),
                zone: zone("UTC").unwrap(),
            },
            task: NewTask {
                session: Target::New,
                branch: "main".into(),
                lead: None,
                agents: None,
                settings: Default::default(),
                task: Template::parse("Look.").unwrap(),
            },
            missed,
            enabled,
        }
    }

    fn known(settled: i64) -> Source {
        Source {
            rule: Some("every 1h".into()),
            settled: Timestamp(settled),
            ..Source::default()
        }
    }

    fn start(progress: Progress) -> Start {
        Start {
            key: "schedule:hourly:1".into(),
            scheduled: Some(Timestamp(HOUR)),
            at: Timestamp(HOUR),
            session: SessionId::from_u128(1),
            progress,
            request: None,
        }
    }

    #[test]
    fn a_schedule_does_what_its_rule_and_its_past_say() {
        let (run, skip) = (
            schedule(MissedPolicy::Run, true),
            schedule(MissedPolicy::Skip, true),
        );
        let off = schedule(MissedPolicy::Run, false);
        let paused = Source {
            paused: true,
            ..known(0)
        };
        let intended = Source {
            starts: vec![start(Progress::Intended)],
            ..known(HOUR)
        };
        let by_hand = Start {
            scheduled: None,
            ..start(Progress::Intended)
        };
        let asked_in_pause = Source {
            starts: vec![by_hand.clone()],
            paused: true,
            ..known(HOUR)
        };
        let paused_since = Source {
            paused: true,
            ..intended.clone()
        };
        let started = Source {
            starts: vec![start(Progress::Started(TurnId::from_u128(1)))],
            ..known(HOUR)
        };
        let at = Timestamp;
        let table = rows! {
            // Nobody knows it: nothing of before counts.
            (&run, Source::default(), 5 * HOUR, Step::Follow("every 1h".into())),
            (&off, Source::default(), 5 * HOUR, Step::Follow("off".into())),
            (&off, known(0), 5 * HOUR, Step::Follow("off".into())),
            (&run, known(0), HOUR - 1, Step::Wait(Some(at(HOUR)))),
            (&run, known(0), HOUR, Step::Start(at(HOUR))),
            (&skip, known(0), HOUR + LATE_MS, Step::Start(at(HOUR))),
            (&skip, known(0), HOUR + LATE_MS + 1, Step::Skip(at(HOUR))),
            // One of the three missed times runs.
            (&run, known(0), 3 * HOUR + 100_000, Step::Start(at(3 * HOUR))),
            (&skip, known(0), 3 * HOUR + 100_000, Step::Skip(at(3 * HOUR))),
            (&run, known(3 * HOUR), 3 * HOUR + 1, Step::Wait(Some(at(4 * HOUR)))),
            (&run, paused, 5 * HOUR, Step::Wait(None)),
            // A crash between the record and the start: the recorded start is first, even if
            // another time is due.
            (&skip, intended.clone(), 5 * HOUR, Step::Resume(start(Progress::Intended))),
            (&off, intended, 5 * HOUR, Step::Resume(start(Progress::Intended))),
            (&run, paused_since, 5 * HOUR, Step::Withdraw(start(Progress::Intended))),
            (&run, asked_in_pause, 5 * HOUR, Step::Resume(by_hand)),
            (&run, started, 2 * HOUR, Step::Start(at(2 * HOUR))),
            // A clock that was set back repeats nothing.
            (&run, known(3 * HOUR), HOUR, Step::Wait(Some(at(4 * HOUR)))),
        };
        for (schedule, known, now, expected) in table {
            let step = decide(schedule, &known, false, at(now));
            assert_eq!(step, expected, "at {now}");
        }
    }

    #[test]
    fn the_rule_of_a_daemon_with_other_settings_is_left_as_it_is() {
        let (run, off) = (
            schedule(MissedPolicy::Run, true),
            schedule(MissedPolicy::Run, false),
        );
        let new = Source::default();
        let other = Source {
            rule: Some("every 2h".into()),
            ..known(0)
        };
        let table = [
            (&run, &other, false, Step::Follow("every 1h".into())),
            (&run, &other, true, Step::Start(Timestamp(HOUR))),
            (&off, &other, false, Step::Follow("off".into())),
            (&off, &other, true, Step::Wait(None)),
            // The database was set back.
            (&run, &new, true, Step::Follow("every 1h".into())),
        ];
        for (schedule, known, is_followed, expected) in table {
            let step = decide(schedule, known, is_followed, Timestamp(HOUR));
            assert_eq!(step, expected);
        }
    }

    #[test]
    fn times_behind_a_start_that_waits_are_skipped() {
        let (on, off) = (
            schedule(MissedPolicy::Run, true),
            schedule(MissedPolicy::Run, false),
        );
        let waits = Source {
            starts: vec![start(Progress::Intended)],
            ..known(HOUR)
        };
        let paused = Source {
            paused: true,
            ..waits.clone()
        };
        let has_another_rule = Source {
            rule: Some("every 2h".into()),
            ..waits.clone()
        };
        let began = Source {
            starts: vec![start(Progress::Started(TurnId::from_u128(1)))],
            ..known(HOUR)
        };
        let recent = Source {
            starts: vec![Start {
                at: Timestamp(3 * HOUR - LATE_MS),
                ..start(Progress::Intended)
            }],
            ..known(HOUR)
        };
        let table = rows! {
            (&on, &waits, false, 2 * HOUR - 1, None),
            (&on, &waits, false, 2 * HOUR, Some(Timestamp(2 * HOUR))),
            (&on, &waits, false, 4 * HOUR + 1, Some(Timestamp(4 * HOUR))),
            (&off, &waits, true, 4 * HOUR, None),
            (&on, &paused, true, 4 * HOUR, None),
            (&on, &has_another_rule, false, 4 * HOUR, None),
            // A daemon with other settings has recorded its rule meanwhile.
            (&on, &has_another_rule, true, 4 * HOUR, Some(Timestamp(4 * HOUR))),
            (&on, &began, true, 4 * HOUR, None),
            (&on, &recent, true, 3 * HOUR, None),
        };
        for (schedule, known, is_followed, now, expected) in table {
            let at = behind(schedule, known, is_followed, Timestamp(now));
            assert_eq!(at, expected, "{now}");
        }
    }
}
