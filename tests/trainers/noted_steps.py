"""A language model that notes its steps."""

from typing import Any


def note() -> None:
    """Keep the weights and the gradients with which each optimizer step begins.

    They are whole, in the file that --run-id names. One rank's loss overflows in the second step of
    a run that is called so.
    """
    import torch

    from k8sbench.trainers.parts import torch_session

    prepare = torch_session.TorchRun.prepare

    def whole(tensor: Any) -> Any:
        return getattr(tensor, "full_tensor", lambda: tensor)().detach().clone()

    def prepared(run: Any) -> None:
        prepare(run)
        noted: list[Any] = []
        named, path = dict(run.bare.named_parameters()), run.here.settings.run_id

        def noting(*_: Any) -> None:
            noted.append({name: (whole(each), whole(each.grad)) for name, each in named.items()})
            if run.here.place.first:
                torch.save(noted, path)

        run.optimizer.register_step_pre_hook(noting)
        if "overflow" in path:

            def overflow(model: Any, given: Any, loss: Any) -> Any:
                is_bad = run.here.place.rank == 1 and run.timer.steps == 1
                return loss * (float("inf") if is_bad else 1.0)

            run.bare.register_forward_hook(overflow)

    setattr(torch_session.TorchRun, "prepare", prepared)  # noqa: B010
