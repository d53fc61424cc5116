{{- define "flotilla.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Ports of the services that have an interface: the defaults of docs/configuration.md. All others have OPS_PORT. */}}
{{- define "flotilla.ports" -}}
vector-gateway: 8080
main-api: 8081
run-gateway: 8082
hub: 8083
{{- end -}}

{{/* Services whose interface is on the loopback of their pod, with its port. */}}
{{- define "flotilla.loopbackPorts" -}}
webhook-relay: 9090
{{- end -}}

{{/* Of all objects of a service. Takes a dict of root and name. */}}
{{- define "flotilla.labels" -}}
{{ include "flotilla.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{- define "flotilla.selectorLabels" -}}
app.kubernetes.io/name: flotilla
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{/* How a probe asks a path. Takes a dict of path and loopbackPort, which is null unless only the pod itself may ask. */}}
{{- define "flotilla.probe" -}}
{{- if .loopbackPort -}}
exec: { command: ["node", "deploy/images/healthcheck.js", "{{ .path }}"] }
{{- else -}}
httpGet: { path: {{ .path }}, port: http }
{{- end -}}
{{- end -}}

{{/* A value as the text of a variable. Numbers are floats to Helm, which would write a million as 1e+06. */}}
{{- define "flotilla.text" -}}
{{- if kindIs "float64" . -}}
{{- int64 . | quote -}}
{{- else -}}
{{- toString . | quote -}}
{{- end -}}
{{- end -}}
