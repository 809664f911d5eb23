//! Tests in which the real CLIs write their files, and the readers return the conversations.

mod claude;
mod codex;
mod corpus;
mod gemini;
mod opencode;
mod session;
