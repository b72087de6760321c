//! The pseudo-field of responses (RFC 9113 section 8.3.2); it does not know regular fields.

use super::HeadReader;
use crate::Field;

impl HeadReader {
    /// Takes one pseudo-field of a response.
    pub(super) fn response_pseudo(&mut self, field: &Field<'_>) -> Result<(), &'static str> {
        if field.name != b":status" {
            return Err("unknown pseudo-field");
        }
        self.once(STATUS)?;
        match field.value {
            // HTTP/2 and HTTP/3 have no 101 (RFC 9113 section 8.6, RFC 9114 section 4.5).
            b"101" => Err("status 101"),
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                let digit = |byte: &u8| u16::from(byte - b'0');
                self.head.status = 100 * digit(a) + 10 * digit(b) + digit(c);
                Ok(())
            }
            _ => Err("malformed :status"),
        }
    }

    /// Checks that the status is there.
    pub(super) fn complete_response(&self) -> Result<(), &'static str> {
        if self.pseudo & STATUS == 0 { Err("missing :status") } else { Ok(()) }
    }
}

const STATUS: u8 = 32;
