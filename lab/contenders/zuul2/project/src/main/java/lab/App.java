package lab;

import com.netflix.appinfo.InstanceInfo.InstanceStatus;
import com.netflix.config.ConfigurationManager;
import com.netflix.netty.common.accesslog.AccessLogPublisher;
import com.netflix.netty.common.channel.config.ChannelConfig;
import com.netflix.netty.common.channel.config.CommonChannelConfigKeys;
import com.netflix.netty.common.metrics.EventLoopGroupMetrics;
import com.netflix.netty.common.proxyprotocol.StripUntrustedProxyHeadersHandler.AllowWhen;
import com.netflix.netty.common.status.ServerStatusManager;
import com.netflix.spectator.api.NoopRegistry;
import com.netflix.spectator.api.Registry;
import com.netflix.zuul.BasicRequestCompleteHandler;
import com.netflix.zuul.DefaultFilterFactory;
import com.netflix.zuul.StaticFilterLoader;
import com.netflix.zuul.context.ZuulSessionContextDecorator;
import com.netflix.zuul.filters.FilterType;
import com.netflix.zuul.filters.ZuulFilter;
import com.netflix.zuul.filters.endpoint.ProxyEndpoint;
import com.netflix.zuul.filters.http.HttpInboundSyncFilter;
import com.netflix.zuul.filters.http.HttpOutboundSyncFilter;
import com.netflix.zuul.message.http.HttpRequestMessage;
import com.netflix.zuul.message.http.HttpResponseMessage;
import com.netflix.zuul.netty.server.BaseServerStartup;
import com.netflix.zuul.netty.server.ClientRequestReceiver;
import com.netflix.zuul.netty.server.DefaultEventLoopConfig;
import com.netflix.zuul.netty.server.DirectMemoryMonitor;
import com.netflix.zuul.netty.server.NamedSocketAddress;
import com.netflix.zuul.netty.server.Server;
import com.netflix.zuul.netty.server.ZuulServerChannelInitializer;
import com.netflix.zuul.origins.BasicNettyOriginManager;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.group.ChannelGroup;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.Set;

/** One route, everything to the origin "api". Settings: LISTEN_HOST, LISTEN_PORT, ORIGIN, WORKERS. */
public final class App {
    public static void main(String[] args) throws Exception {
        ConfigurationManager.loadCascadedPropertiesFromResources("application");
        Startup startup = new Startup(new NoopRegistry(), Integer.parseInt(env("WORKERS")));
        startup.init();
        Server server = startup.server();
        server.start();
        server.awaitTermination();
    }

    static String env(String name) {
        String value = System.getenv(name);
        if (value == null) throw new IllegalArgumentException(name + " is not set");
        return value;
    }

    /** The route: an inbound filter that sends every request to the proxy endpoint. */
    public static final class Route extends HttpInboundSyncFilter {
        @Override public int filterOrder() { return 0; }
        @Override public FilterType filterType() { return FilterType.INBOUND; }
        @Override public boolean shouldFilter(HttpRequestMessage request) { return true; }

        @Override public HttpRequestMessage apply(HttpRequestMessage request) {
            request.getContext().setEndpoint(ProxyEndpoint.class.getCanonicalName());
            request.getContext().setRouteVIP("api");
            if (request.getPath().startsWith("/sodik/")) request.setPath(request.getPath().substring("/sodik".length()));
            return request;
        }
    }

    /** Zuul wants one filter of each kind; this one never applies. */
    public static final class Nothing extends HttpOutboundSyncFilter {
        @Override public int filterOrder() { return 0; }
        @Override public FilterType filterType() { return FilterType.OUTBOUND; }
        @Override public boolean shouldFilter(HttpResponseMessage response) { return false; }
        @Override public HttpResponseMessage apply(HttpResponseMessage response) { return response; }
    }

    static final class Startup extends BaseServerStartup {
        Startup(Registry registry, int workers) {
            super(
                    // no Eureka to report the status to
                    new ServerStatusManager(null) {
                        @Override public void localStatus(InstanceStatus status) { }
                    },
                    new StaticFilterLoader(new DefaultFilterFactory(), Set.<Class<? extends ZuulFilter<?, ?>>>of(Route.class, Nothing.class)),
                    new ZuulSessionContextDecorator(new BasicNettyOriginManager(registry)),
                    (filter, status) -> { },
                    new BasicRequestCompleteHandler(),
                    registry,
                    new DirectMemoryMonitor(registry),
                    new EventLoopGroupMetrics(registry),
                    new DefaultEventLoopConfig(workers, 1),
                    null,
                    null,
                    // the logger "ACCESS" is off in simplelogger.properties
                    new AccessLogPublisher("ACCESS", (channel, request) ->
                            ClientRequestReceiver.getRequestFromChannel(channel).getContext().getUUID()));
        }

        @Override
        protected Map<NamedSocketAddress, ChannelInitializer<?>> chooseAddrsAndChannels(ChannelGroup clients) {
            InetSocketAddress address = new InetSocketAddress(env("LISTEN_HOST"), Integer.parseInt(env("LISTEN_PORT")));
            ChannelConfig config = defaultChannelConfig("main");
            ChannelConfig dependencies = defaultChannelDependencies("main");
            config.set(CommonChannelConfigKeys.allowProxyHeadersWhen, AllowWhen.ALWAYS);
            config.set(CommonChannelConfigKeys.preferProxyProtocolForClientIp, false);
            config.set(CommonChannelConfigKeys.isSSlFromIntermediary, false);
            config.set(CommonChannelConfigKeys.withProxyProtocol, false);
            return Map.of(
                    new NamedSocketAddress("http", address),
                    new ZuulServerChannelInitializer(String.valueOf(address.getPort()), config, dependencies, clients));
        }
    }

    private App() { }
}
