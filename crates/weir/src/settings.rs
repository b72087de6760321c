//! The settings of one instance: every name, its default, its documentation, and the values in force.
//!
//! The list below is the only definition. The command line, the settings file, the environment, `--help` and
//! the reference page all come from it. Nothing here opens a socket or starts anything: `boot` reads the
//! values.

mod apisix;
mod arguments;
mod cache;
mod discovery;
mod fault;
mod file;
mod load;
mod parse;
#[cfg(test)]
mod reference;
mod registration;
mod relations;
mod remark;
mod runner;
mod service_variable;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod views;
mod wasm;
mod written;

use std::net::SocketAddr;
use std::path::PathBuf;

use control::acme::ChallengeKind;
use exchange::options::AltSvc;
use gateway::compile::ExpiredCertificates;
use ipnet::IpNet;
use model::check::UnknownFields;
use model::settings::RouterMode;
use net::tls::server::Versions;
use stdx::address_family::FamilyOrder;

pub(crate) use arguments::SettingsArguments;
pub(crate) use cache::CacheZones;
pub(crate) use discovery::Registries;
pub(crate) use fault::{Faults, SettingFault, SettingLocation};
pub(crate) use file::{FileKind, kind_of};
pub(crate) use load::{LoadedSettings, SettingsSource};
pub(crate) use parse::{available_cores, log_filter};
#[cfg(test)]
pub(crate) use reference::check_page;
pub(crate) use remark::Remarks;
pub(crate) use runner::RunnerUser;
pub(crate) use table::Setting;
pub(crate) use values::{
    AccessLogFormat, AdminKey, ErrorLog, ErrorLogFormat, ExternalAccounts, Keyring, LogTarget, MemoryLimit,
    Overload, ResourceSource, RoleKey, Secret, StreamRoutes,
};
#[cfg(feature = "wasm")]
pub(crate) use wasm::HttpRequestPhase;
pub(crate) use wasm::WasmPlugins;
pub(crate) use written::{UPGRADE_VARIABLE, WrittenSettings};

use table::settings;

