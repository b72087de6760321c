//! The messages of the protocol: the numbers of their fields, and how the answers of the runner are read. It
//! knows no socket.

use super::error::CallError;
use super::flat::{FlatTable, FlatTables, FlatWriter, MalformedMessage, Slots};

/// Fields and arguments that one answer may have: as many as a request head can hold, which has 64 KiB by
/// default.
const ENTRIES_MAX: usize = 1_000;
/// Bytes of all names and values of one answer. Entries may refer to the same bytes, so that a short message
/// could otherwise stand for gigabytes.
const ENTRIES_BYTES_MAX: usize = 256 * 1024;

/// The numbers of the fields of `A6.PrepareConf`.
pub(super) mod prepare_conf {
    pub(crate) const CONF: usize = 0;
    pub(crate) const KEY: usize = 1;
    pub(crate) const TOKEN: usize = 0;
}

/// The numbers of the fields of `A6.HTTPReqCall.Req`.
pub(super) mod request_call {
    pub(crate) const ID: usize = 0;
    pub(crate) const SRC_IP: usize = 1;
    pub(crate) const METHOD: usize = 2;
    pub(crate) const PATH: usize = 3;
    pub(crate) const ARGS: usize = 4;
    pub(crate) const HEADERS: usize = 5;
    pub(crate) const TOKEN: usize = 6;
    pub(crate) const COUNT: usize = 7;
}

/// The numbers of the fields of `A6.HTTPRespCall.Req`.
pub(super) mod response_call {
    pub(crate) const ID: usize = 0;
    pub(crate) const STATUS: usize = 1;
    pub(crate) const HEADERS: usize = 2;
    pub(crate) const TOKEN: usize = 3;
    pub(crate) const COUNT: usize = 4;
}

/// A name, and a value unless the entry removes it or has none.
pub(super) type NameValueEntry<'a> = (&'a [u8], Option<&'a [u8]>);

/// A reply of a plugin in place of the upstream's response.
#[derive(Debug, Default)]
pub(super) struct StopReply<'a> {
    pub(super) status: u16,
    pub(super) headers: Vec<NameValueEntry<'a>>,
    pub(super) body: &'a [u8],
}

/// Changes to a request.
#[derive(Debug, Default)]
pub(super) struct Rewrite<'a> {
    pub(super) path: Option<&'a [u8]>,
    pub(super) headers: Vec<NameValueEntry<'a>>,
    pub(super) args: Vec<NameValueEntry<'a>>,
    pub(super) response_headers: Vec<NameValueEntry<'a>>,
    pub(super) body: &'a [u8],
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum RunnerAction<'a> {
    /// Nothing changes.
    Pass,
    /// The request is answered.
    Stop(StopReply<'a>),
    /// The request changes.
    Rewrite(Rewrite<'a>),
}

/// The answer to a response.
#[derive(Debug, Default)]
pub(super) struct ResponseChange<'a> {
    pub(super) status: u16,
    pub(super) headers: Vec<NameValueEntry<'a>>,
    pub(super) body: &'a [u8],
}

/// A question of the runner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunnerQuestion {
    /// The value of a variable.
    Variable(String),
    /// The body of the request.
    RequestBody,
    /// The body of the response.
    ResponseBody,
}

/// Writes a list of names and values.
pub(super) fn write_entries<'e>(
    writer: &mut FlatWriter<'_>,
    slot: usize,
    entries: impl Iterator<Item = NameValueEntry<'e>> + Clone,
) {
    write_list(writer, slot, entries, FlatWriter::text);
}

/// As [`write_entries`], with the names in lower case.
pub(super) fn write_lower_case<'e>(
    writer: &mut FlatWriter<'_>,
    slot: usize,
    entries: impl Iterator<Item = NameValueEntry<'e>> + Clone,
) {
    write_list(writer, slot, entries, FlatWriter::lower_case);
}

