"""Every finding that the measurement of one run can carry, in one table.

A check yields findings by these rules, each with a sentence that has the numbers at hand.
``k8sbench explain ID`` prints a rule's condition and action.
"""

from __future__ import annotations

import msgspec

from k8sbench.messages import note
from k8sbench.model.measurement import Measurement
from k8sbench.model.verdict import reject, rules_in, warn

ABOVE_PEAK = reject(
    "above-peak",
    "The arithmetic per second exceeds the GPU's peak. The peak is that of the number "
    "format in use, or of the fastest format if that is unknown.",
    "Check batch, GPUs and model.",
)
ARRIVAL_MISMATCH = reject(
    "arrival-mismatch",
    "By the times at which its lines arrived the program was slower than it says. The times "
    "are those of a run's archive, of `kubectl logs --timestamps` or of a node's files. Or its "
    "lines claim more time than passed in the whole run, or 25 % more for all steps. A warning if "
    "they claim less than that too much between the lines, or if the program was slower, and its "
    "times leave out a part of the time. "
    "docs/reasons.md says which lines are compared and how far they may differ.",
    "Make the program time whole iterations, waits included; check --gpus and --batch-size.",
)
BATCH_MISMATCH = reject(
    "batch-mismatch",
    "The log contradicts itself on its batch. Its statements are a line's rate × seconds, "
    "the configuration, the whole job's batch, and AI-Rank's size of the data set ÷ steps "
    "of an epoch. Rate × seconds of a line may differ by 2 % and 0.002 s of rounding. Or the "
    "log states two batches or sequence lengths, such as before and after a restart.",
    "Correct --batch-size or --gpus; in AI-Rank's logs, the size in the `load_data` line.",
)
BATCH_SIZE = reject(
    "batch-size",
    "The logged batch per GPU differs from the plan's, --batch-size or the log's name. A "
    "warning for --batch-size without a plan, if the figures do not depend on the batch.",
    "Give the batch that the run really had with --batch-size. Where several GPUs share a sample, "
    "the log's batch counts, and nothing needs to be done.",
)
CLOCK_MISMATCH = reject(
    "clock-mismatch",
    "Printed times and time stamps disagree, or the stamps go back. For all formats, if the lines "
    "claim more time than passed, or most took 6 times as long as they say. The message names a "
    "clock that was set by hours, and a unit that is a thousand times off. Only records "
    "between which nothing else happened are compared. docs/reasons.md has the tolerances. "
    "A clock that is set once during the window, by a second or to daylight saving time, is "
    "a warning where the printed times prove the figure. Or a program takes its times before "
    "the GPU has ended, or its lines claim more time than it says that all steps took (LitGPT). "
    "For declared formats, if a speed rises from line to line as a clock, lines took less than "
    "no time by `averaged: running`, or the stamps give the rate of one GPU, `per: card`, to all.",
    "Correct --gpus, --batch-size, or `per`, `averaged` or the unit of a declared format; else "
    "measure another run.",
)
DEVICE = reject(
    "device",
    "The log is of CPUs and the benchmark of GPUs, or vice versa.",
    "Measure a CPU run with --format; it says nothing about the benchmark.",
)
EVALUATION_MISSING = reject(
    "evaluation-missing",
    "A training lacks an evaluation that it planned, or AI-Rank's line of one that reaches the "
    "target. It was interrupted there, or the log lost lines: its accuracy and time to train may "
    "be others.",
    "Run it to its end; --run-id RUN continues a run that is over.",
)
FORMAT_UNCONFIRMED = reject(
    "format-unconfirmed",
    "The log's format is from a template of `measure LOG --declare`, and nobody has confirmed it "
    "(`confirmed: false`).",
    "Check the answers in the benchmark's file, and set `confirmed: true`.",
)
FRAMEWORK = reject(
    "framework",
    "The log is of the other framework.",
    "Leave --framework out, or give the right one.",
)
GPU_COUNT = reject(
    "gpu-count",
    "The logged number of GPUs differs from the plan's, --gpus or the log's name, or that "
    "of nodes from its name. Or the log states two numbers, such as before and after a restart. "
    "The environment's may count "
    "nodes: it is compared only if neither is given, and program and launcher do not agree "
    "on another.",
    "Give the number that the job really had.",
)
GPU_SHARED = reject(
    "gpu-shared",
    "Another pod or process used a GPU of the run at the same time.",
    "Use GPUs exclusively: no time-slicing, no other programs on the node.",
)
GPU_THROTTLED = reject(
    "gpu-throttled",
    "Heat or a power brake slowed down a GPU of the run. Less than 1 % of the steady part "
    "is allowed; reaching the power limit is no throttling.",
    "Check cooling and power supply of the node, or remove it from the pool; then repeat the run.",
)
ITERATIONS_MISSING = reject(
    "iterations-missing",
    "Iterations inside the window are in no training line: lines were lost or torn. The "
    "log of a resumed run may begin late, if it has its head. A warning if it is 1 % of the "
    "window or less, and not its beginning.",
    "Get the complete log.",
)
LOSS_NOT_FINITE = reject(
    "loss-not-finite",
    "The loss became NaN or infinite. A warning if only in the warm-up.",
    "Find the cause: such a run does not do the same work.",
)
METRICS_AT_ODDS = reject(
    "metrics-at-odds",
    "GPU metrics contradict the log. A GPU did nothing, is of another model, or more GPUs "
    "worked than planned. A GPU is idle if no activity metric that covers half of the "
    "steady part is above 0 (not in smoke runs), and works from a utilization of 5 % on. "
    "Names may differ in memory size and part number.",
    "Check which of the two is of another run; `--prometheus none` ignores Prometheus.",
)
MIXED_GPU_MODEL = reject(
    "mixed-gpu-model",
    "The ranks or attempts of a job, or the runs of a group, ran on different GPU models.",
    "Choose a node pool of one GPU model.",
)
NOTHING_MEASURED = reject(
    "nothing-measured",
    "The run's logs hold no training line that can be read.",
    "Look at k8sbench logs RUN; k8sbench explain FILE.yaml LOG shows what your own format matches.",
)
OTHER_BENCHMARK = reject(
    "other-benchmark",
    "The log is of another benchmark, variant or model, by their names or the model's number of "
    "parameters.",
    "Name the benchmark that the log belongs to; a model with other options is another benchmark.",
)
PRECISION = reject(
    "precision",
    "The logged precision differs from the plan's, --precision or the log's name. Or its "
    "half type, or the printed configuration lacks AMP. The figure is labelled with the "
    "log's precision.",
    "Give the precision that the run really had.",
)
PRECISION_WITHOUT_EFFECT = reject(
    "precision-without-effect",
    "AMP was requested, but the program computed in fp32. A warning for a smoke run on a CPU.",
    "Use a device and a framework whose AMP works.",
)
PRESET = reject(
    "preset",
    "A smoke run's log was measured as the benchmark. Smoke runs are functional tests "
    "with a small model.",
    "Measure it with --format: it has no figures of the benchmark.",
)
SHARED_NODE = reject(
    "shared-node",
    "Our own run used fewer nodes than replicas, without `--pack`.",
    "Run it on more nodes, or as a case with --pack.",
)
SHORT_WARMUP = reject(
    "short-warmup",
    "Our own run began to measure after fewer iterations than the benchmark does.",
    "Give `--warmup` if these iterations suffice, or run the benchmark's window.",
)
SUMMARY_MISMATCH = reject(
    "summary-mismatch",
    "The log's own summary does not follow from its lines. Our own trainers' may differ by "
    "0.5 %, sums of an epoch by 5 % and what one record weighs.",
    "Measure the whole log of one run; check a declared format's `averaged`, `unit` and `summary`.",
)
TOO_FEW_ITERATIONS = reject(
    "too-few-iterations",
    "Fewer iterations were measured than the benchmark requires. Or a training ended "
    "before its planned length without reaching its target. 2 % may be missing.",
    "Run it to its end, or plan fewer iterations.",
)
TOO_FEW_RECORDS = reject(
    "too-few-records",
    "Fewer than 5 training lines lie in the window.",
    "Log more often, run longer, or shorten --warmup.",
)
TRAINER_COUNT = reject(
    "trainer-count",
    "Not every rank of the job wrote a start line.",
    "Give the logs of all replicas, or find the rank that did not start.",
)
TWO_RUNS = reject(
    "two-runs",
    "The log holds more than one run. Behind a second header the iterations begin anew or another "
    "number of them is planned, or several different summaries and no training lines. Or "
    "iterations go back without a restart that explains it. For our own trainers also "
    "another run id, mode, data or start weights. Of several files, one differs from the "
    "others.",
    "Measure each run's log alone; give pieces of one run with --one-run.",
)
UNREAD_NUMBER = reject(
    "unread-number",
    "A group of a declared format matches no number in the declared unit. Examples: "
    "`n/a`, `1,356.8`, `950.1k`, `12 ms`. A warning unless it is an iteration, rate or "
    "time.",
    "Correct the pattern, `unit` or `thousands`.",
)
BATCH_UNVERIFIED = warn(
    "batch-unverified",
    "The log does not state its batch, and the figure depends on it, or the format is "
    "declared. The batch is from --batch-size or the file of the benchmark that --benchmark names. "
    "Rejects if neither states one and the figure depends on it, or if rates of single steps "
    "differ by 5 % and nothing tells the tokens of a step.",
    "Give the batch per GPU with --batch-size; a program's option may count a node's (TSM) or the "
    "job's (nn.DataParallel).",
)
BROKEN_SAMPLES = warn(
    "broken-samples",
    "Unreadable samples were left out. The message counts them, and those that the last "
    "evaluation lacks.",
    "Check the files that the log names; k8sbench data check reads all.",
)
CHECKPOINT_FAILED = warn(
    "checkpoint-failed",
    "A checkpoint could not be written, and the run went on without it.",
    "Free space for checkpoints: a restart continues from an older one.",
)
CLOCKS_APART = warn(
    "clocks-apart",
    "The time by the stamps and the printed times differ by more than 5 %, and the log does "
    "not say why. Times before a line with an evaluation, a checkpoint, a restart or another "
    "epoch do not count, nor do twice the stamps' resolution and resumed runs. Or all GPUs "
    "are idle at an edge of the steady part, by the clock of Prometheus.",
    "Look for waits between the lines; declare a format's `evaluation` and `checkpoint` lines.",
)
CONTINUED = warn(
    "continued",
    "A finished training was continued later. Its time to train, by AI-Rank's "
    "definition, includes the pause; the message gives its length.",
    "Compare its time to train with that of runs without a pause.",
)
ENDS_EARLY = warn(
    "ends-early",
    "The log ends before what was planned; the window itself is complete.",
    "Nothing to do for a throughput; a time to train needs the whole run.",
)
EXIT_CODE = warn(
    "exit-code",
    "The program failed after its window was complete. TSM's may do so after its last "
    "epoch. The run has its throughput and stays failed. Not for trainings to an "
    "accuracy, which need their end.",
    "Nothing to do if the program always ends so; else see k8sbench logs RUN.",
)
FRAMEWORK_UNTRIED = warn(
    "framework-untried",
    "Our trainer ran on a Paddle with which it was never tried. Another Paddle may draw other "
    "start weights, so that the run does other work.",
    "Compare the losses with those of a Paddle that was tried, or take its image.",
)
GPU_CLOCKS = warn(
    "gpu-clocks",
    "A GPU's clock was over 10 % below the median of the GPUs. All ranks wait for the slowest.",
    "Check power limit, application clocks and cooling of that GPU's node.",
)
GPUS_UNVERIFIED = warn(
    "gpus-unverified",
    "The log does not state the number of GPUs. It is from an option or the log's name, "
    "and nothing confirms GPUs × batch.",
    "Make sure that the job had this number of GPUs.",
)
INCOMPLETE_LOG = warn(
    "incomplete-log",
    "The archived log has gaps. The cluster had deleted a part, or the log was too long. "
    "Rejects if the gap is in rank 0's log and may hold lines of the window. Only our own "
    "trainers' logs show that a gap is more than 5 s outside the window: of other programs "
    "a gap in rank 0's log rejects.",
    "Follow runs from their start, or keep logs on the nodes longer; repeat the run if needed.",
)
LOADER_STALL = warn(
    "loader-stall",
    "The run waited for data for over 10 % of the time. Lines with an evaluation, a "
    "checkpoint or a restart do not count.",
    "Use more loader workers, faster storage or synthetic data.",
)
MEASURED_ELSEWHERE = warn(
    "measured-elsewhere",
    "Another program made the run's measurement, which names it (`measured_by`). k8sbench has "
    "checked neither its figures nor its verdict.",
    "Measure them with k8sbench store reindex --measure, if the run has its logs.",
)
MODEL_UNVERIFIED = warn(
    "model-unverified",
    "The model in the log cannot be verified. The log names none, or the benchmark does "
    "not say what logs call its model (`logged_models`).",
    "Make sure that it is the benchmark's model.",
)
PRECISION_UNVERIFIED = warn(
    "precision-unverified",
    "The log does not state its precision. An option, the log's name or the program's "
    "default does.",
    "Make sure that the run had this precision.",
)
REPEATED_LINES = warn(
    "repeated-lines",
    "Training lines repeat, as several ranks print them or as copies; they count once.",
    "Nothing to do; one rank's log alone has no repeated lines.",
)
RESTARTED = warn(
    "restarted",
    "The run was restarted; iterations that ran twice count once.",
    "Compare time_weighted_steady, which leaves out the record after each restart.",
)
SAMPLED_STEPS = warn(
    "sampled-steps",
    "Printed steps do not represent all steps. The log prints single steps, its mean "
    "over an epoch differs by more than 5 %, and that epoch began in the warm-up. Or its "
    "lines average the last N steps, and over 5 % are in none that can be added up "
    "(mmengine, open_clip). Or its lines leave micro steps out (LitGPT).",
    "Give `--warmup 0` for printed single steps; else let the program print a line for every N"
    " steps, or for every micro step.",
)
SOCKETS_BETWEEN_NODES = warn(
    "sockets-between-nodes",
    "NCCL used sockets (TCP) between the nodes of our own run. NCCL reports it when the "
    "ranks connect (`environment.transport`), unless a pool sets `NCCL_DEBUG_FILE`.",
    "Give the node pool its RDMA device (`rdma`), or compare with figures over TCP only.",
)
SUMMARY_ONLY = warn(
    "summary-only",
    "The log states one rate for the whole run, warm-up included, and no records. The message "
    "has the seconds of evaluations that the rate holds.",
    "Nothing to do; such a log has no other estimators.",
)
TF32_LIKELY = warn(
    "tf32-likely",
    "A ResNet-50, DeepLabV3+ or TSM in FP32 was faster than FP32 alone. The GPU has TF32 "
    "(Ampere and later), and neither log nor options say whether it was on. The limit is 45 % "
    "of the FP32 peak on H100, H800, H200 and GH200, 65 % on others.",
    "Compare it with figures in TF32; frameworks use it in convolutions unless it is switched "
    "off (NVIDIA_TF32_OVERRIDE=0).",
)
UNSTEADY = warn(
    "unsteady",
    "The time-weighted mean and the median differ by over 5 %. The sentence counts the lines that "
    "took over twice the median, and those of them that waited for data or held an evaluation. "
    "Rejects if the mean is under 70 % of the median, the slowest 1 % of the lines hold over 20 % "
    "of the time, and no evaluation, checkpoint or restart explains it; not for smoke runs.",
    "Give a longer --warmup if only the first lines are slow, and the loaders more workers or "
    "faster storage if they waited for data; else look for what stalled.",
)
XID_ERROR = warn(
    "xid-error",
    "The driver reported an error (XID) of a GPU of the run during it.",
    "See NVIDIA's list of XID errors; many require a reset or a replacement.",
)

ALL = rules_in(globals())
"""By their ids."""


def with_maker(measurement: Measurement) -> Measurement:
    """Return a measurement with a remark that names its maker; unchanged if k8sbench made it."""
    maker = measurement.measured_by
    if maker is None or any(each.id == MEASURED_ELSEWHERE.id for each in measurement.reasons):
        return measurement
    remark = MEASURED_ELSEWHERE.finding(note("measured-elsewhere", maker=maker))
    return msgspec.structs.replace(measurement, reasons=(*measurement.reasons, remark))
