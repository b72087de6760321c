package main

import (
	"encoding/json"
	"errors"
	"net/http"

	pkgHTTP "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
)

// Plugin refuses requests without a header field, and tells the upstream that it has looked.
type Plugin struct{ plugin.DefaultPlugin }

// Config is the configuration in an object of the gateway.
type Config struct {
	// Header is the name of the field that requests need.
	Header string `json:"header"`
}

// Name is the name in `conf`.
func (*Plugin) Name() string { return "my-plugin" }

// ParseConf reads a configuration once.
func (*Plugin) ParseConf(in []byte) (interface{}, error) {
	var config Config
	if err := json.Unmarshal(in, &config); err != nil {
		return nil, err
	}
	if config.Header == "" {
		return nil, errors.New("header is missing")
	}
	return config, nil
}

// RequestFilter sees each request.
func (*Plugin) RequestFilter(conf interface{}, w http.ResponseWriter, r pkgHTTP.Request) {
	header := conf.(Config).Header
	if r.Header().Get(header) == "" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("the field " + header + " is missing\n"))
		return
	}
	r.Header().Set("X-Checked-By", "my-plugin")
}

// ResponseFilter sees each response, where an object has the plugin in `ext-plugin-post-resp`.
func (*Plugin) ResponseFilter(conf interface{}, w pkgHTTP.Response) {
	w.Header().Set("X-Passed-By", "my-plugin")
}
