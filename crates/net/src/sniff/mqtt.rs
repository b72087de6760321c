//! The CONNECT of MQTT 3.1, 3.1.1 and 5 (OASIS MQTT 5.0 section 3.1) as far as the client id, read from bytes
//! that are not taken. What follows the client id, such as a will, is the broker's to judge.

use super::Look;
use crate::byte_cursor::ByteCursor;

/// Most bytes of a CONNECT up to the end of its client id. Ids have commonly less than 64 bytes, and
/// properties are few.
pub const MQTT_CONNECT_MAX_BYTES: usize = 32 * 1_024;

/// The packet type of CONNECT with the flags that it must have.
const CONNECT: u8 = 0x10;
/// Most bytes of a variable byte integer (section 1.5.5).
const VARIABLE_MAX_BYTES: usize = 4;
/// The protocol level from which on there are properties.
const LEVEL_WITH_PROPERTIES: u8 = 5;

/// The beginning of a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttConnect {
    /// `MQTT`; `MQIsdp` of version 3.1.
    pub protocol_name: Box<str>,
    /// 3 of version 3.1, 4 of 3.1.1, 5 of 5.
    pub protocol_level: u8,
    /// The client id; empty if the broker has to make one.
    pub client_id: Box<str>,
}

/// The reason for which bytes are no CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MqttFault {
    /// The first packet is of another type, or has flags.
    #[error("the first packet is no CONNECT: its type and flags are {0}")]
    OtherPacket(u8),
    /// A length takes more than four bytes.
    #[error("a length of the CONNECT is malformed")]
    BadLength,
    /// A field is longer than the packet.
    #[error("the CONNECT ends inside a field")]
    Short,
    /// A text is not UTF-8, or has a NUL.
    #[error("a text of the CONNECT is malformed")]
    BadText,
    /// The client id does not end within [`MQTT_CONNECT_MAX_BYTES`].
    #[error("the CONNECT is too long")]
    TooLong,
}

/// A stop of the reader: a fault, or the end of the bytes that are there.
enum MqttReadStop {
    More,
    Fault(MqttFault),
}

/// The CONNECT that `bytes` begin with, once its client id is there. Never [`Look::No`]: what is none has a
/// fault.
///
/// # Errors
/// If no further bytes make it one.
pub fn mqtt_connect(bytes: &[u8]) -> Result<Look<MqttConnect>, MqttFault> {
    let bytes = &bytes[..bytes.len().min(MQTT_CONNECT_MAX_BYTES)];
    match read(bytes) {
        Ok(connect) => Ok(Look::Found(connect)),
        Err(MqttReadStop::More) if bytes.len() == MQTT_CONNECT_MAX_BYTES => Err(MqttFault::TooLong),
        Err(MqttReadStop::More) => Ok(Look::More),
        Err(MqttReadStop::Fault(fault)) => Err(fault),
    }
}

fn read(bytes: &[u8]) -> Result<MqttConnect, MqttReadStop> {
    let mut cursor = ByteCursor(bytes);
    let kind = cursor.byte().ok_or(MqttReadStop::More)?;
    if kind != CONNECT {
        return Err(MqttReadStop::Fault(MqttFault::OtherPacket(kind)));
    }
    let left = variable(|| cursor.byte().ok_or(MqttReadStop::More))?;
    let mut packet = Packet { cursor, left };
    let protocol_name = packet.text()?;
    let protocol_level = packet.byte()?;
    // Flags and keep-alive.
    packet.take(3)?;
    if protocol_level == LEVEL_WITH_PROPERTIES {
        let length = variable(|| packet.byte())?;
        packet.take(length)?;
    }
    let client_id = packet.text()?;
    Ok(MqttConnect { protocol_name, protocol_level, client_id })
}

fn variable(mut next: impl FnMut() -> Result<u8, MqttReadStop>) -> Result<usize, MqttReadStop> {
    let mut value = 0;
    for at in 0..VARIABLE_MAX_BYTES {
        let byte = next()?;
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(MqttReadStop::Fault(MqttFault::BadLength))
}

/// The bytes that are there, and how many of the packet were not read yet. A field over the packet's length
/// is a fault before its bytes are there.
struct Packet<'b> {
    cursor: ByteCursor<'b>,
    left: usize,
}

impl<'b> Packet<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], MqttReadStop> {
        self.left = self.left.checked_sub(count).ok_or(MqttReadStop::Fault(MqttFault::Short))?;
        self.cursor.take(count).ok_or(MqttReadStop::More)
    }

    fn byte(&mut self) -> Result<u8, MqttReadStop> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A text with a length of two bytes in front.
    fn text(&mut self) -> Result<Box<str>, MqttReadStop> {
        let length = self.take(2)?;
        let text = self.take(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
        match std::str::from_utf8(text) {
            Ok(text) if !text.contains('\0') => Ok(text.into()),
            _ => Err(MqttReadStop::Fault(MqttFault::BadText)),
        }
    }
}

#[cfg(test)]
mod tests;