fn write_list<'w, 'e>(
    writer: &mut FlatWriter<'w>,
    slot: usize,
    entries: impl Iterator<Item = NameValueEntry<'e>> + Clone,
    write_name: fn(&mut FlatWriter<'w>, usize, &[u8]),
) {
    let list = writer.tables(slot, entries.clone().count());
    for (index, (name, value)) in entries.enumerate() {
        let entry: Slots = writer.table(list.slot(index), &[true, value.is_some()]);
        write_name(writer, entry.slot(0), name);
        if let Some(value) = value {
            writer.text(entry.slot(1), value);
        }
    }
}

/// The names and values of the lists of one answer, within the limits of all of them.
struct EntryBudget {
    entries: usize,
    bytes: usize,
}

impl EntryBudget {
    fn new() -> EntryBudget {
        EntryBudget { entries: ENTRIES_MAX, bytes: ENTRIES_BYTES_MAX }
    }

    fn read<'a>(&mut self, list: &FlatTables<'a>) -> Result<Vec<NameValueEntry<'a>>, MalformedMessage> {
        let left = self.entries.checked_sub(list.len());
        self.entries = left.ok_or(MalformedMessage("it has more fields and arguments than are allowed"))?;
        let mut entries = Vec::with_capacity(list.len());
        for entry in list.iter() {
            let entry = entry?;
            let name = entry.bytes(0)?.ok_or(MalformedMessage("a field or argument has no name"))?;
            let value = entry.bytes(1)?;
            let left = self.bytes.checked_sub(name.len() + value.map_or(0, <[u8]>::len));
            self.bytes =
                left.ok_or(MalformedMessage("its fields and arguments are longer than is allowed"))?;
            entries.push((name, value));
        }
        Ok(entries)
    }
}

/// The token in an answer to a configuration.
pub(super) fn read_token(message: &[u8]) -> Result<u32, CallError> {
    Ok(FlatTable::root(message)?.u32(prepare_conf::TOKEN)?)
}

/// The error in a message of that type.
pub(super) fn read_error(message: &[u8]) -> CallError {
    const TOKEN_NOT_FOUND: u8 = 2;
    match FlatTable::root(message).and_then(|error| error.u8(0)) {
        Ok(TOKEN_NOT_FOUND) => CallError::TokenUnknown,
        Ok(code) => CallError::Runner(code),
        Err(malformed) => malformed.into(),
    }
}

/// The question in a message of that type.
pub(super) fn read_question(message: &[u8]) -> Result<RunnerQuestion, CallError> {
    let question = FlatTable::root(message)?;
    match question.u8(0)? {
        1 => {
            let variable = question.table(1)?.ok_or(MalformedMessage("a question has no content"))?;
            let name = variable.bytes(0)?.ok_or(MalformedMessage("a question names no variable"))?;
            let name = std::str::from_utf8(name)
                .map_err(|_| MalformedMessage("the name of a variable is no text"))?;
            Ok(RunnerQuestion::Variable(name.to_owned()))
        }
        2 => Ok(RunnerQuestion::RequestBody),
        3 => Ok(RunnerQuestion::ResponseBody),
        _ => Err(CallError::Malformed("it asks for something unknown")),
    }
}

/// Writes the answer to a question; without a value there is none.
pub(super) fn write_answer(writer: &mut FlatWriter<'_>, value: Option<&[u8]>) {
    let root = writer.root(&[value.is_some()]);
    if let Some(value) = value {
        writer.list_of_bytes(root.slot(0), value);
    }
}

/// Checks that an answer belongs to the call `asked`. Some runners leave the number out.
fn check_id(answer: &FlatTable<'_>, asked: u32) -> Result<(), CallError> {
    match answer.u32(0)? {
        0 => Ok(()),
        answered if answered == asked => Ok(()),
        answered => Err(CallError::WrongId { asked, answered }),
    }
}

/// The answer to the request `id`.
pub(super) fn read_action(message: &[u8], id: u32) -> Result<RunnerAction<'_>, CallError> {
    let answer = FlatTable::root(message)?;
    check_id(&answer, id)?;
    let kind = answer.u8(1)?;
    if kind == 0 {
        return Ok(RunnerAction::Pass);
    }
    let action = answer.table(2)?.ok_or(MalformedMessage("an action has no content"))?;
    let mut budget = EntryBudget::new();
    match kind {
        1 => Ok(RunnerAction::Stop(StopReply {
            status: action.u16(0)?,
            headers: budget.read(&action.tables(1)?)?,
            body: action.bytes(2)?.unwrap_or_default(),
        })),
        2 => Ok(RunnerAction::Rewrite(Rewrite {
            path: action.bytes(0)?,
            headers: budget.read(&action.tables(1)?)?,
            args: budget.read(&action.tables(2)?)?,
            response_headers: budget.read(&action.tables(3)?)?,
            body: action.bytes(4)?.unwrap_or_default(),
        })),
        _ => Err(CallError::Malformed("it has an unknown action")),
    }
}

