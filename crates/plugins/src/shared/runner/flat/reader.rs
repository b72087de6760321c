//! Reads tables of FlatBuffers out of bytes of any origin: each position is checked when it is followed, and
//! nothing is copied. A table refers to its fields by offsets in its vtable; offsets of texts, lists and
//! tables lead forward from their place.

/// Bytes that are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedMessage(pub(crate) &'static str);

/// A table in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatTable<'a> {
    buffer: &'a [u8],
    at: usize,
    /// The offsets of the fields, 2 bytes each.
    offsets: &'a [u8],
    /// The bytes of the table itself.
    size: usize,
}

/// A list of tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatTables<'a> {
    buffer: &'a [u8],
    /// The position of the first entry.
    at: usize,
    count: usize,
}

/// Bytes of an offset, a length or a number.
const WORD: usize = 4;
/// Bytes of the two sizes at the begin of a vtable.
const VTABLE_HEAD: usize = 4;

fn array<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N], MalformedMessage> {
    let bytes = at.checked_add(N).and_then(|end| buffer.get(at..end));
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(MalformedMessage("a position lies outside of the message"))
}

fn u16_at(buffer: &[u8], at: usize) -> Result<u16, MalformedMessage> {
    array(buffer, at).map(u16::from_le_bytes)
}

fn u32_at(buffer: &[u8], at: usize) -> Result<u32, MalformedMessage> {
    array(buffer, at).map(u32::from_le_bytes)
}

/// The position that the offset at `at` leads to.
fn follow(buffer: &[u8], at: usize) -> Result<usize, MalformedMessage> {
    let offset = usize::try_from(u32_at(buffer, at)?).unwrap_or(usize::MAX);
    at.checked_add(offset)
        .filter(|to| offset > 0 && *to < buffer.len())
        .ok_or(MalformedMessage("an offset leads out of the message"))
}

/// The position behind the length at `at`, and the length.
fn counted(buffer: &[u8], at: usize, unit: usize) -> Result<(usize, usize), MalformedMessage> {
    let count = usize::try_from(u32_at(buffer, at)?).unwrap_or(usize::MAX);
    let start = at + WORD;
    let end = count.checked_mul(unit).and_then(|bytes| start.checked_add(bytes));
    match end {
        Some(end) if end <= buffer.len() => Ok((start, count)),
        _ => Err(MalformedMessage("a length is more than the message has")),
    }
}

impl<'a> FlatTable<'a> {
    /// The table that a message begins with.
    pub(crate) fn root(buffer: &'a [u8]) -> Result<FlatTable<'a>, MalformedMessage> {
        FlatTable::new(buffer, follow(buffer, 0)?)
    }

    fn new(buffer: &'a [u8], at: usize) -> Result<FlatTable<'a>, MalformedMessage> {
        let back = i64::from(i32::from_le_bytes(array(buffer, at)?));
        let vtable = i64::try_from(at).ok().and_then(|at| usize::try_from(at - back).ok());
        let vtable = vtable.ok_or(MalformedMessage("a vtable lies outside of the message"))?;
        let vtable_size = usize::from(u16_at(buffer, vtable)?);
        let size = usize::from(u16_at(buffer, vtable + 2)?);
        let offsets = buffer.get(vtable + VTABLE_HEAD..vtable + vtable_size);
        let offsets = offsets.ok_or(MalformedMessage("a vtable lies outside of the message"))?;
        let is_inside = size >= WORD && at.checked_add(size).is_some_and(|end| end <= buffer.len());
        match is_inside && vtable_size.is_multiple_of(2) {
            true => Ok(FlatTable { buffer, at, offsets, size }),
            false => Err(MalformedMessage("a table lies outside of the message")),
        }
    }

    /// The position of the field with this number and so many bytes; none if it is not set.
    fn place(&self, field: usize, bytes: usize) -> Result<Option<usize>, MalformedMessage> {
        let Ok(offset) = u16_at(self.offsets, field * 2) else { return Ok(None) };
        let offset = usize::from(offset);
        match offset {
            0 => Ok(None),
            _ if offset >= WORD && offset + bytes <= self.size => Ok(Some(self.at + offset)),
            _ => Err(MalformedMessage("a field lies outside of its table")),
        }
    }

    /// A number of one byte; 0 if it is not set.
    pub(crate) fn u8(&self, field: usize) -> Result<u8, MalformedMessage> {
        let place = self.place(field, 1)?;
        place.map_or(Ok(0), |at| array(self.buffer, at).map(u8::from_le_bytes))
    }

    /// A number of two bytes; 0 if it is not set.
    pub(crate) fn u16(&self, field: usize) -> Result<u16, MalformedMessage> {
        self.place(field, 2)?.map_or(Ok(0), |at| u16_at(self.buffer, at))
    }

    /// A number of four bytes; 0 if it is not set.
    pub(crate) fn u32(&self, field: usize) -> Result<u32, MalformedMessage> {
        self.place(field, WORD)?.map_or(Ok(0), |at| u32_at(self.buffer, at))
    }

    /// A text or a list of bytes.
    pub(crate) fn bytes(&self, field: usize) -> Result<Option<&'a [u8]>, MalformedMessage> {
        let Some(at) = self.place(field, WORD)? else { return Ok(None) };
        let (start, count) = counted(self.buffer, follow(self.buffer, at)?, 1)?;
        Ok(Some(&self.buffer[start..start + count]))
    }

    /// A table inside this one.
    pub(crate) fn table(&self, field: usize) -> Result<Option<FlatTable<'a>>, MalformedMessage> {
        let Some(at) = self.place(field, WORD)? else { return Ok(None) };
        FlatTable::new(self.buffer, follow(self.buffer, at)?).map(Some)
    }

