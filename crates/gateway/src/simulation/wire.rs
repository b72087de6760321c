//! HTTP/1 as the peers of a simulation write and read it. It shares no code with the gateway's parser and is
//! naive on purpose, so that a mistake of the parser is not repeated by its checks.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use net::env::Stream;

/// Reason for which a message could not be read or written to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The stream ended in order inside a message.
    End,
    /// The stream was reset.
    Reset,
    /// The bytes are not HTTP.
    Malformed(String),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Reset
    }
}

/// The head of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// The request or status line.
    pub(crate) line: String,
    fields: Vec<(String, String)>,
}

impl Head {
    fn parse(text: &[u8]) -> Result<Head, Broken> {
        let malformed = || Broken::Malformed(String::from_utf8_lossy(text).into_owned());
        let text = std::str::from_utf8(text).map_err(|_| malformed())?;
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for field in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = field.split_once(':').ok_or_else(malformed)?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Head { line, fields })
    }

    /// Value of the field `name`; `None` if it is absent or repeated.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field == name);
        let first = values.next()?;
        values.next().is_none().then_some(&*first.1)
    }

    /// Value of a field as a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The `index`th word of the first line.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.line.split(' ').nth(index).unwrap_or_default()
    }

    /// A response's status.
    pub(crate) fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or_default()
    }

    /// Whether `Connection` says `close`.
    pub(crate) fn closes(&self) -> bool {
        self.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }
}

/// State of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The body is complete.
    Done,
    /// This many bytes are missing.
    Length(u64),
    /// The size of a chunk comes next, after the CRLF of the chunk before unless it is the `first`.
    Chunk { first: bool },
    /// This many bytes of a chunk are missing.
    InChunk(u64),
    /// The body ends with the stream.
    UntilEnd,
}

impl Body {
    /// The framing of a request.
    pub(crate) fn of_request(head: &Head) -> Body {
        match (head.is_chunked(), head.number("content-length")) {
            (true, _) => Body::Chunk { first: true },
            (false, Some(length)) => Body::Length(length).at_once(),
            (false, None) => Body::Done,
        }
    }

    /// The framing of a response to a request with `method`.
    pub(crate) fn of_response(head: &Head, method: &str) -> Body {
        let status = head.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Body::Done;
        }
        match (head.is_chunked(), head.number("content-length")) {
            (true, _) => Body::Chunk { first: true },
            (false, Some(length)) => Body::Length(length).at_once(),
            (false, None) => Body::UntilEnd,
        }
    }

    fn at_once(self) -> Body {
        if self == Body::Length(0) { Body::Done } else { self }
    }
}

/// One side of a connection with the bytes that it has read ahead.
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    held: Vec<u8>,
    /// How reading ended.
    ended: Option<Broken>,
    /// The most bytes read at once.
    read_bytes: usize,
}

impl Peer {
    pub(crate) fn new(stream: Stream, read_bytes: usize) -> Peer {
        Peer { stream, held: Vec::new(), ended: None, read_bytes }
    }

