{{- define "sallyport.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sallyport.labels" -}}
{{ include "sallyport.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sallyport.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is not set: build the image, push it, and set its repository and digest (docs/operations/deploy.md)" -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.databaseUrl" -}}
{{- if .Values.database.secret -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.secret }}
      key: {{ .key }}
{{- end -}}
{{- end -}}

{{- define "sallyport.checkConnections" -}}
{{- $pods := add 1 (ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled) -}}
{{- $workers := get .Values.settings "SALLYPORT_WORKERS" | default 1 | int -}}
{{- $perProcess := get .Values.settings "SALLYPORT_DATABASE_CONNECTIONS" | default 10 | int -}}
{{- $connections := mul $pods $workers $perProcess -}}
{{- if gt $connections (int .Values.database.maxConnections) -}}
{{- fail (printf "during an update, %d pods with %d workers and %d database connections each can open %d connections, but database.maxConnections is %d: lower the number of pods or SALLYPORT_DATABASE_CONNECTIONS, or raise max_connections of PostgreSQL and this value" $pods $workers $perProcess $connections (int .Values.database.maxConnections)) -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}
