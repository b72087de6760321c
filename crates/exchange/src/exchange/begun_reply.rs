//! A reply that a plugin has begun to write and not ended, such as by `ngx.say` in Lua. Later plugins still
//! run and may append to it; the request ends with it before an endpoint is selected. It knows neither
//! languages nor how a reply is sent.

use crate::plugin::reply::{BufferedReply, NO_ANSWER};

/// See the module.
#[derive(Debug, Default)]
pub struct BegunReply(Option<Box<BufferedReply>>);

impl BegunReply {
    /// Whether a plugin has written a part of the reply, so that its status is fixed.
    pub fn is_begun(&self) -> bool {
        self.0.is_some()
    }

    /// The status of the begun reply.
    pub fn status(&self) -> Option<u16> {
        self.0.as_ref().map(|reply| reply.status)
    }

    /// Begins the reply with `part`, or appends the body of `part` to it.
    ///
    /// # Errors
    /// The body would be longer than `limit_bytes`; then nothing is appended.
    pub fn append(&mut self, part: BufferedReply, limit_bytes: usize) -> Result<(), String> {
        let held = self.0.as_ref().map_or(0, |reply| reply.body.len());
        if held + part.body.len() > limit_bytes {
            return Err(format!("more than {limit_bytes} bytes of output"));
        }
        match &mut self.0 {
            Some(reply) => reply.body.to_mut().extend_from_slice(&part.body),
            None => self.0 = Some(Box::new(part)),
        }
        Ok(())
    }

    /// The reply with which the request ends when a plugin replies with `last`: status and fields of the
    /// begun reply, and both bodies. A reply that closes the connection replaces the begun one, and so does
    /// one of a failure (5xx): nothing of the begun reply was sent yet, and a failure must not look like a
    /// success.
    pub fn end_with(&mut self, last: Box<BufferedReply>) -> Box<BufferedReply> {
        match self.0.take() {
            Some(mut begun) if last.status < 500 && last.status != NO_ANSWER => {
                begun.body.to_mut().extend_from_slice(&last.body);
                begun
            }
            _ => last,
        }
    }

    /// Takes the begun reply out.
    pub fn take(&mut self) -> Option<Box<BufferedReply>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_replies_are_appended_with_the_first_status() {
        let part = |status, text: &'static str| BufferedReply::status(status).with_body(text.as_bytes());
        type Written = (u16, &'static str);
        let rows: [(&[Written], Written, Written); 5] = [
            (&[], (403, "no"), (403, "no")),
            (&[(200, "a")], (403, "no"), (200, "ano")),
            (&[(202, "a"), (200, "b")], (401, ""), (202, "ab")),
            (&[(200, "a")], (503, "busy"), (503, "busy")),
            (&[(200, "a")], (444, "no"), (444, "no")),
        ];
        for (parts, last, expected) in rows {
            let mut begun = BegunReply::default();
            for (status, text) in parts {
                begun.append(part(*status, text), 100).unwrap();
            }
            let reply = begun.end_with(Box::new(part(last.0, last.1)));
            assert_eq!((reply.status, &*reply.body), (expected.0, expected.1.as_bytes()), "{parts:?}");
            assert!(!begun.is_begun());
        }
    }

    #[test]
    fn body_beyond_the_limit_is_refused() {
        let part = || BufferedReply::status(200).with_body(&b"12345678"[..]);
        let mut begun = BegunReply::default();
        begun.append(part(), 12).unwrap();
        assert_eq!(begun.append(part(), 12).unwrap_err(), "more than 12 bytes of output");
        assert_eq!(&*begun.take().unwrap().body, b"12345678");
    }
}
