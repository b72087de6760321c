package lab;

import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.buffer.Unpooled;
import io.netty.util.ReferenceCountUtil;

/** TCP proxy: one back-end connection per client connection, bytes both ways, back-pressure kept. */
public final class L4 {
    public static void main(String[] args) throws Exception {
        Setup setup = new Setup();
        setup.serve(new ChannelInitializer<Channel>() {
            @Override protected void initChannel(Channel front) {
                front.pipeline().addLast(new Front(setup));
            }
        }, false);
    }

    /** Writes what it reads to the other side. */
    static class Relay extends ChannelInboundHandlerAdapter {
        Channel other;

        @Override public void channelRead(ChannelHandlerContext ctx, Object msg) {
            if (other == null || !other.isActive()) { ReferenceCountUtil.release(msg); return; }
            other.write(msg);
        }

        @Override public void channelReadComplete(ChannelHandlerContext ctx) {
            if (other == null) return;
            other.flush();
            if (!other.isWritable()) ctx.channel().config().setAutoRead(false);
        }

        @Override public void channelWritabilityChanged(ChannelHandlerContext ctx) {
            if (other != null && ctx.channel().isWritable()) other.config().setAutoRead(true);
            ctx.fireChannelWritabilityChanged();
        }

        @Override public void channelInactive(ChannelHandlerContext ctx) {
            if (other != null && other.isActive()) {
                other.writeAndFlush(Unpooled.EMPTY_BUFFER).addListener(ChannelFutureListener.CLOSE);
            }
        }

        @Override public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) { ctx.close(); }
    }

    static final class Front extends Relay {
        private final Setup setup;
        Front(Setup setup) { this.setup = setup; }

        @Override public void channelActive(ChannelHandlerContext ctx) {
            Channel front = ctx.channel();
            Relay back = new Relay();
            back.other = front;
            setup.connector(front.eventLoop(), back).connect().addListener((ChannelFutureListener) f -> {
                // The back-end loop may not be the client's: hand over on the client's.
                Runnable ready = () -> {
                    if (!f.isSuccess()) { front.close(); return; }
                    if (!front.isActive()) { f.channel().close(); return; }
                    other = f.channel();
                    front.config().setAutoRead(true);
                };
                if (front.eventLoop().inEventLoop()) ready.run(); else front.eventLoop().execute(ready);
            });
        }
    }
}
