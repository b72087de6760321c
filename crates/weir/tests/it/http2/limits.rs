//! Limits of requests in flight count streams of HTTP/2, of clients and of nodes.

use testkit::{Origin, Reply, Signal, Step};

use super::client::{self, Client};
use crate::support::{gateway, route, upstream};

#[test]
fn streams_of_one_connection_count_as_requests() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = Origin::start({
        let (asked, go) = (asked.clone(), go.clone());
        move |_| {
            let reply = Reply::new().then(Step::Set(asked.clone())).wait(&go);
            reply.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
        }
    });
    let weir = gateway(&route("uri: /*", &upstream(&[origin.address()], "limits: {max_requests: 1}")));
    let mut client = Client::connect(weir.proxy());
    let (first, _body) = client.start(client::request("GET", "/1"), true);
    client.run_until("the origin was asked", || asked.is_set());
    assert_eq!(client.get("/2").status, 503);
    go.set();
    let first = client.run(client::whole(first)).unwrap();
    assert_eq!((first.status, first.text().as_str()), (200, "x"));
}
