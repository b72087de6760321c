// One node of OpenSearch for tests, without its scripts, its security manager and its check for root.
// Arguments: the port for HTTP, the port for other nodes, the folder for data.

import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public class TestNode extends Node {
    TestNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test"),
            List.of(Netty4Plugin.class),
            false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[2])
            .put("path.data", arguments[2] + "/data")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[0])
            .put("transport.port", arguments[1])
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("discovery.type", "single-node")
            .put("cluster.name", "test")
            // A full disk of the machine that tests is no concern of the tests.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        new TestNode(settings).start();
        // The test closes standard input when it ends, and so does its death.
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