/// The answer to the response of the call `id`.
pub(super) fn read_response_change(message: &[u8], id: u32) -> Result<ResponseChange<'_>, CallError> {
    let answer = FlatTable::root(message)?;
    check_id(&answer, id)?;
    Ok(ResponseChange {
        status: answer.u16(1)?,
        headers: EntryBudget::new().read(&answer.tables(2)?)?,
        body: answer.bytes(3)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(write: impl FnOnce(&mut FlatWriter<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut FlatWriter::new(&mut bytes));
        bytes
    }

    fn rewrite(count: usize, value: &[u8]) -> Vec<u8> {
        message(|writer| {
            let root = writer.root(&[true; 3]);
            writer.u32(root.slot(0), 5);
            writer.u8(root.slot(1), 2);
            let action = writer.table(root.slot(2), &[true, true]);
            writer.text(action.slot(0), b"/new");
            write_entries(writer, action.slot(1), std::iter::repeat_n((&b"a"[..], Some(value)), count));
        })
    }

    #[test]
    fn actions_are_read_within_limits() {
        let read = rewrite(2, b"1");
        let Ok(RunnerAction::Rewrite(changes)) = read_action(&read, 5) else { panic!("{read:?}") };
        assert_eq!((changes.path, changes.headers.len(), changes.body), (Some(&b"/new"[..]), 2, &b""[..]));
        let wrong = read_action(&read, 6).unwrap_err().to_string();
        assert_eq!(wrong, "the plugin runner answered call 5 in place of call 6");
        assert!(read_action(&rewrite(ENTRIES_MAX, b"1"), 5).is_ok());
        for (count, value) in [(ENTRIES_MAX + 1, &b"1"[..]), (3, &[b'x'; 100_000])] {
            let refused = read_action(&rewrite(count, value), 5).unwrap_err().to_string();
            assert!(refused.contains("allowed"), "{refused}");
        }
        let pass = message(|writer| {
            writer.root(&[]);
        });
        assert!(matches!(read_action(&pass, 5), Ok(RunnerAction::Pass)));
    }

    #[test]
    fn hostile_answers_are_refused_without_panic() {
        let good = rewrite(3, b"value");
        for seed in 0..3_000_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = good.clone();
            bytes.truncate(random.usize(..=bytes.len()));
            for _ in 0..random.usize(1..5) {
                if let Some(byte) = (!bytes.is_empty()).then(|| random.usize(..bytes.len())) {
                    bytes[byte] = random.u8(..);
                }
            }
            let _ = read_action(&bytes, 5);
            let _ = read_response_change(&bytes, 5);
            let _ = read_question(&bytes);
            let _ = (read_token(&bytes), read_error(&bytes));
        }
    }

    #[test]
    fn questions_and_errors_are_known() {
        let question = |kind: u8| {
            message(|writer| {
                let root = writer.root(&[true; 2]);
                writer.u8(root.slot(0), kind);
                let inner = writer.table(root.slot(1), &[true]);
                writer.text(inner.slot(0), b"host");
            })
        };
        assert_eq!(read_question(&question(1)).unwrap(), RunnerQuestion::Variable("host".to_owned()));
        assert_eq!(read_question(&question(2)).unwrap(), RunnerQuestion::RequestBody);
        assert_eq!(read_question(&question(3)).unwrap(), RunnerQuestion::ResponseBody);
        assert!(read_question(&question(4)).is_err());
        let error = |code: u8| {
            read_error(&message(|writer| {
                let root = writer.root(&[true]);
                writer.u8(root.slot(0), code);
            }))
            .to_string()
        };
        let known = [0, 1, 2, 9].map(error);
        assert_eq!(known, ["bad request", "service unavailable", "conf token not found", "unknown err 9"]);
    }
}
