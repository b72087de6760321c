//! ZooKeeper's client protocol: the few requests of a reader, replies and events, in frames of bounded
//! length. It does not open connections.

use crate::parts::{MAX_VALUE_BYTES, shortened};

/// A request of a reader. Each leaves a watch behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZooKeeperRequest {
    Exists(String),
    Children(String),
    Data(String),
}

/// A frame of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ZooKeeperFrame {
    /// The reply to the oldest request without one; the body belongs to its kind.
    Reply { xid: i32, code: i32, body: Vec<u8> },
    /// A watch has fired; it is gone with that.
    Event { path: String },
    /// The session is over, or the credentials were refused.
    Lost(String),
    /// The reply to a ping, or an event of the connection.
    Other,
}

/// A request to open a session. A reader needs no session of its past.
pub(super) fn encode_connect(session_timeout_ms: i32) -> Vec<u8> {
    let mut out = Vec::with_capacity(49);
    out.extend(0_i32.to_be_bytes());
    out.extend(0_i64.to_be_bytes());
    out.extend(session_timeout_ms.to_be_bytes());
    out.extend(0_i64.to_be_bytes());
    put_bytes(&mut out, &[0; 16]);
    out.push(0);
    framed(&out)
}

/// The timeout of the session in milliseconds that the server grants.
///
/// # Errors
/// The server refuses the session, or speaks another protocol.
pub(super) fn connected(frame: &[u8]) -> Result<u32, String> {
    let mut reader = WireReader(frame);
    let no_session = || "the server is no ZooKeeper: its first frame is no answer to a connection".to_owned();
    let _version = reader.int().ok_or_else(no_session)?;
    let timeout = reader.int().ok_or_else(no_session)?;
    let _session = reader.long().ok_or_else(no_session)?;
    match u32::try_from(timeout) {
        Ok(timeout) if timeout > 0 => Ok(timeout),
        _ => Err("the server refuses a session".to_owned()),
    }
}

/// Credentials of a scheme such as `digest`.
pub(super) fn auth(scheme: &str, credentials: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(AUTH_XID.to_be_bytes());
    out.extend(AUTH.to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    put_bytes(&mut out, scheme.as_bytes());
    put_bytes(&mut out, credentials.as_bytes());
    framed(&out)
}

/// A sign of life.
pub(super) fn ping() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(PING_XID.to_be_bytes());
    out.extend(PING.to_be_bytes());
    framed(&out)
}

/// A request with its number.
pub(super) fn encode_request(xid: i32, request: &ZooKeeperRequest) -> Vec<u8> {
    let (operation, path) = match request {
        ZooKeeperRequest::Exists(path) => (EXISTS, path),
        ZooKeeperRequest::Data(path) => (GET_DATA, path),
        ZooKeeperRequest::Children(path) => (GET_CHILDREN, path),
    };
    let mut out = Vec::with_capacity(path.len() + 17);
    out.extend(xid.to_be_bytes());
    out.extend(operation.to_be_bytes());
    put_bytes(&mut out, path.as_bytes());
    out.push(1);
    framed(&out)
}

/// Reads a frame.
///
/// # Errors
/// The bytes are no frame of ZooKeeper.
pub(super) fn frame(bytes: &[u8]) -> Result<ZooKeeperFrame, String> {
    let mut reader = WireReader(bytes);
    let short = || "a frame of the server is too short".to_owned();
    let xid = reader.int().ok_or_else(short)?;
    let _zxid = reader.long().ok_or_else(short)?;
    let code = reader.int().ok_or_else(short)?;
    Ok(match xid {
        EVENT_XID => {
            let kind = reader.int().ok_or_else(short)?;
            let state = reader.int().ok_or_else(short)?;
            let path = reader.text().ok_or_else(short)?;
            match (kind, state) {
                (NO_NODE_EVENT, EXPIRED) => ZooKeeperFrame::Lost("the session has expired".to_owned()),
                (NO_NODE_EVENT, AUTH_FAILED_STATE) => ZooKeeperFrame::Lost(WRONG_CREDENTIALS.to_owned()),
                (NO_NODE_EVENT, _) => ZooKeeperFrame::Other,
                _ => ZooKeeperFrame::Event { path },
            }
        }
        AUTH_XID if code != 0 => ZooKeeperFrame::Lost(WRONG_CREDENTIALS.to_owned()),
        PING_XID | AUTH_XID => ZooKeeperFrame::Other,
        _ if code == SESSION_EXPIRED => ZooKeeperFrame::Lost("the session has expired".to_owned()),
        _ => ZooKeeperFrame::Reply { xid, code, body: reader.0.to_vec() },
    })
}

/// The names of a reply to [`ZooKeeperRequest::Children`].
///
/// # Errors
/// The body is none, or has more than [`MAX_CHILDREN`] names.
pub(super) fn children(body: &[u8]) -> Result<Vec<String>, String> {
    let mut reader = WireReader(body);
    let fault = || "a list of nodes cannot be read".to_owned();
    let count = reader.int().ok_or_else(fault)?;
    // -1 is the null list.
    let count = usize::try_from(count.max(0)).unwrap_or(0);
    if count > MAX_CHILDREN {
        return Err(format!("a service has {count} nodes, more than {MAX_CHILDREN}"));
    }
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(reader.text().ok_or_else(fault)?);
    }
    Ok(names)
}

