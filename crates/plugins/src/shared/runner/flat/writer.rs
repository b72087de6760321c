//! Writes tables of FlatBuffers front to back: a table first, then what its fields refer to, because offsets
//! lead forward. Numbers take a place of four bytes each, so that every place is aligned. It knows no
//! message.

/// A message that is being written behind what a buffer holds already.
pub(crate) struct FlatWriter<'a> {
    bytes: &'a mut Vec<u8>,
    /// The position in `bytes` where the message begins; alignment counts from here.
    start: usize,
    /// The vtables so far, which tables of the same fields share.
    vtables: Vec<(Box<[bool]>, usize)>,
}

/// The places of a table or a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    first: usize,
    /// Which fields of a table have a place, by their bits; all places of a list are there.
    present: u16,
    is_list: bool,
}

/// Bytes of a place.
const WORD: usize = 4;

impl Slots {
    /// The place of the field or entry with this number, which was announced.
    pub(crate) fn slot(&self, index: usize) -> usize {
        if self.is_list {
            return self.first + index * WORD;
        }
        debug_assert!(self.present & (1 << index) != 0, "the field {index} was announced");
        let before = self.present & ((1 << index) - 1);
        self.first + before.count_ones() as usize * WORD
    }
}

impl<'a> FlatWriter<'a> {
    /// Writes behind what `bytes` holds.
    pub(crate) fn new(bytes: &'a mut Vec<u8>) -> FlatWriter<'a> {
        let start = bytes.len();
        FlatWriter { bytes, start, vtables: Vec::new() }
    }

    /// Begins the table of the message, with the fields that `present` says.
    pub(crate) fn root(&mut self, present: &[bool]) -> Slots {
        let slot = self.bytes.len();
        self.bytes.extend_from_slice(&[0; WORD]);
        self.table(slot, present)
    }

    /// Begins a table that the place `slot` refers to.
    pub(crate) fn table(&mut self, slot: usize, present: &[bool]) -> Slots {
        let vtable = self.vtable(present);
        self.align();
        let table = self.bytes.len();
        self.link(slot, table);
        let back = (table - vtable) as i32;
        self.bytes.extend_from_slice(&back.to_le_bytes());
        let first = self.bytes.len();
        let mut bits = 0_u16;
        for (index, is_present) in present.iter().enumerate() {
            if *is_present {
                bits |= 1 << index;
                self.bytes.extend_from_slice(&[0; WORD]);
            }
        }
        Slots { first, present: bits, is_list: false }
    }

    /// The position of a vtable with these fields.
    fn vtable(&mut self, present: &[bool]) -> usize {
        if let Some((_, at)) = self.vtables.iter().find(|(known, _)| **known == *present) {
            return *at;
        }
        self.align();
        let at = self.bytes.len();
        let count = present.iter().filter(|is_present| **is_present).count();
        let sizes = [WORD + 2 * present.len(), WORD + WORD * count];
        sizes.iter().for_each(|size| self.bytes.extend_from_slice(&(*size as u16).to_le_bytes()));
        let mut offset = WORD as u16;
        for is_present in present {
            let place = if *is_present { offset } else { 0 };
            self.bytes.extend_from_slice(&place.to_le_bytes());
            offset += if *is_present { WORD as u16 } else { 0 };
        }
        self.vtables.push((present.into(), at));
        at
    }

    /// Begins a list of so many tables.
    pub(crate) fn tables(&mut self, slot: usize, count: usize) -> Slots {
        self.align();
        self.link(slot, self.bytes.len());
        self.word(count);
        let first = self.bytes.len();
        self.bytes.resize(first + count * WORD, 0);
        Slots { first, present: 0, is_list: true }
    }

    /// A text, with the zero behind it that readers in C expect.
    pub(crate) fn text(&mut self, slot: usize, text: &[u8]) {
        self.list_of_bytes(slot, text);
        self.bytes.push(0);
    }

    /// A text in lower case.
    pub(crate) fn lower_case(&mut self, slot: usize, text: &[u8]) {
        self.text(slot, text);
        let end = self.bytes.len() - 1;
        self.bytes[end - text.len()..end].make_ascii_lowercase();
    }

    /// A list of bytes.
    pub(crate) fn list_of_bytes(&mut self, slot: usize, bytes: &[u8]) {
        self.align();
        self.link(slot, self.bytes.len());
        self.word(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// A number of one byte.
    pub(crate) fn u8(&mut self, slot: usize, value: u8) {
        self.bytes[slot] = value;
    }

    /// A number of two bytes.
    pub(crate) fn u16(&mut self, slot: usize, value: u16) {
        self.bytes[slot..slot + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// A number of four bytes.
    pub(crate) fn u32(&mut self, slot: usize, value: u32) {
        self.bytes[slot..slot + WORD].copy_from_slice(&value.to_le_bytes());
    }

    /// A length. One beyond 32 bits cannot be sent: frames have 16 MiB.
    fn word(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&count.to_le_bytes());
    }

    fn link(&mut self, slot: usize, to: usize) {
        self.u32(slot, u32::try_from(to - slot).unwrap_or(u32::MAX));
    }

    fn align(&mut self) {
        while !(self.bytes.len() - self.start).is_multiple_of(WORD) {
            self.bytes.push(0);
        }
    }
}
