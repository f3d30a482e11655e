# Lines below tables.

footnote = { $head }：{ $said }
footnote-of-run = { $head }（{ $run }）：{ $said }
footnote-of-runs = { $head }（{ $runs } 次运行）：{ $said }
footnote-of-all = { $head }：全部行；{ $said }
footnote-of-some = { $head }：{ $rows } 行中有 { $count } 行；{ $said }
more-notes = 另有 { $number } 项原因：k8sbench explain RUN 列出一次运行的全部原因
no-room = { $columns }：{ $width } 列宽放不下，见 { $format }
interval-of-one-set = { $title }：同一测试组内各次重复的 95 % 区间，不同测试组之间差异更大（见 `history`）
fastest-batch = { $cases } 最快的每GPU批大小：{ $batch }
no-speedup = 没有{ $title }：{ $why }
unit-of = { $benchmarks } 为 { $unit }
finding-quoted = { $id ->
    [above-peak] 计算速度超过 GPU 峰值
    [batch-mismatch] 日志中的批大小自相矛盾
    [batch-size] 批大小与计划不同
    [clock-mismatch] 打印的时间与时间戳不一致
    [device] 设备不同
    [evaluation-missing] 缺少计划中的评估
    [framework] 框架不同
    [gpu-count] GPU数不一致
    [gpu-shared] 同一 GPU 上还有其他程序
    [gpu-throttled] GPU 被降频
    [iterations-missing] 测量窗口内缺少迭代
    [loss-not-finite] 损失为 NaN 或无穷大
    [metrics-at-odds] GPU指标与日志矛盾
    [nothing-measured] 没有可测量的记录
    [other-benchmark] 属于其他测试模型
    [precision] 精度与计划不同
    [precision-without-effect] 混合精度没有生效
    [preset] 功能测试的日志
    [shared-node] 多个副本在同一节点
    [short-warmup] 预热迭代不足
    [summary-mismatch] 日志的汇总与记录不符
    [too-few-iterations] 测量的迭代不足
    [too-few-records] 窗口内日志记录不足 5 条
    [trainer-count] 缺少部分 rank 的日志
    [two-runs] 一份日志包含多次运行
    [unread-number] 有数字无法读取
    [batch-unverified] 日志未注明批大小
    [broken-samples] 有样本无法读取
    [checkpoint-failed] 检查点未能保存
    [arrival-mismatch] 按日志到达时间与按打印时间得到的速度不符
    [tf32-likely] 数值高于 FP32 可达到的水平，可能使用了 TF32
    [format-unconfirmed] 日志格式文件尚未经人确认
    [clocks-apart] 按时间戳与按打印时间相差超过 5 %
    [continued] 训练曾中断后继续
    [ends-early] 日志在计划结束之前终止
    [exit-code] 程序在窗口完成之后以错误退出
    [framework-untried] 训练程序未在该版本的 Paddle 上试验过
    [gpu-clocks] 有 GPU 的频率低于中位数 10 % 以上
    [gpus-unverified] 日志未注明GPU数
    [incomplete-log] 日志有缺失
    [loader-stall] 超过 10 % 的时间在等待数据
    [measured-elsewhere] 数据由其他程序测得，k8sbench 未作检查
    [model-unverified] 无法从日志确认模型
    [precision-unverified] 日志未注明精度
    [repeated-lines] 日志行重复，只计一次
    [restarted] 运行曾重启
    [sampled-steps] 打印的步骤不能代表全部步骤
    [sockets-between-nodes] 节点之间使用 TCP
    [summary-only] 日志只有整次运行的汇总
    [unsteady] 平均值与中位数相差超过 5 %
    [xid-error] 驱动报告了 GPU 错误（XID）
    [run-in-progress] 运行尚未结束
    [run-failed] 作业失败
    [run-cancelled] 运行被取消
    [run-out-of-memory] 显存不足
    [run-lost] 运行丢失
    [not-measured] 没有测量
    [log-counted-twice] 同一日志重复计入
    [mixed-plan] 与其他运行的设置不同
    [mixed-gpu-model] 混用了不同的GPU型号
    [mixed-precision] 实际精度与其他运行不同
    [mixed-image] 镜像与其他运行不同
    [mixed-driver] GPU驱动与其他运行不同
    [mixed-framework] 框架版本与其他运行不同
    [mixed-data] 数据与其他运行不同
    [mixed-weights] 初始权重与其他运行不同
    [mixed-estimator] 统计方法与其他运行不同
    [outlier] 与多数运行明显不同
    [efficiency-above-limit] 扩展效率高于 1.05
    [unsteady-runs] 各次运行相差超过四分之一
    [wide-interval] 区间宽于中位数的 10 %
   *[other] 详情
  }：“{ $text }”
reason-with-place = { $said }（见 { $place }）
reason-with-places = { $said }（见 { $place } 及另外 { $more } 处）
