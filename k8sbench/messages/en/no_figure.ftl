# Reasons why a measurement has no figure.

no-throughput-batch = The batch is not known; give it with --batch-size.
no-throughput-rejected = Rejected; the figures are under unverified.
no-throughput-sequence-length = The benchmark and the program count different things, one of them tokens, and the log does not state the tokens of a sequence.
no-throughput-window = No training line lies in the window.
no-estimate-all-steps-printed = The log's lines cover all steps.
no-estimate-batch-changes = The batch changes in the window: the figure is all samples ÷ all time.
no-estimate-coarse-stamps = The stamps have a resolution of { $resolution }, more than { $share } of the { $seconds } between the window's first and last.
no-estimate-equal-stamps = The window's first and last time stamp do not differ.
no-estimate-no-steady-record = Every record of the window holds an evaluation, a checkpoint or a restart.
no-estimate-stamps = Training lines carry no time stamp.
no-estimate-unequal-steps = The rates are of steps whose tokens the log does not state, and differ.
no-estimate-whole-run = The log states one figure for the whole run.
no-profile-batch = The batch is not known, so that the printed rates give no time.
no-profile-batch-changes = The batch changes, so that the printed rates give no time.
no-profile-line = No training line advances the iteration.
no-times-clock-set = The clock of the stamps was set within the window.
no-wall-time = The training lines carry no two different time stamps.
no-steady-part = No line's time is known.
no-tokens-per-second = The log does not state the tokens of a sample.
no-final-loss = No training line of the log holds a loss.
no-final-loss-not-finite = The last loss is { $loss }.
no-arithmetic = The log does not state which operations computed in which type.
no-arithmetic-digest = What the log states of it does not match its digest.
no-weights = The log names no start weights.
no-weights-scratch = The run trained from scratch.
no-accuracy-no-evaluation = The log holds no evaluation.
no-accuracy-no-value = No value of the log's evaluations is read.
no-time-to-train-before-test = The evaluation that reaches the target is stamped before the test.
no-time-to-train-begin = The log has no AI-Rank test_begin line.
no-time-to-train-lacks-samples = { $why } One that lacks samples reaches none.
no-time-to-train-machines = It ran on several machines, whose clocks contradict each other.
no-time-to-train-no-target = The run has no target accuracy.
no-time-to-train-not-reached = No evaluation reached the target of { $target }.
no-time-to-train-other-metric = The run evaluates { $metric }, the target is one of { $target }.
no-time-to-train-synthetic = The data are synthetic: no accuracy is reached on them.
no-time-to-train-target = No target accuracy is known; --benchmark names one.

# GPU metrics.

no-gpu-metrics-yet = They have not been fetched.
no-gpu-metrics-yet-collect = They have not been fetched. Fetch them with: k8sbench collect { $run }
no-gpu-metrics-in-window = { $prometheus } has no sample of the run's GPUs in its window.
no-gpu-metrics-logs = The logs cannot be read: { $why }.
no-gpu-metrics-of-pods = { $prometheus } has no GPU metrics that name the run's pods, or a UUID of its log: it scrapes no DCGM exporter on its nodes, or one that was started without DCGM_EXPORTER_KUBERNETES=true.
no-gpu-metrics-printed = The log holds no samples of a GPU: its program is none of k8sbench's trainers, or had no NVML.
no-gpu-metrics-source-failed = The source failed: { $why }
no-gpu-metric-collected = There is no { $fields } of the run's GPUs: the exporter does not collect it, or the GPU does not have it.
no-gpu-metric-counter-implausible = By the counter the GPU drew { $power }, which cannot be true.
no-gpu-metric-counter-reset = The counter was reset between all of its samples.
no-gpu-metric-few-samples = { $samples } { $samples ->
    [one] sample lies
   *[other] samples lie
  } in the steady part; { $needed } are needed.
no-gpu-metric-field = DCGM has no such field.
no-gpu-metric-implausible = { $wrong } of { $of } { $of ->
    [one] sample
   *[other] samples
  } cannot be true, as { $example }.
no-gpu-metric-nvml = NVML does not have it.
no-gpu-metric-of-all = It is known of { $known } of { $planned } { $planned ->
    [one] GPU
   *[other] GPUs
  }.
no-gpu-metric-of-parts = { $field } is of a whole GPU, and the run had parts of divided ones (MIG).
no-gpu-metric-series = It has no series of it.
no-gpu-metric-short = The steady part of { $duration } is shorter than { $fewest } intervals of { $interval } between samples.
no-gpu-metric-source = No source has it.
no-gpu-metric-unsupported = The GPU does not support it.
no-gpu-metric-value = The GPU does not have { $field }: DCGM reports no value.
no-energy-per-1000 = It needs a throughput, and power or energy.
of-sources = { $sources }: { $why }
two-sentences = { $one } { $other }
no-case-changed = No case has changed.
no-case-changed-since = No case has changed since { $since }.
no-case-judged = No case could be judged: { $why }.
unjudged-smoke = smoke runs are functional tests, not speed measurements
unjudged-cpu = CPU processes: they share the machine
unjudged-few-sets = a set is judged by at least { $fewest } sets before it; { $there }
sets-before = there { $number ->
    [one] is 1
   *[other] are { $number }
  }
sets-before-judged = there { $number ->
    [one] is 1 that is judged
   *[other] are { $number } that are judged
  }
sets-before-newest = the newest with a figure has { $number }
