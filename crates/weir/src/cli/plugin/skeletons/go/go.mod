module my-plugin

go 1.21

require github.com/apache/apisix-go-plugin-runner v0.5.0
