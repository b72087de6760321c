//! gRPC clients: error responses of the gateway, and deadlines. Calls that pass to an endpoint need HTTP/2 there.

use testkit::{Origin, Reply, Signal, Step};

use super::client::{Answer, Client, request_with};
use crate::support::{in_front_of, route, upstream};

fn call(client: &mut Client, path: &str, more: &[(&str, &str)]) -> Answer {
    let fields = [&[("content-type", "application/grpc+proto"), ("te", "trailers")], more].concat();
    client.send(request_with("POST", path, &fields), b"\0\0\0\0\0", None).unwrap()
}

#[test]
fn errors_are_responses_of_trailers_only() {
    let down = Origin::nowhere();
    let weir = crate::support::gateway(&route("uri: /known/*", &upstream(&[down], "")));
    let mut client = Client::connect(weir.proxy());
    for (path, code, message) in
        [("/unknown", "12", "404 Route Not Found"), ("/known/a", "14", "502 Bad Gateway: connect_failed")]
    {
        let answer = call(&mut client, path, &[]);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/grpc"));
        assert_eq!(
            (answer.header("grpc-status"), answer.header("grpc-message")),
            (Some(code), Some(message))
        );
        assert_eq!(answer.header("content-length"), None);
    }
    let plain = client.ask(request_with("GET", "/unknown", &[("content-type", "application/json")])).unwrap();
    assert_eq!((plain.status, plain.header("grpc-status")), (404, None));
    let web =
        client.ask(request_with("GET", "/unknown", &[("content-type", "application/grpc-web")])).unwrap();
    assert_eq!((web.status, web.header("grpc-status")), (404, None));
}

#[test]
fn deadline_of_a_call_bounds_the_exchange() {
    let never = Signal::new();
    let origin = Origin::start({
        let never = never.clone();
        move |_| Reply::new().wait(&never).then(Step::Close)
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let answer = call(&mut client, "/", &[("grpc-timeout", "300m")]);
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("4")), "{answer:?}");
    never.set();
}
