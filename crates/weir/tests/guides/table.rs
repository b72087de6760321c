//! The servers and objects that each page takes for given, and the reasons for blocks that are not run.

use std::fs;

use crate::place::repository;

/// A page and what its commands need.
pub(crate) struct Guide {
    /// The name below `docs/guide` without its ending, or a path.
    pub(crate) page: &'static str,
    pub(crate) setup: Setup,
    /// Blocks with `not-run` behind their language: their beginning, and the reason.
    pub(crate) not_run: &'static [(&'static str, &'static str)],
}

/// The state of the place before the first command of a page.
pub(crate) struct Setup {
    /// A gateway at the usual ports, on the store in `./weir-data`, and `$key`.
    pub(crate) gateway: bool,
    /// Echo origins, which are `weir origin`.
    pub(crate) origins: &'static [&'static str],
    /// Further addresses of this machine, with a port that does not matter.
    pub(crate) addresses: &'static [&'static str],
    /// Further names of this machine.
    pub(crate) names: &'static [&'static str],
    /// Shell commands before the gateway starts.
    pub(crate) prepare: &'static str,
    /// Shell commands after the gateway has started: objects that a page takes for given.
    pub(crate) objects: &'static str,
}

impl Guide {
    /// The path in the repository.
    pub(crate) fn path(&self) -> String {
        if self.page.ends_with(".md") { self.page.to_owned() } else { format!("docs/guide/{}.md", self.page) }
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(repository().join(self.path())).unwrap()
    }

    const fn needs(self, setup: Setup) -> Guide {
        Guide { page: self.page, setup, not_run: self.not_run }
    }

    const fn skips(self, not_run: &'static [(&'static str, &'static str)]) -> Guide {
        Guide { page: self.page, setup: self.setup, not_run }
    }
}

/// An empty machine.
pub(crate) const NOTHING: Setup =
    Setup { gateway: false, origins: &[], addresses: &[], names: &[], prepare: "", objects: "" };
/// The promise of the front page for all guides: a gateway, and an echo origin.
const GATEWAY: Setup = Setup { gateway: true, origins: &["127.0.0.1:1980"], ..NOTHING };

/// The servers of the pages for users of other gateways, which start the gateway themselves.
const SERVERS: Setup = Setup {
    origins: &["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.4:8080"],
    names: &["shop.example"],
    ..NOTHING
};

/// A page that needs a gateway with an echo origin.
const fn page(page: &'static str) -> Guide {
    Guide { page, setup: GATEWAY, not_run: &[] }
}

