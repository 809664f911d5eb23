//! The program `segue`. All its code is in the library, so that documentation and tests are built once.

use std::process::ExitCode;

fn main() -> ExitCode {
    segue::run_program()
}
