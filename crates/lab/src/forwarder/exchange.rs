//! One request and its response: heads are parsed and written anew, bodies are forwarded unchanged, in both
//! directions at once. It does not choose the upstream connection.

use std::net::IpAddr;

use http1::{
    HeadError, HeadStatus, RequestFraming, RequestWire, ResponseFraming, ResponseWire, encode, parse_request,
    parse_response,
};
use message::{FieldId, FieldSet, HeadLimits, Method, RequestHead, ResponseHead, Version};

use super::body::BodyProgress;
use super::buffers::{Buffer, Buffers};
use super::layer7::{BufferedSource, UpstreamLink};
use super::link::LinkWriter;

/// The prefix that is removed from a path, as by all contenders.
const PREFIX: &[u8] = b"/sodik";
/// Fields that this module writes itself.
const OWN: FieldSet = FieldSet::of(&[FieldId::XForwardedFor]);

/// The side at fault when an exchange cannot continue.
#[derive(Debug)]
pub(super) enum ForwardFault {
    /// The client left, or sent an incomplete message.
    Client,
    /// The client's request is malformed.
    Request(HeadError),
    /// The origin cannot be reached, left, or sent a malformed response.
    Origin,
}

/// The connections that can be used again after an exchange.
#[derive(Debug)]
pub(super) struct ConnectionReuse {
    pub(super) keep_client: bool,
    pub(super) keep_upstream: bool,
}

/// The exchanges of one client's connection; each reuses the memory.
#[derive(Debug)]
pub(super) struct Exchange {
    client: String,
    buffers: Buffers,
    request: RequestHead,
    request_wire: RequestWire,
    response: ResponseHead,
    response_wire: ResponseWire,
    /// Whether a part of the response was sent to the client.
    pub(super) answer_has_begun: bool,
}

impl Exchange {
    pub(super) fn new(client: IpAddr, buffers: Buffers) -> Self {
        Self {
            client: client.to_string(),
            buffers,
            request: RequestHead::new(),
            request_wire: RequestWire::default(),
            response: ResponseHead::new(),
            response_wire: ResponseWire::default(),
            answer_has_begun: false,
        }
    }

    /// Reads the next request's head; `false` when the client has ended the connection instead.
    pub(super) async fn read_request(&mut self, source: &mut BufferedSource) -> Result<bool, ForwardFault> {
        self.answer_has_begun = false;
        let Some(mut buffer) = source.next().await.map_err(|_| ForwardFault::Client)? else {
            return Ok(false);
        };
        loop {
            match parse_request(&buffer, &mut self.request, &mut self.request_wire, &HeadLimits::default())
                .map_err(ForwardFault::Request)?
            {
                HeadStatus::Complete { head_bytes } => {
                    buffer.advance(head_bytes);
                    source.put_back(buffer);
                    return Ok(true);
                }
                HeadStatus::Partial => append(&mut buffer, source, || ForwardFault::Client).await?,
            }
        }
    }

    /// Sends the request that was read, and its response back.
    pub(super) async fn run(
        &mut self,
        client: &mut BufferedSource,
        to_client: &mut LinkWriter,
        upstream: &mut UpstreamLink,
    ) -> Result<ConnectionReuse, ForwardFault> {
        let mut body = BodyProgress::of_request(self.request_wire.framing);
        let head = self.request_head(client, &mut body)?;
        let UpstreamLink { source: origin, writer: to_origin, .. } = upstream;
        to_origin.write(head).await.map_err(|_| ForwardFault::Origin)?;
        let mut is_sent = body.is_over();
        let keep_client = if is_sent {
            self.answer(origin, to_client).await?
        } else {
            let receiving = self.answer(origin, to_client);
            tokio::pin!(receiving);
            tokio::select! {
                biased;
                sent = pass(client, &mut body, to_origin, || ForwardFault::Client, || ForwardFault::Origin) => {
                    match sent {
                        Ok(()) => is_sent = true,
                        // The origin may have answered before it stopped reading.
                        Err(ForwardFault::Origin) => {}
                        Err(fault) => return Err(fault),
                    }
                    receiving.await?
                }
                // A response before the end of the request counts, and the connections cannot be used again.
                answered = &mut receiving => answered?,
            }
        };
        let keep_upstream = is_sent && self.response_wire.keep_alive && origin.is_quiet();
        Ok(ConnectionReuse { keep_client: keep_client && is_sent, keep_upstream })
    }

