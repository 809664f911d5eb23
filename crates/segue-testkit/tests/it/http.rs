//! Minimal HTTP client that exposes the complete response.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use segue_testkit::model::Model;
use serde_json::Value;

use crate::Asked;

/// Response of the stub.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the body was received completely.
    pub(crate) whole: bool,
}

impl Got {
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
pub(crate) fn ask(model: &Model, asked: Asked, prompt: &str, streaming: bool) -> Got {
    let (path, body) = asked.request(prompt, streaming);
    post(model, &path, &body)
}

pub(crate) fn post(model: &Model, path: &str, body: &Value) -> Got {
    send(
        model,
        "POST",
        path,
        &body.to_string(),
        Duration::from_secs(20),
    )
}

pub(crate) fn get(model: &Model, path: &str) -> Got {
    send(model, "GET", path, "", Duration::from_secs(20))
}

/// Sends a request and reads until the connection ends, or until no data arrives for `patience`.
pub(crate) fn send(model: &Model, method: &str, path: &str, body: &str, patience: Duration) -> Got {
    let url = model.url();
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-api-key: dummy\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut bytes = Vec::new();
    // A cut or stalled connection is a result that tests check, not an error.
    let _ = stream.read_to_end(&mut bytes);
    got(&String::from_utf8(bytes).unwrap())
}

fn got(text: &str) -> Got {
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let head = head.to_lowercase();
    let (body, whole) = if head.contains("transfer-encoding: chunked") {
        dechunked(rest)
    } else {
        (rest.to_owned(), true)
    };
    Got {
        status,
        head,
        body,
        whole,
    }
}

fn dechunked(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body += &more[..size];
        rest = &more[size + 2..];
    }
    (body, false)
}
