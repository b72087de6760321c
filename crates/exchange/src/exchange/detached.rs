//! Makes an exchange go on where another one is, without its client: for a request that is sent to the
//! upstream while the client has its response already. It sends nothing.

use super::Exchange;
use super::body::ReadBody;

impl Exchange {
    /// Makes this new exchange one of the same request as `other`: its head, target, client, variables and
    /// the results of matching, authentication and filters, as they are now. The states of plugins stay with
    /// `other`, because they may hold places and answers of its client. False, with this exchange unchanged,
    /// if the request has a body that was not read whole.
    pub fn continue_from(&mut self, other: &Exchange) -> bool {
        let body = match other.body.whole() {
            Some(body) => Some(body.to_vec()),
            None if other.announces_body() || !other.body.is_unread() => return false,
            None => None,
        };
        self.connection = other.connection.clone();
        self.request.clone_from(&other.request);
        self.params.clone_from(&other.params);
        self.request_id = other.request_id.clone();
        self.traces = other.traces;
        self.target = other.target.clone();
        self.client = other.client;
        self.inner_client = other.inner_client;
        self.decision = other.decision.clone();
        self.decision.plugin_reply = None;
        self.decision.cache_status = None;
        self.own_variables = other.own_variables.clone();
        self.states.copy_verdicts(&other.states);
        self.instance.set(other.instance.get());
        self.times.started_ns = self.local.clock_ns();
        if let Some(body) = body {
            let mut read = ReadBody::default();
            read.keep_whole(body, None);
            self.body = read;
        }
        true
    }

    /// Whether fields of the request say that it has a body. GET and HEAD of HTTP/2 and HTTP/3 may have one
    /// without a field; its content means nothing (RFC 9110 section 9.3.1).
    fn announces_body(&self) -> bool {
        let headers = &self.request.headers;
        headers.contains("Transfer-Encoding")
            || headers.get("Content-Length").is_some_and(|length| length != b"0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn detached_request_is_the_same_one() {
        let mut scene = Scene::new();
        let mut first = scene.exchange(b"GET /a?b=1 HTTP/1.1\r\nHost: h.test\r\nX-Own: 1\r\n\r\n");
        first.set_forward_path(b"/inner").unwrap();
        first.set_forward_host("inner.test").unwrap();
        first.states.keep_verdict(3, false);
        first.instance.set(3);
        *first.state::<u32>() = 5;
        let mut second = Exchange::new(first.local().clone());
        assert!(second.continue_from(&first));
        assert_eq!((second.forward_path(), second.forward_query()), (&b"/inner"[..], Some(&b"b=1"[..])));
        assert_eq!(second.target.forward_host, first.target.forward_host);
        assert_eq!(second.request.headers.get("X-Own"), Some(&b"1"[..]));
        assert_eq!(second.client_address(), first.client_address());
        assert_eq!((second.states.verdict(3), second.peek_state::<u32>()), (Some(false), None));
    }

    #[test]
    fn request_with_unread_body_is_not_detached() {
        let mut scene = Scene::new();
        let mut check = |fields: &str, body: Option<&[u8]>, expected: bool| {
            let head = format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let mut first = scene.exchange(head.as_bytes());
            first.body.reset();
            if let Some(body) = body {
                first.body.keep_whole(body.to_vec(), None);
            }
            let mut second = Exchange::new(first.local().clone());
            assert_eq!(second.continue_from(&first), expected, "{fields} {body:?}");
            assert_eq!(second.body.whole(), body.filter(|_| expected), "{fields} {body:?}");
        };
        check("", None, true);
        check("Content-Length: 0\r\n", None, true);
        check("Content-Length: 3\r\n", None, false);
        check("Content-Length: 3\r\n", Some(b"abc"), true);
        check("Transfer-Encoding: chunked\r\n", None, false);
    }
}
