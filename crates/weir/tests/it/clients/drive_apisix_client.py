"""What a user of PyPI's apisix-client does with an APISIX, against a running weir. Fails with what was not as expected.

drive_apisix_client.py ADMIN_URL ADMIN_KEY PROXY_URL ORIGIN_PORT
"""

import logging
import sys
import time
import urllib.error
import urllib.request

from apisix_client import ApisixClient
from apisix_client.common import Timeout
from apisix_client.consumer.models import Consumer
from apisix_client.plugin.models import KeyAuth, KeyAuthSettings, LimitCount, ProxyRewrite, ResponseRewrite
from apisix_client.route.models import Route
from apisix_client.service.models import Service
from apisix_client.upstream.models import KeepalivePool, Node, Upstream

# The client reports the reason for a refusal only in its log.
logging.basicConfig(level=logging.INFO)
admin, key, proxy, origin_port = sys.argv[1:]
client = ApisixClient(admin + "/", key)


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")


def until(what, ask_again, expected):
    """A change is in force a moment after it was answered."""
    deadline = time.monotonic() + 20
    while ask_again() != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    check(what, ask_again(), expected)


def ask(path, **headers):
    """Status and body of a request through the proxy."""
    request = urllib.request.Request(proxy + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def upstreams():
    full = Upstream(
        name="origin",
        nodes=[Node(host="127.0.0.1", port=int(origin_port), weight=1)],
        timeout=Timeout(connect=6, send=6, read=6),
        retries=1,
        pass_host="pass",
        keepalive_pool=KeepalivePool(size=64, idle_timeout=60, requests=1000),
        labels={"team": "a"},
    )
    check("an upstream by id", client.upstream.create_or_update(full, "u1"), "u1")
    made = client.upstream.create_with_id_generation(full)
    check("an upstream without id has one", bool(made), True)
    read = client.upstream.get("u1")
    check("its key", read.key, "/apisix/upstreams/u1")
    check("its id", read.value.id, "u1")
    check("its nodes", [(node.host, node.port, node.weight) for node in read.value.nodes], [("127.0.0.1", int(origin_port), 1)])
    check("its timeout", read.value.timeout, Timeout(connect=6, send=6, read=6))
    check("its labels", read.value.labels, {"team": "a"})
    check("its times", read.value.create_time <= read.value.update_time, True)
    check("one that is not there", client.upstream.get("none"), None)
    check("how many", client.upstream.count(), 2)
    check("a page", len(client.upstream.get_all((1, 10))), 2)
    check("the page behind it", client.upstream.get_all((2, 10)), ())
    check("one deleted", client.upstream.delete(made), 1)
    check("how many are left", client.upstream.count(), 1)
    check("one that cannot be", client.upstream.create_or_update(Upstream(nodes=[Node(host="", weight=-1)]), "u2"), None)


def services():
    service = Service(name="s", upstream_id="u1", plugins=[ResponseRewrite(status_code=202, vars=[["status", "==", "200"]])])
    check("a service", client.service.create_or_update(service, "s1"), "s1")
    plain = client.service.create_with_id_generation(Service(desc="plain", upstream_id="u1", hosts=["a.test"]))
    check("a plain one", client.service.get(plain).value.hosts, ["a.test"])
    check("how many", client.service.count(), 2)
    check("one deleted", bool(client.service.delete(plain)), True)
    check("one of a missing upstream", client.service.create_or_update(Service(upstream_id="none"), "s2"), None)


def consumers():
    check("a consumer with a key", client.consumer.create_or_update(Consumer(username="jack", plugins=[KeyAuth(key="jacks")])), True)
    check("a plain one", client.consumer.create_or_update(Consumer(username="jill", desc="no key")), True)
    check("its text", client.consumer.get("jill").value.desc, "no key")
    check("how many", client.consumer.count(), 2)
    check("one deleted", client.consumer.delete("jill"), 1)
    check("one that is not there", client.consumer.delete("jill"), 0)


def routes():
    plugins = [
        KeyAuthSettings(header="X-Key", query="key", hide_credentials=True),
        LimitCount(count=2, time_window=600, rejected_code=429, key_type="var", key="remote_addr"),
        ProxyRewrite(uri="/rewritten"),
    ]
    route = Route(name="r", uris=["/r", "/r/*"], methods=["GET"], service_id="s1", priority=3, plugins=plugins)
    check("a route", client.route.create_or_update(route, "r1"), "r1")
    open_one = client.route.create_with_id_generation(Route(uri="/open", upstream_id="u1", labels={"a": "b"}))
    check("an open one", client.route.get(open_one).value.uri, "/open")
    check("how many", client.route.count(), 2)
    check("one of a missing upstream", client.route.create_or_update(Route(uri="/x", upstream_id="none"), "r2"), None)
    check("one that is not there", client.route.get("none"), None)
    return open_one


def traffic(open_one):
    until("the last change is in force", lambda: ask("/open")[0], 200)
    check("without a key", ask("/r/a")[0], 401)
    status, body = ask("/r/a", **{"X-Key": "jacks"})
    check("with the key, and the service's plugin", (status, body.split(" ")[1]), (202, "/rewritten"))
    check("the key is hidden", "jacks" in body, False)
    check("the second", ask("/r/a?key=jacks")[0], 202)
    check("the third is over the limit", ask("/r/a", **{"X-Key": "jacks"})[0], 429)
    check("the open route is deleted", client.route.delete(open_one), True)
    until("and gone", lambda: ask("/open")[0], 404)


def plugins():
    names = client.plugin.get_available()
    check("the plugins used here", {"key-auth", "limit-count", "proxy-rewrite", "response-rewrite"} <= set(names), True)
    check("a reload", client.plugin.reload(), True)


upstreams()
services()
consumers()
traffic(routes())
plugins()
print("done")
