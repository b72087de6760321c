//! Counts the parameters of a function: tables that it cannot see are not made for its calls.

use mlua::Function;

/// The beginning of byte code of LuaJIT, and the version of its form.
const HEAD: &[u8] = b"\x1bLJ\x02";
/// A flag of the byte code: it has no name of a source.
const IS_STRIPPED: u32 = 2;
/// A flag of a prototype: it takes any number of arguments.
const TAKES_ANY: u8 = 2;

/// How many arguments `function` sees at most. Functions of unknown form see all.
pub(super) fn parameters(function: &Function) -> u32 {
    read(&function.dump(true)).unwrap_or(u32::MAX)
}

/// The number in byte code. A prototype stands behind those inside it, so that the last one is that of the
/// function.
fn read(code: &[u8]) -> Option<u32> {
    let mut rest = code.strip_prefix(HEAD)?;
    if number(&mut rest)? & IS_STRIPPED == 0 {
        let name_bytes = number(&mut rest)?;
        rest = rest.get(usize::try_from(name_bytes).ok()?..)?;
    }
    let mut last = None;
    loop {
        let bytes = usize::try_from(number(&mut rest)?).ok()?;
        if bytes == 0 {
            return last;
        }
        let [flags, parameters] = *rest.get(..bytes)?.first_chunk()?;
        last = Some(if flags & TAKES_ANY != 0 { u32::MAX } else { u32::from(parameters) });
        rest = &rest[bytes..];
    }
}

/// Takes a number of base 128, lowest digit first.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..u32::BITS).step_by(7) {
        let (digit, behind) = rest.split_first()?;
        *rest = behind;
        value |= u32::from(digit & 0x7f) << shift;
        if digit & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_functions_are_counted() {
        let lua = mlua::Lua::new();
        for (text, count) in [
            ("return function() return function(a) end end", 0),
            ("return function(conf) end", 1),
            ("return function(conf, ctx) return function() end, {}, 'x' end", 2),
            ("local function f() end return function(conf, ...) return f end", u32::MAX),
            ("return print", u32::MAX),
        ] {
            let function: Function = lua.load(text).set_name("=a name").eval().unwrap();
            assert_eq!(parameters(&function), count, "{text}");
        }
        for damaged in [&b""[..], HEAD, b"\x1bLJ\x02\x02\x09\x00", b"\x1bLJ\x02\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(read(damaged), None);
        }
    }
}