    /// Whether bytes were read ahead and not used yet.
    pub(crate) fn holds_bytes(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the bytes that were read ahead.
    pub(crate) fn take_held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn poll_fill(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<(), Broken>> {
        if let Some(ended) = &self.ended {
            return Poll::Ready(Err(ended.clone()));
        }
        let mut room = vec![0; self.read_bytes];
        match self.stream.poll_read(cx, &mut room) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => {
                self.ended = Some(Broken::End);
                Poll::Ready(Err(Broken::End))
            }
            Poll::Ready(Ok(count)) => {
                self.held.extend_from_slice(&room[..count]);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => {
                self.ended = Some(Broken::Reset);
                Poll::Ready(Err(Broken::Reset))
            }
        }
    }

    /// Reads once into the bytes that are held.
    pub(crate) async fn fill(&mut self) -> Result<(), Broken> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Writes all of `data` and reads nothing meanwhile.
    pub(crate) async fn write(&mut self, mut data: &[u8]) -> Result<(), Broken> {
        while !data.is_empty() {
            let count = poll_fn(|cx| self.stream.poll_write(cx, data)).await?;
            data = &data[count..];
        }
        Ok(())
    }

    /// Writes all of `data` and reads ahead meanwhile. Stops early if the other side has stopped reading or,
    /// with `until_answered`, has ended its stream. Returns the number of bytes written.
    pub(crate) async fn write_listening(&mut self, data: &[u8], until_answered: bool) -> usize {
        let mut sent = 0;
        poll_fn(|cx| {
            while sent < data.len() {
                let _ = self.poll_fill(cx).is_ready();
                if until_answered && self.ended.is_some() {
                    return Poll::Ready(());
                }
                match self.stream.poll_write(cx, &data[sent..]) {
                    Poll::Ready(Ok(count)) => sent += count,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => match self.poll_fill(cx) {
                        Poll::Ready(Ok(())) => {}
                        _ => return Poll::Pending,
                    },
                }
            }
            Poll::Ready(())
        })
        .await;
        sent
    }

    /// Closes the sending side.
    pub(crate) async fn shut(&mut self) -> Result<(), Broken> {
        Ok(poll_fn(|cx| self.stream.poll_shutdown(cx)).await?)
    }

    /// The next head; `None` if the stream ended in order before the first byte of a head.
    pub(crate) async fn head(&mut self) -> Result<Option<Head>, Broken> {
        loop {
            if let Some(end) = find(&self.held, b"\r\n\r\n") {
                let head: Vec<u8> = self.held.drain(..end + 4).collect();
                return Head::parse(&head).map(Some);
            }
            match self.fill().await {
                Ok(()) => {}
                Err(Broken::End) if self.held.is_empty() => return Ok(None),
                Err(broken) => return Err(broken),
            }
        }
    }

    /// The next piece of a body; empty if `body` is [`Body::Done`].
    pub(crate) async fn piece(&mut self, body: &mut Body) -> Result<Vec<u8>, Broken> {
        loop {
            match *body {
                Body::Done => return Ok(Vec::new()),
                Body::Length(left) | Body::InChunk(left) if !self.held.is_empty() => {
                    let count = self.held.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - count as u64;
                    *body = match *body {
                        Body::Length(_) => Body::Length(left).at_once(),
                        _ if left == 0 => Body::Chunk { first: false },
                        _ => Body::InChunk(left),
                    };
                    return Ok(self.held.drain(..count).collect());
                }
                Body::Chunk { first } => {
                    if let Some(size) = self.chunk_size(first)? {
                        *body = Body::InChunk(size);
                        if size == 0 {
                            self.trailers().await?;
                            *body = Body::Done;
                        }
                        continue;
                    }
                }
                Body::UntilEnd if !self.held.is_empty() => return Ok(self.take_held()),
                _ => {}
            }
            match self.fill().await {
                Err(Broken::End) if *body == Body::UntilEnd => *body = Body::Done,
                other => other?,
            }
        }
    }

    /// The size of the next chunk, once its line has arrived.
    fn chunk_size(&mut self, first: bool) -> Result<Option<u64>, Broken> {
        let skip = if first { 0 } else { 2 };
        if self.held.len() < skip {
            return Ok(None);
        }
        let Some(end) = find(&self.held[skip..], b"\r\n") else { return Ok(None) };
        let line = String::from_utf8_lossy(&self.held[skip..skip + end]).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16);
        if !self.held.starts_with(&b"\r\n"[..skip]) {
            return Err(Broken::Malformed(format!("a chunk does not end: {line}")));
        }
        self.held.drain(..skip + end + 2);
        size.map(Some).map_err(|_| Broken::Malformed(format!("no chunk size: {line}")))
    }

    async fn trailers(&mut self) -> Result<(), Broken> {
        loop {
            while find(&self.held, b"\r\n").is_none() {
                self.fill().await?;
            }
            let end = find(&self.held, b"\r\n").expect("looked for above");
            self.held.drain(..end + 2);
            if end == 0 {
                return Ok(());
            }
        }
    }

    /// Reads a body whole.
    pub(crate) async fn whole(&mut self, mut body: Body) -> Result<Vec<u8>, Broken> {
        let mut all = Vec::new();
        while body != Body::Done {
            all.extend(self.piece(&mut body).await?);
        }
        Ok(all)
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
