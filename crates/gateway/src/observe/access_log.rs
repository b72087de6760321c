//! The access log: a format compiled once, lines collected by each worker, one writer thread that owns the file. A slow
//! disk never waits in a worker: what the writer cannot take is dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use router::vars::Template;

use crate::exchange::Exchange;

/// Lines collected before they go to the writer; a slow loop's turn sends fewer.
const BATCH_BYTES: usize = 32 * 1024;
/// Batches that may wait for the writer: 8 MiB of a disk that stalls.
const QUEUE_BATCHES: usize = 256;

/// How a line is made.
pub enum Format {
    /// A text with variables.
    Text(Template),
    /// A JSON object: names and texts with variables.
    Json(Vec<(String, Template)>),
}

/// The format, shared by the workers.
#[derive(Clone)]
pub struct AccessLog {
    format: Arc<Format>,
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To standard output.
    Stdout,
    /// To a file, appended.
    File(PathBuf),
}

/// A worker's end of the log.
pub struct LineWriter {
    batch: Vec<u8>,
    value: Vec<u8>,
    queue: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// The writer thread's controls.
#[derive(Clone)]
pub struct LogWriter {
    queue: SyncSender<Vec<u8>>,
    reopen: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// A log with this format.
    pub fn new(format: Format) -> AccessLog {
        AccessLog { format: Arc::new(format) }
    }

    /// Formats the line of an ended exchange.
    pub(crate) fn write(&self, exchange: &Exchange, writer: &mut LineWriter) {
        let LineWriter { batch, value, .. } = writer;
        match &*self.format {
            Format::Text(template) => {
                template.render_with(exchange, batch, b"-", |value, out| escape_text(&value.text(), out));
            }
            Format::Json(fields) => {
                batch.push(b'{');
                for (index, (name, template)) in fields.iter().enumerate() {
                    if index > 0 {
                        batch.push(b',');
                    }
                    escape_json(name.as_bytes(), batch);
                    batch.push(b':');
                    value.clear();
                    template.render(exchange, value);
                    escape_json(value, batch);
                }
                batch.push(b'}');
            }
        }
        batch.push(b'\n');
        if batch.len() >= BATCH_BYTES {
            writer.flush();
        }
    }
}

impl LineWriter {
    /// Hands the collected lines to the writer thread.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_BYTES));
        if let Err(TrySendError::Full(batch)) = self.queue.try_send(batch) {
            let lines = batch.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl LogWriter {
    /// Opens the target and starts the writer thread.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn start(target: Target) -> io::Result<LogWriter> {
        let out = open(&target)?;
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let reopen = Arc::new(AtomicBool::new(false));
        let writer = LogWriter { queue, reopen: reopen.clone(), dropped: Arc::default() };
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_batches(&target, out, &batches, &reopen))?;
        Ok(writer)
    }

    /// A worker's end.
    pub fn line_writer(&self) -> LineWriter {
        LineWriter {
            batch: Vec::new(),
            value: Vec::new(),
            queue: self.queue.clone(),
            dropped: self.dropped.clone(),
        }
    }

    /// Opens the file anew before the next line, as after it was moved away.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        // An empty batch wakes the writer; a full queue means that it is awake.
        let _ = self.queue.try_send(Vec::new());
    }

    /// Lines that were dropped because the writer could not follow.
    pub fn dropped_lines(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

enum Out {
    Stdout(io::Stdout),
    File(File),
}

fn open(target: &Target) -> io::Result<Out> {
    Ok(match target {
        Target::Stdout => Out::Stdout(io::stdout()),
        Target::File(path) => Out::File(open_file(path)?),
    })
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_batches(target: &Target, mut out: Out, batches: &Receiver<Vec<u8>>, reopen: &AtomicBool) {
    let mut failing = false;
    while let Ok(batch) = batches.recv() {
        if reopen.swap(false, Ordering::AcqRel) {
            match open(target) {
                Ok(opened) => out = opened,
                Err(error) => {
                    tracing::error!(%error, ?target, "cannot open the access log anew; writing to the old one")
                }
            }
        }
        let result = match &mut out {
            Out::Stdout(stdout) => stdout.write_all(&batch).and_then(|()| stdout.flush()),
            Out::File(file) => file.write_all(&batch),
        };
        match (result, failing) {
            (Err(error), false) => {
                failing = true;
                tracing::error!(%error, ?target, "cannot write the access log; lines are lost until it works again");
            }
            (Ok(()), true) => failing = false,
            _ => {}
        }
    }
}

/// Control characters, quotes and backslashes as `\xHH`, so that no request can forge a line or a field.
fn escape_text(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            0..0x20 | b'"' | b'\\' | 0x7f..=0xff => {
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(&hex(*byte));
            }
            _ => out.push(*byte),
        }
    }
}

/// A JSON string; bytes that are no UTF-8 become the replacement character.
fn escape_json(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 | 0x7f => {
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&hex(byte));
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_client_sends_can_forge_a_line() {
        let check = |value: &[u8], text: &str, json: &str| {
            let (mut as_text, mut as_json) = (Vec::new(), Vec::new());
            escape_text(value, &mut as_text);
            escape_json(value, &mut as_json);
            assert_eq!(
                (String::from_utf8(as_text).unwrap(), String::from_utf8(as_json).unwrap()),
                (text.into(), json.into())
            );
        };
        check(b"plain /path", "plain /path", "\"plain /path\"");
        check(b"a\nb\"c", "a\\x0Ab\\x22c", "\"a\\u000Ab\\\"c\"");
        check(b"\xff", "\\xFF", "\"\u{fffd}\"");
        check("ü".as_bytes(), "\\xC3\\xBC", "\"ü\"");
    }
}
