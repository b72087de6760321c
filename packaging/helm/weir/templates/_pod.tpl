{{/* The template of the pods, for the Deployment and the StatefulSet. */}}

{{- define "weir.pod" -}}
{{- $v := .Values -}}
metadata:
  labels:
    {{- include "weir.selectorLabels" . | nindent 4 }}
    {{- with $v.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ include "weir.settings" . | sha256sum }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  serviceAccountName: {{ include "weir.serviceAccountName" . }}
  # The gateway asks Kubernetes for nothing unless it follows services of the cluster.
  automountServiceAccountToken: {{ $v.discovery.kubernetes.enabled }}
  enableServiceLinks: false
  {{- if $v.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  # A stop takes preStopSeconds, 5 seconds for registries, delaySeconds and graceSeconds; 5 more are to spare.
  terminationGracePeriodSeconds: {{ add (int $v.drain.preStopSeconds) (int $v.drain.delaySeconds) (int $v.drain.graceSeconds) 10 }}
  containers:
    - name: weir
      image: {{ include "weir.image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args:
        - run
        - --config
        - /etc/weir/weir.yaml
        {{- with $v.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- include "weir.env" . | nindent 6 }}
      {{- with $v.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if $v.service.httpPort }}
        - {name: http, containerPort: 9080, protocol: TCP}
        {{- end }}
        {{- if $v.service.httpsPort }}
        - {name: https, containerPort: 9443, protocol: TCP}
        {{- end }}
        {{- if $v.service.http3 }}
        - {name: http3, containerPort: 9443, protocol: UDP}
        {{- end }}
        {{- if $v.admin.service.enabled }}
        - {name: admin, containerPort: 9180, protocol: TCP}
        {{- end }}
        - {name: metrics, containerPort: 9091, protocol: TCP}
        - {name: status, containerPort: 7085, protocol: TCP}
      startupProbe:
        httpGet: {path: /status, port: status}
        periodSeconds: {{ $v.probes.startup.periodSeconds }}
        failureThreshold: {{ $v.probes.startup.failureThreshold }}
      livenessProbe:
        httpGet: {path: /status, port: status}
        periodSeconds: {{ $v.probes.liveness.periodSeconds }}
        failureThreshold: {{ $v.probes.liveness.failureThreshold }}
        timeoutSeconds: 5
      readinessProbe:
        httpGet: {path: /status/ready, port: status}
        periodSeconds: {{ $v.probes.readiness.periodSeconds }}
        failureThreshold: {{ $v.probes.readiness.failureThreshold }}
        timeoutSeconds: 2
      {{- if $v.drain.preStopSeconds }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ $v.drain.preStopSeconds }}}
      {{- end }}
      {{- with $v.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - {name: settings, mountPath: /etc/weir/weir.yaml, subPath: weir.yaml, readOnly: true}
        {{- if eq $v.source "file" }}
        # A folder and no subPath: Kubernetes replaces the files of a folder when the ConfigMap changes.
        - {name: objects, mountPath: /etc/weir/objects, readOnly: true}
        {{- end }}
        {{- if and (eq $v.source "etcd") $v.etcd.tlsSecret }}
        - {name: etcd-tls, mountPath: /etc/weir/etcd, readOnly: true}
        {{- end }}
        - {name: data, mountPath: /var/lib/weir}
        - {name: tmp, mountPath: /tmp}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap:
        name: {{ include "weir.fullname" . }}-settings
    {{- if eq $v.source "file" }}
    - name: objects
      configMap:
        name: {{ include "weir.objectsName" . }}
    {{- end }}
    {{- if and (eq $v.source "etcd") $v.etcd.tlsSecret }}
    - name: etcd-tls
      secret:
        secretName: {{ $v.etcd.tlsSecret }}
    {{- end }}
    {{- if ne $v.source "store" }}
    - name: data
      emptyDir: {}
    {{- else if $v.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ $v.persistence.existingClaim }}
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with include "weir.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Where the pods run. */}}
{{- define "weir.placement" -}}
{{- $v := .Values -}}
{{- if $v.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml $v.topologySpreadConstraints | nindent 2 }}
{{- else if and $v.topologySpread.enabled (include "weir.isReplicated" .) }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "weir.selectorLabels" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* The environment of the container: secrets, and the name of the pod as the name of the instance. */}}
{{- define "weir.env" -}}
{{- $v := .Values -}}
env:
  - name: WEIR_INSTANCE_ID
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- if $v.admin.enabled }}
  - name: WEIR_ADMIN_KEY
    valueFrom:
      secretKeyRef:
        name: {{ include "weir.adminSecretName" . }}
        key: {{ $v.admin.existingSecret.key }}
  {{- end }}
  {{- if and (eq $v.source "etcd") $v.etcd.username }}
  - name: WEIR_ETCD_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ $v.etcd.passwordSecret.name }}
        key: {{ $v.etcd.passwordSecret.key }}
  {{- end }}
  {{- with $v.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
