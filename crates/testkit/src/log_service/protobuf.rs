//! A reader of Protocol Buffers for the messages of Tencent Cloud Log Service, by the published wire format.

use serde_json::{Map, Value};

/// One field of a message.
struct Field<'b> {
    number: u64,
    /// Of a field with a length.
    bytes: &'b [u8],
    /// Of a varint.
    value: u64,
}

/// The logs of a LogGroupList: an object of the contents each, with `__time` and the `__source` of the group.
pub(super) fn logs(body: &[u8]) -> Result<Vec<Value>, String> {
    let mut logs = Vec::new();
    for group in fields(body)?.iter().filter(|field| field.number == 1) {
        let group = fields(group.bytes)?;
        let source = group.iter().find(|field| field.number == 4).ok_or("a group without a source")?;
        for log in group.iter().filter(|field| field.number == 1) {
            let mut entry = Map::new();
            entry.insert("__source".to_owned(), text(source.bytes)?.into());
            for part in fields(log.bytes)? {
                match part.number {
                    1 => drop(entry.insert("__time".to_owned(), part.value.into())),
                    2 => {
                        let content = fields(part.bytes)?;
                        let [key, value] = &content[..] else {
                            return Err("a content of another form".to_owned());
                        };
                        entry.insert(text(key.bytes)?, text(value.bytes)?.into());
                    }
                    other => return Err(format!("a log has no field {other}")),
                }
            }
            logs.push(Value::Object(entry));
        }
    }
    Ok(logs)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}

fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = varint(&mut bytes)?;
        let mut field = Field { number: tag >> 3, bytes: &[], value };
        match tag & 7 {
            0 => {}
            2 => {
                let length = usize::try_from(value).map_err(|error| error.to_string())?;
                (field.bytes, bytes) = bytes.split_at_checked(length).ok_or("a field that ends too early")?;
            }
            other => return Err(format!("no field here has the wire type {other}")),
        }
        fields.push(field);
    }
    Ok(fields)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("a varint that ends too early")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a varint that is too long".to_owned())
}
