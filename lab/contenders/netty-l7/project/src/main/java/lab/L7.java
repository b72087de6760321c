package lab;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoop;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpStatusClass;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.util.AttributeKey;
import io.netty.util.ReferenceCountUtil;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * HTTP/1.1 proxy: bodies are streamed, back-end connections are pooled and kept alive, a back-end
 * connection serves one request at a time. X-Forwarded-For is added, hop-by-hop headers are dropped.
 */
public final class L7 {
    static final AttributeKey<Back> BACK = AttributeKey.valueOf("back");

    public static void main(String[] args) throws Exception {
        Setup setup = new Setup();
        Pool pool = setup.model == Setup.Model.SameLoop ? new LoopPool(setup) : new SharedPool(setup);
        setup.serve(new ChannelInitializer<Channel>() {
            @Override protected void initChannel(Channel front) {
                front.pipeline().addLast(new HttpServerCodec(), new Front(setup, pool));
            }
        }, true);
    }

    /** Idle back-end connections. */
    interface Pool {
        Channel poll(EventLoop frontLoop);
        boolean offer(Channel back);
    }

    /** SameLoop: a stack per event loop, touched only from that loop. */
    static final class LoopPool implements Pool {
        private final Map<EventLoop, ArrayDeque<Channel>> idle = new ConcurrentHashMap<>();
        private final int max;
        LoopPool(Setup s) { max = Math.max(1, s.keepalive / s.workers); }
        private ArrayDeque<Channel> of(EventLoop l) { return idle.computeIfAbsent(l, k -> new ArrayDeque<>()); }

        @Override public Channel poll(EventLoop l) {
            ArrayDeque<Channel> q = of(l);
            for (Channel c; (c = q.pollLast()) != null; ) if (c.isActive()) return c;
            return null;
        }

        @Override public boolean offer(Channel back) {
            ArrayDeque<Channel> q = of(back.eventLoop());
            if (q.size() >= max) return false;
            q.addLast(back);
            return true;
        }
    }

    /** The other two models: one stack for all. */
    static final class SharedPool implements Pool {
        private final ConcurrentLinkedDeque<Channel> idle = new ConcurrentLinkedDeque<>();
        private final AtomicInteger size = new AtomicInteger();
        private final int max;
        SharedPool(Setup s) { max = s.keepalive; }

        @Override public Channel poll(EventLoop l) {
            for (Channel c; (c = idle.pollLast()) != null; ) {
                size.decrementAndGet();
                if (c.isActive()) return c;
            }
            return null;
        }

        @Override public boolean offer(Channel back) {
            if (size.incrementAndGet() > max) { size.decrementAndGet(); return false; }
            idle.addLast(back);
            return true;
        }
    }

    /** Client side. Its fields belong to the client connection's event loop. */
    static final class Front extends ChannelInboundHandlerAdapter {
        private final Setup setup;
        private final Pool pool;
        private Channel channel;
        private String clientIp;
        private Channel back;                 // attached, connected
        private boolean connecting;
        private boolean exchange;             // a request head was taken, its response has not ended
        private boolean keepAlive = true;
        private boolean http10;
        private final ArrayDeque<Object> waiting = new ArrayDeque<>(4); // for a connection, or pipelined
        private boolean needFlush;

        Front(Setup setup, Pool pool) { this.setup = setup; this.pool = pool; }

        @Override public void channelActive(ChannelHandlerContext ctx) {
            channel = ctx.channel();
            clientIp = ((InetSocketAddress) channel.remoteAddress()).getAddress().getHostAddress();
        }

        @Override public void channelRead(ChannelHandlerContext ctx, Object msg) {
            if (!waiting.isEmpty() || connecting || (exchange && msg instanceof HttpRequest)) {
                waiting.add(msg);
                // A client that pipelines, or a slow connect: stop reading until this drains.
                channel.config().setAutoRead(false);
            } else {
                take(msg);
            }
        }

