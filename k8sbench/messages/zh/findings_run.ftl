# Findings of one run, by the modules of k8sbench/reader/measuring.

format-unconfirmed = 日志格式尚未经人确认：{ $benchmark } 的文件中为 `confirmed: false`。
format-unconfirmed-file = 日志格式尚未经人确认：{ $file } 中为 `confirmed: false`。
sockets-between-nodes = 节点之间 NCCL 使用套接字（TCP）通信，而不是 InfiniBand 或 RoCE。
framework-untried = 训练程序只在 { $framework } { $tried } 上试验过，日志中为 { $version }。
too-few-records = 前 { $warmup } 次迭代之后只有 { $lines } 条训练记录，至少需要 { $needed } 条。
too-few-iterations = 测量了 { $measured } 次迭代，要求 { $required } 次。
short-warmup = 运行自身的预热为 { $own } 次迭代，基准库要求 { $planned } 次。

# The log's own summaries.

summary-only = 日志只有整次运行的速度（含预热），没有记录。
summary-only-evaluations = 日志只有整次运行的速度（含预热和 { $seconds } s 的评估），没有记录。
summary-only-planned-steps = { $said }日志用计划的全部 { $planned } 步除以实际运行的 { $ran } 步的时间，得到 { $rate }。
summary-mismatch = 汇总中的 { $name } 为 { $summary }，而其记录合计为 { $lines }。
summary-mismatch-epoch = 日志写明该轮的平均速度为 { $summary }，而其记录为 { $lines }。
summary-mismatch-job-rate = 日志的样本数除以时间为 { $by_time }/s，而其记录为 { $lines }。
summary-mismatch-steps = 按日志的轮数和续训位置运行了 { $ran } 步，计划 { $planned } 步。
summary-mismatch-time-and-rate = 按其时间和速度为 { $steps } 步，计划 { $planned } 步。
summary-mismatch-whole-run = 日志写明整次运行为 { $summary }，而其记录合计为 { $lines }。

# Iterations.

two-runs-back = 迭代序号在没有重启的情况下回退了 { $times } 次：日志包含多次运行。
two-runs-signs = 日志包含多次运行：{ $signs }。
two-runs-summaries = 日志包含多次运行：汇总的速度为 { $rates }。
second-header = 第二个日志头
two-totals = 总迭代数为 { $first } 和 { $second }
two-values = { $name } 为 { $values }
iterations-missing = 测量窗口内有 { $iterations } 次迭代不在任何训练记录中（出现 { $times } 次，通常每条记录 { $usual } 次迭代）。
iterations-missing-few = 测量窗口内有 { $iterations } 次迭代不在任何训练记录中（出现 { $times } 次，通常每条记录 { $usual } 次迭代），占窗口的 { $share }。
repeated-lines = 同一迭代的训练记录重复出现，只计一次。
restarted = 运行曾重启。
restarted-back = 运行曾重启，其中 { $times } 次回退到之前的迭代。
sampled-steps-epoch = 第 { $epoch } 轮中打印的步骤为每卡 { $printed }，全部步骤为 { $every }。
sampled-steps-left-out = 每条记录的时间是其最后 { $last } 次迭代的平均值，可累加的记录未包含 { $of } 次迭代中的 { $out } 次。
sampled-steps-printed = 每条记录的时间是其最后 { $last } 次迭代的平均值，每 { $of } 次迭代中有 { $out } 次不在任何记录中。主要数据只按打印的迭代计算。
sampled-steps-stamps = 每条记录的时间是其最后 { $last } 次迭代的平均值，每 { $of } 次迭代中有 { $out } 次不在任何记录中。主要数据按时间戳计算。
sampled-steps-one-kind = 只有含优化器更新的微步有记录，每 { $steps } 个微步一条：其余微步可能更短，数据可能偏低。
sampled-steps-weighed = 日志未打印部分微步：含优化器更新的微步按每 { $steps } 个中的一个加权。
ends-early-airank = 日志在 AI-Rank 的测试结束之前终止：test_begin 没有对应的结束行。
ends-early-planned = 日志计划 { $planned } 次迭代，到第 { $iteration } 次结束。

# Times.

clock-mismatch-in-sequences = { $said }每 GPU 每步按 { $tokens } 个 token 计；如果批大小以序列计，请声明 `sequence_length`；如果每步的 token 数不定，请把批大小声明为 null。
clock-mismatch-micro-steps = 日志记录写明每个微步 { $mean } ms，而 { $steps } 个微步用了 { $passed } s，即每个 { $each } ms。
clock-mismatch-unknown-count = 按其速度和时间，到 { $position } 为止的 { $events } 个事件所计的既不是样本，也不是步或轮。
clock-mismatch-unproved = 只有含优化器更新的微步有记录，每 { $steps } 个微步一条，而日志未写明整个训练的时间，无法得知其余微步的时间。
clock-mismatch-untimed = 程序在等待 GPU 完成之前就记录了各行的时间。
clock-mismatch-unweighed = 日志未打印部分微步，也无法得知其中有多少含优化器更新。
clock-mismatch-wall-clock-set = 测量窗口内系统时钟被调整了 { $seconds } s（相对于为日志加时间戳的机器的单调时钟）。
loader-stall = { $share } 的时间在等待数据。
unsteady-above = 各步相差较大：按时间加权的平均值比中位数高 { $apart }。
unsteady-both = 按时间加权的平均值比中位数低 { $apart }：{ $lines } 条日志记录中有 { $slow } 条（{ $share }）耗时超过中位数的两倍，其中 { $waiting } 条有一半以上时间在等待数据，{ $events } 条含评估、保存检查点或重启。
unsteady-events = 按时间加权的平均值比中位数低 { $apart }：{ $lines } 条日志记录中有 { $slow } 条（{ $share }）耗时超过中位数的两倍，其中 { $events } 条含评估、保存检查点或重启。
unsteady-no-slow-line = 按时间加权的平均值比中位数低 { $apart }，没有耗时超过中位数两倍的日志记录。
unsteady-slow-lines = 按时间加权的平均值比中位数低 { $apart }：{ $lines } 条日志记录中有 { $slow } 条（{ $share }）耗时超过中位数的两倍。
unsteady-waiting = 按时间加权的平均值比中位数低 { $apart }：{ $lines } 条日志记录中有 { $slow } 条（{ $share }）耗时超过中位数的两倍，其中 { $waiting } 条有一半以上时间在等待数据。

