# Reasons why a measurement has no figure.

no-throughput-batch = 批大小未知，可用 --batch-size 指定。
no-throughput-rejected = 已拒绝，数据在 `unverified` 之下。
no-throughput-sequence-length = 基准库与程序的计数单位不同，其一为 token，而日志未注明每个序列的 token 数。
no-throughput-window = 测量窗口内没有训练记录。
no-estimate-all-steps-printed = 日志记录已覆盖全部步骤。
no-estimate-batch-changes = 窗口内批大小有变化：数据为全部样本 ÷ 全部时间。
no-estimate-coarse-stamps = 时间戳的精度为 { $resolution }，大于窗口首末两个时间戳之间 { $seconds } 的 { $share }。
no-estimate-equal-stamps = 窗口的首末两个时间戳相同。
no-estimate-no-steady-record = 窗口内每条记录都含评估、保存检查点或重启。
no-estimate-stamps = 训练记录没有时间戳。
no-estimate-unequal-steps = 各步的 token 数日志未注明，且其速度不一。
no-estimate-whole-run = 日志只有整次运行的一个数据。
no-profile-batch = 批大小未知，无法由打印的速度得出时间。
no-profile-batch-changes = 批大小有变化，无法由打印的速度得出时间。
no-profile-line = 没有训练记录使迭代前进。
no-times-clock-set = 测量窗口内时间戳的时钟被调整过。
no-wall-time = 训练记录没有两个不同的时间戳。
no-steady-part = 没有任何一行的时间是已知的。
no-tokens-per-second = 日志未注明每个样本的 token 数。
no-final-loss = 日志的训练记录中没有损失。
no-final-loss-not-finite = 最后的损失为 { $loss }。
no-arithmetic = 日志未注明哪些运算使用哪种类型。
no-arithmetic-digest = 日志中的运算类型与其摘要不符。
no-weights = 日志未注明初始权重。
no-weights-scratch = 运行从零开始训练。
no-accuracy-no-evaluation = 日志中没有评估。
no-accuracy-no-value = 未读取到日志中评估的数值。
no-time-to-train-before-test = 达到目标的评估的时间戳早于测试开始。
no-time-to-train-begin = 日志没有 AI-Rank 的 test_begin 行。
no-time-to-train-lacks-samples = { $why }缺少样本的评估不算达到目标。
no-time-to-train-machines = 运行使用了多台机器，而它们的时钟互相矛盾。
no-time-to-train-no-target = 运行没有目标准确率。
no-time-to-train-not-reached = 没有评估达到目标 { $target }。
no-time-to-train-other-metric = 运行评估的是 { $metric }，而目标是 { $target }。
no-time-to-train-synthetic = 使用合成数据，不会达到任何准确率。
no-time-to-train-target = 目标准确率未知，可用 --benchmark 指定测试模型。

# GPU metrics.

no-gpu-metrics-cpu = 没有使用 GPU
no-gpu-metrics-source = 没有查询GPU指标
no-gpu-metrics-yet = 尚未获取。
no-gpu-metrics-yet-collect = 尚未获取，可用下列命令获取：k8sbench collect { $run }
no-gpu-metrics-in-window = { $prometheus } 在该窗口内没有本次运行的 GPU 的采样。
no-gpu-metrics-logs = 无法读取日志：{ $why }。
no-gpu-metrics-of-pods = { $prometheus } 没有注明本次运行的 Pod 或日志中 UUID 的 GPU 指标：它没有采集这些节点上的 DCGM exporter，或者该 exporter 启动时没有 DCGM_EXPORTER_KUBERNETES=true。
no-gpu-metrics-printed = 日志中没有 GPU 的采样：其程序不是 k8sbench 的训练程序，或者没有 NVML。
no-gpu-metrics-source-failed = 查询失败：{ $why }
no-gpu-metric-collected = 没有本次运行的 GPU 的 { $fields }：exporter 没有采集，或者 GPU 不支持。
no-gpu-metric-counter-implausible = 按计数器 GPU 的功率为 { $power }，不可能属实。
no-gpu-metric-counter-reset = 计数器在每两个采样之间都被重置。
no-gpu-metric-few-samples = 稳定阶段内只有 { $samples } 个采样，至少需要 { $needed } 个。
no-gpu-metric-field = DCGM 没有这一字段。
no-gpu-metric-implausible = { $of } 个采样中有 { $wrong } 个不可能属实，例如 { $example }。
no-gpu-metric-nvml = NVML 没有这一指标。
no-gpu-metric-of-all = { $planned } 个 GPU 中只有 { $known } 个有数据。
no-gpu-metric-of-parts = { $field } 是整个 GPU 的指标，而本次运行使用的是 GPU 的分区（MIG）。
no-gpu-metric-series = 该来源没有这一指标。
no-gpu-metric-short = 稳定阶段为 { $duration }，短于 { $fewest } 个 { $interval } 的采样间隔。
no-gpu-metric-source = 没有任何来源有这一指标。
no-gpu-metric-unsupported = GPU 不支持这一指标。
no-gpu-metric-value = GPU 没有 { $field }：DCGM 没有给出数值。
no-energy-per-1000 = 需要吞吐，以及功率或能耗。
of-sources = { $sources }：{ $why }
two-sentences = { $one }{ $other }
