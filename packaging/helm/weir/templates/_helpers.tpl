{{/* Names, labels and parts that several objects share. */}}

{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects: that of the release, with the name of the chart unless it is in it. 52 characters leave
     room for the endings of names. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "weir.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "weir.adminSecretName" -}}
{{- default (printf "%s-admin" (include "weir.fullname" .)) .Values.admin.existingSecret.name -}}
{{- end -}}

{{- define "weir.objectsName" -}}
{{- default (printf "%s-objects" (include "weir.fullname" .)) .Values.existingObjects -}}
{{- end -}}

{{/* Whether there may be more than one pod: "true" or empty. */}}
{{- define "weir.isReplicated" -}}
{{- if .Values.autoscaling.enabled -}}
{{- if gt (int .Values.autoscaling.maxReplicas) 1 }}true{{ end -}}
{{- else if gt (int .Values.replicas) 1 -}}true
{{- end -}}
{{- end -}}

{{/* Refuses values that contradict each other; values.schema.json has refused those of a wrong form. */}}
{{- define "weir.checkValues" -}}
{{- $v := .Values -}}
{{- if eq $v.source "store" -}}
{{- if gt (int $v.replicas) 1 -}}
{{- fail (printf "replicas: %d pods with source: store would each have a configuration of their own; use replicas: 1, or source: etcd or file" (int $v.replicas)) -}}
{{- end -}}
{{- if $v.autoscaling.enabled -}}
{{- fail "autoscaling.enabled: pods with source: store would each have a configuration of their own; use source: etcd or file" -}}
{{- end -}}
{{- if not $v.admin.enabled -}}
{{- fail "admin.enabled: with source: store the Admin API is the only way to change the configuration; use admin.enabled: true or source: file" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $v.source "etcd") (not $v.etcd.endpoints) -}}
{{- fail "etcd.endpoints: source: etcd needs at least one URL" -}}
{{- end -}}
{{- if and $v.etcd.username (not $v.etcd.passwordSecret.name) -}}
{{- fail "etcd.passwordSecret.name: etcd.username needs a Secret with the password" -}}
{{- end -}}
{{- if and (not (eq $v.source "file")) (or $v.existingObjects (include "weir.hasObjects" .)) -}}
{{- fail (printf "objects: they are used with source: file only, and source is %s; write them by the Admin API (weir apply)" $v.source) -}}
{{- end -}}
{{- if and $v.existingObjects (include "weir.hasObjects" .) -}}
{{- fail "existingObjects: objects are given as well; use one of the two" -}}
{{- end -}}
{{- if and $v.etcd.clientCertificate (not $v.etcd.tlsSecret) -}}
{{- fail "etcd.clientCertificate: the certificate is in the Secret that etcd.tlsSecret names, which is empty" -}}
{{- end -}}
{{- if and $v.admin.service.enabled (not $v.admin.enabled) -}}
{{- fail "admin.service.enabled: the Admin API is off (admin.enabled: false)" -}}
{{- end -}}
{{- if and $v.admin.key $v.admin.existingSecret.name -}}
{{- fail "admin.key: admin.existingSecret.name is given as well; use one of the two" -}}
{{- end -}}
{{- if and (eq (int $v.service.httpPort) 0) (eq (int $v.service.httpsPort) 0) -}}
{{- fail "service.httpPort: it is 0, as is service.httpsPort; at least one port is needed" -}}
{{- end -}}
{{- if and $v.service.http3 (eq (int $v.service.httpsPort) 0) -}}
{{- fail "service.http3: HTTP/3 is served at service.httpsPort, which is 0" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than maxReplicas, %d" (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (not (dig "requests" "cpu" "" $v.resources)) -}}
{{- fail "resources.requests.cpu: autoscaling counts use in percent of it" -}}
{{- end -}}
{{- $own := dict "proxy" "service" "proxy_tls" "service" "proxy_tls_http3" "service.http3" "admin" "admin" "admin_allow" "admin.allow" "control" "nothing; it stays on the loopback" "status" "nothing; it is 7085" "metrics" "nothing; it is 9091" "data" "persistence" "resources" "objects" "source" "source" "etcd_endpoints" "etcd.endpoints" "etcd_prefix" "etcd.prefix" "etcd_username" "etcd.username" "etcd_ca" "etcd.tlsSecret" "etcd_cert" "etcd.tlsSecret" "etcd_key" "etcd.tlsSecret" "drain_delay" "drain.delaySeconds" "grace" "drain.graceSeconds" -}}
{{- range $name, $value := $v.settings -}}
{{- if hasKey $own $name -}}
{{- fail (printf "settings.%s: the chart sets it itself; the value for it is %s" $name (get $own $name)) -}}
{{- end -}}
{{- if and (eq $name "discovery") $v.discovery.kubernetes.enabled (hasKey $value "kubernetes") -}}
{{- fail "settings.discovery.kubernetes: discovery.kubernetes.enabled sets it as well; use one of the two" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether `objects` has any: "true" or empty. */}}
{{- define "weir.hasObjects" -}}
{{- range $kind, $list := .Values.objects -}}{{- if $list }}true{{ end -}}{{- end -}}
{{- end -}}
