//! Endpoints that loaded code of extensions has in the control API: a worker answers, because the code runs
//! there. Weir's own paths go before them.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use model::loaded_endpoint::LoadedEndpoint;
use model::report::{EndpointReply, EndpointRequest};

use super::ControlParts;
use crate::serve::{Peer, respond};

impl ControlParts {
    /// Whether an endpoint of loaded code is for this request.
    pub(super) fn is_loaded(&self, head: &Parts) -> bool {
        self.loaded(&head.method, &head.uri).is_some()
    }

    /// The answer of the endpoint of loaded code that the request is for.
    pub(super) async fn of_loaded(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let endpoints = self.reports.endpoints.as_ref()?;
        let endpoint = self.loaded(request.method(), request.uri())?;
        let Peer(peer) = request.extensions().get::<Peer>()?;
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let headers = request.headers().iter();
        let asked = EndpointRequest {
            method: request.method().as_str().to_owned(),
            target: target.to_owned(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: request.body().to_vec(),
            peer: *peer,
        };
        Some(match endpoints.ask(endpoint, asked).await {
            Ok(reply) => response(reply),
            Err(reason) => respond::error_response(StatusCode::INTERNAL_SERVER_ERROR, reason),
        })
    }

    fn loaded(&self, method: &Method, uri: &Uri) -> Option<LoadedEndpoint> {
        let catalog = self.catalog();
        let all = catalog.iter().flat_map(|plugin| plugin.info().loaded_endpoints.iter());
        LoadedEndpoint::find(all, method.as_str(), uri.path().as_bytes()).cloned()
    }
}

fn response(reply: EndpointReply) -> Response<Bytes> {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond::with_body(status, Bytes::from(reply.body));
    for (name, value) in reply.headers {
        let field = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        // The server writes the length of what it sends.
        if let Some((name, value)) = field.filter(|(name, _)| *name != http::header::CONTENT_LENGTH) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