/// Every page.
pub(crate) const GUIDES: &[Guide] = &[
    page("README.md").needs(Setup { prepare: SERVICE, ..NOTHING }).skips(&[
        (
            "sudo apt install",
            "needs the package and systemd; packages/readme.rs installs it on a booted machine",
        ),
        ("make run", "compiles the workspace; it/try_out.rs runs its script, and CI runs `make test`"),
    ]),
    page("acme").needs(Setup { prepare: ACME, origins: &["127.0.0.1:1980"], ..NOTHING }),
    page("admin-api").needs(Setup { objects: ONE, ..GATEWAY }).skips(&[
        (
            "$ weir history --admin 192.0.2.1",
            "needs another machine with certificates; it/admin_https.rs makes the same call",
        ),
        ("$ schemathesis run", "asks for minutes; it/openapi.rs runs it with the time that a test has"),
    ]),
    page("alerts").needs(Setup { objects: FAILED, ..GATEWAY }),
    page("caching").needs(Setup { origins: &["127.0.0.1:8080"], ..GATEWAY }),
    page("canaries").needs(Setup { origins: &["127.0.0.1:8081", "127.0.0.1:8082"], ..GATEWAY }),
    page("changing-configuration").needs(Setup { objects: OLD, ..GATEWAY }),
    page("coming-from-kong").needs(SERVERS),
    page("coming-from-nginx").needs(SERVERS),
    page("coming-from-nginx-stream").needs(SERVERS),
    page("coming-from-spring-cloud-gateway").needs(SERVERS),
    page("coming-from-traefik").needs(SERVERS),
    page("coming-from-zuul").needs(SERVERS),
    page("compression"),
    page("configuration-sources").skips(&[
        (
            "$ weir run --source etcd",
            "needs a cluster of three etcd servers; it/etcd.rs runs the gateway on one",
        ),
        (
            "$ curl -X POST",
            "needs an etcd that came back with older data; it/etcd.rs restores one and adopts it",
        ),
    ]),
    page("consumers-and-authentication").needs(Setup { prepare: JILL, ..GATEWAY }),
    page("cors"),
    page("dashboard").skips(&[
        ("make run", "builds the binary; it/try_out.rs runs the script behind it"),
        ("weir top", "needs a terminal; it/top.rs and it/tap.rs run it in one"),
    ]),
    page("debugging-a-502").needs(Setup { objects: DEAD, ..GATEWAY }),
    page("discovery").needs(Setup { origins: &["10.0.0.1:8080", "10.0.0.2:8080"], ..NOTHING }),
    page("discovery-registries").needs(Setup { prepare: ETCD, origins: &["127.0.0.1:8080"], ..NOTHING }),
    page("errors").needs(Setup { objects: DEAD, ..GATEWAY }),
    page("external-plugins").needs(Setup { origins: &["127.0.0.1:1980"], ..NOTHING }).skips(&[(
        "mkdir runner",
        "needs the module proxy of Go; lab/install.sh test builds the same program",
    )]),
    page("extensions"),
    page("fixed-responses"),
    page("getting-started").needs(NOTHING).skips(&[
        ("make run", "builds the binary; it/try_out.rs runs the script behind it"),
        ("examples/try.sh target/quick/weir", "needs the binary of `make run`; it/try_out.rs runs it"),
    ]),
    page("grafana"),
    page("graphql")
        .needs(Setup { prepare: GRAPHQL, ..GATEWAY })
        .skips(&[("curl -X PURGE", "the key is that of a response; it/graphql.rs purges with one")]),
    page("grpc")
        .needs(Setup { prepare: GRPC, addresses: &["10.0.0.1:50051", "10.0.0.2:50051"], ..GATEWAY })
        .skips(&[(
            "protoc",
            "needs the compiler of Protocol Buffers; it/grpc_transcode.rs takes what it writes",
        )]),
    page("health-checks").needs(Setup {
        origins: &["10.0.0.1:8080"],
        addresses: &["10.0.0.2:8080"],
        ..GATEWAY
    }),
    page("http2").needs(Setup { prepare: CERTIFICATE, objects: SHOP, names: &["shop.example"], ..GATEWAY }),
    page("http3").skips(&[(
        "curl --http3-only",
        "curl of Debian 12 has no HTTP/3; it/http3.rs has a client that does",
    )]),
    page("json-web-tokens"),
    page("layer-4").needs(Setup { origins: &["127.0.0.1:1980"], ..NOTHING }),
    page("kubernetes").skips(&[
        ("skopeo copy", CLUSTER),
        ("kubectl get secret", CLUSTER),
        ("kubectl create namespace", CLUSTER),
    ]),
    page("laboratory").skips(&[
        ("weir lab run --quick  ", MEASURES),
        ("weir lab run --turn-ms 20 --scenario ten", MEASURES),
        ("weir lab run --turn-ms 20 --scenario tra", MEASURES),
        ("weir lab run --turn-ms 20 --scenario tcp", MEASURES),
        ("weir lab faults --quick", MEASURES),
        ("weir lab run --quick --weir", MEASURES),
        ("cargo build", "compiles the binary; `make lint` checks this selection of features"),
    ]),
    page("load-balancing"),
    page("log-shipping"),
    page("logging").needs(Setup { origins: &["127.0.0.1:1980", "127.0.0.1:3000"], ..GATEWAY }),
    page("lua-plugins"),
    page("migrating-from-apisix"),
    page("mqtt-and-redis").needs(Setup { prepare: BROKERS, ..NOTHING }),
    page("observability")
        .skips(&[("$ weir tap", "shows requests of a minute of traffic; it/tap.rs runs it")]),
    page("openid-connect").needs(Setup { prepare: OPENID, ..GATEWAY }).skips(&[(
        "export KC_BOOTSTRAP_ADMIN_USERNAME",
        "Keycloak takes a minute to start; it/openid_connect.rs makes this client in a real one and logs in",
    )]),
    page("operations").needs(Setup { prepare: SERVICE, ..NOTHING }).skips(&[(
        "$ install -D -m 0644",
        "needs systemd; packages/guide.rs does the same on a booted machine",
    )]),
    page("overload"),
    page("plugins").needs(Setup { objects: META, ..GATEWAY }),
    page("protecting-upstreams"),
    page("rate-limits"),
    page("reading-measurements").needs(Setup { prepare: RESULTS, ..NOTHING }),
    page("redis"),
    page("registration"),
    page("retries"),
    page("routing"),
    page("secrets"),
    page("tls").needs(Setup { prepare: CERTIFICATE, objects: ALL, names: &["shop.example"], ..GATEWAY }),
    page("tracing").needs(Setup { objects: ORDERS, ..GATEWAY }),
    page("transformation").needs(Setup { prepare: SOAP, ..GATEWAY }),
    page("transparent-proxy").needs(Setup { origins: &["127.0.0.1:1980"], ..NOTHING }).skips(&[(
        "$ install -D -m 0644 packaging/systemd/weir.service.d/transparent",
        "needs systemd; it/transparent.rs starts the gateway with and without the capability",
    )]),
    page("udp").needs(NOTHING),
    page("upstreams"),
    page("wasm-plugins").skips(&[(
        "rustup target add",
        "fetches a compiler; the tests of the crate `wasm` run a module that it made",
    )]),
    page("websocket"),
    page("writing-a-plugin").skips(&[
        ("cargo test", "compiles the workspace; CI runs these tests"),
        (
            "cargo run",
            "compiles the binary; crates/plugins/guide is the example, and its tests run with the others",
        ),
    ]),
];

