//! Inputs that arrive while summaries are written and agents work, in order of arrival.

use super::*;

use unisono_session::agent::Assignment;

const TURNS: usize = 6;
const SCHEDULES: u64 = 12;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn asked(stage: &Stage, text: &str, delegates: usize) -> NewTurn {
    let delegate = || Assignment {
        agent: lead().into(),
        task: Some("look into it".into()),
    };
    let mut turn = stage.turn(answering(text));
    turn.team.delegates = (0..delegates).map(|_| delegate()).collect();
    turn
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_arrive_meanwhile_come_next_in_their_order() {
    let long = "Something else is said here about the matter at hand. ".repeat(60);
    for seed in 0..SCHEDULES {
        let mut rng = Rng(seed);
        let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
        let stage = Stage::with(&[&model], 40).await;
        let mut events = stage.handle.events(0).await.unwrap();
        let mut expected = Vec::new();
        for n in 0..TURNS {
            // Waits for some of the current work, so that inputs arrive at any point of it.
            for _ in 0..rng.below(14) {
                let next = tokio::time::timeout(Duration::from_millis(20), events.next()).await;
                if next.is_err() {
                    break; // nothing is under way
                }
            }
            let text = format!("Input {n}. {long}");
            let turn = asked(&stage, &text, rng.below(3) as usize);
            expected.push((turn.id, text));
            stage.handle.accept(turn).await.unwrap();
        }
        for (turn, _) in &expected {
            let ended = tokio::time::timeout(PATIENCE, stage.handle.wait(*turn)).await;
            assert_eq!(
                ended.unwrap().unwrap().outcome,
                Outcome::Answered,
                "seed {seed}"
            );
        }
        let facts = stage.facts().await;
        let accepted: Vec<TurnId> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::TurnAccepted { turn } => Some(turn.id),
                _ => None,
            })
            .collect();
        let started: Vec<TurnId> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::TurnStarted { turn } => Some(*turn),
                _ => None,
            })
            .collect();
        let order: Vec<TurnId> = expected.iter().map(|(turn, _)| *turn).collect();
        assert_eq!((&accepted, &started), (&order, &order), "seed {seed}");
        assert!(!stage.checkpoints().await.is_empty(), "seed {seed}");
        let said: Vec<String> = stage.said().await;
        let inputs = said.iter().filter(|text| text.starts_with("Input "));
        assert!(
            inputs.eq(expected.iter().map(|(_, text)| text)),
            "seed {seed}"
        );
        // Each input is answered before the next one.
        let mut open = false;
        for text in &said {
            if text.starts_with("Input ") {
                assert!(!open, "seed {seed}");
                open = true;
            } else if text == "done" {
                open = false;
            }
        }
        assert!(!open, "seed {seed}");
        stage.runtime.shutdown().await;
    }
}
