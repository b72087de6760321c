//! A multipart body for templates, with the methods of Kong's lua-multipart, which APISIX uses: `_multipart`
//! in a template.

use mlua::{IntoLua, Lua, LuaString, MultiValue, Table, UserData, UserDataMethods, Value};

use lua::RESULT_MAX_BYTES;

/// Parts of one body, with or without a name.
pub(super) const PARTS_MAX: usize = 1_000;
/// Header lines of one part. Each is an allocation, which takes many times the bytes of a short line.
pub(super) const HEADER_LINES_MAX: usize = 64;
/// Bytes of the header of one part, line ends included.
pub(super) const HEADER_BYTES_MAX: usize = 8 * 1024;

/// See the module.
pub(super) struct Multipart {
    boundary: Vec<u8>,
    parts: Vec<MultipartPart>,
}

#[derive(Clone, Default)]
struct MultipartPart {
    name: Vec<u8>,
    /// Lines, without their ends.
    headers: Vec<Vec<u8>>,
    value: Vec<u8>,
}

/// The boundary of a body for which `Content-Type` names none.
const OWN_BOUNDARY: &[u8] = b"weir-7d1f0c2b9a6e4835";

impl Multipart {
    /// Reads `body`, the boundary of which `content_type` names. Parts without a name are left out.
    ///
    /// # Errors
    /// There are too many parts, or the header of one is too long.
    pub(super) fn read(content_type: &[u8], body: &[u8]) -> Result<Multipart, String> {
        let Some(boundary) = boundary(content_type) else {
            return Ok(Multipart { boundary: OWN_BOUNDARY.to_vec(), parts: Vec::new() });
        };
        let mut parts = Vec::new();
        // The lines behind the last delimiter; none before the first one.
        let mut part: Option<&[u8]> = None;
        let mut delimiters = 0;
        for at in memchr::memmem::find_iter(body, &[b"--", &*boundary].concat()) {
            // Before the search for the end of the line, which would be repeated for each match in one long
            // line.
            if at > 0 && body[at - 1] != b'\n' {
                continue;
            }
            let end = memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |end| at + end + 1);
            if !is_delimiter(&body[at..end], &boundary) {
                continue;
            }
            if let Some(begun) = part {
                let length = begun.len() - (body.len() - at);
                parts.extend(MultipartPart::read(&begun[..length])?);
            }
            part = Some(&body[end..]);
            // Parts without a name take time to read, too.
            delimiters += 1;
            if delimiters > PARTS_MAX + 1 {
                return Err(format!("more than {PARTS_MAX} parts"));
            }
        }
        // A body that was cut before its last delimiter.
        if let Some(begun) = part {
            parts.extend(MultipartPart::read(begun)?);
        }
        Ok(Multipart { boundary, parts })
    }

    fn find(&self, name: &[u8]) -> Option<&MultipartPart> {
        self.parts.iter().rfind(|part| part.name == name)
    }

    /// The values by name; of parts with the same name the last one, or all of them in a list.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn values(&self, lua: &Lua, has_lists: bool) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        for part in &self.parts {
            let value = lua.create_string(&part.value)?;
            let name = lua.create_string(&part.name)?;
            match table.raw_get(&name)? {
                Value::Table(list) if has_lists => list.raw_push(value)?,
                Value::String(first) if has_lists => {
                    table.raw_set(name, lua.create_sequence_from([first, value])?)?;
                }
                _ => table.raw_set(name, value)?,
            }
        }
        Ok(table)
    }

    fn write(&self) -> mlua::Result<Vec<u8>> {
        let mut text = Vec::new();
        for part in &self.parts {
            text.extend_from_slice(b"--");
            text.extend_from_slice(&self.boundary);
            text.extend_from_slice(b"\r\n");
            for header in &part.headers {
                text.extend_from_slice(header);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"\r\n");
            text.extend_from_slice(&part.value);
            text.extend_from_slice(b"\r\n");
            if text.len() > RESULT_MAX_BYTES {
                return Err(mlua::Error::runtime(format!(
                    "the body is longer than {RESULT_MAX_BYTES} bytes"
                )));
            }
        }
        if !self.parts.is_empty() {
            text.extend_from_slice(b"--");
            text.extend_from_slice(&self.boundary);
            text.extend_from_slice(b"--\r\n");
        }
        Ok(text)
    }

    /// Replaces the value of a part, or adds a part.
    fn set(
        &mut self,
        name: &[u8],
        value: &[u8],
        file: Option<&[u8]>,
        content_type: Option<&[u8]>,
    ) -> mlua::Result<()> {
        let mut line = b"Content-Disposition: form-data; name=\"".to_vec();
        append_quoted(&mut line, name);
        if let Some(file) = file {
            line.extend_from_slice(b"; filename=\"");
            append_quoted(&mut line, file);
        }
        let mut headers = vec![line];
        if let Some(content_type) = content_type {
            if content_type.iter().any(u8::is_ascii_control) {
                return Err(mlua::Error::runtime("a content type holds a control character"));
            }
            headers.push([b"Content-Type: ", content_type].concat());
        }
        let part = MultipartPart { name: name.to_vec(), headers, value: value.to_vec() };
        match self.parts.iter().rposition(|part| part.name == name) {
            Some(old) => self.parts[old] = part,
            None if self.parts.len() >= PARTS_MAX => {
                return Err(mlua::Error::runtime(format!("more than {PARTS_MAX} parts")));
            }
            None => self.parts.push(part),
        }
        Ok(())
    }
}

