//! Version 2 stays readable: its golden files, and all that it could write.
//!
//! The files are `tests/golden/record-2/<sample>.hex`; they are never written again.

use std::fs;

use proptest::test_runner::{Config, TestRunner};

use super::golden::{directory, unhex};
use super::{arbitrary, samples};
use crate::codec;
use crate::error::Fault;
use crate::record::{decode, fact};
use unisono_context::compaction::Step as PlanStep;
use unisono_session::agent::Kind;
use unisono_session::event::{DelegationLimits, Event, Fact, Outcome, Unwritten, Work};
use unisono_session::run::{Ending, Lent, Step};

/// Whether version 2 had such a fact.
pub(super) fn knew(fact: &Fact) -> bool {
    match fact {
        Fact::CompactionPlanned { plan, .. } => !matches!(plan.step, PlanStep::Rewrite { .. }),
        Fact::CameLate { .. }
        | Fact::SummariserUsed { .. }
        | Fact::Pinned { .. }
        | Fact::Unpinned { .. }
        | Fact::Restored { .. }
        | Fact::PhrasesSet { .. }
        | Fact::TopicsDecided { .. }
        | Fact::TopicSealed { .. }
        | Fact::TopicsImported { .. }
        | Fact::Measured { .. }
        | Fact::TurnKeyed { .. }
        | Fact::ToolRulesSet { .. }
        | Fact::ToolsCalled { .. }
        | Fact::ToolStarted { .. }
        | Fact::ToolEnded { .. }
        | Fact::ToolInDoubt { .. }
        | Fact::ToolDecided { .. }
        | Fact::Capped { .. }
        | Fact::Reserved { .. }
        | Fact::CallSettled { .. }
        | Fact::SettingsSet { .. }
        | Fact::Posted { .. }
        | Fact::CallCapSet { .. }
        | Fact::ImportNoted { .. }
        | Fact::TurnEnded {
            outcome: Outcome::Restored { .. },
            ..
        } => false,
        Fact::Defined { definition } => {
            let later = match &definition.kind {
                Kind::Http(_) | Kind::Pipeline => true,
                Kind::Command(command) => !command.env_pass.is_empty(),
                _ => false,
            };
            !later && definition.pipeline.is_empty()
        }
        Fact::TurnAccepted { turn } => {
            let writing = turn.work.writing().cloned().unwrap_or_default();
            let wishes = writing.summariser.is_some() || writing.unwritten != Unwritten::Leave;
            let lent = turn.work.lent().cloned().unwrap_or_default();
            let shares = turn.delegation.results == DelegationLimits::RESULTS;
            let part = matches!(turn.work, Work::CompactPart { .. });
            let later = part || wishes || lent != Lent::default();
            turn.work.checkpoint().is_none() && !later && shares
        }
        Fact::RunEnded { ending, .. } => match &**ending {
            Ending::Finished { calls, .. } => calls.is_empty(),
            _ => true,
        },
        Fact::Altered { turn, .. } => turn.is_some(),
        Fact::RunStepped { step, .. } => match &**step {
            Step::Narrowed { .. } | Step::Spent(_) => false,
            Step::Model(reply) => reply.stand_in.as_ref().is_none_or(|by| by.sent.is_none()),
            Step::Tools(_) | Step::Named { .. } => true,
        },
        _ => true,
    }
}

/// The payload of an event as version 2 wrote it.
pub(super) fn written(event: &Event) -> Vec<u8> {
    let record = fact::Event::try_from(event).unwrap();
    [vec![0, 2], codec::encode(&record).unwrap()].concat()
}

#[test]
fn its_golden_files_are_read_as_ever() {
    let samples = samples::all();
    let mut read = 0;
    for file in fs::read_dir(directory(2)).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let sample = samples.iter().find(|(sample, _)| *sample == name);
        let (_, event) = sample.unwrap_or_else(|| panic!("{name}: no sample"));
        let golden = unhex(&fs::read_to_string(&path).unwrap());
        assert_eq!(decode(&golden).as_ref(), Ok(event), "{name}");
        assert_eq!(
            written(event),
            golden,
            "{name}: what the tests write is not it"
        );
        read += 1;
    }
    assert_eq!(read, 38, "every file it left");
}

#[test]
fn all_that_it_wrote_is_read_and_nothing_else() {
    for (name, strategy) in arbitrary::facts() {
        let mut runner = TestRunner::new(Config::with_cases(128));
        let result = runner.run(&strategy, |fact| {
            let event = samples::event(fact);
            let read = decode(&written(&event));
            if knew(&event.fact) {
                proptest::prop_assert_eq!(read, Ok(event));
            } else {
                let refused = matches!(read, Err(Fault::Undecodable { .. }));
                proptest::prop_assert!(refused);
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
