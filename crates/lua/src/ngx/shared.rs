//! `ngx.shared`: dictionaries that the workers of the process share, bounded, with times to live.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};

use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};
use net::env;
use parking_lot::Mutex;

use super::Adder;
use super::texts::text_of;
use crate::runtime::limits::{DICTIONARIES_MAX, DICTIONARY_ENTRY_BYTES, DICTIONARY_MAX_BYTES};
use crate::runtime::state::InterpreterState;

/// Elements that `get_keys` gives unless a call says another number, as in nginx.
const KEYS_MAX: usize = 1_024;

/// A value of a dictionary.
#[derive(Clone, Debug, PartialEq)]
enum DictValue {
    Boolean(bool),
    Number(f64),
    Text(Arc<[u8]>),
    List(VecDeque<Arc<[u8]>>),
}

struct DictEntry {
    item: DictValue,
    flags: f64,
    /// When it ends, in nanoseconds of the monotonic clock; 0 never.
    ends_ns: u64,
    /// The order of the last uses.
    used: u64,
}

#[derive(Default)]
struct Dictionary {
    entries: BTreeMap<Vec<u8>, DictEntry>,
    by_use: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    uses: u64,
}

static DICTIONARIES: LazyLock<Mutex<BTreeMap<String, Arc<Mutex<Dictionary>>>>> =
    LazyLock::new(Mutex::default);

fn dictionary(name: &str) -> mlua::Result<Arc<Mutex<Dictionary>>> {
    let mut all = DICTIONARIES.lock();
    if let Some(known) = all.get(name) {
        return Ok(known.clone());
    }
    if all.len() >= DICTIONARIES_MAX {
        return Err(Error::runtime(format!(
            "there are at most {DICTIONARIES_MAX} dictionaries in ngx.shared"
        )));
    }
    Ok(all.entry(name.to_owned()).or_default().clone())
}

impl DictEntry {
    fn bytes(&self, key: &[u8]) -> usize {
        let item = match &self.item {
            DictValue::Boolean(_) | DictValue::Number(_) => 8,
            DictValue::Text(text) => text.len(),
            DictValue::List(list) => list.iter().map(|text| text.len() + 16).sum(),
        };
        key.len() * 2 + item + DICTIONARY_ENTRY_BYTES
    }
}

impl Dictionary {
    /// The entry under `key`, unless its time is over; it counts as used.
    fn live(&mut self, key: &[u8], now_ns: u64) -> Option<&mut DictEntry> {
        let entry = self.entries.get(key)?;
        if entry.ends_ns != 0 && entry.ends_ns <= now_ns {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&entry.used) {
            self.by_use.insert(self.uses, key);
        }
        entry.used = self.uses;
        Some(entry)
    }

    fn remove(&mut self, key: &[u8]) -> Option<DictEntry> {
        let entry = self.entries.remove(key)?;
        self.bytes -= entry.bytes(key);
        self.by_use.remove(&entry.used);
        Some(entry)
    }

    /// Stores an entry; whether others had to leave for it. None if it is too large, or if others would have
    /// to leave and `may_evict` is false.
    fn store(
        &mut self,
        key: &[u8],
        item: DictValue,
        flags: f64,
        ends_ns: u64,
        may_evict: bool,
    ) -> Option<bool> {
        self.remove(key);
        self.uses += 1;
        let entry = DictEntry { item, flags, ends_ns, used: self.uses };
        let bytes = entry.bytes(key);
        if bytes > DICTIONARY_MAX_BYTES {
            return None;
        }
        let mut has_evicted = false;
        while self.bytes + bytes > DICTIONARY_MAX_BYTES {
            if !may_evict {
                return None;
            }
            let (_, oldest) = self.by_use.pop_first()?;
            let gone = self.entries.remove(&oldest)?;
            self.bytes -= gone.bytes(&oldest);
            has_evicted = true;
        }
        self.bytes += bytes;
        self.by_use.insert(self.uses, key.to_vec());
        self.entries.insert(key.to_vec(), entry);
        Some(has_evicted)
    }
}

