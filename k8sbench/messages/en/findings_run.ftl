# Findings of one run, by the modules of k8sbench/reader/measuring.

format-unconfirmed = Nobody has confirmed the format of the log: the file of { $benchmark } says `confirmed: false`.
format-unconfirmed-file = Nobody has confirmed the format of the log: { $file } says `confirmed: false`.
sockets-between-nodes = NCCL communicated by sockets (TCP) between the nodes, not by InfiniBand or RoCE.
framework-untried = The trainer was tried with { $framework } { $tried }, not { $version }.
too-few-records = { $lines } training { $lines ->
    [one] line lies
   *[other] lines lie
  } after the first { $warmup } { $warmup ->
    [one] iteration
   *[other] iterations
  }; { $needed } are needed.
too-few-iterations = { $measured } { $measured ->
    [one] iteration was
   *[other] iterations were
  } measured, { $required } are asked for.
short-warmup = The run's own warm-up is { $own } { $own ->
    [one] iteration
   *[other] iterations
  }, the benchmark's { $planned }.

# The log's own summaries.

summary-only = The log states the rate of the whole run, warm-up included, and has no records.
summary-only-evaluations = The log states the rate of the whole run, warm-up and { $seconds } s of evaluations included, and has no records.
summary-only-planned-steps = { $said } It divides all { $planned } planned steps by the time of the { $ran } that ran, which gives { $rate }.
summary-mismatch = The summary says { $summary } { $name }, its own lines come to { $lines }.
summary-mismatch-epoch = The log says a mean rate of { $summary } for its epoch, its lines say { $lines }.
summary-mismatch-job-rate = The log's samples by its time are { $by_time }/s, its lines say { $lines }.
summary-mismatch-steps = { $ran } steps ran by the log's epochs and resumption, of { $planned } planned.
summary-mismatch-time-and-rate = Its time and rate are of { $steps } steps, { $planned } were planned.
summary-mismatch-whole-run = The log says { $summary } for the whole run, its lines come to { $lines }.

# Iterations.

two-runs-back = Iterations go back { $times ->
    [one] once
   *[other] { $times } times
  } without a restart: the log holds more than one run.
two-runs-signs = The log holds more than one run: { $signs }.
two-runs-summaries = The log holds more than one run: summaries of { $rates }.
second-header = a second header
two-totals = a total of { $first } and of { $second } iterations
two-values = { $name } { $values }
iterations-missing = { $iterations } { $iterations ->
    [one] iteration
   *[other] iterations
  } of the window { $iterations ->
    [one] is
   *[other] are
  } in no training line ({ $times ->
    [one] once
   *[other] { $times } times
  }; usual are { $usual } per line).
iterations-missing-few = { $iterations } { $iterations ->
    [one] iteration
   *[other] iterations
  } of the window { $iterations ->
    [one] is
   *[other] are
  } in no training line ({ $times ->
    [one] once
   *[other] { $times } times
  }; usual are { $usual } per line), { $share } of the window.
repeated-lines = Training lines of the same iterations come more than once and count once.
restarted = The run was restarted.
restarted-back = The run was restarted, { $times ->
    [one] once
   *[other] { $times } times
  } going back.
sampled-steps-epoch = The printed steps of epoch { $epoch } come to { $printed } per card, all its steps to { $every }.
sampled-steps-left-out = A line's time is the mean of its last { $last } iterations; the lines that can be added up leave out { $out } of { $of }.
sampled-steps-printed = A line's time is the mean of its last { $last } iterations; { $out } of { $of } are in none. The headline is of the printed ones alone.
sampled-steps-stamps = A line's time is the mean of its last { $last } iterations; { $out } of { $of } are in none. The headline is by the time stamps.
sampled-steps-one-kind = Only micro steps with an optimizer step have a line, one of { $steps }: the others may be shorter, and the figure too low.
sampled-steps-weighed = Lines leave micro steps out: those with an optimizer step are weighed as one of { $steps }.
ends-early-airank = The log ends before AI-Rank's test does: test_begin has no counterpart.
ends-early-planned = The log ends at iteration { $iteration } of { $planned } planned.

# Times.

clock-mismatch-in-sequences = { $said } The tokens of a GPU's step are taken as { $tokens }; of a batch in sequences, declare the `sequence_length`; of steps with any number of tokens, declare null as the batch.
clock-mismatch-micro-steps = Lines say { $mean } ms of a micro step, and { $steps } micro steps took { $passed } s, { $each } ms each.
clock-mismatch-unknown-count = By their speeds and times, { $events } events up to that of { $position } count neither samples nor steps nor epochs.
clock-mismatch-unproved = Only micro steps with an optimizer step have a line, one of { $steps }, and the log does not state the time of the whole training, which would tell that of the others.
clock-mismatch-untimed = The program took the times of its lines before it waited for the GPU.
clock-mismatch-unweighed = Lines leave micro steps out, and nothing tells how many of them end in an optimizer step.
clock-mismatch-wall-clock-set = The wall clock was set by { $seconds } s within the window, beside the monotonic clock of the machine that stamped the lines.
loader-stall = { $share } of the time was spent waiting for data.
unsteady-above = Steps differ much: the time-weighted mean is { $apart } above the median.
unsteady-both = The time-weighted mean is { $apart } below the median: { $slow } of { $lines } { $lines ->
    [one] line
   *[other] lines
  } ({ $share }) took over twice the median; { $waiting } of them waited for data for over half of their time; { $events } held an evaluation, a checkpoint or a restart.