/// The service of the package.
const SERVICE: &str = "terminal gateway <<<'weir run --data /var/lib/weir'";

/// The reason for blocks that need a cluster.
const CLUSTER: &str =
    "needs a cluster; operators/chart_run.rs renders the chart and runs the containers' commands";

/// The reason for blocks that measure.
const MEASURES: &str =
    "measures for minutes; it/lab.rs runs the laboratory with rounds of a few milliseconds";

/// Results of two runs.
const RESULTS: &str = "\
cp \"$repository/lab/results/0.1.0-lab.json\" result.json; cp result.json before.json";

/// A gateway with an order that its authority, which is this machine, does not answer.
const ACME: &str = "\
terminal gateway <<<'weir run --acme-email ops@example.com --acme-domains shop.example --acme-authorities https://127.0.0.1:14000/dir'
key=$(cat weir-data/admin.key)
until curl -s -H \"X-API-KEY: $key\" http://127.0.0.1:9180/apisix/admin/weir/certificates | grep -q '\"failures\":1'; do sleep 0.1; done";

/// The public key of an issuer of tokens.
const JILL: &str = "\
openssl ecparam -name prime256v1 -genkey -noout -out jill.key
openssl ec -in jill.key -pubout -out jill.pem 2>/dev/null";

/// A certificate of shop.example that curl trusts.
const CERTIFICATE: &str = "\
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj /CN=shop.example \
  -addext subjectAltName=DNS:shop.example -keyout shop.example.key -out shop.example.pem 2>/dev/null
export CURL_CA_BUNDLE=$PWD/shop.example.pem";

/// A registry, and the variables of a pod.
const ETCD: &str = "\
export KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443
etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 >\"$place/outputs/etcd\" 2>&1 &
until etcdctl endpoint health >/dev/null 2>&1; do sleep 0.1; done";

/// The GraphQL server of the tests, at the port of the page.
const GRAPHQL: &str = "\
mkfifo hold; sleep 1000 >hold &
\"$repository/target/test-node/node\" \"$repository/crates/testkit/src/graphql_server.mjs\" \
  \"$repository/target/test-node/node_modules\" 4000 <hold >\"$place/outputs/graphql\" 2>&1 &
until curl -s -o /dev/null http://127.0.0.1:4000/; do sleep 0.1; done";

