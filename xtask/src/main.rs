//! The program `xtask`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run_program()
}
