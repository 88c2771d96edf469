//! Compactions and their results.

use super::*;

fn mask() -> MaskTarget {
    MaskTarget {
        message: MESSAGE,
        ordinal: Ordinal(7),
        tokens: Tokens(4_000),
    }
}

fn summarise(tier: Tier, cap: u64, writer: Writer) -> Step {
    Step::Summarise {
        cover: cover(),
        tier,
        cap: Tokens(cap),
        writer,
    }
}

pub(super) fn facts() -> Samples {
    let cut = Step::Cut {
        message: MESSAGE,
        ordinal: Ordinal(8),
        target_chars: 2_000,
    };
    let rewrite = Step::Regenerate {
        cover: cover(),
        prior: vec![CHECKPOINT],
        cap: Tokens(2_048),
    };
    let topic = summarise(Tier::Topic, 200, Writer::Deterministic);
    let truncate = Step::Truncate {
        messages: vec![(MESSAGE, Ordinal(8)), (MESSAGE, Ordinal(9))],
        target_chars: 2_000,
    };
    let altered = |turn| Fact::Altered {
        turn,
        alterations: vec![
            alteration(Form::Masked {
                tokens: Tokens(4_000),
            }),
            alteration(Form::Cut {
                target_chars: 2_000,
            }),
        ],
    };
    let imported = Checkpoint {
        kind: Kind::Manual,
        tier: Tier::Topic,
        writer: Writer::Deterministic,
        body: Body::Tombstone,
        key_facts: Vec::new(),
        cost_micros: None,
        degraded: true,
        ..checkpoint()
    };
    let covering = Checkpoint {
        coverage: Some(FactCoverage {
            facts: 40,
            kept: 12,
            quoted: 29,
        }),
        ..checkpoint()
    };
    let compacted = |turn, c| Fact::Compacted {
        turn,
        checkpoint: Arc::new(c),
    };
    let frozen = Fact::Frozen {
        turn: TURN,
        snapshot: SNAPSHOT,
        manifest: manifest(),
    };
    samples! {
        "compaction_planned_mask": planned(Step::Mask(vec![mask()])),
        "compaction_planned_cut": planned(cut.clone()),
        "compaction_planned_files": planned_with_files(cut),
        "compaction_planned_summarise":
            planned(summarise(Tier::Conversation, 2_048, Writer::Model)),
        "compaction_planned_drop": planned(Step::Drop { cover: cover() }),
        "compaction_planned_rewrite": planned(rewrite),
        "summariser_used": Fact::SummariserUsed {
            turn: TURN,
            model: "openai/gpt-4o-mini".into(),
            usage: USAGE,
        },
        "compaction_planned_topic": planned(topic),
        "compaction_planned_truncate": planned(truncate),
        "altered_truncated": Fact::Altered {
            turn: Some(TURN),
            alterations: vec![alteration(Form::Truncated { target_chars: 2_000 })],
        },
        "altered": altered(Some(TURN)),
        "altered_import": altered(None),
        "compacted": compacted(Some(TURN), checkpoint()),
        "compacted_import": compacted(None, imported),
        "compacted_coverage": compacted(Some(TURN), covering),
        "compaction_failed": Fact::CompactionFailed {
            turn: TURN,
            reason: "the model is out of reach".into(),
        },
        "preparation_planned": preparation(),
        "summary_prepared": prepared(),
        "preparation_dropped": dropped(DropReason::Range),
        "preparation_dropped_failed":
            dropped(DropReason::Failed("the model is out of reach".into())),
        "frozen": frozen,
    }
}

fn preparation() -> Fact {
    let step = summarise(Tier::Conversation, 2_048, Writer::Model);
    let Fact::CompactionPlanned { plan, .. } = planned(step) else {
        unreachable!("a plan");
    };
    Fact::PreparationPlanned {
        preparation: Box::new(PlannedPreparation {
            turn: TURN,
            branch: "main".into(),
            model: "openai/gpt-4o".into(),
            plan,
            masks: vec![mask()],
            range: DIGEST,
            settings: DIGEST,
        }),
    }
}

fn prepared() -> Fact {
    Fact::SummaryPrepared {
        turn: TURN,
        summary: Box::new(super::super::written(checkpoint())),
    }
}

fn dropped(reason: DropReason) -> Fact {
    Fact::PreparationDropped {
        turn: TURN,
        by: Some(TURN),
        reason,
    }
}
