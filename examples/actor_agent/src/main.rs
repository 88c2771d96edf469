//! The whole command line of unisono, with an agent kind that is an actor.
//!
//! ```sh
//! cd examples/actor_agent
//! cargo run -- run ../orders-migration.jsonl --task "How long is it?"
//! ```

mod register;

use std::process::ExitCode;

use register::Register;
use unisono_cli::Extensions;

fn main() -> ExitCode {
    unisono_cli::main(Extensions::default().actor("register", || (Register, ())))
}
