//! The parts that authentication plugins share. It authenticates no request itself.

use exchange::Exchange;
use exchange::exchange::Consumer;

/// Names the consumer to the upstream, in fields that a client cannot forge.
pub(crate) fn set_consumer_headers(exchange: &mut Exchange, consumer: &Consumer) {
    let custom_id =
        consumer.labels.iter().find(|(name, _)| &**name == "custom_id").map(|(_, value)| &**value);
    let fields = [
        ("X-Consumer-Username", Some(&*consumer.username)),
        ("X-Credential-Identifier", consumer.credential_id.as_deref()),
        ("X-Consumer-Custom-ID", custom_id),
    ];
    let headers = &mut exchange.request.headers;
    for (name, value) in fields {
        // A label that is not valid in a field leaves the field out; a field of the client is removed in any
        // case.
        if value.is_none_or(|value| headers.set(name, value.as_bytes()).is_err()) {
            headers.remove(name);
        }
    }
}
