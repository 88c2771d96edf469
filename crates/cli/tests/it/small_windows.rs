//! Models with small windows: a session goes on however full its context is, and a request has the
//! input once.

use unisono_session::Fact;
use unisono_session::event::Outcome;

use crate::support::{Place, example};

fn window(place: &Place, window: u64, max_output: u64) {
    let catalogue =
        format!("[models.\"extractive/extractive\"]\nwindow={window}\nmax_output={max_output}\n");
    place.write("m.toml", &catalogue);
}

#[test]
fn a_context_just_under_what_is_usable_does_not_strand_the_session() {
    let place = Place::new();
    // The preset compacts only when the window is full; the conversation fills it to 98 %.
    window(&place, 24_300, 4_096);
    let file = example();
    let run = ["run", &file, "--agents", "", "--preset", "retention"];
    let with = ["--set", "models.catalogue=m.toml", "-t", "What is open?"];
    for _ in 0..4 {
        let done = place.call(&[&run[..], &with[..]].concat()).expect(0);
        assert!(!done.stdout.trim().is_empty(), "{done:#?}");
    }
}

#[test]
fn a_lead_is_handed_what_fits_of_what_its_delegates_brought() {
    for size in [21_500, 23_500, 26_000] {
        let place = Place::new();
        window(&place, size, 1_024);
        let file = example();
        let run = ["run", &file, "--preset", "retention"];
        let with = ["--set", "models.catalogue=m.toml", "-t", "What is open?"];
        let report = place.json(&[&run[..], &with[..]].concat());
        assert_eq!(report["state"], "answered", "{size}: {report}");
        let events = place.events(report["session"].as_str().unwrap());
        let failed = events.iter().filter(|event| {
            matches!(
                &event.fact,
                Fact::TurnEnded {
                    outcome: Outcome::Failed { .. },
                    ..
                }
            )
        });
        assert_eq!(failed.count(), 0);
    }
}

#[test]
fn a_request_has_the_input_once() {
    let place = Place::new();
    let file = example();
    let asked = "Which xylophone is still open?";
    let report = place.json(&["run", &file, "--agents", "facts,risks", "-t", asked]);
    let events = place.events(report["session"].as_str().unwrap());
    let runs = events.iter().filter_map(|event| match &event.fact {
        Fact::RunOpened { run } => Some(run),
        _ => None,
    });
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let why = place.call(&["why", &run.id.to_string(), "--raw"]).expect(0);
        let said = why.stdout.matches(asked).count();
        assert_eq!(said, 1, "{}: {}", run.agent, why.stdout);
    }
    place
        .call(&["replay", report["turn"].as_str().unwrap()])
        .expect(0);
}
