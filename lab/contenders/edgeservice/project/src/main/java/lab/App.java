package lab;

import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;

@SpringBootApplication
public class App {
    public static void main(String[] args) {
        // The HTTP server is java-chassis' own Vert.x one, not a servlet container.
        new SpringApplicationBuilder().web(WebApplicationType.NONE).sources(App.class).run(args);
    }
}