/// The wish of a call of `set`, `add` or `replace`.
#[derive(Clone, Copy, PartialEq)]
enum Storing {
    Set { may_evict: bool },
    Add { may_evict: bool },
    Replace,
}

fn ends_ns(seconds: Option<f64>) -> u64 {
    match seconds {
        Some(seconds) if seconds > 0.0 => env::monotonic_ns().saturating_add((seconds * 1e9) as u64),
        _ => 0,
    }
}

fn item_of(value: &Value) -> Option<DictValue> {
    Some(match value {
        Value::Boolean(value) => DictValue::Boolean(*value),
        Value::Integer(number) => DictValue::Number(*number as f64),
        Value::Number(number) => DictValue::Number(*number),
        Value::String(text) => DictValue::Text(text.as_bytes().to_vec().into()),
        _ => return None,
    })
}

fn value_of(lua: &Lua, item: &DictValue) -> mlua::Result<Value> {
    Ok(match item {
        DictValue::Boolean(value) => Value::Boolean(*value),
        DictValue::Number(number) => Value::Number(*number),
        DictValue::Text(text) => Value::String(lua.create_string(text)?),
        DictValue::List(_) => Value::Nil,
    })
}

/// A name, a key, a value, a time to live and flags.
type Stored = (String, LuaString, Value, Option<f64>, Option<f64>);

fn store(lua: &Lua, values: &Stored, storing: Storing) -> mlua::Result<MultiValue> {
    let (name, key, value, seconds, flags) = values;
    let (dictionary, key) = (dictionary(name)?, key.as_bytes());
    let mut dictionary = dictionary.lock();
    let is_there = dictionary.live(&key, env::monotonic_ns()).is_some();
    let may_evict = match storing {
        Storing::Add { .. } if is_there => return (false, "exists", false).into_lua_multi(lua),
        Storing::Replace if !is_there => return (false, "not found", false).into_lua_multi(lua),
        Storing::Set { may_evict } | Storing::Add { may_evict } => may_evict,
        Storing::Replace => true,
    };
    if value.is_nil() {
        dictionary.remove(&key);
        return (true, Value::Nil, false).into_lua_multi(lua);
    }
    let Some(item) = item_of(value) else {
        return (Value::Nil, "bad value type").into_lua_multi(lua);
    };
    match dictionary.store(&key, item, flags.unwrap_or(0.0), ends_ns(*seconds), may_evict) {
        Some(has_evicted) => (true, Value::Nil, has_evicted).into_lua_multi(lua),
        None if may_evict => (false, "no memory", false).into_lua_multi(lua),
        None => (Value::Nil, "no memory").into_lua_multi(lua),
    }
}

/// The value of a key with its flags; nil and a reason for a list.
fn get(_: &InterpreterState, lua: &Lua, (name, key): (String, LuaString)) -> mlua::Result<MultiValue> {
    let dictionary = dictionary(&name)?;
    let mut dictionary = dictionary.lock();
    match dictionary.live(&key.as_bytes(), env::monotonic_ns()) {
        Some(DictEntry { item: DictValue::List(_), .. }) => {
            (Value::Nil, "value is a list").into_lua_multi(lua)
        }
        Some(entry) if entry.flags != 0.0 => (value_of(lua, &entry.item)?, entry.flags).into_lua_multi(lua),
        Some(entry) => value_of(lua, &entry.item)?.into_lua_multi(lua),
        None => Value::Nil.into_lua_multi(lua),
    }
}

