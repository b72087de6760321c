//! Priorities of responses (RFC 9218); it does not know how streams are scheduled.

use message::syntax;

/// The priority of a stream as the client asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Priority {
    /// 0 (first) to 7 (last).
    pub urgency: u8,
    /// Whether parts of the response are useful before it is complete, so that it may share capacity with
    /// others.
    pub is_incremental: bool,
}

impl Default for Priority {
    /// The priority of a stream without a signal: urgency 3. It shares capacity, because a client that does
    /// not know priorities (gRPC above all) would otherwise have its streams served one after the other.
    fn default() -> Self {
        Self { urgency: DEFAULT_URGENCY, is_incremental: true }
    }
}

impl Priority {
    /// Reads the value of a `priority` field or of a PRIORITY_UPDATE frame: a dictionary of structured
    /// fields, of which `u` and `i` count. Parts that are malformed or out of range have no effect (RFC 9218
    /// section 4).
    pub fn parse(text: &[u8]) -> Self {
        // A signal without `i` means that the response is not incremental.
        let mut priority = Self { urgency: DEFAULT_URGENCY, is_incremental: false };
        for member in syntax::list(text) {
            // Parameters of a member have no meaning.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default();
            match syntax::trim(member) {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

const DEFAULT_URGENCY: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        for (text, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=5, i", 5, true),
            ("i=?1,u=7", 7, true),
            ("i, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=1;a=b, x=\"y\"", 1, false),
            ("u=1, u=2", 2, false),
            ("u = 1", 3, false),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, is_incremental }, "{text}");
        }
        assert_eq!(Priority::default(), Priority { urgency: 3, is_incremental: true });
    }
}
