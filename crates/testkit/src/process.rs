//! A child process of any program; its output is collected line by line.

use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::wait::{wait_for, wait_until};

/// A running child; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) stdout: Lines,
    pub(crate) stderr: Lines,
    /// The pipe of its standard error until reading begins.
    unread: Option<PipeReader>,
}

/// Lines collected from a pipe so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    lines: Vec<String>,
    ended: bool,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Process> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdout = Lines::follow(child.stdout.take());
        let stderr = Lines::follow(child.stderr.take());
        Ok(Process { child, stdout, stderr, unread: None })
    }

    /// As [`Process::spawn`], with a full pipe as standard error until [`Process::read_stderr`], as behind a
    /// log collector that has stopped reading.
    pub(crate) fn spawn_unread(command: &mut Command) -> io::Result<Process> {
        let (unread, end) = io::pipe()?;
        fill(&end)?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(end).spawn()?;
        // `command` holds a copy of the write end, which would keep the pipe open after the child ends.
        command.stderr(Stdio::null());
        let stdout = Lines::follow(child.stdout.take());
        Ok(Process { child, stdout, stderr: Lines::default(), unread: Some(unread) })
    }

    /// Begins to read the standard error.
    pub(crate) fn read_stderr(&mut self) {
        if let Some(unread) = self.unread.take() {
            self.stderr = Lines::follow(Some(unread));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status if the process has ended, after its output was read to the end.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child of this process")?;
        wait_until("the output of an ended process is read", || {
            self.stdout.ended() && (self.unread.is_some() || self.stderr.ended())
        });
        Some(status)
    }

    /// The exit status if the process has ended; other processes may still write to its output.
    pub(crate) fn gone(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    /// Waits until the process ends.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the process has ended", || self.ended())
    }

    /// Sends a signal; false if the process does not exist any more.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) -> bool {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).is_ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes until a pipe is full.
fn fill(mut end: &PipeWriter) -> io::Result<()> {
    rustix::io::ioctl_fionbio(end, true)?;
    // In short lines, so that no byte of capacity is left.
    loop {
        match end.write(b"\n") {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    rustix::io::ioctl_fionbio(end, false)?;
    Ok(())
}

impl Lines {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    pub(crate) fn text(&self) -> String {
        self.all().join("\n")
    }

    fn ended(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ended
    }

    fn follow(pipe: Option<impl Read + Send + 'static>) -> Lines {
        let lines = Lines::default();
        let pipe = pipe.expect("a piped stream");
        let sink = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                sink.0.lock().unwrap_or_else(PoisonError::into_inner).lines.push(line);
            }
            sink.0.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        });
        lines
    }
}
