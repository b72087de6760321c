//! Fields of a message as a table of Lua, with names in lower case or as they were sent.

use std::borrow::Cow;
use std::cell::RefCell;

use message::{FieldId, Headers};
use mlua::{Either, Error, Lua, LuaString, Table, Value};

use super::at_once;
use super::texts::push;
use crate::runtime::state::InterpreterState;

/// Fields that are compared with each other for a name that comes twice; beyond it the table is made with
/// care for that.
const COMPARED_FIELDS_MAX: usize = 32;
/// The longest name that is brought into lower case without an allocation, in bytes.
const SHORT_NAME_MAX_BYTES: usize = 64;

/// The names of known fields in lower case as strings of one interpreter, each made once.
#[derive(Default)]
pub(crate) struct FieldNames(RefCell<Vec<Option<LuaString>>>);

impl FieldNames {
    /// Sets `table[name] = value` for the name of a known field.
    fn set(&self, lua: &Lua, table: &Table, id: FieldId, value: Either<&str, LuaString>) -> mlua::Result<()> {
        let mut names = self.0.borrow_mut();
        if names.is_empty() {
            names.resize(FieldId::Other as usize, None);
        }
        let place =
            names.get_mut(id as usize).ok_or_else(|| Error::runtime("the field has no known name"))?;
        let name = match place {
            Some(name) => name,
            None => place.insert(lua.create_string(id.name().to_ascii_lowercase())?),
        };
        table.raw_set(&*name, value)
    }
}

/// Fields by name. Where no name comes twice, which is common, no field is looked for in the table.
pub(super) fn fields_table(
    state: &InterpreterState,
    lua: &Lua,
    headers: &Headers,
    is_raw: bool,
) -> mlua::Result<Table> {
    if !has_distinct_names(headers) {
        let table = lua.create_table()?;
        for field in headers.iter() {
            let name = if is_raw { field.name.to_vec() } else { field.name.to_ascii_lowercase() };
            push(lua, &table, &lua.create_string(name)?, Value::String(lua.create_string(field.value)?))?;
        }
        return Ok(table);
    }
    at_once(lua, || {
        let table = lua.create_table_with_capacity(0, headers.len())?;
        for field in headers.iter() {
            let value = match str::from_utf8(field.value) {
                Ok(text) => Either::Left(text),
                Err(_) => Either::Right(lua.create_string(field.value)?),
            };
            if !is_raw && field.id != FieldId::Other {
                state.field_names.set(lua, &table, field.id, value)?;
                continue;
            }
            let mut lower = [0; SHORT_NAME_MAX_BYTES];
            let name = match lower.get_mut(..field.name.len()) {
                _ if is_raw => Cow::Borrowed(field.name),
                Some(lower) => {
                    lower.copy_from_slice(field.name);
                    lower.make_ascii_lowercase();
                    Cow::Borrowed(&*lower)
                }
                None => Cow::Owned(field.name.to_ascii_lowercase()),
            };
            table.raw_set(str::from_utf8(&name).map_err(Error::external)?, value)?;
        }
        Ok(table)
    })
}

fn has_distinct_names(headers: &Headers) -> bool {
    headers.len() <= COMPARED_FIELDS_MAX
        && headers.iter().enumerate().all(|(index, field)| {
            headers
                .iter()
                .take(index)
                .all(|former| former.id != field.id || (!former.name.eq_ignore_ascii_case(field.name)))
        })
}
