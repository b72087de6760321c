module weir.test/go-runner

go 1.26

require github.com/apache/apisix-go-plugin-runner v0.5.0

require (
	github.com/ReneKroon/ttlcache/v2 v2.4.0 // indirect
	github.com/api7/ext-plugin-proto v0.6.0 // indirect
	github.com/google/flatbuffers v2.0.0+incompatible // indirect
	github.com/inconshreveable/mousetrap v1.0.0 // indirect
	github.com/spf13/cobra v1.2.1 // indirect
	github.com/spf13/pflag v1.0.5 // indirect
	github.com/thediveo/enumflag v0.10.1 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.7.0 // indirect
	go.uber.org/zap v1.17.0 // indirect
	golang.org/x/time v0.0.0-20191024005414-555d28b269f0 // indirect
)
