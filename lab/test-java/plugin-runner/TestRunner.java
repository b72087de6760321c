package test;

import java.util.List;
import org.apache.apisix.plugin.runner.HttpRequest;
import org.apache.apisix.plugin.runner.HttpResponse;
import org.apache.apisix.plugin.runner.PostRequest;
import org.apache.apisix.plugin.runner.PostResponse;
import org.apache.apisix.plugin.runner.filter.PluginFilter;
import org.apache.apisix.plugin.runner.filter.PluginFilterChain;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.stereotype.Component;

/** A plugin runner with three plugins: one for requests that asks for variables and the body, and two for responses. */
@SpringBootApplication(scanBasePackages = {"test", "org.apache.apisix.plugin.runner"})
public class TestRunner {
    public static void main(String[] arguments) {
        new SpringApplicationBuilder(TestRunner.class).web(WebApplicationType.NONE).run(arguments);
    }

    /** Tells the upstream what it has asked the gateway for, and sets an argument. */
    @Component
    public static class Asks implements PluginFilter {
        @Override
        public String name() {
            return "asks";
        }

        @Override
        public void filter(HttpRequest request, HttpResponse response, PluginFilterChain chain) {
            request.setHeader("X-Config", request.getConfig(this));
            request.setHeader("X-Told", request.getVars("uri") + " " + request.getVars("remote_addr"));
            request.setHeader("X-Length", String.valueOf(request.getBody().length()));
            request.setHeader("X-Drop", null);
            request.setArg("added", "by java");
            chain.filter(request, response);
        }

        @Override
        public List<String> requiredVars() {
            return List.of("uri", "remote_addr");
        }

        @Override
        public Boolean requiredBody() {
            return true;
        }
    }

    /** Tells the client the status of the upstream, which the runner can only read where no plugin asks for the body. */
    @Component
    public static class Marks implements PluginFilter {
        @Override
        public String name() {
            return "marks";
        }

        @Override
        public void postFilter(PostRequest request, PostResponse response, PluginFilterChain chain) {
            response.setHeader("X-Was", String.valueOf(request.getUpstreamStatusCode()));
            chain.postFilter(request, response);
        }
    }

    /** Writes the body of the response in upper case. */
    @Component
    public static class Shouts implements PluginFilter {
        @Override
        public String name() {
            return "shouts";
        }

        @Override
        public void postFilter(PostRequest request, PostResponse response, PluginFilterChain chain) {
            response.setStatusCode(202);
            response.setBody(request.getBody().toUpperCase());
            chain.postFilter(request, response);
        }

        @Override
        public Boolean requiredRespBody() {
            return true;
        }
    }
}
