package lab;

import org.apache.coyote.http11.AbstractHttp11Protocol;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.embedded.tomcat.TomcatServletWebServerFactory;
import org.springframework.boot.web.server.WebServerFactoryCustomizer;
import org.springframework.cloud.netflix.zuul.EnableZuulProxy;
import org.springframework.context.annotation.Bean;

@SpringBootApplication
@EnableZuulProxy
public class App {
    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
    }

    /** Tomcat closes a kept-alive connection after 100 requests unless told otherwise. */
    @Bean
    WebServerFactoryCustomizer<TomcatServletWebServerFactory> keepAlive() {
        return factory -> factory.addConnectorCustomizers(connector -> {
            AbstractHttp11Protocol<?> p = (AbstractHttp11Protocol<?>) connector.getProtocolHandler();
            p.setMaxKeepAliveRequests(-1);
            p.setKeepAliveTimeout(600_000);
        });
    }
}
