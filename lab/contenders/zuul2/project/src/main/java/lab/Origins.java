package lab;

import com.netflix.appinfo.InstanceInfo;
import com.netflix.client.config.IClientConfig;
import com.netflix.loadbalancer.AbstractServerList;
import com.netflix.niws.loadbalancer.DiscoveryEnabledServer;
import java.util.List;

/**
 * A fixed list of the one origin. Zuul 2 takes only servers as Eureka describes them, so Ribbon's own
 * fixed list does not do.
 */
public final class Origins extends AbstractServerList<DiscoveryEnabledServer> {
    private final List<DiscoveryEnabledServer> servers;

    public Origins() {
        String origin = App.env("ORIGIN");
        int colon = origin.lastIndexOf(':');
        String host = origin.substring(0, colon);
        InstanceInfo info = InstanceInfo.Builder.newBuilder()
                .setAppName("api").setVIPAddress("api").setInstanceId(origin)
                .setHostName(host).setIPAddr(host)
                .setPort(Integer.parseInt(origin.substring(colon + 1)))
                .setStatus(InstanceInfo.InstanceStatus.UP)
                .build();
        servers = List.of(new DiscoveryEnabledServer(info, false, true));
    }

    @Override public void initWithNiwsConfig(IClientConfig config) { }
    @Override public List<DiscoveryEnabledServer> getInitialListOfServers() { return servers; }
    @Override public List<DiscoveryEnabledServer> getUpdatedListOfServers() { return servers; }
}
