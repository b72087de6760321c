//! Pushes against a scripted server of Nacos over gRPC: subscriptions, refusals and notices.

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use super::tests::{key, pushing};
use super::*;

/// The result code for a call, by its type and its body.
type Script = fn(&str, &Value) -> i64;

/// The scripted server.
struct Server {
    address: String,
    /// Calls by type and body; `stream` is the opened stream of pushes.
    calls: mpsc::UnboundedReceiver<(String, Value)>,
    notices: broadcast::Sender<Bytes>,
}

/// The part of the server that all its connections share.
#[derive(Clone)]
struct Scripted {
    script: Script,
    calls: mpsc::UnboundedSender<(String, Value)>,
    notices: broadcast::Sender<Bytes>,
}

impl Server {
    async fn start(script: Script) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, calls) = mpsc::unbounded_channel();
        let (notices, _) = broadcast::channel(8);
        let scripted = Scripted { script, calls: sender, notices: notices.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, scripted.clone()));
            }
        });
        Server { address, calls, notices }
    }

    /// The next calls until each of these types was called once, apart from signs of life.
    async fn wait_for(&mut self, kinds: &[&str]) -> Vec<Value> {
        let mut missing: Vec<&str> = kinds.to_vec();
        let mut bodies = Vec::new();
        while !missing.is_empty() {
            let (kind, body) = within(self.calls.recv()).await.unwrap();
            if let Some(at) = missing.iter().position(|missing| *missing == kind) {
                missing.swap_remove(at);
                bodies.push(body);
            }
        }
        bodies
    }

    fn notify(&self, service: &str) {
        let info = json!({"name": service, "groupName": "DEFAULT_GROUP"});
        let body = json!({"requestId": "1", "namespace": "public", "serviceInfo": info});
        self.notices.send(framed(&NacosPayload::new("NotifySubscriberRequest", &body, None))).unwrap();
    }
}

async fn serve(stream: TcpStream, scripted: Scripted) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let scripted = scripted.clone();
        match request.uri().path().ends_with("requestBiStream") {
            true => tokio::spawn(stream_of(respond, scripted)),
            false => tokio::spawn(answer(request, respond, scripted)),
        };
    }
}

/// Answers a call by the script.
async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, scripted: Scripted) {
    let (mut body, mut read) = (request.into_body(), Vec::new());
    while let Some(chunk) = body.data().await {
        let chunk = chunk.unwrap();
        body.flow_control().release_capacity(chunk.len()).unwrap();
        read.extend_from_slice(&chunk);
    }
    let payload = NacosPayload::decode(&read[FRAME_BYTES..]).unwrap();
    let (kind, body) = payload.read().unwrap();
    let code = (scripted.script)(kind, &body);
    let answer = NacosPayload::new("Response", &json!({"resultCode": code, "message": "scripted"}), None);
    let mut stream = respond.send_response(head(), false).unwrap();
    stream.send_data(framed(&answer), false).unwrap();
    let status = [("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))];
    stream.send_trailers(HeaderMap::from_iter(status)).unwrap();
    let _ = scripted.calls.send((kind.to_owned(), body));
}

/// Sends notices until the client is gone.
async fn stream_of(mut respond: SendResponse<Bytes>, scripted: Scripted) {
    let mut notices = scripted.notices.subscribe();
    let mut stream = respond.send_response(head(), false).unwrap();
    let _ = scripted.calls.send(("stream".to_owned(), Value::Null));
    while let Ok(notice) = notices.recv().await {
        if stream.send_data(notice, false).is_err() {
            return;
        }
    }
}

fn head() -> Response<()> {
    Response::builder().header("content-type", "application/grpc").body(()).unwrap()
}

/// A message of gRPC: not compressed, its length, its bytes.
fn framed(payload: &NacosPayload) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(payload.encoded_len()).unwrap());
    payload.encode(&mut frame).unwrap();
    frame.freeze()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(testkit::WAIT_LIMIT, future).await.unwrap()
}

/// A push connection that runs.
struct Running {
    wanted: watch::Sender<Vec<ServiceKey>>,
    changed: mpsc::Receiver<ServiceKey>,
}

impl Running {
    fn start(server: &Server, wanted: Vec<ServiceKey>) -> Running {
        let (push, wanted, changed) = pushing(vec![server.address.clone()], wanted);
        tokio::spawn(push.run());
        Running { wanted, changed }
    }

    async fn next(&mut self) -> ServiceKey {
        within(self.changed.recv()).await.unwrap()
    }
}

#[tokio::test]
async fn notice_names_a_subscribed_service() {
    let mut server = Server::start(|_, _| 200).await;
    let mut push = Running::start(&server, vec![key("", "a"), key("", "b")]);
    server.wait_for(&["ServerCheckRequest", "stream", SUBSCRIBE, SUBSCRIBE]).await;
    assert_eq!((push.next().await, push.next().await), (key("", "a"), key("", "b")));
    server.notify("b");
    assert_eq!(push.next().await, key("", "b"));
}

#[tokio::test]
async fn refused_service_leaves_the_others_subscribed() {
    let mut server = Server::start(|_, body| if body["serviceName"] == "a" { 403 } else { 200 }).await;
    let mut push = Running::start(&server, vec![key("", "a"), key("", "b")]);
    server.wait_for(&["stream", SUBSCRIBE, SUBSCRIBE]).await;
    assert_eq!(push.next().await, key("", "b"));
    server.notify("b");
    assert_eq!(push.next().await, key("", "b"));
}

#[tokio::test]
async fn session_without_a_subscription_is_given_up() {
    let server = Server::start(|kind, _| if kind == SUBSCRIBE { 403 } else { 200 }).await;
    let (mut push, _wanted, _changed) = pushing(Vec::new(), vec![key("", "a")]);
    let Err(reason) = within(push.session(&server.address)).await;
    assert_eq!(reason, "code 403 for SubscribeServiceRequest: scripted");
}

#[tokio::test]
async fn keys_of_one_service_share_a_subscription() {
    let mut filtered = key("", "a");
    filtered.args.insert("metadata".into(), "{}".into());
    let mut server = Server::start(|_, _| 200).await;
    let mut push = Running::start(&server, vec![key("", "a"), filtered.clone()]);
    server.wait_for(&["stream", SUBSCRIBE]).await;
    assert_eq!((push.next().await, push.next().await), (key("", "a"), filtered.clone()));
    push.wanted.send(vec![filtered, key("", "b")]).unwrap();
    // The first key is gone, but its service is still followed: the next call is for the new service.
    assert_eq!(server.wait_for(&[SUBSCRIBE]).await[0]["serviceName"], "b");
    push.wanted.send(vec![key("", "b")]).unwrap();
    let ended = server.wait_for(&[SUBSCRIBE]).await.remove(0);
    assert_eq!((&ended["serviceName"], &ended["subscribe"]), (&json!("a"), &json!(false)));
}

const SUBSCRIBE: &str = "SubscribeServiceRequest";
/// The flag and the length in front of a message.
const FRAME_BYTES: usize = 5;
