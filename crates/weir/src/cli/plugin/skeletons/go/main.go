// A plugin runner with the plugin my-plugin.
//
//	go mod tidy && go test ./... && go build -o my-plugin .
//
// In the settings of Weir: `plugin_runner: [/path/to/my-plugin]`. In an object:
// `"ext-plugin-pre-req": {"conf": [{"name": "my-plugin", "value": "{\"header\": \"X-Tenant\"}"}]}`.
package main

import (
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/apache/apisix-go-plugin-runner/pkg/runner"
)

func main() {
	if err := plugin.RegisterPlugin(&Plugin{}); err != nil {
		panic(err)
	}
	runner.Run(runner.RunnerConfig{})
}