settings! {
    section "Listeners" {
        /// Addresses the proxy listens on. Port 0 takes any free port; `off` listens nowhere. A list that was
        /// changed in the settings file comes into force with HUP, without a restart.
        proxy: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "0.0.0.0:9080"),
        /// Addresses the proxy listens on for TLS, with the certificates of `ssls` objects. As `proxy` in all
        /// else.
        proxy_tls: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "0.0.0.0:9443"),
        /// Addresses the proxy listens on for TLS, as `proxy_tls`, and for HTTP/3 over QUIC at the same UDP
        /// port. An address is in one of the two lists. Responses over TLS tell clients of HTTP/3 by
        /// `Alt-Svc`.
        proxy_tls_http3: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "off"),
        /// The value of `Alt-Svc` on responses over TLS of `proxy_tls_http3`: `auto` is
        /// `h3=":PORT"; ma=86400` with the port of the listener, `off` sends none; anything else is sent as
        /// it is, for gateways behind another port.
        http3_alt_svc: AltSvc = parse::alt_svc("auto|off|TEXT", "auto"),
        /// Serve HTTP/2 to clients of the proxy: over TLS to those that ask for it by ALPN, without TLS to
        /// those that begin with it (prior knowledge). HTTP/1 is served on the same addresses either way.
        http2: bool = parse::switch("true|false", "true"),
        /// Addresses of the lists above and below (`proxy`, `proxy_tls` and the others of the proxy), written
        /// as they are there, on which HTTP/2 is not served although `http2` is on. With port 0, all
        /// listeners of that address and port 0 are meant. As `http2`, it changes with a restart or an
        /// upgrade.
        http1_only: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "off"),
        /// Addresses the proxy listens on for connections that begin with a PROXY protocol header of version
        /// 1 or 2, in which a balancer in front names the client. A connection without a header is closed. As
        /// `proxy` in all else.
        proxy_protocol: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "off"),
        /// The same for TLS behind the header.
        proxy_protocol_tls: Vec<SocketAddr> = parse::parse_listeners("ADDR,…", "off"),
        /// Addresses of these two lists, `stream_proxy_protocol` and `stream_proxy_protocol_tls`, written as
        /// they are there, at which the header may be missing. Connections of peers in `proxy_protocol_from`
        /// begin with a header or without; all other peers are served too, but one that sends a header is
        /// refused where the gateway reads its first bytes.
        proxy_protocol_optional: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// Peers that may connect to those listeners, and to those of `stream_proxy_protocol`: the balancers
        /// in front. Connections of all others are closed, because the header would let them choose their
        /// address; `proxy_protocol_optional` names the exceptions. `real_ip_from` and `trusted_addresses`
        /// say nothing here: they are about fields of requests, which a balancer of connections passes on as
        /// the client has written them.
        proxy_protocol_from: Vec<IpNet> = parse::networks("CIDR,…", ""),
        /// Addresses of layer 4 for TCP, for which stream routes name the nodes: each `IP:PORT`, or a range
        /// of ports as `IP:FIRST-LAST`, up to 1,000 addresses in all. TLS passes through; where routes ask
        /// for a server name or a protocol, the first bytes of a connection are read ahead. As `proxy` in all
        /// else.
        stream_tcp: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// The same for TCP within TLS that ends here, with the certificates of `ssls` objects.
        stream_tls: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// The same for UDP. An address may be in this list and in one of the others.
        stream_udp: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// As `stream_tcp`, for connections that begin with a PROXY protocol header of peers in
        /// `proxy_protocol_from`.
        stream_proxy_protocol: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// The same for TLS behind the header.
        stream_proxy_protocol_tls: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// Addresses of those lists for TCP, written as they are there, for which nodes are sent a PROXY
        /// protocol header of version 1 in front of each connection, unless `proxy_protocol` of the stream
        /// route says otherwise. A change comes into force with HUP, for new sessions.
        stream_send_proxy_protocol: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// Addresses of `stream_tcp` and `stream_tls`, written as they are there, at which a rule of the
        /// kernel (TPROXY) hands over connections to other destinations. Their sockets have the option
        /// `IP_TRANSPARENT`, which needs the capability CAP_NET_ADMIN or CAP_NET_RAW. The destination is the
        /// address of the session, by which stream routes match.
        stream_tproxy: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// The same for connections that a rule of the kernel has redirected (REDIRECT): the kernel is asked
        /// for their destination. It needs no capability.
        stream_redirect: Vec<SocketAddr> = parse::stream_listeners("ADDR,…", "off"),
        /// Address of the Admin API, or `off`.
        admin: Option<SocketAddr> = parse::listener("ADDR", "127.0.0.1:9180"),
        /// Address of the control API, which tells what this node runs, or `off`.
        control: Option<SocketAddr> = parse::listener("ADDR", "127.0.0.1:9090"),
        /// Address of `/status` and `/status/ready` for probes, or `off`.
        status: Option<SocketAddr> = parse::listener("ADDR", "127.0.0.1:7085"),
        /// Address of the metrics for Prometheus, at `/metrics` and at APISIX's `/apisix/prometheus/metrics`,
        /// or `off`.
        metrics: Option<SocketAddr> = parse::listener("ADDR", "127.0.0.1:9091"),
    }
    section "TLS" {
        /// Versions of TLS that clients may speak where an `ssls` object names none: `TLSv1.2`, `TLSv1.3`.
        ssl_protocols: Versions = parse::tls_versions("VERSION,…", "TLSv1.2, TLSv1.3"),
        /// Cipher suites by OpenSSL's names, the preferred one first, with colons or commas in between.
        /// Without it, all that are safe, in the order that the client prefers.
        ssl_ciphers: Option<String> = parse::tls_ciphers("NAME:…", ""),
        /// Curves of the key exchange by OpenSSL's names, the preferred one first. Without it, all that are
        /// safe.
        ssl_curves: Option<String> = parse::tls_curves("NAME:…", ""),
        /// The server name of the certificate that is shown to clients that name none, or one without a
        /// certificate. Without it, they are refused with an alert.
        fallback_sni: Option<String> = parse::optional_text("NAME", ""),
        /// Let clients resume sessions by tickets, with keys that all workers share and that change twice a
        /// day.
        ssl_session_tickets: bool = parse::switch("true|false", "true"),
        /// Folders with certificates and keys that objects may name as `$file:///PATH`. Empty: with
        /// `resources` any file, else none, so that a holder of the Admin key cannot use other keys of this
        /// machine.
        certificate_folders: Vec<PathBuf> = parse::folders("DIR,…", ""),
        /// Treatment of certificates that have expired: `serve` shows them and logs a warning once for each;
        /// `refuse` does not show them, so that other `ssls` objects serve their names or clients get an
        /// alert, and the Admin API answers a write of one with 400.
        ssl_expired_certificates: ExpiredCertificates = parse::expired_certificates("serve|refuse", "serve"),
        /// Serve hosts that ask for client certificates (`client` of an `ssls` object) to connections without
        /// TLS as well, as APISIX does; set it where something in front of the gateway ends TLS and checks
        /// the certificates. Without it such requests get 421, unless a plugin leads them to TLS by a
        /// redirect.
        mutual_tls_over_http: bool = parse::switch("true|false", "false"),
        /// Port that `http_to_https` of the plugin `redirect` sends clients to, where its metadata names
        /// none; 443 is left out of the URI. 0: that of the first TLS listener.
        redirect_https_port_number: u32 = parse::count::<0, 65_535>("PORT", "0"),
        /// Milliseconds that a client gets for its TLS handshake.
        tls_handshake_timeout_ms: u64 = parse::parse_number::<10, 600_000>("MS", "10000"),
        /// File that the secrets of every TLS connection are appended to, for debugging with captured
        /// packets. With it all traffic can be read: never set it in production.
        tls_key_log: Option<PathBuf> = parse::optional_path("FILE", ""),
    }
    section "Configuration source" {
        /// Folder of the embedded store and of the Admin key. Made if it is missing.
        data: PathBuf = parse::parse_path("DIR", "./weir-data"),
        /// Declarative mode: take all resources from this YAML or JSON file and reload it when it changes.
        /// The Admin API then reads but refuses writes.
        resources: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// All or nothing: with one faulty object, none of a change is applied, and the start fails.
        /// Otherwise a faulty object keeps its last good form, is reported, and the rest applies.
        strict: bool = parse::switch("true|false", "false"),
        /// Plugins that are skipped where their configuration is faulty or where this version does not have
        /// them, for migrations. Objects from a file, from etcd or from the store then run without them,
        /// which is reported by the log, the metrics and `weir/verdicts`. Otherwise requests that need such a
        /// plugin are answered 503. A write by the Admin API with a faulty plugin is refused in any case.
        ignore_faulty_plugins: Vec<String> = parse::parse_plugin_names("NAME,…", ""),
        /// Answer 200 at `/status/ready` although faults of the configuration have kept routes or global
        /// rules out of force since the start. Faults that arise later never make an instance unready.
        ready_with_faults: bool = parse::switch("true|false", "false"),
        /// Treatment of a field that is unknown where APISIX accepts unknown ones (plugins' configuration and
        /// metadata, secrets): `warn` accepts it with a warning, unless it is a typing error of a known one;
        /// `refuse` refuses every such field, as `strict` does; `accept` accepts it silently, as APISIX does.
        /// An accepted field has no effect.
        unknown_fields: UnknownFields = parse::unknown_fields("refuse|warn|accept", "warn"),
        /// The name that this instance has among others, in `server-info` and `node-status`: up to 128
        /// visible characters without `/`. Without it, a random one is made at the first start and kept in
        /// the data folder, if there is one; else it is the name of the machine.
        instance_id: Option<String> = parse::instance_id("ID", ""),
        /// Where resources come from: `store`, the embedded store of this node; `file`, the file that
        /// `resources` names; `etcd`, a cluster of nodes that share what is in etcd; `auto`, the file if one
        /// is named, else the store.
        source: ResourceSource = parse::parse_resource_source("auto|store|file|etcd", "auto"),
    }
    section "etcd" {
        /// Endpoints of etcd, each `http://HOST:PORT` or `https://HOST:PORT`. One is used at a time; when it
        /// fails, the next.
        etcd_endpoints: Vec<String> = parse::endpoints("URL,…", "http://127.0.0.1:2379"),
        /// Prefix of this gateway's keys in etcd. Several gateways may share an etcd under prefixes of their
        /// own.
        etcd_prefix: String = parse::etcd_prefix("PREFIX", "/apisix"),
        /// User name, where etcd asks for one.
        etcd_username: Option<String> = parse::optional_text("NAME", ""),
        /// The user's password. Only from the environment, as all secrets.
        etcd_password: Option<Secret> = parse::secret("PASSWORD", ""),
        /// CA certificates (PEM) that etcd's certificate is checked against. Without one, the system's.
        etcd_ca: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Certificate (PEM) that this node shows to etcd, its chain behind it.
        etcd_cert: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Private key (PEM) of that certificate.
        etcd_key: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Name that etcd's certificate must have, where it is not the endpoint's host.
        etcd_server_name: Option<String> = parse::optional_text("NAME", ""),
        /// Check etcd's certificate. Without it, any machine on the way to etcd can read and change the
        /// configuration.
        etcd_verify: bool = parse::switch("true|false", "true"),
        /// Milliseconds that an endpoint of etcd gets to answer; then the next is asked.
        etcd_timeout_ms: u64 = parse::parse_number::<100, 600_000>("MS", "5000"),
        /// Most objects that one step may change in etcd, plus one. `weir apply` does a whole file in one
        /// step; etcd itself takes 128 operations unless its `--max-txn-ops` says otherwise.
        etcd_max_operations: usize = parse::size::<2, 1_000_000>("N", "100"),
        /// Seconds that a report of this instance lives in etcd, at `data_plane/server_info/ID` below the
        /// prefix; it is renewed after half of them. 0: no reports. Less than 3 counts as 3. Instances
        /// without an Admin API do not report.
        server_info_report_seconds ("server_info_report"): u64 = parse::parse_number::<0, 86_400>("SECONDS", "0"),
        /// Seconds that a start waits for etcd when this node's disk has no copy of what it held; then the
        /// start fails.
        etcd_start_timeout_seconds ("etcd_start_timeout"): u64 = parse::parse_number::<1, 86_400>("SECONDS", "30"),
    }
    section "Admin API" {
        /// The Admin key. Only from the environment, so that it is neither in a file nor in a list of
        /// processes. Without it, a key is made at the first start and kept in the data folder.
        admin_key: Option<AdminKey> = parse::parse_admin_key("KEY", ""),
        /// Admin keys with roles: `admin` may do everything, `viewer` only what changes nothing, and sees
        /// secrets masked. Only from the environment, or from a `config.yaml` of APISIX. `admin_key` takes
        /// the place of those with the role `admin`; without any of that role, one is made and kept in the
        /// data folder, as for `admin_key`.
        admin_keys: Vec<RoleKey> = parse::parse_admin_keys("ROLE:KEY,…", ""),
        /// Require an Admin key. Switched off, every client that `admin_allow` admits may change everything.
        admin_key_required: bool = parse::switch("true|false", "true"),
        /// Addresses and networks that may call the Admin API.
        admin_allow: Vec<IpNet> = parse::networks("CIDR,…", "127.0.0.0/8, ::1/128"),
        /// Let web pages of any origin read answers of the Admin API (its CORS headers); they need the key as
        /// well.
        admin_cors: bool = parse::switch("true|false", "true"),
        /// Serve the dashboard at `/ui/` of the Admin API. The page itself needs no key; what it asks for
        /// does.
        admin_ui: bool = parse::switch("true|false", "true"),
        /// Names by which browsers may call the Admin API where the key is in a cookie or none is required.
        /// Addresses, names without a dot and names below `.local`, `.localhost` and `.internal` are always
        /// accepted; any other name may have been pointed here by a foreign site (DNS rebinding), so that
        /// such calls are refused.
        admin_hosts: Vec<String> = parse::hosts("NAME,…", ""),
        /// The version that the Admin API names itself by, as `Server: APISIX/VERSION`, or `off` for
        /// `Server: APISIX`. Some clients choose by it how they write objects; the behaviour stays that of
        /// the default.
        admin_emulated_version: Option<String> = parse::parse_version("VERSION|off", control::EMULATED_VERSION),
        /// Take stream routes: `auto` takes them if there is a listener of layer 4; `true` always, for an
        /// instance that keeps them for others; `false` never. Where they are not taken, the Admin API
        /// refuses them with 400 as APISIX does, and those of other sources are reported as faulty.
        admin_stream_routes: StreamRoutes = parse::stream_routes("auto|true|false", "auto"),
        /// Certificate (PEM, its chain behind it) of the Admin API. With it, the Admin API and what is served
        /// beside it speak HTTPS only. The file is read again when it changes.
        admin_tls_cert: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Private key (PEM) of that certificate.
        admin_tls_key: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Authorities (PEM) of client certificates. With them, a client of the Admin API without a
        /// certificate that one of them has signed is refused in the TLS handshake; it needs the Admin key as
        /// well.
        admin_tls_client_ca: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Authorities (PEM) that commands trust when they ask an Admin API over HTTPS. Without it, those of
        /// the system. The certificate of the instance that runs on the data folder is trusted in any case.
        admin_ca: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Name that the Admin API's certificate must have, for commands; without it, the address that they
        /// ask.
        admin_server_name: Option<String> = parse::optional_text("NAME", ""),
        /// Certificate (PEM, its chain behind it) that commands present to an Admin API that asks for one.
        admin_client_cert: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Private key (PEM) of that certificate.
        admin_client_key: Option<PathBuf> = parse::optional_path("FILE", ""),
    }
    section "ACME" {
        /// Names that certificates are ordered for, by ACME, and renewed in time. Each entry is one
        /// certificate; several names with spaces between share it. They are served by the TLS listeners as
        /// `ssls` objects with ids such as `acme-shop.example`. `*.shop.example` needs `dns-01`. In the
        /// settings file `acme: {email: …, domains: […]}` is the same as `acme_email` and `acme_domains`.
        acme_domains: Vec<Vec<String>> = parse::acme_domains("NAME,…", ""),
        /// Address that an authority writes to about its certificates.
        acme_email: Option<String> = parse::email("ADDRESS", ""),
        /// Authorities, by the URLs of their directories or as `letsencrypt`, `letsencrypt-staging` or
        /// `zerossl`. When one does not issue a certificate, the next is asked. To order there accepts its
        /// terms of service.
        acme_authorities: Vec<String> = parse::acme_authorities("URL,…", "letsencrypt"),
        /// Accounts elsewhere that new accounts are bound to, where authorities ask for it (ZeroSSL): id and
        /// key (base64url) for each of `acme_authorities`, in their order; an empty entry for one that does
        /// not. Only from the environment.
        acme_external_accounts: ExternalAccounts = parse::external_accounts("ID:KEY,…", ""),
        /// Proofs of control that may be used, the preferred one first: `http-01` (an answer on port 80),
        /// `tls-alpn-01` (a certificate on port 443), `dns-01` (a record, which needs `acme_dns_hook`).
        acme_challenges: Vec<ChallengeKind> = parse::acme_challenges("NAME,…", "http-01, tls-alpn-01"),
        /// Command for `dns-01`. It is run as `FILE present NAME VALUE` to set the TXT record NAME, and as
        /// `FILE cleanup NAME VALUE` to remove it; it ends with 0 if that is done.
        acme_dns_hook: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Seconds from the end of that command until every name server of the zone has the record.
        acme_dns_wait_seconds ("acme_dns_wait"): u64 = parse::parse_number::<0, 600>("SECONDS", "10"),
        /// Names that get a certificate when a client first asks for them in a TLS handshake: names, or
        /// `*.shop.example` for all of one more label. The first handshake fails; a later one succeeds.
        acme_on_demand: Vec<String> = parse::acme_names("NAME,…", ""),
        /// Most certificates that are ordered so.
        acme_on_demand_limit: usize = parse::size::<1, 100_000>("N", "1000"),
        /// Authorities (PEM) that the certificates of `acme_authorities` may be signed by. Without it, those
        /// of the system.
        acme_ca: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// Profile of certificates to ask for, where an authority has several, such as `shortlived`.
        acme_profile: Option<String> = parse::optional_text("NAME", ""),
    }
    section "Secrets" {
        /// Keys of 16 or 32 bytes with which secrets are encrypted where they are stored (consumers' keys,
        /// private keys, what plugins name): AES-CBC as APISIX's `data_encryption.keyring`. The first one
        /// encrypts, all are tried to decrypt. Only from the environment, as all secrets. Without one,
        /// secrets are stored as they are written.
        encryption_keyring: Keyring = parse::parse_keyring("KEY,…", ""),
        /// Milliseconds that a value from a secret manager (`$secret://…`) counts as fresh; then it is asked
        /// for again, and a new one comes into force without a write.
        secret_refresh_ms: u64 = parse::parse_number::<100, 86_400_000>("MS", "60000"),
        /// Milliseconds that the last value is used while its secret manager does not answer. Then what needs
        /// it is closed. At least `secret_refresh_ms`.
        secret_stale_ms: u64 = parse::parse_number::<100, 604_800_000>("MS", "3600000"),
        /// Milliseconds that a secret manager gets to answer, from the look-up of its name on.
        secret_timeout_ms: u64 = parse::parse_number::<10, 60_000>("MS", "5000"),
        /// CA certificates (PEM) that a secret manager's certificate is checked against. Without one, the
        /// system's. Read when the first manager is asked.
        secret_ca: Option<PathBuf> = parse::optional_path("FILE", ""),
    }
    section "Workers" {
        /// Worker threads, or `auto`: one for each core this process may use (its cgroup and affinity
        /// counted).
        workers: usize = parse::parse_workers("N|auto", "auto"),
        /// Milliseconds that a worker may not turn its event loop before it is given up: its connections are
        /// ended, and another thread takes its place. With more than four such threads that have not ended
        /// the process exits with status 70, so that its supervisor starts it again. 0 never gives one up.
        worker_stall_timeout_ms: u64 = parse::parse_number::<0, 3_600_000>("MS", "30000"),
        /// Let the kernel write core dumps of this process, up to the hard limit of RLIMIT_CORE. Switched
        /// off, the soft limit is 0, because a core dump holds private keys and requests. It takes effect at
        /// a start or a binary upgrade.
        core_dumps: bool = parse::switch("true|false", "false"),
        /// Pin each worker to one core.
        pin: bool = parse::switch("true|false", "false"),
        /// Seconds that open requests get to finish after TERM or QUIT.
        grace_seconds ("grace"): u64 = parse::parse_number::<0, 86_400>("SECONDS", "30"),
        /// Seconds between TERM or QUIT and the end of accepting: the instance is taken out of its registries
        /// and is not ready (`/status/ready`), and still serves, so that balancers and clients that have its
        /// address learn of its end first. A second TERM ends this time.
        drain_delay_seconds ("drain_delay"): u64 = parse::parse_number::<0, 3600>("SECONDS", "0"),
        /// Seconds that the old process goes on after an upgrade (USR2, `weir upgrade`) for requests, event
        /// streams, downloads and tunnels that are open there; it ends when the last of them has ended. 0
        /// ends it at once.
        upgrade_grace_seconds ("upgrade_grace"): u64 = parse::parse_number::<0, 31_536_000>("SECONDS", "3600"),
        /// Seconds that a new process gets to take over after USR2 (`weir upgrade`), until it is ended and
        /// this one goes on.
        upgrade_timeout_seconds ("upgrade_timeout"): u64 = parse::parse_number::<1, 86_400>("SECONDS", "60"),
    }
    section "Routing" {
        /// How routes are found: `radixtree_host_uri` (host first, then path), `radixtree_uri` (path first,
        /// the host is a filter) or `radixtree_uri_with_parameter` (as before, with `:name` in paths).
        router_mode: RouterMode = parse::router_mode("MODE", "radixtree_host_uri"),
        /// Merge repeated slashes of a path into one.
        merge_slashes: bool = parse::switch("true|false", "true"),
        /// Drop one slash at the end of the path before matching. What is forwarded keeps it.
        delete_uri_tail_slash: bool = parse::switch("true|false", "false"),
        /// Drop `;parameters` of path segments before matching, as servlet containers do. What is forwarded
        /// keeps them.
        normalize_uri_like_servlet: bool = parse::switch("true|false", "false"),
        /// Match an encoded slash (`%2F`) as part of its segment. Without it, as in APISIX and nginx, it is
        /// matched as a slash, so that `/%2fadmin` meets the routes of `/admin`. It is forwarded as `%2F`
        /// either way.
        match_uri_encoded_slash: bool = parse::switch("true|false", "false"),
    }
    section "Client address" {
        /// Peers that may name the client, in the field that `real_ip_header` names. No other peer is
        /// believed. The address then counts everywhere: `remote_addrs`, plugins, limits, logs, and the
        /// fields that the node is sent.
        real_ip_from: Vec<IpNet> = parse::networks("CIDR,…", ""),
        /// The field in which those peers name the client: an address, or a list such as `X-Forwarded-For`
        /// with the nearest one last.
        real_ip_header: String = parse::field_name("NAME", "X-Real-IP"),
        /// Step over addresses of that list that are in `real_ip_from` themselves, up to the last one that is
        /// not. Without it the last address counts.
        real_ip_recursive: bool = parse::switch("true|false", "false"),
        /// Peers that may set `X-Forwarded-Proto`, `-Host`, `-Port` and `Forwarded`: their fields are kept
        /// instead of overwritten or dropped. Once any are named, the `X-Forwarded-For` of all others is
        /// dropped rather than continued.
        trusted_addresses: Vec<IpNet> = parse::networks("CIDR,…", ""),
    }
    section "Headers" {
        /// The `Server` header of answers made here, or `off` for none.
        server_header: Option<String> = parse::server_header("TEXT|off", DEFAULT_SERVER_HEADER),
        /// Name the statuses of all tries in `X-APISIX-Upstream-Status` of every response that came from a
        /// node. Without it, only where the node's status is 500 or more.
        show_upstream_status_in_response_header: bool = parse::switch("true|false", "false"),
        /// Say in the field `X-Weir-Error` of each response with a status of 500 or more why it is one:
        /// `cause=connect_failed; phase=connect; endpoint=10.0.0.1:80; attempts=2`. Off, because clients
        /// would learn the addresses of nodes.
        error_header: bool = parse::switch("true|false", "false"),
        /// Pass the fields `X-Accel-Redirect`, `-Expires`, `-Limit-Rate`, `-Buffering` and `-Charset` of
        /// nodes on to clients. Off, as in nginx, which such fields are meant for: they show internal paths.
        /// Those that a plugin sets are always passed on.
        forward_accel_fields: bool = parse::switch("true|false", "false"),
        /// Answer failures with a page of HTML where the `Accept` of the client prefers HTML to JSON, as that
        /// of browsers does. Switched off, all clients get JSON.
        html_errors: bool = parse::switch("true|false", "true"),
    }
    section "Plugins" {
        /// The plugins that may be used, or `all` that are built in. An object that names another one is
        /// faulty, as if the plugin did not exist.
        plugins: Option<Vec<String>> = parse::parse_enabled_plugins("NAME,…|all", "all"),
        /// Folder with plugins of users, files such as `NAME.lua` and `NAME.wasm`, that is looked at each
        /// second: a file that appears or changes is the active version of the extension NAME, and one that
        /// vanishes takes it away. The configuration must come from the embedded store or from etcd.
        extensions_folder: Option<PathBuf> = parse::optional_path("DIR", ""),
        /// Folders with modules in Lua that plugins in Lua may require, in the order in which they are looked
        /// through: `a.b` is the file `a/b.lua` or `a/b/init.lua`. They are read at the start.
        lua_path: Vec<PathBuf> = parse::folders("DIR,…", ""),
        /// Plugins in Lua that are loaded at the start: `NAME` is the file `apisix/plugins/NAME.lua`, or for
        /// sessions of layer 4 `apisix/stream/plugins/NAME.lua`, in a folder of `lua_path`.
        lua_plugins: Vec<String> = parse::parse_plugin_names("NAME,…", ""),
        /// Networks that plugins' own calls, and those to secret managers, may reach although they are out of
        /// bounds for them: link-local addresses and others where clouds have their metadata services.
        outbound_allow: Vec<IpNet> = parse::networks("CIDR,…", ""),
        /// The plugin runner, which has the plugins of `ext-plugin-pre-req`, `ext-plugin-post-req` and
        /// `ext-plugin-post-resp`: its program and arguments, as a list, as a list in JSON, or as words with
        /// spaces between. The instance starts it, starts it again when it ends, replaces it at HUP without
        /// losing a call, and ends it at its own end. This and the following settings come into force with
        /// HUP.
        plugin_runner: Vec<String> = runner::command("PROGRAM,ARG,…", ""),
        /// The Unix socket of a plugin runner that another program starts (`APISIX_LISTEN_ADDRESS` of the
        /// runner, without `unix:`). With `plugin_runner`, the path that its socket gets; otherwise each
        /// process gets one of its own.
        plugin_runner_socket: Option<PathBuf> = parse::optional_path("FILE", ""),
        /// The user that the plugin runner runs as: a name in /etc/passwd, or numbers as `UID:GID`. Only an
        /// instance that runs as root can change it. Without it, the user of the instance.
        plugin_runner_user: Option<RunnerUser> = runner::user("NAME|UID:GID", ""),
        /// Variables that the plugin runner gets beside `PATH`, `HOME`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR` and
        /// `JAVA_HOME`: `NAME`, with the value that the instance has, or `NAME=VALUE`. Variables of the
        /// gateway itself (`WEIR_…`) are never given.
        plugin_runner_environment: Vec<String> = runner::environment("NAME,…", ""),
        /// Milliseconds that a call of the plugin runner may take, its questions included; then it counts as
        /// failed.
        plugin_runner_timeout_ms: u64 = parse::parse_number::<10, 59_000>("MS", "59000"),
    }
    section "Logs" {
        /// Where finished requests are logged: `off`, `stdout` or a file, which is made with mode 0640.
        access_log: LogTarget = parse::parse_access_log("off|stdout|FILE", "off"),
        /// A line of the access log: a text with `$variables`, or `json` for the usual fields as one object.
        /// In the settings file a map from field to `$variable` is taken too; elsewhere write that map as
        /// JSON. In JSON a value that is one variable which stands for a number (`$status`, `$request_time`)
        /// is a number. A name that the gateway does not have is a variable that a script may set
        /// (`ctx.var.tier = "gold"`); one that is nearly a known name is refused.
        access_log_format: AccessLogFormat = parse::parse_access_log_format("FORMAT", DEFAULT_ACCESS_LOG_FORMAT),
        /// Where ended sessions of layer 4 are logged: `off`, `stdout` or a file, which may be that of
        /// `access_log`.
        stream_access_log: LogTarget = parse::parse_access_log("off|stdout|FILE", "off"),
        /// A line of that log: as `access_log_format`, with the variables of sessions, such as `$protocol`,
        /// `$bytes_received` and `$session_time`.
        stream_access_log_format: AccessLogFormat = parse::stream_access_log_format("FORMAT", DEFAULT_STREAM_ACCESS_LOG_FORMAT),
        /// Where this node's own messages go: `stderr` or a file, which is made with mode 0640.
        error_log: ErrorLog = parse::parse_error_log("stderr|FILE", "stderr"),
        /// How a line of the error log is written: `text`, or `json` for an object with `time`, `level`,
        /// `target`, `message` and `fields`.
        error_log_format: ErrorLogFormat = parse::error_log_format("text|json", "text"),
        /// Least severe message that is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`; parts may
        /// have a level of their own, as in `warn,control=debug`. `PUT /v1/weir/log_level` of the control API
        /// with `{"level": "debug"}` changes it while the node runs.
        log_level: String = parse::log_level("LEVEL", "info"),
        /// Rotate the access log and the error log, where they are files: rename them by the time and open
        /// new ones, without a program from outside.
        log_rotate: bool = parse::switch("true|false", "false"),
        /// Between two rotations, which are at multiples of it, in UTC.
        log_rotate_interval_seconds ("log_rotate_interval"): u64 = parse::parse_number::<1, 31_536_000>("SECONDS", "3600"),
        /// Rotated files of each log that are kept; older ones are removed.
        log_rotate_max_kept: usize = parse::size::<0, 1_000_000>("COUNT", "168"),
        /// Size from which a log is rotated before its time; 0 rotates by time alone.
        log_rotate_max_bytes ("log_rotate_max_size"): u64 = parse::parse_number::<0, 1_000_000_000_000_000>("BYTES", "0"),
        /// Pack rotated files with `tar`, which has to be installed.
        log_rotate_compression: bool = parse::switch("true|false", "false"),
        /// Longest time that packing a file may take; then the file stays as it is.
        log_rotate_timeout_ms ("log_rotate_timeout"): u64 = parse::parse_number::<1, 86_400_000>("MS", "10000"),
    }
    section "Client limits" {
        /// Most bytes of a request head, request line included. A larger one is answered 431.
        max_head_bytes: usize = parse::size::<1_024, 16_777_216>("BYTES", "65536"),
        /// Most bytes of the request line, over HTTP/2 and HTTP/3 of method and target as they would stand in
        /// one. A longer one is answered 414.
        max_header_line_bytes: usize = parse::size::<256, 16_777_216>("BYTES", "8192"),
        /// Most header fields of a request. Host, pseudo-fields and further parts of a Cookie field over
        /// HTTP/2 and HTTP/3 do not count.
        max_header_fields: usize = parse::size::<8, 10_000>("N", "100"),
        /// Milliseconds from the first byte of a request head to its last.
        head_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "10000"),
        /// Milliseconds a kept-alive connection may wait for its next request.
        idle_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Milliseconds between two reads of what a client still sends of its request after the response that
        /// ends the connection. The rest is read and dropped, so that a client that sends its whole request
        /// first sees an early answer such as 401 or 413.
        client_linger_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "5000"),
        /// Longest time for that in all, in milliseconds; 0 closes the connection at once.
        client_linger_time_ms: u64 = parse::parse_number::<0, 86_400_000>("MS", "30000"),
        /// Most connections of one worker that are read in that way at the same time. Further ones end after
        /// 2 seconds or 256 KiB, as all do while memory is short or the listener closes; the oldest ones end
        /// first where connections or open files run out.
        max_lingering_connections: u32 = parse::count::<0, 1_000_000>("N", "4096"),
        /// Milliseconds between two reads of a request body.
        client_body_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Milliseconds in which a client must take some of its response. Otherwise it is cut off.
        client_send_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Fewest bytes a second that a client must send of a request body while it is waited for, over
        /// `client_rate_window_ms`; 0 is no limit. A slower one is answered 408: a byte now and then must not
        /// hold a connection for ever. A body of unknown length over HTTP/2 or HTTP/3, as calls of gRPC have,
        /// may be a stream of messages: it has no rate, and `timeout.read` of its route in place of
        /// `client_body_timeout_ms`. Set the rate to 0 where clients of HTTP/1 send streams that are quiet
        /// for longer than the window.
        client_min_body_rate: u64 = parse::parse_number::<0, { i64::MAX as u64 }>("BYTES", "128"),
        /// Fewest bytes a second that a client must take of a response while it is waited for, over
        /// `client_rate_window_ms`; 0 is no limit. A slower one is cut off. A stream of which nothing is
        /// ready does not count.
        client_min_send_rate: u64 = parse::parse_number::<0, { i64::MAX as u64 }>("BYTES", "128"),
        /// Milliseconds over which those two rates are judged; long enough for a mobile link that is gone for
        /// a moment.
        client_rate_window_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "30000"),
        /// Milliseconds from the first byte of a request to the last of its response; 0 is no limit. Past it
        /// the answer is 504, or cut off where it had begun. Off, since the route's timeouts say how long a
        /// node may take, and a stream of events may go on for hours.
        request_timeout_ms: u64 = parse::parse_number::<0, 86_400_000>("MS", "0"),
        /// Most bytes of a request body; 0 is no limit. A larger one is answered 413.
        max_body_bytes: u64 = parse::parse_number::<0, { i64::MAX as u64 }>("BYTES", "0"),
        /// Most bytes of a request body that is read before a node is chosen, because a `post_arg_…`,
        /// `post_arg.…`, `graphql_…` or `request_body` variable of a route or plugin lies in it. A longer one
        /// passes on as it comes, and the variable is unset.
        max_matched_body_bytes: usize = parse::size::<0, 67_108_864>("BYTES", "1048576"),
        /// Bytes of a request body that have to come, or all of it, before a node is chosen: a client that
        /// begins slowly then holds no connection to one. 0 is none. Only for a body with a declared length;
        /// one in chunks may be half of a conversation, and goes on at once.
        wait_for_body_bytes: usize = parse::size::<0, 1_048_576>("BYTES", "2048"),
        /// Requests after which a connection is closed; 0 is no limit. An HTTP/2 connection is sent GOAWAY
        /// first.
        max_requests_per_connection: u64 = parse::parse_number::<0, { i64::MAX as u64 }>("N", "0"),
        /// Requests that one HTTP/2 connection may have in flight. Further ones are refused in a way that
        /// lets the client send them again. A browser opens about 100.
        http2_max_streams: u32 = parse::count::<1, 1_000>("N", "128"),
        /// Bytes of one request body over HTTP/2 that may wait here while its node takes none; a client sends
        /// no more than that ahead. More lets one upload over a long distance go faster, and each request
        /// hold more memory.
        http2_stream_window_bytes: u32 = parse::count::<65_535, 16_777_216>("BYTES", "131072"),
        /// The same for all requests of an HTTP/2 connection together: the memory that one client can hold by
        /// uploads.
        http2_connection_window_bytes: u32 = parse::count::<65_535, 67_108_864>("BYTES", "1048576"),
        /// Requests that one HTTP/3 connection may have in flight.
        http3_max_streams: u32 = parse::count::<1, 1_000>("N", "128"),
        /// Bytes of one request body over HTTP/3 that may wait here while its node takes none.
        http3_stream_window_bytes: u32 = parse::count::<16_384, 16_777_216>("BYTES", "262144"),
        /// The same for all requests of an HTTP/3 connection together: the memory that one client can hold by
        /// uploads.
        http3_connection_window_bytes: u32 = parse::count::<65_535, 67_108_864>("BYTES", "1048576"),
        /// QUIC handshakes in progress on one worker from which on clients have to prove their address by a
        /// Retry, which costs them a round trip; 0 is always.
        http3_retry_handshakes: u32 = parse::count::<0, 1_000_000>("N", "128"),
        /// QUIC handshakes in progress on one worker from which on further ones are refused.
        http3_max_handshakes: u32 = parse::count::<1, 1_000_000>("N", "2048"),
        /// Most open client connections of the whole process. Past it, the connection that has been silent
        /// longest is closed for a new one: first one that has never sent a byte, then an idle one. Where all
        /// have a request in flight, the new one is closed at once.
        max_connections: usize = parse::size::<1, 16_777_216>("N", "100000"),
        /// Most open connections of one client address (of one /64 for IPv6) in the whole process; 0 is no
        /// limit. Past it, new ones are closed at once. Peers in `trusted_addresses` are not counted. Off,
        /// since behind a balancer all clients are one address; where clients connect directly, a few hundred
        /// are plenty.
        max_connections_per_address: u32 = parse::count::<0, 16_777_216>("N", "0"),
    }
    section "Overload" {
        /// Most memory that this process may use: bytes, as in `536870912`, `512MiB` or `2GiB`; `off`; or
        /// `auto`, the smaller of four fifths of its cgroup's limit (the kernel's socket buffers count there
        /// too) and half of its address space or data segment where these are limited (`ulimit -v`, `ulimit
        /// -d`), and off without any. As the limit comes near, idle connections are closed, then requests are
        /// answered 503, then connections refused.
        memory_limit: MemoryLimit = parse::parse_memory_limit("BYTES|auto|off", "auto"),
        /// Reaction to slow nodes: `off`, none; `adaptive`, the requests that wait for an upstream are
        /// limited to as many as it answers in about the usual time, and the rest is answered 503.
        overload: Overload = parse::overload("off|adaptive", "off"),
    }
    section "Upstreams" {
        /// The zone of this instance, such as an availability zone. Upstreams with `zone_aware` prefer nodes
        /// with this zone in their metadata; without it they have no preference.
        zone: Option<String> = parse::optional_text("NAME", ""),
        /// Name servers for nodes that are written by name, each an address with or without a port. Without
        /// one, those of `/etc/resolv.conf`; `/etc/hosts` is looked at first either way.
        dns_servers: Vec<SocketAddr> = parse::name_servers("ADDR,…", ""),
        /// Families of addresses that names of nodes are looked up for, the preferred one first: `A` (IPv4),
        /// `AAAA` (IPv6). The next is used only where a name has no address of the one before to which this
        /// machine has a route. It also decides among the addresses of SRV targets and of dual-stack services
        /// of Kubernetes.
        dns_order: FamilyOrder = parse::family_order("A,AAAA", "A, AAAA"),
        /// Try names also with the search domains of `/etc/resolv.conf` behind them, by its rules (`ndots`).
        dns_search: bool = parse::switch("true|false", "true"),
        /// Milliseconds a name server gets to answer. Then it is asked once more.
        dns_timeout_ms: u64 = parse::parse_number::<10, 60_000>("MS", "5000"),
        /// An answer holds at least so many milliseconds, however short its TTL is: no name is asked for more
        /// often.
        dns_ttl_min_ms: u64 = parse::parse_number::<10, 86_400_000>("MS", "1000"),
        /// An answer holds at most so many milliseconds, however long its TTL is. Equal to `dns_ttl_min_ms`,
        /// it takes the place of every TTL.
        dns_ttl_max_ms: u64 = parse::parse_number::<10, 86_400_000>("MS", "300000"),
        /// Service registries that upstreams may take their nodes from (`discovery_type`): a map with a block
        /// for each, such as `discovery: {consul: {servers: ["http://127.0.0.1:8500"]}}`, in APISIX's shape.
        /// On the command line and in the environment it is JSON.
        discovery: Registries = discovery::parse_discovery("REGISTRIES", ""),
        /// Service registries that this instance registers in once it is ready: a map with a block for each
        /// (`consul`, `eureka`, `nacos`), such as
        /// `registration: {consul: {service: gateway, address: 10.0.0.5}}`. The servers and credentials are
        /// those of the `discovery` block of the same name unless the block has its own. On the command line
        /// and in the environment it is JSON.
        registration: Registries = registration::parse_registration("REGISTRIES", ""),
        /// Zones of the plugin `proxy-cache`, in the form of APISIX's `apisix.proxy_cache`: `zones`, each
        /// with `name`, `memory_size` and, on disk, `disk_size`, `disk_path` and `cache_levels`; and
        /// `cache_ttl`, the time for which a response on disk is fresh that says nothing of it, 10 seconds by
        /// default. Without it there are two zones of 50 MiB of memory: `memory_cache`, and `disk_cache_one`
        /// with 1 GiB in `cache` of the data folder. A folder belongs to the user of this process, others may
        /// not write to it, and no two zones share one. On the command line and in the environment it is
        /// JSON.
        proxy_cache: CacheZones = cache::parse_cache_zones("ZONES", ""),
        /// Plugins in WebAssembly that are loaded at the start, in the form of APISIX's `wasm`: `plugins`,
        /// each with `name`, `priority`, `file` and `http_request_phase` (`access`, the default, or
        /// `rewrite`). Objects use them by their names. A file that cannot be loaded ends the start. On the
        /// command line and in the environment it is JSON.
        wasm: WasmPlugins = wasm::parse_wasm_plugins("PLUGINS", ""),
        /// Authorities that certificates of nodes and of servers that plugins call are verified against:
        /// files with certificates (PEM), and `system` for those of the system. Read at the start, and again
        /// at HUP: new connections are judged by what they hold then.
        trusted_certificates: Vec<String> = parse::trusted_certificates("FILE|system,…", "system"),
        /// Verify the certificate of every `https` node and of every server that a plugin calls by `https`,
        /// even where `tls.verify` of the upstream or `ssl_verify` of the plugin is off. Off, because APISIX
        /// verifies no node: without it, and without `tls.verify`, a node's certificate may be anyone's.
        tls_verify_all: bool = parse::switch("true|false", "false"),
        /// Check the health of nodes as `checks` of their upstreams say. Off, no node is checked and each is
        /// used.
        upstream_health_checks: bool = parse::switch("true|false", "true"),
        /// Milliseconds to connect to a node, TLS handshake included, where the route and upstream say
        /// nothing.
        upstream_connect_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Milliseconds between two writes to a node, where the route and upstream say nothing.
        upstream_send_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Milliseconds between two reads from a node, where the route and upstream say nothing.
        upstream_read_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "60000"),
        /// Requests that share one HTTP/2 connection to a node at the same time, if the node allows as many;
        /// another connection is opened for further ones. Each worker has connections of its own.
        upstream_http2_max_streams: u32 = parse::count::<1, 16_384>("N", "100"),
        /// Bytes of one response over HTTP/2 that may wait in the gateway while its client takes none.
        upstream_http2_stream_window_bytes: u32 = parse::count::<16_384, 16_777_216>("BYTES", "131072"),
        /// Milliseconds after which a node that has sent nothing on an HTTP/2 connection is sent a PING,
        /// while requests wait for it; 0 is never. Later PINGs are further apart, because gRPC servers close
        /// connections with many.
        upstream_http2_ping_after_ms: u64 = parse::parse_number::<0, 86_400_000>("MS", "30000"),
        /// Milliseconds in which a node has to answer a PING; otherwise its connection is closed.
        upstream_http2_ping_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "20000"),
        /// Bytes of one gRPC message, in either direction; a call with a longer one ends with
        /// RESOURCE_EXHAUSTED. 0 is no limit: messages pass in pieces, so that their size costs no memory,
        /// and servers have limits of their own.
        grpc_max_message_bytes: u64 = parse::parse_number::<0, { i64::MAX as u64 }>("BYTES", "0"),
        /// Milliseconds without a byte either way after which a tunnel (WebSocket) is closed, where the route
        /// and upstream say nothing; otherwise their `timeout.read` counts, as in APISIX. Long, because
        /// WebSocket clients commonly send nothing between pings.
        tunnel_idle_timeout_ms: u64 = parse::parse_number::<1, 86_400_000>("MS", "3600000"),
    }
}

