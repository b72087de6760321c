//go:build tools

// Package tools names the program that lab/install.sh builds: APISIX's plugin runner for Go with its own example plugins.
package tools

import _ "github.com/apache/apisix-go-plugin-runner/cmd/go-runner"