/// The bytes of a reply to [`ZooKeeperRequest::Data`], at most [`MAX_VALUE_BYTES`] of them: longer data is no
/// instance, and its beginning gives the reason.
///
/// # Errors
/// The body is none.
pub(super) fn data(body: &[u8]) -> Result<Vec<u8>, String> {
    let data = WireReader(body).bytes().ok_or_else(|| "the data of a node cannot be read".to_owned())?;
    Ok(data[..data.len().min(MAX_VALUE_BYTES)].to_vec())
}

/// The meaning of an error code.
pub(super) fn describe_error_code(code: i32, path: &str) -> String {
    let path = shortened(path);
    match code {
        NO_AUTH => format!("the credentials may not read {path}"),
        NO_NODE => format!("there is no node {path}"),
        TOO_LONG => format!("the reply about {path} has more than {MAX_FRAME_BYTES} bytes"),
        other => format!("ZooKeeper answers code {other} for {path}"),
    }
}

struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn int(&mut self) -> Option<i32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_be_bytes(*bytes))
    }

    fn long(&mut self) -> Option<i64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_be_bytes(*bytes))
    }

    /// Bytes with their length in front; the length -1 stands for none.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?.max(0)).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(length(bytes));
    out.extend(bytes);
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 4);
    put_bytes(&mut out, body);
    out
}

fn length(bytes: &[u8]) -> [u8; 4] {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes()
}

const EVENT_XID: i32 = -1;
const PING_XID: i32 = -2;
const AUTH_XID: i32 = -4;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const PING: i32 = 11;
/// `getChildren2`, which sends the node's status too.
const GET_CHILDREN: i32 = 12;
const AUTH: i32 = 100;
/// The kind of an event that is about the connection.
const NO_NODE_EVENT: i32 = -1;
const EXPIRED: i32 = -112;
const AUTH_FAILED_STATE: i32 = 4;
const SESSION_EXPIRED: i32 = -112;
const NO_AUTH: i32 = -102;
const WRONG_CREDENTIALS: &str = "the server refuses the credentials";
/// The code of a reply about a node that does not exist.
pub(super) const NO_NODE: i32 = -101;
/// Stands for the code of a reply that is longer than [`MAX_FRAME_BYTES`]; servers do not send it.
pub(super) const TOO_LONG: i32 = i32::MIN;
/// Most instances of one service.
pub(super) const MAX_CHILDREN: usize = 100_000;
/// The bytes of a reply before its body.
pub(super) const HEAD_BYTES: usize = 16;
/// The longest frame of a server that is kept: a list of [`MAX_CHILDREN`] names of 36 bytes fits.
pub(super) const MAX_FRAME_BYTES: usize = 8 << 20;
/// The longest frame that is read to its end and dropped. A longer one ends the session.
pub(super) const MAX_DROPPED_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(xid: i32, code: i32, body: &[u8]) -> Vec<u8> {
        [&xid.to_be_bytes()[..], &9_i64.to_be_bytes(), &code.to_be_bytes(), body].concat()
    }

    fn listed(names: &[&str]) -> Vec<u8> {
        let mut out = i32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
        names.iter().for_each(|name| put_bytes(&mut out, name.as_bytes()));
        out
    }

    #[test]
    fn requests_have_the_published_form() {
        let bytes = encode_request(7, &ZooKeeperRequest::Children("/a".to_owned()));
        assert_eq!(bytes, [0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 12, 0, 0, 0, 2, b'/', b'a', 1]);
        assert_eq!(encode_connect(1000).len(), 4 + 45);
        assert_eq!(ping(), [0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11]);
    }

    #[test]
    fn replies_and_events_are_told_apart() {
        assert_eq!(
            frame(&reply(3, -101, b"")),
            Ok(ZooKeeperFrame::Reply { xid: 3, code: -101, body: Vec::new() })
        );
        let event = [&4_i32.to_be_bytes()[..], &3_i32.to_be_bytes(), &listed(&["/a"])[4..]].concat();
        assert_eq!(frame(&reply(-1, 0, &event)), Ok(ZooKeeperFrame::Event { path: "/a".to_owned() }));
        let expired = [&(-1_i32).to_be_bytes()[..], &(-112_i32).to_be_bytes(), &[0; 4]].concat();
        assert!(matches!(frame(&reply(-1, 0, &expired)), Ok(ZooKeeperFrame::Lost(_))));
        assert!(
            matches!(frame(&reply(-4, -115, b"")), Ok(ZooKeeperFrame::Lost(reason)) if reason == WRONG_CREDENTIALS)
        );
        assert_eq!(frame(&reply(-2, 0, b"")), Ok(ZooKeeperFrame::Other));
    }

    #[test]
    fn bodies_are_read() {
        assert_eq!(children(&listed(&["a", "b"])), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(data(&[0, 0, 0, 1, b'x', 9, 9]), Ok(b"x".to_vec()));
        assert_eq!(data(&[255; 4]), Ok(Vec::new()));
        assert_eq!(connected(&encode_connect(1000)[4..]), Err("the server refuses a session".to_owned()));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert!(frame(b"").is_err() && frame(&[0; 15]).is_err());
        assert!(children(&[127, 255, 255, 255]).is_err());
        assert!(children(&[0, 0, 0, 9, 0, 0, 0, 1, b'a']).is_err());
        assert!(data(&[0, 0, 0, 9, 1]).is_err());
        assert!(connected(b"HTTP").is_err());
        let event = [&4_i32.to_be_bytes()[..], &3_i32.to_be_bytes(), &[0, 0, 0, 2, 255, 254]].concat();
        assert!(frame(&reply(-1, 0, &event)).is_err());
    }
}