/// Looks up an environment variable.
pub(crate) type EnvironmentReader<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The name that users write for the setting called `name`.
fn shown_name(name: &'static str) -> &'static str {
    SETTINGS.iter().find(|setting| setting.name == name).map_or(name, Setting::shown_name)
}

/// The folders of plugins in a folder of `lua_path`: of requests, and of sessions of layer 4.
pub(crate) const LUA_FOLDERS: [&str; 2] = ["apisix/plugins", "apisix/stream/plugins"];
/// The default `Server` header of local replies. Has the version, because support needs it; a setting hides
/// it.
const DEFAULT_SERVER_HEADER: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// A session: client, time, transport, port, status as nginx gives it, bytes both ways, duration, node, why
/// it ended.
const DEFAULT_STREAM_ACCESS_LOG_FORMAT: &str = "$remote_addr [$time_local] $protocol $server_port $status \
     $bytes_sent $bytes_received $session_time \"$ssl_server_name\" $route_id $upstream_addr \
     $upstream_connect_time $weir_cause \"$weir_detail\"";
/// The combined log format, which every log reader knows, then the fields of a gateway: duration, node and
/// its status, and the cause of a failed request.
const DEFAULT_ACCESS_LOG_FORMAT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
     $body_bytes_sent \"$http_referer\" \"$http_user_agent\" $request_time $upstream_addr $upstream_status \
     $weir_cause \"$weir_detail\" $weir_phase";