        private void take(Object msg) {
            if (msg instanceof HttpRequest) {
                HttpRequest req = (HttpRequest) msg;
                if (req.decoderResult().isFailure()) { ReferenceCountUtil.release(msg); fail(HttpResponseStatus.BAD_REQUEST); return; }
                exchange = true;
                keepAlive = HttpUtil.isKeepAlive(req);
                http10 = req.protocolVersion().equals(HttpVersion.HTTP_1_0);
                HttpHeaders h = req.headers();
                dropHopByHop(h);
                String xff = h.get("X-Forwarded-For");
                h.set("X-Forwarded-For", xff == null ? clientIp : xff + ", " + clientIp);
                if (req.uri().startsWith("/sodik/")) req.setUri(req.uri().substring("/sodik".length()));
                req.setProtocolVersion(HttpVersion.HTTP_1_1);
                Channel c = pool.poll(channel.eventLoop());
                if (c == null) { waiting.addFirst(msg); connect(); return; }
                attach(c);
            }
            if (back == null) { ReferenceCountUtil.release(msg); return; } // the rest of a failed exchange
            if (msg instanceof LastHttpContent) back.attr(BACK).get().requestDone = true;
            back.write(msg);
            needFlush = true;
        }

        private void connect() {
            connecting = true;
            Back handler = new Back(pool);
            Bootstrap b = setup.connector(channel.eventLoop(), new ChannelInitializer<Channel>() {
                @Override protected void initChannel(Channel c) {
                    c.attr(BACK).set(handler);
                    c.pipeline().addLast(new HttpClientCodec(), handler);
                }
            });
            b.connect().addListener((ChannelFutureListener) f -> {
                Runnable ready = () -> {
                    connecting = false;
                    if (!f.isSuccess()) { fail(HttpResponseStatus.BAD_GATEWAY); return; }
                    if (!channel.isActive()) { f.channel().close(); drop(); return; }
                    attach(f.channel());
                    Object head = waiting.pollFirst();
                    back.write(head);
                    needFlush = true;
                    drain();
                };
                if (channel.eventLoop().inEventLoop()) ready.run(); else channel.eventLoop().execute(ready);
            });
        }

        private void attach(Channel c) {
            back = c;
            Back b = c.attr(BACK).get();
            b.requestDone = false;
            b.front = this; // published to the back-end loop by the write that follows
        }

        /** Sends on what waited, up to the next request when one is still being served. */
        private void drain() {
            while (!waiting.isEmpty() && !connecting && !(exchange && waiting.peek() instanceof HttpRequest)) {
                take(waiting.poll());
            }
            if (waiting.isEmpty() && !connecting) channel.config().setAutoRead(true);
            flushBack();
        }

        private void flushBack() {
            if (needFlush && back != null) { needFlush = false; back.flush(); }
        }

        @Override public void channelReadComplete(ChannelHandlerContext ctx) {
            flushBack();
            if (back != null && !back.isWritable()) channel.config().setAutoRead(false);
        }

        @Override public void channelWritabilityChanged(ChannelHandlerContext ctx) {
            Channel b = back;
            if (b != null && channel.isWritable()) b.config().setAutoRead(true);
        }

        /** On the client's loop: the response has ended and was written. */
        void ended(boolean close) {
            exchange = false;
            back = null;
            if (close) { drop(); channel.writeAndFlush(Unpooled.EMPTY_BUFFER).addListener(ChannelFutureListener.CLOSE); return; }
            if (!waiting.isEmpty()) drain();
            else if (!channel.config().isAutoRead()) channel.config().setAutoRead(true);
        }

        /** On the client's loop: the origin went away in the middle. */
        void lost(boolean responseBegun) {
            back = null;
            if (!channel.isActive()) return;
            if (responseBegun) { drop(); channel.close(); } else { fail(HttpResponseStatus.BAD_GATEWAY); }
        }

        private void fail(HttpResponseStatus status) {
            drop();
            back = null;
            DefaultFullHttpResponse r = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, status);
            r.headers().set(HttpHeaderNames.CONTENT_LENGTH, 0).set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
            channel.writeAndFlush(r).addListener(ChannelFutureListener.CLOSE);
        }

