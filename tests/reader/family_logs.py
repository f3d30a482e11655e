"""Shortened logs of each family."""

MMSEG = (
    "2021-05-31 00:01:11,032 - mmseg - INFO - Iter [10/100]\tlr: 9.194e-03, eta: 1 day, 0:03:03, "
    "time: 2.042, data_time: 0.096, memory: 18705, decode.loss_seg: 2.3076, "
    "decode.acc_seg: 22.5851, aux.loss_seg: 1.0441, loss: 3.3517"
)
MMENGINE = (
    "2023/06/14 10:00:20 - mmengine - INFO - Iter(train) [   50/160000]  base_lr: 9.9e-03 "
    "lr: 9.9e-03  eta: 1 day, 0:03:03  time: 0.4125  data_time: 0.0165  memory: 3774  "
    "loss: 3.3517  decode.loss_ce: 2.3076  decode.acc_seg: 22.5851  aux.loss_ce: 1.0441"
)
PADDLESEG = (
    "2021-05-31 20:12:22 [INFO]\t[TRAIN] epoch: 1, iter: 20/200, loss: 1.3367, lr: 0.000675, "
    "batch_cost: 0.7225, reader_cost: 0.00009, ips: 5.5365 samples/sec | ETA 00:00:00"
)
PADDLECLAS_2021 = (
    "[2021/12/21 17:12:41] root INFO: epoch:0   train step:20   lr: 0.100000, loss:  7.5212 "
    "top1:  0.0078 top5:  0.0625 batch_cost: 0.38521 s, reader_cost: 0.00551 s, "
    "ips: 332.28902 images/sec."
)
PADDLEVIDEO = (
    "[06/04 09:34:21] epoch:[  1/50 ] \x1b[95mtrain step:20  \x1b[0m \x1b[92mloss: 4.75431 "
    "lr: 0.080000 top1: 0.18750 top5: 0.37500 elapse: 0.245 reader: 0.049\x1b[0ms "
    "ips: 65.41214 instance/sec."
)
DLE_2022 = (
    "DLL 2023-08-04 05:46:28.892809 - Epoch: 0 Iteration: 2  train.loss : 7.85750 None "
    "train.compute_ips : 400.00 images/s train.total_ips : 300.00 images/s train.lr : 0.1  "
    "train.grad_scale : 1.00000 None"
)
TSM = (
    "Epoch: [2][32/14661], lr: 0.00250\tTime 0.299 (0.429)\tData 0.001 (0.0429)\t"
    "Loss 6.3967 (6.3569)\tPrec@1 0.000 (0.947)\tPrec@5 0.000 (2.273)"
)
TSM_STAMPED = TSM + "\t2021-05-17 14:03:29.639450"
PLSC_V2 = (
    "Training: 2021-10-03 21:10:05,877 - loss 43.9714, lr: 0.200000, epoch: 0, step: 200, "
    "eta: 7.52 hours, throughput: 6374.50 imgs/sec"
)
ARCFACE = (
    "Training: 2026-11-25 09:27:56,434-Speed 1889.25 samples/sec   Loss 35.0278   "
    "LearningRate 0.014000   Epoch: 0   Global Step: 60   Fp16 Grad Scale: 1024   "
    "Required: 3 hours"
)
TIMM = (
    "Train: 3 [ 100/1251 (  8%)]  Loss: 6.94 (6.95)  Time: 0.574s,  445.99/s  "
    "(0.604s,  423.84/s)  LR: 1.000e-05  Data: 0.007 (0.012)"
)
MMENGINE_JSON = (
    '{"lr": 0.0099, "data_time": 0.0165, "loss": 3.3517481, "decode.loss_ce": 2.3, '
    '"time": 0.4125372, "iter": 50, "memory": 3774, "step": 50}'
)
MMCV_JSON = (
    '{"mode": "train", "epoch": 3, "iter": 10, "lr": 0.0092, "memory": 18705, "data_time": 0.096, '
    '"decode.loss_seg": 2.3, "loss": 3.35, "time": 2.04213}'
)
DLE_JSON = (
    'DLLL {"timestamp": "1608118340.23", "datetime": "2020-12-16 11:32:20.234886", '
    '"elapsedtime": "9.1", "type": "LOG", "step": [1, 2], "data": {"train.loss": 7.7502, '
    '"train.compute_ips": 400.0, "train.total_ips": 300.0, "train.lr": 0.1}}'
)
JSON_LINES = {"mmengine": MMENGINE_JSON, "mmseg": MMCV_JSON, "dle-resnet50": DLE_JSON}
ALL = {
    "mmseg": MMSEG,
    "mmengine": MMENGINE,
    "paddleseg": PADDLESEG,
    "paddleclas": PADDLECLAS_2021,
    "paddlevideo": PADDLEVIDEO,
    "dle-resnet50": DLE_2022,
    "tsm": TSM_STAMPED,
    "plsc": PLSC_V2,
    "arcface-torch": ARCFACE,
    "timm": TIMM,
}
