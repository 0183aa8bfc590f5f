{{- define "voicepace.name" -}}
{{- if contains "voicepace" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-voicepace" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "voicepace.selector" -}}
app.kubernetes.io/name: voicepace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "voicepace.labels" -}}
{{ include "voicepace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Settings as TOML: strings, numbers and booleans at the top, then one table per section. */}}
{{- define "voicepace.toml" -}}
{{- range $key, $value := .Values.settings }}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- range $section, $keys := .Values.settings }}
{{- if kindIs "map" $keys }}

[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A call may last max_call_s and drains for drain_s: the shorter of the two, and half a minute to stop. */}}
{{- define "voicepace.drainSeconds" -}}
{{- $server := .Values.settings.server | default dict -}}
{{- min ($server.drain_s | default 30 | int64) ($server.max_call_s | default 3600 | int64) -}}
{{- end }}