    /// A list of tables; an empty one if it is not set.
    pub(crate) fn tables(&self, field: usize) -> Result<FlatTables<'a>, MalformedMessage> {
        let Some(place) = self.place(field, WORD)? else {
            return Ok(FlatTables { buffer: self.buffer, at: 0, count: 0 });
        };
        let (at, count) = counted(self.buffer, follow(self.buffer, place)?, WORD)?;
        Ok(FlatTables { buffer: self.buffer, at, count })
    }
}

impl<'a> FlatTables<'a> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Each table.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<FlatTable<'a>, MalformedMessage>> + use<'a> {
        let FlatTables { buffer, at, count } = *self;
        (0..count).map(move |index| FlatTable::new(buffer, follow(buffer, at + index * WORD)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlatWriter;
    use super::*;

    /// A message with a number of each size, a text, a table and a list of tables.
    fn message() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = FlatWriter::new(&mut bytes);
        let root = writer.root(&[true; 6]);
        writer.u8(root.slot(0), 7);
        writer.u16(root.slot(1), 700);
        writer.u32(root.slot(2), 70_000);
        writer.text(root.slot(3), b"text");
        let inner = writer.table(root.slot(4), &[false, true]);
        writer.u32(inner.slot(1), 5);
        let entries = writer.tables(root.slot(5), 2);
        for index in 0..2 {
            let entry = writer.table(entries.slot(index), &[true]);
            writer.text(entry.slot(0), &[b'a'; 3][..index + 1]);
        }
        bytes
    }

    /// The numbers, the text, the sum of the inner numbers, and the texts of the list.
    type Content = ((u8, u16, u32), Vec<u8>, u32, Vec<Vec<u8>>);

    fn read(bytes: &[u8]) -> Result<Content, MalformedMessage> {
        let root = FlatTable::root(bytes)?;
        let inner = root.table(4)?.ok_or(MalformedMessage("no table"))?;
        let texts =
            root.tables(5)?.iter().take(100).map(|entry| Ok(entry?.bytes(0)?.unwrap_or_default().to_vec()));
        let texts = texts.collect::<Result<_, MalformedMessage>>()?;
        let text = root.bytes(3)?.unwrap_or_default().to_vec();
        Ok(((root.u8(0)?, root.u16(1)?, root.u32(2)?), text, inner.u32(0)? + inner.u32(1)?, texts))
    }

    #[test]
    fn written_message_is_read_again() {
        let expected = ((7, 700, 70_000), b"text".to_vec(), 5, vec![b"a".to_vec(), b"aa".to_vec()]);
        assert_eq!(read(&message()), Ok(expected));
        let root = message();
        let root = FlatTable::root(&root).unwrap();
        assert_eq!(
            (root.u32(9), root.bytes(9), root.tables(9).map(|list| list.len())),
            (Ok(0), Ok(None), Ok(0))
        );
    }

    #[test]
    fn hostile_bytes_are_refused_without_panic() {
        let good = message();
        for end in 0..good.len() {
            // Bytes behind the last one that is read may be missing.
            let _ = read(&good[..end]);
        }
        for at in 0..good.len() {
            for value in [0, 1, 3, 0x7f, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                let _ = read(&bytes);
            }
        }
        for seed in 0..2_000_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = good.clone();
            for _ in 0..4 {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            let _ = read(&bytes);
        }
        assert_eq!(read(b""), Err(MalformedMessage("a position lies outside of the message")));
        assert_eq!(read(&[0xff; 16]), Err(MalformedMessage("an offset leads out of the message")));
    }
}
