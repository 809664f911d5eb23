//! Minimal HTTP client that exposes the complete response.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use segue_testkit::model::ModelStub;
use serde_json::Value;

use crate::TestApi;

/// Response of the stub.
#[derive(Debug)]
pub(crate) struct StubResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the body was received completely.
    pub(crate) is_complete: bool,
}

impl StubResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the data of all events.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.body.lines();
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

/// Sends a prompt in the format of one API.
pub(crate) fn send_prompt(
    model: &ModelStub,
    api: TestApi,
    prompt: &str,
    streaming: bool,
) -> StubResponse {
    let (path, body) = api.build_request(prompt, streaming);
    post(model, &path, &body)
}

pub(crate) fn post(model: &ModelStub, path: &str, body: &Value) -> StubResponse {
    send_request(
        model,
        "POST",
        path,
        &body.to_string(),
        Duration::from_secs(20),
    )
}

pub(crate) fn get(model: &ModelStub, path: &str) -> StubResponse {
    send_request(model, "GET", path, "", Duration::from_secs(20))
}

/// Sends a request and reads until the connection ends, or until no data arrives for `read_timeout`.
pub(crate) fn send_request(
    model: &ModelStub,
    method: &str,
    path: &str,
    body: &str,
    read_timeout: Duration,
) -> StubResponse {
    let url = model.url();
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(read_timeout)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-api-key: dummy\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut bytes = Vec::new();
    // A cut or stalled connection is a result that tests check, not an error.
    let _ = stream.read_to_end(&mut bytes);
    parse_response(&String::from_utf8(bytes).unwrap())
}

fn parse_response(text: &str) -> StubResponse {
    let (head, raw_body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let head = head.to_lowercase();
    let (body, is_complete) = if head.contains("transfer-encoding: chunked") {
        decode_chunked(raw_body)
    } else {
        (raw_body.to_owned(), true)
    };
    StubResponse {
        status,
        head,
        body,
        is_complete,
    }
}

fn decode_chunked(mut remaining: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after_size)) = remaining.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body += &after_size[..size];
        remaining = &after_size[size + 2..];
    }
    (body, false)
}
