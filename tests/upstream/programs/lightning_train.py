"""Trains with Lightning: ``lightning_train.py BATCH ITERATIONS``.

Lightning shows a bar, whose rate is smoothed; a line for each step is the script's own.
"""

import sys
import time
from typing import Any

import lightning
import torch

BATCH, ITERATIONS = map(int, sys.argv[1:])


class Model(lightning.LightningModule):
    """A linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 8)

    def training_step(self, batch: Any, index: int) -> Any:
        """Return the loss."""
        x, labels = batch
        return torch.nn.functional.cross_entropy(self.layer(x), labels)

    def configure_optimizers(self) -> Any:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), 0.1)


class Lines(lightning.Callback):
    """Prints a line for each step."""

    def on_train_start(self, *_: Any) -> None:
        """Start the clock."""
        self.since = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, model: Any, outputs: Any, *_: Any) -> None:
        """Print the step, the time since the last one and the loss."""
        now = time.perf_counter()
        seconds, self.since = now - self.since, now
        print(f"step {trainer.global_step} {seconds:.6f} s loss {outputs['loss']:.4f}", flush=True)


rows = torch.randn(BATCH * ITERATIONS, 64), torch.arange(BATCH * ITERATIONS) % 8
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*rows), BATCH)
trainer = lightning.Trainer(
    accelerator="cpu",
    callbacks=[Lines()],
    enable_checkpointing=False,
    logger=False,
    max_steps=ITERATIONS,
)
trainer.fit(Model(), loader)
