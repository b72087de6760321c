"""The order of the pages: groups of tasks, and the pages of each, as a short title and a file of the repository.

A page that is in no group fails the build, so that every page can be found."""

GUIDE = "docs/guide"
REFERENCE = "docs/reference"

GROUPS = [
    ("Start", [
        ("Welcome", "docs/README.md"),
        ("Read me", "README.md"),
        ("Install", f"{GUIDE}/install.md"),
        ("Getting started", f"{GUIDE}/getting-started.md"),
        ("The dashboard", f"{GUIDE}/dashboard.md"),
        ("Change the configuration", f"{GUIDE}/changing-configuration.md"),
        ("Configuration sources", f"{GUIDE}/configuration-sources.md"),
        ("The Admin API", f"{GUIDE}/admin-api.md"),
    ]),
    ("Route and balance", [
        ("Choose a route", f"{GUIDE}/routing.md"),
        ("Reach upstreams", f"{GUIDE}/upstreams.md"),
        ("Distribute requests over nodes", f"{GUIDE}/load-balancing.md"),
        ("Check the health of nodes", f"{GUIDE}/health-checks.md"),
        ("Retry and limit time", f"{GUIDE}/retries.md"),
        ("Protect upstreams", f"{GUIDE}/protecting-upstreams.md"),
        ("Canary and blue-green", f"{GUIDE}/canaries.md"),
        ("Find nodes in a registry", f"{GUIDE}/discovery.md"),
        ("Registries one by one", f"{GUIDE}/discovery-registries.md"),
        ("Register the gateway", f"{GUIDE}/registration.md"),
        ("Proxy WebSocket", f"{GUIDE}/websocket.md"),
        ("HTTP/2", f"{GUIDE}/http2.md"),
        ("HTTP/3", f"{GUIDE}/http3.md"),
        ("gRPC", f"{GUIDE}/grpc.md"),
        ("GraphQL", f"{GUIDE}/graphql.md"),
    ]),
    ("Secure", [
        ("HTTPS and mutual TLS", f"{GUIDE}/tls.md"),
        ("Certificates by ACME", f"{GUIDE}/acme.md"),
        ("Consumers and authentication", f"{GUIDE}/consumers-and-authentication.md"),
        ("Check JSON Web Tokens", f"{GUIDE}/json-web-tokens.md"),
        ("Log in with OpenID Connect", f"{GUIDE}/openid-connect.md"),
        ("Limit rates", f"{GUIDE}/rate-limits.md"),
        ("Limits for several gateways", f"{GUIDE}/redis.md"),
        ("Allow browsers of other origins", f"{GUIDE}/cors.md"),
        ("Secrets", f"{GUIDE}/secrets.md"),
    ]),
    ("Transform", [
        ("Plugins", f"{GUIDE}/plugins.md"),
        ("Change requests and responses", f"{GUIDE}/transformation.md"),
        ("Fixed responses and error pages", f"{GUIDE}/fixed-responses.md"),
        ("Cache responses", f"{GUIDE}/caching.md"),
        ("Compress responses", f"{GUIDE}/compression.md"),
        ("Write a plugin", f"{GUIDE}/writing-a-plugin.md"),
    ]),
    ("Observe", [
        ("Logs, metrics and status", f"{GUIDE}/observability.md"),
        ("Find the cause of a 502", f"{GUIDE}/debugging-a-502.md"),
        ("Errors", f"{GUIDE}/errors.md"),
        ("Grafana and alerts", f"{GUIDE}/grafana.md"),
        ("Trace requests", f"{GUIDE}/tracing.md"),
        ("Send logs to a service", f"{GUIDE}/logging.md"),
        ("Ship log files", f"{GUIDE}/log-shipping.md"),
    ]),
    ("Operate", [
        ("Operations", f"{GUIDE}/operations.md"),
        ("Kubernetes", f"{GUIDE}/kubernetes.md"),
        ("Overload", f"{GUIDE}/overload.md"),
        ("The laboratory", f"{GUIDE}/laboratory.md"),
        ("Read measurements", f"{GUIDE}/reading-measurements.md"),
    ]),
    ("Coming from", [
        ("APISIX", f"{GUIDE}/migrating-from-apisix.md"),
        ("nginx", f"{GUIDE}/coming-from-nginx.md"),
        ("Kong", f"{GUIDE}/coming-from-kong.md"),
        ("Traefik", f"{GUIDE}/coming-from-traefik.md"),
        ("Spring Cloud Gateway", f"{GUIDE}/coming-from-spring-cloud-gateway.md"),
        ("Zuul", f"{GUIDE}/coming-from-zuul.md"),
    ]),
    ("Reference", [
        ("Features", f"{REFERENCE}/features.md"),
        ("Settings", f"{REFERENCE}/settings.md"),
        ("Command line", f"{REFERENCE}/command-line.md"),
        ("Objects", f"{REFERENCE}/objects.md"),
        ("Plugins", f"{REFERENCE}/plugins.md"),
        ("Endpoints of Weir", f"{REFERENCE}/weir-endpoints.md"),
        ("APISIX's config.yaml", f"{REFERENCE}/apisix-config.md"),
        ("APISIX's interface", f"{REFERENCE}/apisix-contract.md"),
        ("Differences to nginx and HAProxy", f"{REFERENCE}/differences.md"),
        ("Hardening", f"{REFERENCE}/hardening.md"),
        ("Comparison", f"{REFERENCE}/comparison.md"),
        ("Figures", f"{REFERENCE}/figures.md"),
        ("Measurements", f"{REFERENCE}/measurements.md"),
        ("Measurements in turns", f"{REFERENCE}/measurements-in-turns.md"),
        ("Endpoints that fail", f"{REFERENCE}/failing-endpoints.md"),
        ("Costs of plugins", f"{REFERENCE}/plugin-costs.md"),
        ("Contenders", f"{REFERENCE}/contenders.md"),
    ]),
    ("Project", [
        ("Architecture", "ARCHITECTURE.md"),
        ("Glossary", "docs/glossary.md"),
        ("Changes", "CHANGELOG.md"),
        ("Contributing", "CONTRIBUTING.md"),
        ("Security", "SECURITY.md"),
        ("The laboratory's files", "lab/README.md"),
    ]),
]

# Pages that other work adds: left out of the order while they are not there.
OPTIONAL = {f"{GUIDE}/install.md", f"{GUIDE}/kubernetes.md", f"{GUIDE}/grafana.md", f"{GUIDE}/log-shipping.md"}