/// Adds to a number, which begins with `first` where there is none.
fn increment(
    _: &InterpreterState,
    lua: &Lua,
    (name, key, step, first, seconds): (String, LuaString, f64, Option<f64>, Option<f64>),
) -> mlua::Result<MultiValue> {
    let (dictionary, key) = (dictionary(&name)?, key.as_bytes());
    let mut dictionary = dictionary.lock();
    match (dictionary.live(&key, env::monotonic_ns()), first) {
        (Some(DictEntry { item: DictValue::Number(number), .. }), _) => {
            *number += step;
            (*number).into_lua_multi(lua)
        }
        (Some(_), _) => (Value::Nil, "not a number").into_lua_multi(lua),
        (None, None) => (Value::Nil, "not found").into_lua_multi(lua),
        (None, Some(first)) => {
            let number = first + step;
            match dictionary.store(&key, DictValue::Number(number), 0.0, ends_ns(seconds), true) {
                Some(has_evicted) => (number, Value::Nil, has_evicted).into_lua_multi(lua),
                None => (Value::Nil, "no memory").into_lua_multi(lua),
            }
        }
    }
}

/// Removes a key.
fn delete(_: &InterpreterState, _: &Lua, (name, key): (String, LuaString)) -> mlua::Result<()> {
    dictionary(&name)?.lock().remove(&key.as_bytes());
    Ok(())
}

/// The seconds that a key has left; 0 if it never ends.
fn time_to_live(
    _: &InterpreterState,
    lua: &Lua,
    (name, key): (String, LuaString),
) -> mlua::Result<MultiValue> {
    let (dictionary, now_ns) = (dictionary(&name)?, env::monotonic_ns());
    let mut dictionary = dictionary.lock();
    match dictionary.live(&key.as_bytes(), now_ns).map(|entry| entry.ends_ns) {
        Some(0) => 0.into_lua_multi(lua),
        Some(ends_ns) => ((ends_ns.saturating_sub(now_ns)) as f64 / 1e9).into_lua_multi(lua),
        None => (Value::Nil, "not found").into_lua_multi(lua),
    }
}

/// Gives a key another time to live.
fn expire(
    _: &InterpreterState,
    lua: &Lua,
    (name, key, seconds): (String, LuaString, f64),
) -> mlua::Result<MultiValue> {
    let dictionary = dictionary(&name)?;
    let mut dictionary = dictionary.lock();
    match dictionary.live(&key.as_bytes(), env::monotonic_ns()) {
        Some(entry) => {
            entry.ends_ns = ends_ns(Some(seconds));
            true.into_lua_multi(lua)
        }
        None => (Value::Nil, "not found").into_lua_multi(lua),
    }
}

/// Adds an element to a list, and returns its new length.
fn push(
    _: &InterpreterState,
    lua: &Lua,
    (name, key, value, is_front): (String, LuaString, Value, bool),
) -> mlua::Result<MultiValue> {
    let Some(text) = text_of(&value) else { return (Value::Nil, "bad value type").into_lua_multi(lua) };
    let (dictionary, key) = (dictionary(&name)?, key.as_bytes());
    let mut dictionary = dictionary.lock();
    let (mut list, ends_ns) = match dictionary.live(&key, env::monotonic_ns()) {
        Some(DictEntry { item: DictValue::List(list), ends_ns, .. }) => (std::mem::take(list), *ends_ns),
        Some(_) => return (Value::Nil, "value not a list").into_lua_multi(lua),
        None => (VecDeque::new(), 0),
    };
    // The bytes of the list were counted with it.
    let taken: usize = list.iter().map(|text| text.len() + 16).sum();
    dictionary.bytes -= taken;
    if is_front {
        list.push_front(text.into())
    } else {
        list.push_back(text.into())
    }
    let length = list.len() as f64;
    match dictionary.store(&key, DictValue::List(list), 0.0, ends_ns, true) {
        Some(_) => length.into_lua_multi(lua),
        None => (Value::Nil, "no memory").into_lua_multi(lua),
    }
}

/// Takes an element from a list; the list ends with its last one.
fn pop(
    _: &InterpreterState,
    lua: &Lua,
    (name, key, is_front): (String, LuaString, bool),
) -> mlua::Result<MultiValue> {
    let (dictionary, key) = (dictionary(&name)?, key.as_bytes());
    let mut dictionary = dictionary.lock();
    let popped = match dictionary.live(&key, env::monotonic_ns()) {
        Some(DictEntry { item: DictValue::List(list), .. }) => {
            let popped = if is_front { list.pop_front() } else { list.pop_back() };
            popped.map(|text| (text, list.is_empty()))
        }
        Some(_) => return (Value::Nil, "value not a list").into_lua_multi(lua),
        None => None,
    };
    let Some((text, is_empty)) = popped else { return Value::Nil.into_lua_multi(lua) };
    dictionary.bytes -= text.len() + 16;
    if is_empty {
        dictionary.remove(&key);
    }
    lua.create_string(text)?.into_lua_multi(lua)
}