        private void drop() {
            for (Object o; (o = waiting.poll()) != null; ) ReferenceCountUtil.release(o);
        }

        @Override public void channelInactive(ChannelHandlerContext ctx) {
            drop();
            Channel b = back;
            back = null;
            if (b != null) b.close(); // in the middle of an exchange: the connection cannot be reused
        }

        @Override public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) { ctx.close(); }
    }

    /** Origin side. Its fields, but for requestDone and front, belong to the back-end loop. */
    static final class Back extends ChannelInboundHandlerAdapter {
        private final Pool pool;
        volatile Front front;
        volatile boolean requestDone;
        private boolean begun, interim, closeBack, closeFront;

        Back(Pool pool) { this.pool = pool; }

        @Override public void channelRead(ChannelHandlerContext ctx, Object msg) {
            Front f = front;
            if (f == null) { ReferenceCountUtil.release(msg); ctx.close(); return; } // unasked-for bytes
            if (msg instanceof HttpResponse) {
                HttpResponse res = (HttpResponse) msg;
                interim = res.status().codeClass() == HttpStatusClass.INFORMATIONAL && res.status().code() != 101;
                if (!interim) {
                    begun = true;
                    closeBack = !HttpUtil.isKeepAlive(res);
                    HttpHeaders h = res.headers();
                    dropHopByHop(h);
                    closeFront = !f.keepAlive;
                    if (!HttpUtil.isContentLengthSet(res) && !HttpUtil.isTransferEncodingChunked(res)
                            && res.status().code() != 204 && res.status().code() != 304) {
                        if (f.http10) closeFront = true; else HttpUtil.setTransferEncodingChunked(res, true);
                    }
                    if (closeFront) h.set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
                    else if (f.http10) h.set(HttpHeaderNames.CONNECTION, HttpHeaderValues.KEEP_ALIVE);
                }
            }
            boolean last = msg instanceof LastHttpContent && !interim;
            f.channel.write(msg);
            if (last) {
                boolean close = closeFront || !requestDone;
                boolean reuse = !closeBack && requestDone && ctx.channel().isActive();
                front = null;
                begun = false;
                f.channel.flush();
                Runnable end = () -> f.ended(close);
                if (!ctx.channel().config().isAutoRead()) ctx.channel().config().setAutoRead(true);
                // Give the connection back first: the client's next request may want it at once.
                if (!reuse || !pool.offer(ctx.channel())) ctx.close();
                if (f.channel.eventLoop().inEventLoop()) end.run(); else f.channel.eventLoop().execute(end);
            }
        }

        @Override public void channelReadComplete(ChannelHandlerContext ctx) {
            Front f = front;
            if (f == null) return;
            f.channel.flush();
            if (!f.channel.isWritable()) ctx.channel().config().setAutoRead(false);
        }

        @Override public void channelWritabilityChanged(ChannelHandlerContext ctx) {
            Front f = front;
            if (f != null && ctx.channel().isWritable()) f.channel.config().setAutoRead(true);
        }

        @Override public void channelInactive(ChannelHandlerContext ctx) {
            Front f = front;
            front = null;
            if (f == null) return;
            boolean b = begun;
            if (f.channel.eventLoop().inEventLoop()) f.lost(b); else f.channel.eventLoop().execute(() -> f.lost(b));
        }

        @Override public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) { ctx.close(); }
    }

    /** Connection-level headers end at this hop; Transfer-Encoding stays, the codec acts on it. */
    static void dropHopByHop(HttpHeaders h) {
        if (h.contains(HttpHeaderNames.CONNECTION)) {
            for (String list : h.getAll(HttpHeaderNames.CONNECTION)) {
                for (String name : list.split(",")) {
                    name = name.trim();
                    if (!name.isEmpty() && !name.equalsIgnoreCase("close") && !name.equalsIgnoreCase("keep-alive")) h.remove(name);
                }
            }
            h.remove(HttpHeaderNames.CONNECTION);
        }
        h.remove("Keep-Alive");
        h.remove("Proxy-Connection");
        h.remove(HttpHeaderNames.UPGRADE);
    }

    private L7() { }
}
