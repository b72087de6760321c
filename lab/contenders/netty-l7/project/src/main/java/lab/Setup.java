package lab;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.AdaptiveByteBufAllocator;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import java.net.InetSocketAddress;

/**
 * What both proxies share. From the environment: LISTEN, ORIGIN, WORKERS, KEEPALIVE, and
 *
 * <pre>
 * THREAD_MODEL  SeparatePools  back-end connections have an event loop group of their own
 *               SharedPool     they share the server's group, on whichever loop is next
 *               SameLoop       they live on the very loop of the client connection they serve
 * BUFFERS       pooled | unpooled | adaptive
 * TRANSPORT     epoll | nio
 * </pre>
 */
final class Setup {
    enum Model { SeparatePools, SharedPool, SameLoop }

    final Model model = Model.valueOf(env("THREAD_MODEL"));
    final int workers = Integer.parseInt(env("WORKERS"));
    final int keepalive = Integer.parseInt(env("KEEPALIVE"));
    final InetSocketAddress listen;
    final InetSocketAddress origin = address(env("ORIGIN"));
    final boolean epoll = env("TRANSPORT").equals("epoll");
    final ByteBufAllocator alloc;
    final EventLoopGroup boss;
    final EventLoopGroup server;
    final EventLoopGroup client;

    Setup() {
        listen = address(env("LISTEN"));
        switch (env("BUFFERS")) {
            case "pooled": alloc = PooledByteBufAllocator.DEFAULT; break;
            case "unpooled": alloc = UnpooledByteBufAllocator.DEFAULT; break;
            case "adaptive": alloc = new AdaptiveByteBufAllocator(); break;
            default: throw new IllegalArgumentException("BUFFERS");
        }
        boss = group(1);
        server = group(workers);
        client = model == Model.SeparatePools ? group(workers) : server;
    }

    private EventLoopGroup group(int threads) {
        IoHandlerFactory f = epoll ? EpollIoHandler.newFactory() : NioIoHandler.newFactory();
        return new MultiThreadIoEventLoopGroup(threads, f);
    }

    /** The event loop (or group) a back-end connection for this client connection goes to. */
    EventLoopGroup clientLoop(EventLoop frontLoop) {
        return model == Model.SameLoop ? frontLoop : client;
    }

    Bootstrap connector(EventLoop frontLoop, ChannelHandler handler) {
        return new Bootstrap()
                .group(clientLoop(frontLoop))
                .channel(epoll ? EpollSocketChannel.class : NioSocketChannel.class)
                .option(ChannelOption.ALLOCATOR, alloc)
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.SO_KEEPALIVE, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, 5000)
                .handler(handler)
                .remoteAddress(origin);
    }

    void serve(ChannelHandler child, boolean autoRead) throws InterruptedException {
        Channel c = new ServerBootstrap()
                .group(boss, server)
                .channel(epoll ? EpollServerSocketChannel.class : NioServerSocketChannel.class)
                .option(ChannelOption.SO_BACKLOG, 4096)
                .option(ChannelOption.SO_REUSEADDR, true)
                .childOption(ChannelOption.ALLOCATOR, alloc)
                .childOption(ChannelOption.TCP_NODELAY, true)
                .childOption(ChannelOption.SO_KEEPALIVE, true)
                .childOption(ChannelOption.AUTO_READ, autoRead)
                .childHandler(child)
                .bind(listen).sync().channel();
        System.out.println("listening on " + listen + " model=" + model + " workers=" + workers
                + " alloc=" + alloc.getClass().getSimpleName() + " epoll=" + epoll);
        c.closeFuture().sync();
    }

    static String env(String name) {
        String value = System.getenv(name);
        if (value == null) throw new IllegalArgumentException(name + " is not set");
        return value;
    }

    static InetSocketAddress address(String hostPort) {
        int colon = hostPort.lastIndexOf(':');
        return new InetSocketAddress(hostPort.substring(0, colon), Integer.parseInt(hostPort.substring(colon + 1)));
    }

}
