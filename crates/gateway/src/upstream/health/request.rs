//! The request of HTTP checks: written once for each node, so that a check only sends it. It reads no answer.

use model::resource::ActiveChecks;

/// An HTTP request without its Host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    /// The request line and the user's fields.
    head: Box<str>,
    /// The user's fields name the host.
    has_host: bool,
    body: Box<str>,
}

impl HttpRequest {
    /// The request that `active` describes. Its texts were checked by the model: no control bytes are in
    /// them.
    pub(crate) fn new(active: &ActiveChecks) -> HttpRequest {
        let close = if active.reuse_connection { "" } else { "Connection: close\r\n" };
        let mut head = format!("{} {} HTTP/1.1\r\n{close}", active.http_method, active.http_path);
        let lines = active.req_headers.iter().chain(&active.http_request_headers);
        let (mut has_host, mut has_agent) = (false, false);
        for line in lines {
            let name = line.split(':').next().unwrap_or_default().trim();
            has_host |= name.eq_ignore_ascii_case("host");
            has_agent |= name.eq_ignore_ascii_case("user-agent");
            head.push_str(line);
            head.push_str("\r\n");
        }
        if !has_agent {
            head.push_str("User-Agent: weir-health-check\r\n");
        }
        let body = &active.http_req_body;
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        HttpRequest { head: head.into(), has_host, body: body.clone() }
    }

    /// Its bytes for a node that is called `host`.
    pub(super) fn bytes(&self, host: &str) -> Box<[u8]> {
        let field = if self.has_host { String::new() } else { format!("Host: {host}\r\n") };
        format!("{}{field}\r\n{}", self.head, self.body).into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_one_host_and_the_users_fields() {
        let check = |active: &str, expected: &str| {
            let active: ActiveChecks = serde_json::from_str(active).unwrap();
            let bytes = HttpRequest::new(&active).bytes("a.test");
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        };
        check(
            "{}",
            "GET / HTTP/1.1\r\nConnection: close\r\nUser-Agent: weir-health-check\r\nHost: a.test\r\n\r\n",
        );
        check(
            r#"{"http_method":"POST","http_path":"/up?a","http_req_body":"ab","req_headers":["X: 1","user-agent: me"]}"#,
            "POST /up?a HTTP/1.1\r\nConnection: close\r\nX: 1\r\nuser-agent: me\r\nContent-Length: 2\r\n\
             Host: a.test\r\n\r\nab",
        );
        check(
            r#"{"reuse_connection":true}"#,
            "GET / HTTP/1.1\r\nUser-Agent: weir-health-check\r\nHost: a.test\r\n\r\n",
        );
        check(
            r#"{"req_headers":["HOST: b.test"]}"#,
            "GET / HTTP/1.1\r\nConnection: close\r\nHOST: b.test\r\nUser-Agent: weir-health-check\r\n\r\n",
        );
    }
}
