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

{{- define "dlperf.operator" -}}
{{ include "dlperf.fullname" . }}-operator
{{- end -}}

{{- define "dlperf.operatorAccount" -}}
{{ .Values.operator.serviceAccount.name | default (ternary (include "dlperf.operator" .) "default" .Values.operator.serviceAccount.create) }}
{{- end -}}

{{- define "dlperf.user" -}}
{{ include "dlperf.fullname" . }}-user
{{- end -}}

{{- define "dlperf.userAccount" -}}
{{ .Values.users.serviceAccount.name | default (ternary (include "dlperf.user" .) "default" .Values.users.serviceAccount.create) }}
{{- end -}}

{{- define "dlperf.claim" -}}
{{ .Values.operator.persistence.existingClaim | default (include "dlperf.operator" .) }}
{{- end -}}

{{/* The claims and Secrets of the release, which no Benchmark may name: NAMESPACE/NAME, with commas. */}}
{{- define "dlperf.reserved" -}}
{{- $own := list (include "dlperf.operator" . | printf "%s-token") -}}
{{- with .Values.operator -}}
{{- if .persistence.enabled }}{{ $own = append $own (include "dlperf.claim" $) }}{{ end -}}
{{- range .extraEnv }}{{ with ((.valueFrom).secretKeyRef).name }}{{ $own = append $own . }}{{ end }}{{ end -}}
{{- range .extraVolumes -}}
{{- with (.secret).secretName }}{{ $own = append $own . }}{{ end -}}
{{- with (.persistentVolumeClaim).claimName }}{{ $own = append $own . }}{{ end -}}
{{- range (.projected).sources }}{{ with (.secret).name }}{{ $own = append $own . }}{{ end }}{{ end -}}
{{- end -}}
{{- end -}}
{{- with .Values.backup.claim }}{{ $own = append $own . }}{{ end -}}
{{- $named := list -}}
{{- range uniq $own }}{{ $named = append $named (printf "%s/%s" $.Release.Namespace .) }}{{ end -}}
{{- join "," $named -}}
{{- end -}}

{{/* The namespaces where users measure, as JSON: {"names": [...]} */}}
{{- define "dlperf.namespaces" -}}
{{- dict "names" (.Values.namespaces | default (list .Release.Namespace) | uniq) | toJson -}}
{{- end -}}

{{- define "dlperf.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "dlperf.labels" -}}
{{- $own := include "dlperf.selectorLabels" . | fromYaml -}}
{{- $about := dict
      "app.kubernetes.io/part-of" "k8sbench"
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" .Chart.AppVersion
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63)
-}}
{{- merge $own $about | toYaml -}}
{{- end -}}

{{- define "dlperf.operatorLabels" -}}
{{- $own := dict "app.kubernetes.io/component" "operator" -}}
{{- merge $own (include "dlperf.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* The namespace where the release itself measures: its own, or the first of the users'. */}}
{{- define "dlperf.home" -}}
{{- $names := (include "dlperf.namespaces" . | fromJson).names -}}
{{- has .Release.Namespace $names | ternary .Release.Namespace (first $names) -}}
{{- end -}}

{{/* True if the chart has a service account that may measure. */}}
{{- define "dlperf.hasUserAccount" -}}
{{- with .Values.users }}{{ if or .serviceAccount.name (and .create .serviceAccount.create) }}true{{ end }}{{ end -}}
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

{{/* From names, or objects with a name. */}}
{{- define "dlperf.pullSecrets" -}}
{{- range .Values.operator.imagePullSecrets }}
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

{{/* The rules with which users read the operator. */}}
{{- define "dlperf.readerRules" -}}
- apiGroups: ['']
  resources: [services/proxy]
  resourceNames: ["{{ include "dlperf.operator" . }}:http"]
  verbs: [get]
- apiGroups: ['']
  resources: [secrets]
  resourceNames: [{{ include "dlperf.operator" . }}-token]
  verbs: [get]
{{- end -}}

{{/* Variables, mounts and volumes of a container that reads the store. */}}
{{- define "dlperf.storeEnv" -}}
- {name: XDG_DATA_HOME, value: /data}
{{- with .Values.operator.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dlperf.storeMounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- with .Values.operator.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dlperf.storeVolumes" -}}
- name: data
  {{- if .Values.operator.persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ include "dlperf.claim" . | quote }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: tmp
  emptyDir: {}
{{- with .Values.operator.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The fields of a pod that say where it may run, taken from values with the same names. */}}
{{- define "dlperf.placement" -}}
{{- $fields := dict }}
{{- range $name, $value := pick . "topologySpreadConstraints" "nodeSelector" "tolerations" "affinity" }}
{{- if $value }}{{ $_ := set $fields $name $value }}{{ end }}
{{- end }}
{{- if $fields }}{{ toYaml $fields }}{{ end }}
{{- end -}}

{{/* Milliseconds of a duration of Prometheus, such as 1h30m. */}}
{{- define "dlperf.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $all := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $all = add $all (mul (regexFind "[0-9]+" .) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $all -}}
{{- end -}}

{{/* What is wrong with a cron expression; empty if nothing is. */}}
{{- define "dlperf.cronFault" -}}
{{- $fields := list
      (list "minute" "[0-5]?[0-9]")
      (list "hour" "[01]?[0-9]|2[0-3]")
      (list "day of the month" "0?[1-9]|[12][0-9]|3[01]")
      (list "month" "0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")
      (list "day of the week" "0?[0-6]|sun|mon|tue|wed|thu|fri|sat")
-}}
{{- $faults := list -}}
{{- if hasPrefix "@" . -}}
{{- if not (regexMatch "^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$" .) }}{{ $faults = list (printf "%s is none" .) }}{{ end -}}
{{- else -}}
{{- range $number, $text := regexSplit " +" . -1 -}}
{{- $field := index $fields $number -}}
{{- $range := printf "([*?]|(%s)(-(%s))?)(/0*[1-9][0-9]*)?" (index $field 1) (index $field 1) -}}
{{- if not (regexMatch (printf "^(?i:%s(,%s)*)$" $range $range) $text) }}{{ $faults = append $faults (printf "%s is no %s" $text (index $field 0)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- join ", " $faults -}}
{{- end -}}

{{/* True for a time zone that Helm's machine knows, and for all if it knows none. Go takes UTC for an unknown one. */}}
{{- define "dlperf.isTimeZone" -}}
{{- $day := toDate "2006-01-02" "2026-01-01" -}}
{{- $knows := dateInZone "MST" $day "Asia/Tokyo" | eq "JST" -}}
{{- $is := dateInZone "MST" $day . | ne "UTC" -}}
{{- if or $is (not $knows) (regexMatch "^(Etc/)?(UTC|UCT|Universal|Zulu)$" .) }}true{{ end -}}
{{- end -}}
