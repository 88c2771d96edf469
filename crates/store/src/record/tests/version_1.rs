//! Version 1 stays readable: its golden files, and all that it could write.
//!
//! The files are `tests/golden/record-1/<sample>.hex`; they are never written again.

use std::fs;

use proptest::test_runner::{Config, TestRunner};

use super::golden::{directory, unhex};
use super::{arbitrary, samples, version_2};
use crate::record::{decode, v1};
use unisono_session::agent::Definition;
use unisono_session::event::{AcceptedTurn, DelegationLimits, Event, Fact, OpenedRun, RunRole};
use unisono_session::run::{Cause, Ending, Reply, Step, Usage};

/// Whether version 1 had such a fact.
pub(super) fn knew(fact: &Fact) -> bool {
    version_2::knew(fact) && !matches!(fact, Fact::Delegated { .. })
}

/// The event without what version 1 did not know: what is read where that build wrote it.
fn as_read(event: Event) -> Event {
    let Event { at, fact } = event;
    let fact = match fact {
        Fact::Defined { definition } => Fact::Defined {
            definition: Definition {
                output_schema: None,
                temperature_milli: None,
                cache_warm: Default::default(),
                ..(*definition).clone()
            }
            .into(),
        },
        Fact::TurnAccepted { turn } => Fact::TurnAccepted {
            turn: Box::new(AcceptedTurn {
                available: Vec::new(),
                calibrations: Vec::new(),
                delegation: DelegationLimits::default(),
                ..*turn
            }),
        },
        Fact::RunOpened { run } => Fact::RunOpened {
            run: OpenedRun {
                role: match run.role {
                    RunRole::Child { .. } => RunRole::Lead,
                    known => known,
                },
                ..run
            },
        },
        Fact::RunStepped { run, step } => {
            let step = match &*step {
                Step::Model(reply) => Step::Model(Reply {
                    text: reply.text.clone(),
                    calls: reply.calls.clone(),
                    usage: usage(reply.usage),
                    ..Reply::default()
                }),
                other => other.clone(),
            };
            let step = step.into();
            Fact::RunStepped { run, step }
        }
        Fact::RunEnded { run, ending } => {
            let ending = ended(&ending).into();
            Fact::RunEnded { run, ending }
        }
        other => other,
    };
    Event { at, fact }
}

fn usage(usage: Usage) -> Usage {
    let known = Usage::free(usage.input, usage.output);
    let free = known == Usage::NONE;
    Usage {
        cost: known.cost.filter(|_| free),
        ..known
    }
}

fn ended(ending: &Ending) -> Ending {
    const NEW: [Cause; 6] = [
        Cause::Unavailable,
        Cause::Rejected,
        Cause::Overflow,
        Cause::Refused,
        Cause::Budget,
        Cause::Stuck,
    ];
    match ending.clone() {
        Ending::Finished {
            text,
            calls,
            partial,
            usage: spent,
            duration_ms,
        } => Ending::Finished {
            text,
            calls,
            partial,
            usage: usage(spent),
            duration_ms,
        },
        Ending::Failed {
            cause,
            reason,
            duration_ms,
        } if NEW.contains(&cause) => Ending::Failed {
            cause: Cause::Model,
            reason,
            duration_ms,
        },
        other => other,
    }
}

#[test]
fn its_golden_files_are_read_as_ever() {
    let files = fs::read_dir(directory(1)).unwrap();
    let samples = samples::all();
    let mut read = 0;
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let sample = samples.iter().find(|(sample, _)| *sample == name);
        let (_, event) = sample.unwrap_or_else(|| panic!("{name}: no sample"));
        let golden = unhex(&fs::read_to_string(&path).unwrap());
        assert_eq!(decode(&golden), Ok(as_read(event.clone())), "{name}");
        let written = v1::written::encode(event);
        assert_eq!(written, golden, "{name}: what the tests write is not it");
        read += 1;
    }
    assert_eq!(read, 35, "every file it left");
}

#[test]
fn all_that_it_wrote_is_read() {
    let known = arbitrary::facts().into_iter();
    for (name, strategy) in known {
        let mut runner = TestRunner::new(Config::with_cases(128));
        let result = runner.run(&strategy, |fact| {
            if !knew(&fact) {
                return Ok(());
            }
            let event = samples::event(fact);
            let payload = v1::written::encode(&event);
            proptest::prop_assert_eq!(decode(&payload), Ok(as_read(event)));
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
