{{/* The text of the settings file. */}}

{{- define "weir.settings" -}}
{{- $v := .Values -}}
{{- $own := dict "data" "/var/lib/weir" "control" "127.0.0.1:9090" "status" (printf "%s:7085" $v.listenAddress) "metrics" (printf "%s:9091" $v.listenAddress) -}}
{{- $_ := set $own "proxy" (ternary "off" (printf "%s:9080" $v.listenAddress) (eq (int $v.service.httpPort) 0)) -}}
{{- $tls := ternary "off" (printf "%s:9443" $v.listenAddress) (eq (int $v.service.httpsPort) 0) -}}
{{- if $v.service.http3 -}}
{{- $_ := set $own "proxy_tls" "off" -}}
{{- $_ := set $own "proxy_tls_http3" $tls -}}
{{- $_ := set $own "http3_alt_svc" (printf "h3=\":%d\"; ma=86400" (int $v.service.httpsPort)) -}}
{{- else -}}
{{- $_ := set $own "proxy_tls" $tls -}}
{{- end -}}
{{- if not $v.admin.enabled -}}
{{- $_ := set $own "admin" "off" -}}
{{- else if $v.admin.service.enabled -}}
{{- $_ := set $own "admin" (printf "%s:9180" $v.listenAddress) -}}
{{- $_ := set $own "admin_allow" $v.admin.allow -}}
{{- else -}}
{{- $_ := set $own "admin" "127.0.0.1:9180" -}}
{{- end -}}
{{- $_ := set $own "source" $v.source -}}
{{- if eq $v.source "file" -}}
{{- $_ := set $own "resources" "/etc/weir/objects/resources.yaml" -}}
{{- else if eq $v.source "etcd" -}}
{{- $_ := set $own "etcd_endpoints" $v.etcd.endpoints -}}
{{- $_ := set $own "etcd_prefix" $v.etcd.prefix -}}
{{- with $v.etcd.username -}}{{- $_ := set $own "etcd_username" . -}}{{- end -}}
{{- if $v.etcd.tlsSecret -}}
{{- $_ := set $own "etcd_ca" "/etc/weir/etcd/ca.crt" -}}
{{- if $v.etcd.clientCertificate -}}
{{- $_ := set $own "etcd_cert" "/etc/weir/etcd/tls.crt" -}}
{{- $_ := set $own "etcd_key" "/etc/weir/etcd/tls.key" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $own "drain_delay" (int $v.drain.delaySeconds) -}}
{{- $_ := set $own "grace" (int $v.drain.graceSeconds) -}}
{{- if $v.discovery.kubernetes.enabled -}}
{{- $_ := set $own "discovery" (mergeOverwrite (dict "kubernetes" (dict)) (dig "discovery" (dict) $v.settings)) -}}
{{- end -}}
{{- toYaml (merge $own $v.settings) -}}
{{- end -}}
