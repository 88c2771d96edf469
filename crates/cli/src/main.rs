//! The `unisono` program, with the agent kinds that are built in.

use std::process::ExitCode;

fn main() -> ExitCode {
    unisono::main(unisono::Kinds::default())
}