unsteady-events = The time-weighted mean is { $apart } below the median: { $slow } of { $lines } { $lines ->
    [one] line
   *[other] lines
  } ({ $share }) took over twice the median; { $events } held an evaluation, a checkpoint or a restart.
unsteady-no-slow-line = The time-weighted mean is { $apart } below the median: no line took over twice as long as the median one.
unsteady-slow-lines = The time-weighted mean is { $apart } below the median: { $slow } of { $lines } { $lines ->
    [one] line
   *[other] lines
  } ({ $share }) took over twice the median.
unsteady-waiting = The time-weighted mean is { $apart } below the median: { $slow } of { $lines } { $lines ->
    [one] line
   *[other] lines
  } ({ $share }) took over twice the median; { $waiting } of them waited for data for over half of their time.

# Losses, evaluations and speed.

evaluation-missing-own = AI-Rank's lines have an evaluation of { $reached }, the program's own reach at most { $best }.
loss-not-finite = The loss is NaN or infinite in { $lines } training { $lines ->
    [one] line
   *[other] lines
  }.
loss-not-finite-warmup = The loss is NaN or infinite in { $lines } { $lines ->
    [one] line
   *[other] lines
  } of the warm-up.
above-peak = { $speed } TFLOP/s per GPU are more than the peak of { $gpu }, { $peak }.
tf32-likely = { $speed } TFLOP/s per GPU are { $share } of the FP32 peak of { $gpu }; without TF32 this model reaches at most { $most }.

# Numbers that are not read.

unread-number = { $name } matches { $text }, { $why } ({ $times ->
    [one] once
   *[other] { $times } times
  }).
unread-not-a-number = which is not a number
unread-separated = which is not a number unless `thousands` declares its separator
unread-part-of-a-number = which is part of a number; match all of it, and declare `thousands`
unread-several-steps = which is the time of several steps; print that of one
unread-other-unit = whose unit is not { $unit }; declare `unit: { $right }`
unread-other-count = whose unit is { $found }, not { $unit }
unread-of-one-gpu = which is of one GPU; declare `per: card`

# Gaps of a log.

incomplete-log = The log of { $replica } lacks lines between { $after } and { $before }: { $why }
incomplete-log-more = The log of { $replica } lacks lines between { $after } and { $before }: { $why } And { $more } more { $more ->
    [one] gap
   *[other] gaps
  }.
log-beginning = its beginning
log-end = its end

# Logs in which nothing can be measured; the file stands before them.

nothing-measured-any-family = no training line of any family ({ $families }) found.
nothing-measured-declared = no line is a training line of { $format }.
nothing-measured-empty = is empty.
nothing-measured-families = no training line of { $families } found.
nothing-measured-program = is a log of { $program }, which k8sbench does not read: { $why }.
nothing-measured-short-epochs = has evaluations or checkpoints, and no training line: its epochs are shorter than its log interval, { $interval } iterations.
nothing-measured-test = is the log of a test.
nothing-measured-unended = is a log of { $program } without its end, where it prints its rate, and has no progress bar of { $seconds } s.
nothing-measured-unread = { $name } matches { $text }, { $why }.
nothing-measured-untrained = has evaluations or checkpoints, and no training line.
not-measured-gpus = the log does not state how many GPUs the job had.
not-measured-gpus-unended = the log does not state how many GPUs the job had, and has no end, where { $program } prints its rate.
not-measured-samples-per-step = numbers its lines by samples, and the samples of a step are not known.
unread-program-own-lines = each program that uses it chooses other lines and names for its numbers, and only NVIDIA's ResNet-50 of PyTorch has a family
unread-program-part-of-iterations = the rates of { $family } in it leave out a part of each iteration, and no family reads its own lines
unread-program-progress-bar = it prints a progress bar for each epoch, and no line of a step
unread-program-several-lines = each of its records has several lines
unread-program-stamps = its lines state neither a rate nor a time, and only the stamps in front of them tell it
unread-program-that-prints = a program that prints { $text }

# GPU metrics.

clocks-apart-idle-first = By Prometheus all GPUs were idle in the first { $duration } of the steady part: its clock may be as far ahead of that of the log.
clocks-apart-idle-last = By Prometheus all GPUs were idle in the last { $duration } of the steady part: its clock may be as far behind of that of the log.
gpu-clocks = The clock of { $gpus } was { $clock }, the median of the GPUs is { $median }.
gpu-name = GPU { $number }
gpu-name-of-place = GPU { $number } of { $place }
gpu-name-part = { $gpu }, part { $part }
gpu-names-more = { $gpus } and { $more } more { $more ->
    [one] GPU
   *[other] GPUs
  }
gpu-shared = { $others } used { $gpu }, too, which was the run's.
gpu-shared-processes = { $processes } processes computed at once on { $gpus }.
gpu-throttled = The GPU clock of { $gpus } was held down by { $why } for { $share } of the time.
held-down-by-driver = heat, by the driver
held-down-by-hardware = heat, by the hardware
held-down-by-power-brake = a power brake from outside
metrics-at-odds-idle = The metrics of { $gpus } show no work, and the log shows a throughput.
metrics-at-odds-model = By the metrics { $gpu } is a { $model }; by the log { $logged }.
metrics-at-odds-more-gpus = { $worked } { $worked ->
    [one] GPU
   *[other] GPUs
  } worked at a time for the run's pods; its plan has { $planned }.
xid-error = The driver reported XID { $codes } of { $gpus } during the run.