/// Appends a value of a parameter with the quote behind it. Bytes that would end it are escaped as browsers
/// do (HTML, section 4.10.22.8).
fn append_quoted(line: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'"' => line.extend_from_slice(b"%22"),
            b'\r' => line.extend_from_slice(b"%0D"),
            b'\n' => line.extend_from_slice(b"%0A"),
            byte => line.push(byte),
        }
    }
    line.push(b'"');
}

/// The boundary that `content_type` names.
fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let parameters = content_type.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let value = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_at_checked(b"boundary=".len())?;
        name.eq_ignore_ascii_case(b"boundary=").then_some(value)
    });
    let value = value.last()?;
    let value = match value {
        [quote @ (b'"' | b'\''), inner @ .., last] if quote == last => inner,
        value => value,
    };
    (!value.is_empty()).then(|| value.to_vec())
}

/// Whether `line` is a delimiter, the last one included.
fn is_delimiter(line: &[u8], boundary: &[u8]) -> bool {
    let behind = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary));
    behind.is_some_and(|behind| matches!(behind.trim_ascii_end(), b"" | b"--"))
}

impl MultipartPart {
    /// Reads the bytes between two delimiters; none for a part without a name.
    ///
    /// # Errors
    /// The header has too many lines or bytes.
    fn read(bytes: &[u8]) -> Result<Option<MultipartPart>, String> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let mut rest = bytes;
        let mut part = MultipartPart::default();
        loop {
            let end = memchr::memchr(b'\n', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
            if line.is_empty() || end.is_none() {
                break;
            }
            if part.headers.len() == HEADER_LINES_MAX || bytes.len() - rest.len() > HEADER_BYTES_MAX {
                return Err(format!(
                    "the header of a part has more than {HEADER_LINES_MAX} lines or {HEADER_BYTES_MAX} bytes"
                ));
            }
            if let Some(name) = disposition_name(line) {
                part.name = name.to_vec();
            }
            part.headers.push(line.to_vec());
        }
        part.value = rest.to_vec();
        Ok((!part.name.is_empty()).then_some(part))
    }
}

/// The name in a line `Content-Disposition: form-data; name="..."`.
fn disposition_name(line: &[u8]) -> Option<&[u8]> {
    const FIELD: &[u8] = b"content-disposition";
    line.get(..FIELD.len()).filter(|start| start.eq_ignore_ascii_case(FIELD))?;
    let parameters = line.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let value = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_at_checked(b"name=".len())?;
        name.eq_ignore_ascii_case(b"name=").then_some(value)
    });
    let value = value.last()?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

impl UserData for Multipart {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, this, name: LuaString| {
            let Some(part) = this.find(&name.as_bytes()) else { return Ok(Value::Nil) };
            let table = lua.create_table()?;
            table.raw_set("name", lua.create_string(&part.name)?)?;
            table.raw_set("value", lua.create_string(&part.value)?)?;
            let headers: Vec<LuaString> =
                part.headers.iter().map(|line| lua.create_string(line)).collect::<mlua::Result<_>>()?;
            table.raw_set("headers", headers)?;
            table.into_lua(lua)
        });
        methods.add_method("get_all", |lua, this, ()| this.values(lua, false));
        methods.add_method("get_all_with_arrays", |lua, this, ()| this.values(lua, true));
        methods.add_method("get_all_as_array", |lua, this, name: LuaString| {
            let same = this.parts.iter().filter(|part| part.name == *name.as_bytes());
            same.map(|part| lua.create_string(&part.value)).collect::<mlua::Result<Vec<_>>>()
        });
        methods.add_method_mut(
            "set_simple",
            |_, this, (name, value, rest): (LuaString, LuaString, MultiValue)| {
                let text = |index: usize| {
                    rest.get(index).and_then(Value::as_string).map(|text| text.as_bytes().to_vec())
                };
                this.set(&name.as_bytes(), &value.as_bytes(), text(0).as_deref(), text(1).as_deref())
            },
        );
        methods.add_method_mut("delete", |_, this, name: LuaString| {
            let name = name.as_bytes().to_vec();
            this.parts.retain(|part| part.name != name);
            Ok(())
        });
        methods.add_method("tostring", |lua, this, ()| lua.create_string(this.write()?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_a_name_count() {
        let read = |parts: usize| {
            let body = [b"x--b--b\r\n".repeat(2), b"--b\r\n\r\n--bc--b\r\n".repeat(parts), b"--b--".to_vec()];
            Multipart::read(b"multipart/mixed; boundary=b", &body.concat()).map(|read| read.parts.len())
        };
        assert_eq!(read(PARTS_MAX), Ok(0));
        assert_eq!(read(PARTS_MAX + 1), Err("more than 1000 parts".to_owned()));
    }

    #[test]
    fn part_with_long_header_is_refused() {
        let read = |header: &str| {
            let body = format!("--b\r\n{header}Content-Disposition: form-data; name=\"n\"\r\n\r\nv\r\n--b--");
            Multipart::read(b"multipart/form-data; boundary=b", body.as_bytes())
                .map(|multipart| multipart.parts.len())
        };
        let refused = "the header of a part has more than 64 lines or 8192 bytes";
        assert_eq!(read(&"a\n".repeat(HEADER_LINES_MAX - 1)), Ok(1));
        assert_eq!(read(&"a\n".repeat(HEADER_LINES_MAX)), Err(refused.to_owned()));
        assert_eq!(read(&format!("X: {}\r\n", "a".repeat(HEADER_BYTES_MAX))), Err(refused.to_owned()));
        let cut = [b"--b\r\n".as_slice(), &b"a\n".repeat(1_000_000)].concat();
        assert!(Multipart::read(b"multipart/form-data; boundary=b", &cut).is_err());
    }
}
