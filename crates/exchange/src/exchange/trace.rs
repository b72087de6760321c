//! The trace that an exchange belongs to, as plugins of tracing have decided it: for variables and logs.

/// The identity of a span in its trace, and whether the trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; 64 bit ids have eight zero bytes before them.
    pub trace_id: [u8; 16],
    /// The span of the gateway.
    pub span_id: [u8; 8],
    /// Whether spans of it are reported.
    pub is_sampled: bool,
    /// Whether the id of the trace is written with 16 digits in place of 32.
    pub is_short: bool,
}

/// The traces of one exchange, by the plugin that has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traces {
    /// Of `opentelemetry`.
    pub opentelemetry: Option<TraceContext>,
    /// Whether the variables of `opentelemetry` have values: its metadata decide (`set_ngx_var`).
    pub has_opentelemetry_variables: bool,
    /// Of `zipkin`.
    pub zipkin: Option<TraceContext>,
}

impl Traces {
    /// A trace that is reported.
    #[inline]
    pub fn sampled(&self) -> Option<&TraceContext> {
        [&self.opentelemetry, &self.zipkin].into_iter().flatten().find(|trace| trace.is_sampled)
    }
}

impl TraceContext {
    /// The id of the trace in hexadecimal digits.
    pub fn trace_id_text(&self) -> Vec<u8> {
        hexadecimal(if self.is_short { &self.trace_id[8..] } else { &self.trace_id })
    }

    /// The id of the span in hexadecimal digits.
    pub fn span_id_text(&self) -> Vec<u8> {
        hexadecimal(&self.span_id)
    }

    /// The value of a field `traceparent` (W3C Trace Context, version 00).
    pub fn traceparent(&self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hexadecimal(&self.trace_id, &mut text[3..35]);
        write_hexadecimal(&self.span_id, &mut text[36..52]);
        text[54] += u8::from(self.is_sampled);
        text
    }
}

/// The length of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;

/// Writes `bytes` as lower-case hexadecimal digits into `text`, which has two places for each.
pub fn write_hexadecimal(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, places) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        places[0] = DIGITS[usize::from(byte >> 4)];
        places[1] = DIGITS[usize::from(byte & 15)];
    }
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![0; bytes.len() * 2];
    write_hexadecimal(bytes, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_has_ids_and_flag() {
        let mut context =
            TraceContext { trace_id: [0xab; 16], span_id: [0x01; 8], is_sampled: true, is_short: false };
        let text = context.traceparent();
        assert_eq!(text, *b"00-abababababababababababababababab-0101010101010101-01");
        context.is_sampled = false;
        assert!(context.traceparent().ends_with(b"-00"));
        context.is_short = true;
        assert_eq!(context.trace_id_text(), b"abababababababab");
    }
}