    /// The request's head for the origin, with the part of the body that has arrived already.
    fn request_head(
        &self,
        client: &mut BufferedSource,
        body: &mut BodyProgress,
    ) -> Result<Buffer, ForwardFault> {
        let (request, mut head) = (&self.request, self.buffers.take());
        let out = head.bytes_mut();
        let path = request.path();
        let path = path.strip_prefix(PREFIX).filter(|rest| rest.starts_with(b"/")).unwrap_or(path);
        encode::request_line(out, request.method_text(), path, request.query());
        encode::fields_except(out, &request.headers, OWN);
        if !request.headers.contains_known(FieldId::Host) {
            encode::field(out, "Host", request.authority());
        }
        out.extend_from_slice(b"X-Forwarded-For: ");
        for value in request.headers.get_all_known(FieldId::XForwardedFor) {
            out.extend_from_slice(value);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.client.as_bytes());
        out.extend_from_slice(b"\r\n");
        if self.request_wire.framing == RequestFraming::Chunked {
            out.extend_from_slice(CHUNKED);
        }
        out.extend_from_slice(encode::HEAD_END);
        join(out, client, body, false).map_err(|()| ForwardFault::Client)?;
        Ok(head)
    }

    /// Forwards the response with its interim responses; returns whether the client's connection can be used
    /// again.
    async fn answer(
        &mut self,
        origin: &mut BufferedSource,
        to_client: &mut LinkWriter,
    ) -> Result<bool, ForwardFault> {
        let is_old = self.request.version == Version::Http10;
        loop {
            self.read_response(origin).await?;
            if self.response.status == SWITCHING_PROTOCOLS {
                return Err(ForwardFault::Origin);
            }
            let mut body = BodyProgress::of_response(self.response_wire.framing);
            // A client of HTTP/1.0 knows neither interim responses nor chunks.
            if is_old && self.response.is_interim() {
                continue;
            }
            let unpack = is_old && self.response_wire.framing == ResponseFraming::Chunked;
            let keep = self.request_wire.keep_alive
                && !unpack
                && self.response_wire.framing != ResponseFraming::UntilClose;
            let head = self.response_head(origin, &mut body, keep, unpack)?;
            self.answer_has_begun |= !self.response.is_interim();
            to_client.write(head).await.map_err(|_| ForwardFault::Client)?;
            if self.response.is_interim() {
                continue;
            }
            if unpack {
                self.unpack(origin, &mut body, to_client).await?;
            } else {
                pass(origin, &mut body, to_client, || ForwardFault::Origin, || ForwardFault::Client).await?;
            }
            return Ok(keep);
        }
    }

    async fn read_response(&mut self, origin: &mut BufferedSource) -> Result<(), ForwardFault> {
        let was_head = self.request.method == Method::Head;
        let next = origin.next().await.map_err(|_| ForwardFault::Origin)?;
        let mut buffer = next.ok_or(ForwardFault::Origin)?;
        loop {
            let status = parse_response(
                &buffer,
                &mut self.response,
                &mut self.response_wire,
                &HeadLimits::default(),
                was_head,
            );
            match status.map_err(|_| ForwardFault::Origin)? {
                HeadStatus::Complete { head_bytes } => {
                    buffer.advance(head_bytes);
                    origin.put_back(buffer);
                    return Ok(());
                }
                HeadStatus::Partial => append(&mut buffer, origin, || ForwardFault::Origin).await?,
            }
        }
    }

