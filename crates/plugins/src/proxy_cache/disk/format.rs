//! The form of a file: a preamble of fixed length, the head with room to grow, the body. A file that has
//! another length, or a head without its checksum, is not used.

use message::Headers;
use stdx::hash::{crc32, crc32_continue};

use super::super::entry::EntryTimes;
use super::super::key::append_length_prefixed;

/// The last digit is the version of the form: files of another one are removed.
const MAGIC: [u8; 8] = *b"WEIRPC01";
/// Bytes in front of the head.
pub(super) const PREAMBLE_BYTES: usize = 32;
/// The head takes a multiple of this, so that a newer one of a revalidated response fits in its place.
const HEAD_STEP_BYTES: usize = 512;
/// A head longer than any that a response may have.
pub(super) const HEAD_BYTES_MAX: usize = 4 << 20;

/// The facts of an entry besides its body.
#[derive(Clone, Debug)]
pub(super) struct FileHead {
    pub(super) key: Vec<u8>,
    pub(super) fields: Vec<Box<str>>,
    pub(super) signature: Vec<u8>,
    pub(super) status: u16,
    pub(super) times: EntryTimes,
    pub(super) headers: Headers,
}

/// The numbers of a preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) head_bytes: u32,
    /// Where the body begins.
    pub(super) body_offset: u32,
    pub(super) body_bytes: u64,
    checksum: u32,
}

impl Preamble {
    /// The preamble for a head, with its body at `body_offset`; without one, the head gets some room to grow.
    pub(super) fn new(head: &[u8], body_offset: Option<u32>, body_bytes: u64) -> Preamble {
        let room = (PREAMBLE_BYTES + head.len() + HEAD_STEP_BYTES / 2).next_multiple_of(HEAD_STEP_BYTES);
        let (head_bytes, body_offset) = (head.len() as u32, body_offset.unwrap_or(room as u32));
        let checksum = checksum(head, body_offset, body_bytes);
        Preamble { head_bytes, body_offset, body_bytes, checksum }
    }

    pub(super) fn bytes(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The preamble in these bytes; none if they are not one of this version.
    pub(super) fn read(bytes: &[u8; PREAMBLE_BYTES]) -> Option<Preamble> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let preamble = Preamble {
            head_bytes: u32::from_le_bytes(take(&mut rest)?),
            body_offset: u32::from_le_bytes(take(&mut rest)?),
            body_bytes: u64::from_le_bytes(take(&mut rest)?),
            checksum: u32::from_le_bytes(take(&mut rest)?),
        };
        let head_end = PREAMBLE_BYTES as u64 + u64::from(preamble.head_bytes);
        let fits =
            head_end <= u64::from(preamble.body_offset) && preamble.head_bytes as usize <= HEAD_BYTES_MAX;
        fits.then_some(preamble)
    }

    /// Whether `head` is the one that it was written for.
    pub(super) fn vouches_for(&self, head: &[u8]) -> bool {
        self.checksum == checksum(head, self.body_offset, self.body_bytes)
    }

    /// Whether a head fits in front of the body.
    pub(super) fn has_room(body_offset: u64, head: &[u8]) -> bool {
        (PREAMBLE_BYTES + head.len()) as u64 <= body_offset
    }
}

fn checksum(head: &[u8], body_offset: u32, body_bytes: u64) -> u32 {
    let numbers = [&body_offset.to_le_bytes()[..], &body_bytes.to_le_bytes()].concat();
    crc32_continue(crc32(head), &numbers)
}

impl FileHead {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        let EntryTimes { stored_s, initial_age_s, fresh_s, while_revalidate_s, if_error_s, must_revalidate } =
            self.times;
        for number in [stored_s, initial_age_s, fresh_s, while_revalidate_s, if_error_s] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(u8::from(must_revalidate));
        out.extend_from_slice(&self.status.to_be_bytes());
        let mut text = |bytes: &[u8]| append_length_prefixed(&mut out, |out| out.extend_from_slice(bytes));
        text(&self.key);
        text(&self.signature);
        text(self.fields.join(",").as_bytes());
        for field in &self.headers {
            text(field.name);
            text(field.value);
        }
        out
    }

    /// The head in these bytes; none if they are none.
    pub(super) fn read(mut bytes: &[u8]) -> Option<FileHead> {
        let rest = &mut bytes;
        let number = |rest: &mut &[u8]| take(rest).map(u64::from_be_bytes);
        let times = EntryTimes {
            stored_s: number(rest)?,
            initial_age_s: number(rest)?,
            fresh_s: number(rest)?,
            while_revalidate_s: number(rest)?,
            if_error_s: number(rest)?,
            must_revalidate: take::<1>(rest)? == [1],
        };
        let status = u16::from_be_bytes(take(rest)?);
        let key = text(rest)?.to_vec();
        let signature = text(rest)?.to_vec();
        let names = std::str::from_utf8(text(rest)?).ok()?;
        let fields = names.split(',').filter(|name| !name.is_empty()).map(Into::into).collect();
        let mut headers = Headers::new();
        while !rest.is_empty() {
            let name = std::str::from_utf8(text(rest)?).ok()?;
            // Checked again, because a file may have been written by another hand.
            headers.append(name, text(rest)?).ok()?;
        }
        Some(FileHead { key, fields, signature, status, times, headers })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*bytes)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(take(rest)?) as usize;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> FileHead {
        let mut headers = Headers::new();
        headers.append("ETag", b"\"a\"").unwrap();
        headers.append("X-Empty", b"").unwrap();
        FileHead {
            key: b"key".to_vec(),
            fields: vec!["accept".into(), "b".into()],
            signature: b"s\0".to_vec(),
            status: 404,
            times: EntryTimes {
                stored_s: 1,
                initial_age_s: 2,
                fresh_s: 3,
                while_revalidate_s: 4,
                if_error_s: 5,
                must_revalidate: true,
            },
            headers,
        }
    }

    #[test]
    fn head_is_read_as_written() {
        let bytes = head().bytes();
        let read = FileHead::read(&bytes).unwrap();
        assert_eq!(read.bytes(), bytes);
        assert_eq!((read.status, read.fields.len(), read.times), (404, 2, head().times));
        for length in 0..bytes.len() {
            // Only a cut between two fields leaves a head, which the checksum tells from the whole one.
            let cut = FileHead::read(&bytes[..length]);
            assert!(cut.is_none_or(|cut| cut.headers.len() < 2), "{length}");
        }
    }

    #[test]
    fn damaged_preamble_vouches_for_nothing() {
        let head = head().bytes();
        let preamble = Preamble::new(&head, None, 77);
        assert_eq!(Preamble::read(&preamble.bytes()), Some(preamble));
        assert!(preamble.vouches_for(&head) && Preamble::has_room(preamble.body_offset.into(), &head));
        for index in 0..28 {
            let mut bytes = preamble.bytes();
            bytes[index] ^= 1;
            let read = Preamble::read(&bytes);
            assert!(
                read.is_none_or(|read| read.head_bytes != preamble.head_bytes || !read.vouches_for(&head)),
                "{index}"
            );
        }
        let mut other = head.clone();
        other[3] ^= 1;
        assert!(!preamble.vouches_for(&other));
    }
}
