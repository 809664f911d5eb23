//! Gemini CLI, from a shell and over ACP.

use segue_catalog::{Gemini, Reader};
use segue_testkit::model::{Call, Failure, Reply, Script};
use segue_testkit::sandbox::{Cli, Sandbox};

use crate::corpus::{MakeReader, keep};
use crate::session::{find, read};
use crate::story::story;

const VERSION: &str = "0.61.0";
const READER: MakeReader = |home| Box::new(Gemini::new(home));

fn sandbox() -> Sandbox {
    let script = Script::new()
        .on(
            "look around",
            [
                Reply::say("I look.")
                    .think("**Looking** What is here?")
                    .call(Call::shell("echo hi-from-here")),
                Reply::say("It says hi."),
            ],
        )
        .on("hang", [Reply::say("I begin").failing(Failure::Stall)])
        .on("break", [Reply::fail(Failure::BadRequest)])
        .summary("They looked around.");
    Sandbox::new(script)
}

/// Runs a prompt, and returns the session's id.
fn prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let always = ["--yolo", "-m", "gemini-2.5-flash", "-o", "stream-json"];
    let ran = sandbox.run(Cli::Gemini, always.iter().chain(args));
    let told = ran.json_lines();
    let id = told.iter().find_map(|event| event["session_id"].as_str());
    id.unwrap_or_else(|| panic!("{ran:#?}")).to_owned()
}

fn reader(sandbox: &Sandbox) -> Gemini {
    Gemini::new(sandbox.home().join(".gemini"))
}

fn told(sandbox: &Sandbox, id: &str) -> String {
    let reader = reader(sandbox);
    story(&read(&reader, &find(&reader, id)))
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn explore() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    println!("{}", told(&sandbox, &id));
    assert_eq!(prompt(&sandbox, &["-r", &id, "and then?"]), id);
    println!("{}", told(&sandbox, &id));
    let _ = sandbox.run(
        Cli::Gemini,
        [
            "--yolo",
            "-m",
            "gemini-2.5-flash",
            "-o",
            "stream-json",
            "-r",
            &id,
            "break",
        ],
    );
    println!("{}", told(&sandbox, &id));
    println!(
        "{:#?}",
        reader(&sandbox).head(&find(&reader(&sandbox), &id))
    );
    println!(
        "{:#?}",
        read(&reader(&sandbox), &find(&reader(&sandbox), &id))
            .iter()
            .map(|t| t.usage)
            .collect::<Vec<_>>()
    );
    let mut acp = sandbox.acp(Cli::Gemini);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    println!(
        "{:?}",
        acp.prompt_then_cancel(&id, "hang", |u| u["sessionUpdate"] == "agent_message_chunk")
    );
    acp.prompt(&id, "go on");
    println!("acp {}", told(&sandbox, &id));
    acp.prompt(&id, "/compress");
    acp.prompt(&id, "after it");
    println!("acp {}", told(&sandbox, &id));
    drop(acp);
    println!("{:?}", sandbox.run(Cli::Gemini, ["--list-sessions"]));
    keep(&sandbox, VERSION, "explore", ".gemini", READER);
}
