"""Trains with Hugging Face's Trainer: ``hf_train.py BATCH ITERATIONS``."""

import sys
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

BATCH, ITERATIONS = map(int, sys.argv[1:])


class Model(torch.nn.Module):
    """A linear layer with the loss that the Trainer asks of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 8)

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        """Return the loss."""
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}


rows = [{"x": torch.randn(64), "labels": i % 8} for i in range(BATCH * ITERATIONS)]
asked = TrainingArguments(
    output_dir="checkpoints",
    max_steps=ITERATIONS,
    per_device_train_batch_size=BATCH,
    report_to="none",
    save_strategy="no",
    use_cpu=True,
)
Trainer(Model(), asked, train_dataset=rows).train()
