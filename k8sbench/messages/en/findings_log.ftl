# Findings of a log against its expectation, and of its clocks.

preset-smoke = The log is of a smoke run, a functional test with a small model.
log-states-two = By the log the { $fact } is { $values }.
fact-expected = The { $fact } { $expected } was expected, the log says { $stated }.
other-benchmark-model = The benchmark's model is { $expected }; the log's is { $model }.
model-unverified-named = The log's model is { $model }; whether it is the benchmark's, { $expected }, is not known.
model-unverified-unnamed = The log names no model; whether it is the benchmark's, { $expected }, is not known.
other-benchmark-parameters = The model has { $parameters } parameters, the benchmark's has { $expected }.
gpu-count-given = { $gpus } { $gpus ->
    [one] GPU was
   *[other] GPUs were
  } given, the log says { $logged }.
gpu-count-named = The log's name says { $gpus } { $gpus ->
    [one] GPU
   *[other] GPUs
  }, the log says { $logged }.
gpu-count-multiple-given = { $gpus } { $gpus ->
    [one] GPU was
   *[other] GPUs were
  } given, no multiple of the log's { $ranks } parallel ranks.
gpu-count-multiple-named = The log's name says { $gpus } { $gpus ->
    [one] GPU
   *[other] GPUs
  }, no multiple of the log's { $ranks } parallel ranks.
gpu-count-ranks-given = { $ranks } ranks print training lines, and { $gpus } { $gpus ->
    [one] GPU was
   *[other] GPUs were
  } given.
gpu-count-ranks-named = { $ranks } ranks print training lines, and the log's name says { $gpus } { $gpus ->
    [one] GPU
   *[other] GPUs
  }.
gpus-unverified = The GPU count is not in the log; an option or its name says { $gpus }.
trainer-count = { $planned } { $planned ->
    [one] rank was
   *[other] ranks were
  } planned, { $started } started.
trainer-count-missing = { $planned } { $planned ->
    [one] rank was
   *[other] ranks were
  } planned, { $started } started; rank { $missing } is missing.
shared-node = { $replicas } replicas ran on { $nodes } { $nodes ->
    [one] node
   *[other] nodes
  }: { $names }.
batch-unverified-unequal = The log does not state the tokens of its steps, whose rates differ: means by equal times and by equal tokens are 5 % apart or more.
batch-unverified-none = The log gives seconds per iteration and no batch: give it with --batch-size.
batch-unverified-varies = The benchmark's batch is null: its steps differ. No stamp checks the rate.
batch-size-expected = A batch of { $expected } per GPU was expected, the log's is { $logged }.
batch-unverified-fact-benchmark = No fact of the format reads the batch; the benchmark's is { $batch } per GPU, { $step } per step of the job.
batch-unverified-fact-option = No fact of the format reads the batch; an option or its name says { $batch } per GPU, { $step } per step of the job.
batch-unverified-log-benchmark = The log does not state its batch; the benchmark's is { $batch } per GPU, { $step } per step of the job.
batch-unverified-log-option = The batch is not in the log; an option or its name says { $batch } per GPU, { $step } per step of the job.
batch-mismatch-card = The batch is { $printed }; rates times seconds are { $computed }.
batch-mismatch-step = A step of the job has { $printed }; rates times seconds are { $computed }.
batch-mismatch-job = The log says { $total } samples per step of the job, not { $gpus } × { $batch }.
batch-mismatch-job-named = The log says { $total } samples per step of the job, not { $gpus } × { $batch }, as the log's name says.
log-counts = { $said } The log's counts.
batch-mismatch-data = { $samples } samples in { $steps } steps are { $each } per step of the job, not { $gpus } × { $batch }.
batch-mismatch-data-named = { $samples } samples in { $steps } steps are { $each } per step of the job, not { $gpus } × { $batch }, as the log's name says.
batch-mismatch-head = The log's head says { $stated } per step of the job, its lines come to { $lines }.
precision-expected-none = { $expected } was expected; the log prints its configuration, which sets none.
precision-unverified-option = The precision is not in the log; an option or its name says { $precision }.
precision-unverified-plan = The precision is not in the log; the plan says { $precision }.
precision-unverified-default = The precision is not in the log; { $precision } is assumed, the program's default. State it with --precision.
precision-without-effect = AMP was requested and had no effect: the program computed in fp32.
name-says = The log's name says { $named }, the log says { $stated }.
named-gpus = { $gpus } { $gpus ->
    [one] GPU
   *[other] GPUs
  }
named-nodes = { $nodes } { $nodes ->
    [one] node
   *[other] nodes
  }
named-batch = a batch of { $batch } per GPU
name-says-precision-none = The log's name says { $named }; the configuration in the log sets none.
fact-of-gpus = number of GPUs
fact-of-gpu-model = GPU model
fact-of-parameters = number of parameters
fact-of-batch-size = batch size
fact-of-global-batch = global batch
fact-of-tokens-per-step = tokens per step
fact-of-sequence-length = sequence length
fact-of-precision = precision
fact-of-amp-dtype = amp dtype
fact-of-model = model
fact-of-framework = framework
fact-of-device = device
fact-of-benchmark = benchmark
fact-of-variant = variant
clock-mismatch-beside = Between two lines { $how }. The printed times, which agree with all other stamps, give the figure.
clock-went-back = the stamps went { $seconds } s back
clock-went-further = the stamps went { $seconds } s further than the printed times
clock-set-forward = the clock was set forward by { $hours } { $hours ->
    [one] hour
   *[other] hours
  }, as for daylight saving time
