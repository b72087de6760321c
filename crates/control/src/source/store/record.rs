//! The layout of one stored object in bytes. It does not know the meaning of the text.

use stdx::hash::crc32;
use thiserror::Error;

/// One object in the store: the text as written and the metadata that etcd has too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The JSON as stored, byte for byte.
    pub text: String,
    /// Revision of the write that created the object.
    pub created_index: u64,
    /// Revision of the last write.
    pub modified_index: u64,
    /// The time when the object expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

/// The reasons why bytes in the store are not a record.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// There are fewer bytes than the fixed part has.
    #[error("{0} bytes are fewer than a record's fixed part")]
    Short(usize),
    /// The layout is not known to this version.
    #[error("record layout {0} is not known to this version")]
    Layout(u8),
    /// The text is not UTF-8.
    #[error("the text is not UTF-8")]
    Text,
    /// The bytes differ from the written ones.
    #[error("its checksum does not fit, so its bytes are damaged")]
    Checksum,
}

impl StoredRecord {
    /// The bytes for the store: layout byte, three little-endian numbers, the text, the CRC-32 of all of it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.text.len() + CHECKSUM_BYTES);
        bytes.push(LAYOUT);
        bytes.extend_from_slice(&self.created_index.to_le_bytes());
        bytes.extend_from_slice(&self.modified_index.to_le_bytes());
        bytes.extend_from_slice(&self.expires_at_ms.unwrap_or(NEVER).to_le_bytes());
        bytes.extend_from_slice(self.text.as_bytes());
        let checksum = crc32(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what `encode` wrote. Errors: see [`RecordError`].
    pub fn decode(bytes: &[u8]) -> Result<StoredRecord, RecordError> {
        let bytes = match bytes.first() {
            Some(&LAYOUT) => {
                let (content, checksum) =
                    bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(RecordError::Short(bytes.len()))?;
                if crc32(content) != u32::from_le_bytes(*checksum) {
                    return Err(RecordError::Checksum);
                }
                content
            }
            Some(&LAYOUT_WITHOUT_CHECKSUM) | None => bytes,
            Some(&other) => return Err(RecordError::Layout(other)),
        };
        let (fixed, text) = bytes.split_at_checked(FIXED_BYTES).ok_or(RecordError::Short(bytes.len()))?;
        let expires_at_ms = number(fixed, 17);
        Ok(StoredRecord {
            text: std::str::from_utf8(text).map_err(|_| RecordError::Text)?.to_owned(),
            created_index: number(fixed, 1),
            modified_index: number(fixed, 9),
            expires_at_ms: (expires_at_ms != NEVER).then_some(expires_at_ms),
        })
    }
}

fn number(fixed: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(fixed[at..at + 8].try_into().expect("the fixed part holds three numbers of 8 bytes"))
}

/// The layout for writing.
const LAYOUT: u8 = 2;
/// The layout of stores of format 1.
const LAYOUT_WITHOUT_CHECKSUM: u8 = 1;
/// Length of the CRC-32 at the end of a record.
const CHECKSUM_BYTES: usize = 4;
/// Length of the layout byte and three numbers.
const FIXED_BYTES: usize = 1 + 3 * 8;
/// The expiry of objects that do not expire; no clock reaches it.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decode_reads_what_encode_wrote(text in ".*", created in 0u64.., modified in 0u64.., expiry in proptest::option::of(0u64..NEVER)) {
            let record = StoredRecord { text, created_index: created, modified_index: modified, expires_at_ms: expiry };
            prop_assert_eq!(StoredRecord::decode(&record.encode()), Ok(record));
        }

        #[test]
        fn decode_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = StoredRecord::decode(&bytes);
        }
    }

    #[test]
    fn faults_are_named() {
        for layout in [LAYOUT, LAYOUT_WITHOUT_CHECKSUM] {
            assert_eq!(StoredRecord::decode(&[layout; 3]), Err(RecordError::Short(3)));
        }
        assert_eq!(StoredRecord::decode(&[]), Err(RecordError::Short(0)));
        assert_eq!(StoredRecord::decode(&[9; FIXED_BYTES]), Err(RecordError::Layout(9)));
        let mut bytes = vec![LAYOUT_WITHOUT_CHECKSUM; FIXED_BYTES];
        bytes.push(0xff);
        assert_eq!(StoredRecord::decode(&bytes), Err(RecordError::Text));
    }

    fn record() -> StoredRecord {
        StoredRecord {
            text: "{\"uri\":\"/\"}".to_owned(),
            created_index: 3,
            modified_index: 9,
            expires_at_ms: None,
        }
    }

    #[test]
    fn any_changed_byte_is_found() {
        let bytes = record().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(StoredRecord::decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn record_without_checksum_is_read() {
        let mut bytes = record().encode();
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        bytes[0] = LAYOUT_WITHOUT_CHECKSUM;
        assert_eq!(StoredRecord::decode(&bytes), Ok(record()));
    }
}
