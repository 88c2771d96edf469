//! The whole command line of unisono, with an agent kind that is an actor.
//!
//! ```sh
//! cd examples/actor_agent
//! cargo run -- run ../orders-migration.jsonl --task "How long is it?"
//! ```

mod register;

use std::process::ExitCode;

use register::Register;
use unisono_cli::Kinds;

fn main() -> ExitCode {
    unisono_cli::main(Kinds::default().with_actor("register", || (Register, ())))
}