clock-set-back = the clock was set back by { $hours } { $hours ->
    [one] hour
   *[other] hours
  }, as for daylight saving time
clock-stamps-milliseconds = the stamps are in milliseconds
clock-stamps-microseconds = the stamps are in microseconds
clock-times-milliseconds = the printed times are in milliseconds, or the rates in thousands
clock-times-microseconds = the printed times are in microseconds, or the rates in millions
clock-mismatch-back = The log's time stamps go back { $times ->
    [one] once
   *[other] { $times } times
  }.
clock-mismatch-back-cause = The log's time stamps go back { $times ->
    [one] once
   *[other] { $times } times
  }: { $cause }.
clock-mismatch-wrong = The log's time stamps, by which the time is known, are wrong.
clock-mismatch-wrong-cause = The log's time stamps, by which the time is known, are wrong: { $cause }.
clock-lines-claim = The lines claim { $claimed } s, and only { $passed } s passed
clock-lines-have = The lines have { $claimed } s, and { $passed } s passed
clock-mismatch-records = { $said } by their time stamps, in { $records } records.
clock-mismatch-records-cause = { $said } by their time stamps, in { $records } records: { $cause }.
clock-mismatch-iterations = { $said } by their time stamps, in { $iterations } iterations.
clock-mismatch-jump-further = Between two records the wall clock went { $seconds } s further than the monotonic clock.
clock-mismatch-jump-less = Between two records the wall clock went { $seconds } s less far than the monotonic clock.
clock-mismatch-running = By `averaged: running` { $negative } of { $lines } lines took less than no time: the printed numbers are no means since the beginning.
clock-mismatch-impossible-rate = The format reads { $number } samples/s, which no training has.
clock-mismatch-impossible-time = The format reads { $number } s per step, which no training has.
clock-mismatch-rises = The printed number rises in each of { $lines } lines, from { $first } to { $last }, as a clock does.
arrival-mismatch-claim = { $said } by the times at which they arrived.
clock-mismatch-arrival-back = The times at which the lines arrived go back by { $seconds } s.
clock-mismatch-arrival-back-beside = The times at which the lines arrived go back by { $seconds } s. The printed times, which agree with all other arrivals, give the figure.
arrival-mismatch-rates = By its lines the program ran at { $printed } { $unit }; by the times at which they arrived it was { $arrived } { $unit }, over { $iterations } iterations in { $seconds } s.
evaluation-missing = { $missing } of { $planned } planned { $planned ->
    [one] evaluation
   *[other] evaluations
  } { $missing ->
    [one] is
   *[other] are
  } not in the log, first that at step { $step }.
checkpoint-failed = { $failed } of { $checkpoints } { $checkpoints ->
    [one] checkpoint
   *[other] checkpoints
  } could not be written: { $why }.
exit-code = The window is complete, but: { $cause }
continued = The training was continued after { $time } in which it was over.
clocks-apart = By its time stamps the log's rate is { $share } of that by its lines: { $why }.
clocks-apart-claim = the lines claim more time than passed
clocks-apart-unexplained = time passed that no training line has, and no other line that was read tells why
clock-mismatch-per-card = By its time stamps the log's rate is { $share } of that by its lines, about 1 in { $gpus }: by `per: card` the printed rate is multiplied by { $gpus } GPUs (--gpus), and it seems to be that of the whole job.
broken-samples = Samples that could not be read: { $parts }.
broken-samples-part = { $broken } of { $part }
broken-samples-evaluation = The evaluation at step { $step } is of { $samples } of { $of } samples.
batch-mismatch-shares = The rates of a line contradict each other: { $job } of the job and { $share } of one GPU.
batch-mismatch-updates = The rates of a line contradict each other: { $words } words/s of { $of } words an update are { $own } updates/s, and it says { $stated }.
batch-mismatch-shared-sequence = Several GPUs share a sequence, which the program counts once for each of them.
batch-mismatch-shared-sample = Several GPUs share a sample, so that the batch of one does not tell the job's.
batch-mismatch-speed = A line's time and speed are of { $steps } steps, not { $done }.
batch-mismatch-last-line = The log's last line counts { $samples } samples a step, its head { $batch }.
batch-mismatch-completions = The program generates completions. Its last line counts them or the prompts, which the log's head would show.
batch-mismatch-schedule-unknown = The program changes its batch while it trains, and the log's head states no schedule of a known form.
batch-mismatch-schedule-elsewhere = The program changes its batch while it trains, by the source in its own log file: measure that of its folder logs/.
batch-mismatch-planned = The lines are of { $steps } steps, the schedule of { $planned }.
batch-mismatch-mean = Time and mean of a line are of { $steps } steps, not { $iteration }.