/// Two MQTT brokers and a Redis server.
const BROKERS: &str = "\
for port in 1901 1902; do
  echo \"user root\nlistener $port 127.0.0.1\nallow_anonymous true\" >broker-$port.conf
  /usr/sbin/mosquitto -c broker-$port.conf >\"$place/outputs/broker-$port\" 2>&1 &
done
redis-server --port 6401 --save '' >\"$place/outputs/redis\" 2>&1 &
until redis-cli -p 6401 ping >/dev/null 2>&1; do sleep 0.1; done
for port in 1901 1902; do until mosquitto_pub -p $port -t up -m 1 2>/dev/null; do sleep 0.1; done; done";

/// A gRPC service that knows one order.
const GRPC: &str = "\
\"$repository/target/test-python/bin/python\" \"$repository/crates/weir/tests/guides/servers/orders.py\" >\"$place/outputs/grpc\" 2>&1 &
await $! \"$place/outputs/grpc\" ready || fail \"$(cat \"$place/outputs/grpc\")\"";

/// An OpenID provider with the addresses and forms of Keycloak's realm `shop`.
const OPENID: &str = "\
/usr/bin/python3 \"$repository/crates/weir/tests/guides/servers/realm.py\" >\"$place/outputs/realm\" 2>&1 &
await $! \"$place/outputs/realm\" ready || fail \"$(cat \"$place/outputs/realm\")\"";

/// A SOAP service that knows one country.
const SOAP: &str = "\
/usr/bin/python3 \"$repository/crates/weir/tests/guides/servers/countries.py\" >\"$place/outputs/soap\" 2>&1 &
await $! \"$place/outputs/soap\" ready || fail \"$(cat \"$place/outputs/soap\")\"";

/// Defines `put`: `put PATH OBJECT` writes an object.
pub(crate) const PUT: &str = "\
put() { curl -fsS -o /dev/null -X PUT \"http://127.0.0.1:9180/apisix/admin/$1\" -H \"X-API-KEY: $key\" -d \"$2\" || fail \"put $1\"; }
";

/// The objects before the change of the page.
const OLD: &str = "\
put upstreams/old '{\"nodes\": {\"127.0.0.1:1979\": 1}}'
put routes/hello '{\"uri\": \"/hello\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'";

/// One route.
const ONE: &str = "put routes/1 '{\"uri\": \"/hello\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'";

/// A route for everything.
const ALL: &str = "put routes/all '{\"uri\": \"/*\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'";

/// A route to a port where nothing listens.
const DEAD: &str = "\
put routes/all '{\"uri\": \"/*\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'
put routes/dead '{\"name\": \"dead\", \"uri\": \"/dead\", \"upstream\": {\"nodes\": {\"127.0.0.1:1\": 1}}}'";

/// A request that failed.
const FAILED: &str = "\
put routes/dead '{\"uri\": \"/dead\", \"upstream\": {\"nodes\": {\"127.0.0.1:1\": 1}}}'
curl -s -o /dev/null http://127.0.0.1:9080/dead";

/// The route that has the plugin of the page.
const META: &str = "\
put routes/meta '{\"uri\": \"/meta\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}, \"plugins\": {\"key-auth\": {\"_meta\": {
  \"filter\": [[\"arg_open\", \"!\", \"==\", \"1\"]], \"error_response\": {\"message\": \"ask for a key\"}}}}}'";

/// The certificate of shop.example, in the gateway.
const SHOP: &str = "\
put routes/all '{\"uri\": \"/*\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'
put ssls/shop \"$(jq -n --rawfile cert shop.example.pem --rawfile key shop.example.key '{sni: \"shop.example\", cert: $cert, key: $key}')\"";

/// A traced request, and its place in a bucket.
const ORDERS: &str = "\
put plugin_metadata/opentelemetry '{\"collector\": {\"address\": \"127.0.0.1:4318\"}}'
put routes/orders '{\"uri\": \"/orders\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}, \"plugins\": {\"prometheus\": {}, \"opentelemetry\": {\"sampler\": {\"name\": \"always_on\"}}}}'
for i in 1 2 3; do curl -s -o /dev/null http://127.0.0.1:9080/orders; done";