    /// The response's head for the client, with the part of the body that has arrived already.
    fn response_head(
        &self,
        origin: &mut BufferedSource,
        body: &mut BodyProgress,
        keep: bool,
        unpack: bool,
    ) -> Result<Buffer, ForwardFault> {
        let (response, mut head) = (&self.response, self.buffers.take());
        let out = head.bytes_mut();
        encode::status_line(out, response.status, response.reason_text());
        encode::fields(out, &response.headers);
        if !response.is_interim() {
            if self.response_wire.framing == ResponseFraming::Chunked && !unpack {
                out.extend_from_slice(CHUNKED);
            }
            if !keep {
                encode::field(out, "Connection", b"close");
            } else if self.request.version == Version::Http10 {
                encode::field(out, "Connection", b"keep-alive");
            }
        }
        out.extend_from_slice(encode::HEAD_END);
        join(out, origin, body, unpack).map_err(|()| ForwardFault::Origin)?;
        Ok(head)
    }

    /// Forwards the data of chunks to a client that knows no chunks; the end of the connection ends the body.
    async fn unpack(
        &self,
        origin: &mut BufferedSource,
        body: &mut BodyProgress,
        to_client: &mut LinkWriter,
    ) -> Result<(), ForwardFault> {
        while !body.is_over() {
            let piece = origin.next().await.map_err(|_| ForwardFault::Origin)?.ok_or(ForwardFault::Origin)?;
            let mut data = self.buffers.take();
            let mut piece = piece;
            let used = body.take(&piece, Some(data.bytes_mut())).map_err(|_| ForwardFault::Origin)?;
            piece.advance(used);
            origin.put_back(piece);
            if !data.is_empty() {
                to_client.write(data).await.map_err(|_| ForwardFault::Client)?;
            }
        }
        Ok(())
    }
}

/// Appends the next bytes to an incomplete head.
async fn append(
    buffer: &mut Buffer,
    source: &mut BufferedSource,
    fault: fn() -> ForwardFault,
) -> Result<(), ForwardFault> {
    let more = source.more().await.map_err(|_| fault())?.ok_or_else(fault)?;
    buffer.bytes_mut().extend_from_slice(&more);
    Ok(())
}

/// Appends the part of the body that arrived together with its head, so that both are one write.
fn join(
    out: &mut Vec<u8>,
    source: &mut BufferedSource,
    body: &mut BodyProgress,
    unpack: bool,
) -> Result<(), ()> {
    if body.is_over() {
        return Ok(());
    }
    let Some(mut waiting) = source.waiting() else { return Ok(()) };
    let used = if unpack {
        body.take(&waiting, Some(out)).map_err(drop)?
    } else {
        let used = body.take(&waiting, None).map_err(drop)?;
        out.extend_from_slice(&waiting[..used]);
        used
    };
    waiting.advance(used);
    source.put_back(waiting);
    Ok(())
}

/// Forwards the rest of a body, byte for byte. The direction decides the side at fault.
async fn pass(
    from: &mut BufferedSource,
    body: &mut BodyProgress,
    to: &mut LinkWriter,
    cannot_read: fn() -> ForwardFault,
    cannot_write: fn() -> ForwardFault,
) -> Result<(), ForwardFault> {
    while !body.is_over() {
        let Some(mut piece) = from.next().await.map_err(|_| cannot_read())? else {
            return if matches!(body, BodyProgress::UntilClose) { Ok(()) } else { Err(cannot_read()) };
        };
        let used = body.take(&piece, None).map_err(|_| cannot_read())?;
        if let Some(rest) = piece.split_off(used) {
            from.put_back(rest);
        }
        if !piece.is_empty() {
            to.write(piece).await.map_err(|_| cannot_write())?;
        }
    }
    Ok(())
}

const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\n";
const SWITCHING_PROTOCOLS: u16 = 101;
