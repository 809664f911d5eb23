//! Program that runs the model stub for manual use: `model-stub [--port N] [--script FILE.json] [--log FILE.jsonl]`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

use std::fs::{self, File};
use std::process::ExitCode;

use segue_testkit::model::{ModelStub, Script};

const USAGE: &str = "\
usage: model-stub [--port N] [--script FILE.json] [--log FILE.jsonl]

  --port N             port on 127.0.0.1 [default: a free port]
  --script FILE.json   answers to prompts: {\"rules\": [{\"on\": \"PROMPT\", \"steps\": [{\"text\": \"ANSWER\"}]}]}
  --log FILE.jsonl     file for the requests, one line of JSON each";

fn main() -> ExitCode {
    match start_model() {
        Ok(model) => {
            println!("{}", model.url());
            loop {
                std::thread::park();
            }
        }
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn start_model() -> Result<ModelStub, String> {
    let (mut port, mut script, mut log) = (0, Script::new(), None);
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or(format!("`{name}` needs a value"))?;
        match name.as_str() {
            "--port" => {
                port = value
                    .parse()
                    .map_err(|error| format!("`{value}` is not a port: {error}"))?;
            }
            "--script" => script = read_script(&value)?,
            "--log" => log = Some(create_log(&value)?),
            _ => return Err(format!("unknown option `{name}`")),
        }
    }
    Ok(ModelStub::start_on_port(port, script, log))
}

fn read_script(path: &str) -> Result<Script, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("cannot parse {path}: {error}"))
}

fn create_log(path: &str) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot create {path}: {error}"))
}
