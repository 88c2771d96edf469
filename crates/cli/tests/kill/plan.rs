//! Which rounds are made: one at each commit first, then at random.

use std::time::Duration;

use crate::life::{Death, Of};
use crate::scene::Shape;

/// Deaths of one round that are planned; after them it is left alone.
pub(crate) const LIVES: usize = 3;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `unisono run`, then `unisono resume`. Nobody can answer a call that waits while it runs: it
    /// is killed once one does, and `unisono approvals` is told of the decision.
    Commands,
    /// `unisono serve`, with a client that follows and decides.
    Daemon,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    seed: u64,
    pub(crate) way: Way,
    pub(crate) shape: Shape,
    pub(crate) deaths: [Death; LIVES],
    /// Where the first command dies that tells of a decision while there is no daemon.
    pub(crate) deciding: Death,
    /// Whether it is decided by command, and not over HTTP, while there is a daemon.
    pub(crate) by_command: bool,
}

impl Plan {
    pub(crate) fn unharmed(shape: Shape) -> Plan {
        Plan::sweep((Way::Daemon, shape), [Death::None; LIVES], false)
    }

    fn sweep((way, shape): (Way, Shape), deaths: [Death; LIVES], by_command: bool) -> Plan {
        Plan {
            seed: 0,
            way,
            shape,
            deaths,
            deciding: Death::None,
            by_command,
        }
    }

    fn at_commit(way: (Way, Shape), number: u64) -> Plan {
        let mut deaths = [Death::None; LIVES];
        let synced = number.is_multiple_of(2);
        deaths[0] = Death::Commit { number, synced };
        Plan::sweep(way, deaths, number % 4 < 2)
    }

    fn random(seed: u64) -> Plan {
        let mut draw = Draw(seed);
        let way = match draw.below(2) {
            0 => Way::Daemon,
            _ => Way::Commands,
        };
        let deaths = std::array::from_fn(|life| match (life, draw.below(4)) {
            (1.., 0) => Death::None,
            (_, 1) => draw.commit(40),
            (_, 2) => Death::Write {
                number: 1 + draw.below(60),
            },
            _ => draw.moment(way),
        });
        let deciding = match draw.below(2) {
            0 => draw.commit(2),
            _ => Death::None,
        };
        let by_command = draw.below(2) == 0;
        let shape = match draw.below(3) {
            0 => Shape::Line,
            _ => Shape::Fan,
        };
        Plan {
            seed,
            way,
            shape,
            deaths,
            deciding,
            by_command,
        }
    }

    pub(crate) fn sweeps(&self) -> bool {
        self.seed == 0
    }
}

/// The ways and turns of which every commit is gone through.
const SWEPT: [(Way, Shape); 3] = [
    (Way::Daemon, Shape::Fan),
    (Way::Commands, Shape::Fan),
    (Way::Daemon, Shape::Line),
];

/// The rounds that are still to be made.
pub(crate) struct Plans {
    rounds: u64,
    made: u64,
    seed: u64,
    /// One in so many commits is gone through: an odd number, as [`Plan::at_commit`] has two halves.
    every: u64,
    /// The way and the turn whose commits are being gone through, and how many were; none: all were.
    at: Option<((Way, Shape), u64)>,
    /// How many commits a daemon makes, of both turns.
    pub(crate) commits: u64,
}

impl Plans {
    /// So many rounds, though not less than one in `every` commits needs; with a seed, only that one.
    pub(crate) fn new(rounds: u64, every: u64, seed: Option<u64>) -> Plans {
        Plans {
            rounds: seed.map_or(rounds, |_| 1),
            made: 0,
            seed: seed.unwrap_or(1),
            every,
            at: seed.is_none().then_some((SWEPT[0], 0)),
            commits: 0,
        }
    }

    /// A round died nowhere: there is no such commit that way.
    pub(crate) fn is_through(&mut self, way: Way, shape: Shape) {
        let Some((at, commits)) = self.at.filter(|(at, _)| *at == (way, shape)) else {
            return;
        };
        if way == Way::Daemon {
            self.commits += commits;
        }
        let later = SWEPT.iter().skip_while(|swept| **swept != at).nth(1);
        self.at = later.map(|next| (*next, 0));
    }
}

impl Iterator for Plans {
    type Item = Plan;

    fn next(&mut self) -> Option<Plan> {
        self.made += 1;
        if let Some((way, number)) = &mut self.at {
            *number += self.every;
            return Some(Plan::at_commit(*way, *number));
        }
        self.seed += 1;
        (self.made <= self.rounds).then(|| Plan::random(self.seed - 1))
    }
}

/// A small deterministic generator (splitmix64): a failed round can be made again.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn commit(&mut self, most: u64) -> Death {
        Death::Commit {
            number: 1 + self.below(most),
            synced: self.below(2) == 0,
        }
    }

    fn moment(&mut self, way: Way) -> Death {
        let (of, more) = match (self.below(3), way) {
            (0, Way::Daemon) => (Of::Decisions, 1 + self.below(2)),
            (1, _) => (Of::Calls, 1 + self.below(4)),
            _ => (Of::Requests, self.below(10)),
        };
        Death::Moment {
            of,
            more: more as usize,
            wait: Duration::from_micros(self.below(40_000)),
        }
    }
}