/// The length of a list.
fn list_length(
    _: &InterpreterState,
    lua: &Lua,
    (name, key): (String, LuaString),
) -> mlua::Result<MultiValue> {
    let dictionary = dictionary(&name)?;
    let mut dictionary = dictionary.lock();
    match dictionary.live(&key.as_bytes(), env::monotonic_ns()) {
        Some(DictEntry { item: DictValue::List(list), .. }) => (list.len() as f64).into_lua_multi(lua),
        Some(_) => (Value::Nil, "value not a list").into_lua_multi(lua),
        None => 0.into_lua_multi(lua),
    }
}

/// The keys in use, `most` of them; 0 is all, as in nginx.
fn keys(state: &InterpreterState, lua: &Lua, (name, most): (String, Option<usize>)) -> mlua::Result<Table> {
    let (dictionary, now_ns) = (dictionary(&name)?, env::monotonic_ns());
    let dictionary = dictionary.lock();
    let most = match most.unwrap_or(KEYS_MAX) {
        0 => usize::MAX,
        most => most,
    };
    let is_live = |entry: &&DictEntry| entry.ends_ns == 0 || entry.ends_ns > now_ns;
    let live = dictionary.entries.iter().filter(|(_, entry)| is_live(entry)).take(most);
    let keys = live.map(|(key, _)| lua.create_string(key)).collect::<mlua::Result<Vec<_>>>()?;
    state.budget.charge(dictionary.entries.len() as u64)?;
    lua.create_sequence_from(keys)
}

/// Removes all keys, or those that have ended; returns how many.
fn flush(_: &InterpreterState, _: &Lua, (name, is_expired_only): (String, bool)) -> mlua::Result<f64> {
    let (dictionary, now_ns) = (dictionary(&name)?, env::monotonic_ns());
    let mut dictionary = dictionary.lock();
    let is_over = |entry: &DictEntry| entry.ends_ns != 0 && entry.ends_ns <= now_ns;
    let gone: Vec<Vec<u8>> = dictionary
        .entries
        .iter()
        .filter(|(_, entry)| !is_expired_only || is_over(entry))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &gone {
        dictionary.remove(key);
    }
    Ok(gone.len() as f64)
}

/// The bytes that a dictionary may hold, or has left.
fn size(_: &InterpreterState, _: &Lua, (name, is_free): (String, bool)) -> mlua::Result<f64> {
    let used = dictionary(&name)?.lock().bytes;
    Ok(if is_free { DICTIONARY_MAX_BYTES.saturating_sub(used) } else { DICTIONARY_MAX_BYTES } as f64)
}

pub(super) fn install_shared_dicts(add: &Adder<'_>) -> mlua::Result<()> {
    for (name, storing) in [
        ("shared_set", Storing::Set { may_evict: true }),
        ("shared_safe_set", Storing::Set { may_evict: false }),
        ("shared_add", Storing::Add { may_evict: true }),
        ("shared_safe_add", Storing::Add { may_evict: false }),
        ("shared_replace", Storing::Replace),
    ] {
        add.add(name, move |_, lua, values: Stored| store(lua, &values, storing))?;
    }
    add.add("shared_get", get)?;
    add.add("shared_incr", increment)?;
    add.add("shared_delete", delete)?;
    add.add("shared_ttl", time_to_live)?;
    add.add("shared_expire", expire)?;
    add.add("shared_push", push)?;
    add.add("shared_pop", pop)?;
    add.add("shared_length", list_length)?;
    add.add("shared_keys", keys)?;
    add.add("shared_flush", flush)?;
    add.add("shared_size", size)
}
