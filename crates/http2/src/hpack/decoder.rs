//! The decoder of header blocks; it does not know what the fields mean, and hands each to a visitor.

use message::FieldId;
use multiplex::string::{self, Text};
use multiplex::{Field, FieldVisitor, integer, is_name, is_value};

use super::table::Table;
use super::{HpackError, static_table};
use crate::pool;

/// The decoder of one connection. Its table allocates at the first insertion.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The size in force, as our SETTINGS announced it.
    limit: usize,
    /// The limit fell below the table's size, so that the next block has to begin with an update (RFC 7541
    /// section 4.2).
    must_update: bool,
}

impl Decoder {
    /// A decoder with a table of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { table: Table::new(limit), limit, must_update: false }
    }

    /// Changes the limit of the table, once the peer has acknowledged it.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.must_update = limit < self.table.max_size();
    }

    /// Decodes a whole block and hands its fields to `visitor`.
    ///
    /// # Errors
    /// The block is not HPACK. The table may then differ from the encoder's, so that the connection has to
    /// end.
    pub fn decode(&mut self, block: &[u8], visitor: &mut impl FieldVisitor) -> Result<(), HpackError> {
        let mut scratch = pool::take_bytes();
        let result = self.decode_with(block, visitor, &mut scratch);
        pool::give_bytes(scratch);
        result
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.table.memory()
    }

    fn decode_with(
        &mut self,
        mut block: &[u8],
        visitor: &mut impl FieldVisitor,
        scratch: &mut Vec<u8>,
    ) -> Result<(), HpackError> {
        let mut updates = 0;
        while block.first().is_some_and(|byte| byte & 0xE0 == 0x20) {
            updates += 1;
            self.update_size(integer::read_integer(&mut block, 5)?, updates)?;
        }
        if self.must_update {
            return Err(HpackError::TableSize);
        }
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                self.indexed(integer::read_integer(&mut block, 7)?, visitor)?;
            } else if first & 0xC0 == 0x40 {
                self.literal(&mut block, 6, visitor, scratch)?;
            } else if first & 0xE0 == 0x20 {
                return Err(HpackError::TableSize);
            } else {
                self.literal(&mut block, 4, visitor, scratch)?;
            }
        }
        Ok(())
    }

    /// An encoder sends at most two updates: the smallest size since its last block, and the size in force.
    fn update_size(&mut self, size: usize, updates: u32) -> Result<(), HpackError> {
        if size > self.limit || updates > 2 {
            return Err(HpackError::TableSize);
        }
        self.table.set_max_size(size);
        self.must_update = false;
        Ok(())
    }

    #[inline]
    fn indexed(&self, index: usize, visitor: &mut impl FieldVisitor) -> Result<(), HpackError> {
        let field = if let Some(&(name, value, id)) = static_table::get(index) {
            Field { name: name.as_bytes(), value: value.as_bytes(), id, is_valid: true, is_sensitive: false }
        } else {
            let place = index.checked_sub(static_table::LENGTH + 1).ok_or(HpackError::Index)?;
            let entry = self.table.get(place).ok_or(HpackError::Index)?;
            let (name, value) = (entry.name, entry.value);
            Field { name, value, id: entry.id, is_valid: entry.is_valid, is_sensitive: false }
        };
        visitor.field(&field);
        Ok(())
    }

    /// A literal. Its first byte has the index of its name in `bits` bits: six for one that is inserted.
    fn literal(
        &mut self,
        block: &mut &[u8],
        bits: u32,
        visitor: &mut impl FieldVisitor,
        scratch: &mut Vec<u8>,
    ) -> Result<(), HpackError> {
        let is_sensitive = bits == 4 && block.first().is_some_and(|byte| byte & 0x10 != 0);
        let index = integer::read_integer(block, bits)?;
        scratch.clear();
        let (name, is_name_valid, known) = if index == 0 {
            (string::read_string(block, 7, scratch)?, None, None)
        } else if let Some(&(name, _, id)) = static_table::get(index) {
            (Text::Borrowed(name.as_bytes()), Some(true), Some(id))
        } else {
            let entry = self.table.get(index - static_table::LENGTH - 1).ok_or(HpackError::Index)?;
            // The insertion below may evict the entry of the name and move the others.
            scratch.extend_from_slice(entry.name);
            (Text::Scratch(0, entry.name.len()), entry.is_valid.then_some(true), Some(entry.id))
        };
        let value = string::read_string(block, 7, scratch)?;
        let (name, value) = (name.of(scratch), value.of(scratch));
        let id = known.unwrap_or_else(|| FieldId::of(name));
        let is_valid = is_name_valid.unwrap_or_else(|| is_name(name)) && is_value(value);
        if bits == 6 {
            self.table.insert(name, value, id, is_valid);
        }
        visitor.field(&Field { name, value, id, is_valid, is_sensitive });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
