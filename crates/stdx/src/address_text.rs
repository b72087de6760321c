//! An IP address as text, written without an allocation.

use std::net::IpAddr;

/// The text of an IP address, in a buffer of its own.
pub struct AddressText {
    bytes: [u8; ADDRESS_TEXT_MAX_BYTES],
    length: usize,
}

/// Bytes of the longest text of an IPv6 address with an embedded IPv4 one.
const ADDRESS_TEXT_MAX_BYTES: usize = 48;

impl Default for AddressText {
    fn default() -> Self {
        AddressText { bytes: [0; ADDRESS_TEXT_MAX_BYTES], length: 0 }
    }
}

impl AddressText {
    /// The text of `address`.
    pub fn write(&mut self, address: IpAddr) -> &[u8] {
        self.length = 0;
        match address {
            IpAddr::V4(address) => {
                for octet in address.octets() {
                    self.push_octet(octet);
                }
                self.length -= b".".len();
            }
            IpAddr::V6(address) => {
                use std::fmt::Write;
                write!(self, "{address}").expect("an IPv6 address fits");
            }
        }
        &self.bytes[..self.length]
    }

    /// Appends an octet in decimal and a dot. Written by hand, because a formatter costs more and this runs
    /// for every request.
    fn push_octet(&mut self, octet: u8) {
        let room = &mut self.bytes[self.length..self.length + b"255.".len()];
        let (hundreds, tens, ones) = (octet / 100, octet / 10 % 10, octet % 10);
        let mut length = 0;
        let mut put = |byte: u8| {
            room[length] = byte;
            length += 1;
        };
        if hundreds > 0 {
            put(b'0' + hundreds);
        }
        if octet >= 10 {
            put(b'0' + tens);
        }
        put(b'0' + ones);
        put(b'.');
        self.length += length;
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
    }
}

impl std::fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.length + text.len() > self.bytes.len() {
            return Err(std::fmt::Error);
        }
        self.push(text.as_bytes());
        Ok(())
    }
}