# Losses, evaluations and speed.

evaluation-missing-own = AI-Rank 的行中有一次评估达到 { $reached }，而程序自己的评估最高为 { $best }。
loss-not-finite = { $lines } 条训练记录的损失为 NaN 或无穷大。
loss-not-finite-warmup = 预热中 { $lines } 条记录的损失为 NaN 或无穷大。
above-peak = 每 GPU { $speed } TFLOP/s 高于 { $gpu } 的峰值 { $peak }。
tf32-likely = 每 GPU { $speed } TFLOP/s 为 { $gpu } 的 FP32 峰值的 { $share }；不用 TF32 时该模型最高达到 { $most }。

# Numbers that are not read.

unread-number = { $name } 匹配到 { $text }，{ $why }（{ $times } 次）。
unread-not-a-number = 不是数字
unread-separated = 不是数字，除非用 `thousands` 声明其分隔符
unread-part-of-a-number = 只是数字的一部分；请匹配整个数字，并声明 `thousands`
unread-several-steps = 是多步的时间；请打印单步的时间
unread-other-unit = 其单位不是 { $unit }；请声明 `unit: { $right }`
unread-other-count = 其单位是 { $found }，而不是 { $unit }
unread-of-one-gpu = 是单个 GPU 的数值；请声明 `per: card`

# Gaps of a log.

incomplete-log = { $replica } 的日志在 { $after } 与 { $before } 之间有缺失：{ $why }
incomplete-log-more = { $replica } 的日志在 { $after } 与 { $before } 之间有缺失：{ $why }另有 { $more } 处缺失。
log-beginning = 开头
log-end = 结尾

# Logs in which nothing can be measured; the file stands before them.

nothing-measured-any-family = 没有找到任何日志格式（{ $families }）的训练记录。
nothing-measured-declared = 没有 { $format } 的训练记录。
nothing-measured-empty = 文件为空。
nothing-measured-families = 没有找到 { $families } 的训练记录。
nothing-measured-program = 这是 { $program } 的日志，k8sbench 不读取：{ $why }。
nothing-measured-short-epochs = 只有评估或检查点，没有训练记录：每轮的迭代少于其打印间隔 { $interval } 次。
nothing-measured-test = 这是测试的日志。
nothing-measured-unended = 这是 { $program } 的日志，但缺少打印速度的结尾，也没有长达 { $seconds } s 的进度条。
nothing-measured-unread = { $name } 匹配到 { $text }，{ $why }。
nothing-measured-untrained = 只有评估或检查点，没有训练记录。
not-measured-gpus = 日志未注明作业的 GPU 数。
not-measured-gpus-unended = 日志未注明作业的 GPU 数，也缺少 { $program } 打印速度的结尾。
not-measured-samples-per-step = 日志按样本编号，而每步的样本数未知。
unread-program-own-lines = 使用它的每个程序都自行决定日志行和数据的名称，只有 NVIDIA 的 PyTorch 版 ResNet-50 有对应的日志格式
unread-program-part-of-iterations = 其中 { $family } 打印的速度未包含每次迭代的一部分，而程序自己的行没有对应的日志格式
unread-program-progress-bar = 它每轮只打印进度条，没有单步的记录
unread-program-several-lines = 它的每条记录占多行
unread-program-stamps = 它的各行既没有速度也没有时间，只能由行首的时间戳得知
unread-program-that-prints = 打印 { $text } 的程序

# GPU metrics.

clocks-apart-idle-first = 按 Prometheus，稳定阶段最初 { $duration } 内所有 GPU 都空闲：其时钟可能比日志的时钟快同样多。
clocks-apart-idle-last = 按 Prometheus，稳定阶段最后 { $duration } 内所有 GPU 都空闲：其时钟可能比日志的时钟慢同样多。
gpu-clocks = { $gpus } 的频率为 { $clock }，各 GPU 的中位数为 { $median }。
gpu-name = GPU { $number }
gpu-name-of-place = { $place } 的 GPU { $number }
gpu-name-part = { $gpu }（分区 { $part }）
gpu-names-more = { $gpus } 及另外 { $more } 个 GPU
gpu-shared = { $others } 也使用了属于本次运行的 { $gpu }。
gpu-shared-processes = { $gpus } 上同时有 { $processes } 个进程在计算。
gpu-throttled = { $gpus } 有 { $share } 的时间被降频，原因：{ $why }。
held-down-by-driver = 温度过高（驱动限制）
held-down-by-hardware = 温度过高（硬件限制）
held-down-by-power-brake = 外部的功率制动
metrics-at-odds-idle = { $gpus } 的指标显示没有工作，而日志中有吞吐。
metrics-at-odds-model = 按指标 { $gpu } 是 { $model }，按日志是 { $logged }。
metrics-at-odds-more-gpus = 同时有 { $worked } 个 GPU 为该运行的 Pod 工作，而计划为 { $planned } 个。
xid-error = 运行期间驱动报告了 { $gpus } 的 XID { $codes }。
