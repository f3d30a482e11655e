{{/* 40 characters leave room for the longest suffix: names of CronJobs have at most 52. */}}
{{- define "dlperf.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dlperf.collector" -}}
{{ include "dlperf.fullname" . }}-collector
{{- end -}}

{{- define "dlperf.collectorAccount" -}}
{{ .Values.collector.serviceAccount.name | default (ternary (include "dlperf.collector" .) "default" .Values.collector.serviceAccount.create) }}
{{- end -}}

{{- define "dlperf.user" -}}
{{ include "dlperf.fullname" . }}-user
{{- end -}}

{{- define "dlperf.userAccount" -}}
{{ .Values.users.serviceAccount.name | default (ternary (include "dlperf.user" .) "default" .Values.users.serviceAccount.create) }}
{{- end -}}

{{- define "dlperf.claim" -}}
{{ .Values.collector.persistence.existingClaim | default (include "dlperf.collector" .) }}
{{- end -}}

{{/* As JSON: {"names": [...]} */}}
{{- define "dlperf.namespaces" -}}
{{- dict "names" (.Values.namespaces | default (list .Release.Namespace) | uniq) | toJson -}}
{{- end -}}

{{- define "dlperf.selector" -}}
app.kubernetes.io/name: dlperf
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "dlperf.labels" -}}
{{- $own := include "dlperf.selector" . | fromYaml -}}
{{- $about := dict
      "app.kubernetes.io/part-of" "k8sbench"
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" .Chart.AppVersion
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63)
-}}
{{- merge $own $about | toYaml -}}
{{- end -}}

{{- define "dlperf.collectorLabels" -}}
{{- $own := dict "app.kubernetes.io/component" "collector" -}}
{{- merge $own (include "dlperf.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "dlperf.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "dlperf.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The name of an image, of a list: the root, and values. A tag may be a digest: "@sha256:…". */}}
{{- define "dlperf.image" -}}
{{- $tag := (index . 1).tag | default (index . 0).Chart.AppVersion -}}
{{- with index . 1 -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ hasPrefix "@" $tag | ternary "" ":" }}{{ $tag }}
{{- end -}}
{{- end -}}

{{/* Names, or objects with a name. */}}
{{- define "dlperf.pullSecrets" -}}
{{- range .Values.collector.imagePullSecrets }}
- name: {{ kindIs "string" . | ternary . (get (kindIs "string" . | ternary dict .) "name") | quote }}
{{- end }}
{{- end -}}

{{/* Of "root": the users of the namespace "here", or of all where that is empty. */}}
{{- define "dlperf.subjects" -}}
{{- if or .root.Values.users.serviceAccount.create .root.Values.users.serviceAccount.name -}}
- kind: ServiceAccount
  name: {{ include "dlperf.userAccount" .root | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
{{ end }}
{{- range .root.Values.users.subjects }}
{{- if or (not .namespaces) (not $.here) (has $.here .namespaces) }}
{{- list (omit . "namespaces") | toYaml }}
{{ end }}
{{- end }}
{{- end -}}
