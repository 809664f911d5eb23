//! Facts in plain words, which the developers of the checkpoint extractor used from the start.

/// Purpose of the work, by the user.
pub(super) const GOALS_BY_USER: &[&str] = &[
    "The goal is to move {A} over to {B} without any downtime.",
    "We are building {A}, a small service that feeds {B}.",
    "What I want in the end is that {A} can be used without {B}.",
    "The aim of all this: {A} starts in less than a second even with {B} switched on.",
];

/// Lasting rules for the agent, by the user.
pub(super) const DIRECTIVES_BY_USER: &[&str] = &[
    "Never change anything in {A} without updating {B} as well.",
    "From now on, always run {A} before you touch {B}.",
    "Do not add new dependencies to {A}; {B} has to be enough.",
    "Make sure that every function in {A} has a test in {B}.",
    "Always ask me before you delete anything below {A} or {B}.",
    "Please keep lines in {A} under 100 columns, and never reformat {B}.",
    "You must not use {A} in production code, only in {B}.",
    "Remember that names in {A} are spelled as in {B}.",
];

/// Decisions with their reasons, by the user.
pub(super) const DECISIONS_BY_USER: &[&str] = &[
    "Let's go with {A} instead of {B}, because it needs no server.",
    "I decided against {A} since {B} is already in use everywhere.",
    "We'll use {A} for this; {B} was rejected by the security team.",
];

/// Decisions with their reasons, by the agent.
pub(super) const DECISIONS_BY_AGENT: &[&str] = &[
    "I decided to use {A} rather than {B}, because it is twice as fast on large inputs.",
    "I chose {A} over {B} since it keeps the order of the keys.",
    "We settled on {A}; the reason is that {B} can't be tested offline.",
    "I switched to {A} because {B} leaks a handle on every call.",
];

/// Reports of a file that the agent is changing. `{A}` is the path, `{B}` a name in the file.
pub(super) const FILES_BY_AGENT: &[&str] = &[
    "I am currently working on {A}: the part about {B} is half done.",
    "I'm in the middle of editing {A}, where {B} gets a second argument.",
    "{A} is in progress; {B} compiles but is not wired up.",
];

/// Failed attempts, by the agent.
pub(super) const ATTEMPTS_BY_AGENT: &[&str] = &[
    "I tried to raise {A}, but it didn't help with {B}.",
    "Replacing {A} by {B} failed: the tests still fail in the same place.",
    "I reverted the change to {A}, since it made {B} worse.",
    "Turning off {A} made no difference to {B}.",
];

/// Failed attempts, by the user.
pub(super) const ATTEMPTS_BY_USER: &[&str] = &[
    "I already tried {A} last week and it did not work with {B}.",
    "Don't bother with {A}, it broke {B} when we tried it.",
];

/// Work to do later, by the agent.
pub(super) const PENDING_BY_AGENT: &[&str] = &[
    "TODO: {A} has no migration for {B} yet.",
    "The error handling of {A} is still missing in {B}.",
    "Not done yet: renaming {A} to {B} in the documentation.",
    "Remaining work: {A} needs a benchmark against {B}.",
];

/// Work to do later, by the user.
pub(super) const PENDING_BY_USER: &[&str] = &[
    "Later we still need to clean up {A} after {B} is out.",
    "Put {A} on the list of things to do once {B} has landed.",
];

/// Requests of the user in the last prompt of the session.
pub(super) const LAST_REQUESTS: &[&str] = &[
    "Now please add a flag {A} to the command {B}.",
    "Fix the crash in {A} when {B} is empty.",
];
