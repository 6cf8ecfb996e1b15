"""TRL's trainers and callbacks as the learners use them; imported when training starts, since TRL loads for seconds.

TRL pads a batch to its longest row and computes it at once. Here rows of similar length are computed together, as many
as memory has room for, with the same loss and gradient.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer, SFTTrainer

from toolorchestra.agents.builtin.adapters import AdaptedModel
from toolorchestra.agents.hub import ADAPTER_CONFIG
from toolorchestra.algos.activity import Count, Watch, unwatched
from toolorchestra.algos.data.drawn_rows import Rows
from toolorchestra.algos.hardware import distributed, memory, sharding
from toolorchestra.algos.hardware.batching import bundles, sharing_bundles
from toolorchestra.algos.hardware.logits import base_model, hidden_states, in_chunks, shares_prefix
from toolorchestra.algos.hardware.mismatch import Mismatch
from toolorchestra.algos.loss.product_ratio import product_ratio_loss
from toolorchestra.algos.options.optimizers import scheduler_name
from toolorchestra.algos.options.options import LearnerOptions, Schedule
from toolorchestra.algos.trainer import Report, remove_checkpoints
from toolorchestra.toolscale.common.errors import TrainingError

if TYPE_CHECKING:
    from toolorchestra.algos.group_rollouts import GroupRollouts

_STEP = 8.0  # seconds of a step after which it is said how far it is; the step itself has a line of its own


def settings(
    output: Path, config: LearnerOptions, *, save_every: int, schedule: Schedule, warmup: int
) -> dict[str, Any]:
    """Return the arguments that all of TRL's trainers are given here.

    Args:
        output: Folder of the checkpoints.
        config: The learner's options.
        save_every: Optimiser steps between checkpoints; 0: none.
        schedule: Of the learning rate, unless the options say another.
        warmup: Optimiser steps of its warm-up.
    """
    schedule = config.lr_scheduler_type or schedule
    return {
        **({} if config.optimizer == "adamw" else {"optim": config.optimizer}),
        "lr_scheduler_type": scheduler_name(schedule, warmup),
        "warmup_steps": warmup,
        "output_dir": str(output),
        "adam_beta2": 0.95,
        "max_grad_norm": 1.0,
        "gradient_checkpointing": False,
        "bf16": config.precision == "bf16",
        "use_cpu": not torch.cuda.is_available(),
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "steps" if save_every else "no",
        "save_steps": save_every or 500,
        "save_total_limit": config.save_total_limit,
        "seed": config.seed,
    }


def trained(model: Any) -> Any:
    """Return the model that TRL's trainers know: of an adapter, the PEFT model, in which it alone learns."""
    if not isinstance(model, AdaptedModel):
        return model
    model.host.set_adapter(model.key)
    return model.host


def run_trainer(trainer: Any, model: Any, checkpoint: Path | None, stopped: Callable[[], bool] = lambda: False) -> None:
    """Train the model of a trainer without printing, from a checkpoint if there is one.

    `stopped` says at the end whether it was to make fewer steps than all.

    Raises:
        TrainingError: It made fewer steps than it should.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if (made := trainer.state.global_step) < trainer.args.max_steps and not stopped():
        raise TrainingError(f"The training ended after {made} of {trainer.args.max_steps} optimiser steps.")
    for one in (model, trained(model), base_model(model)):
        one.__dict__.pop("forward", None)  # the trainer's fused head; another trainer would wrap it once more


class _WholeCheckpoints:
    """Makes the checkpoints of a trainer appear whole or not at all, with our model card instead of TRL's."""

    args: Any
    model_card = ""
    _draft: Path | None = None

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write our model card beside checkpoints, where TRL would write that of a fine-tuned model of the hub."""
        if distributed.is_main() and self.model_card:
            (Path(self.args.output_dir) / "README.md").write_text(self.model_card, encoding="utf-8")

    def _get_output_dir(self, trial: Any) -> str:
        """Return the folder in which the folder of a checkpoint is written."""
        return str(self._draft or super()._get_output_dir(trial))  # type: ignore[misc]  # transformers'

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load a checkpoint; beside copies of an adapter transformers would leave out the adapter itself."""
        host = self.model if model is None else model  # type: ignore[attr-defined]
        if sharding.sharded(host):
            from safetensors.torch import load_file

            for file in sorted(Path(resume_from_checkpoint).glob("*.safetensors")):
                sharding.load_weights(host, load_file(file))
            return
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
        if (Path(resume_from_checkpoint) / ADAPTER_CONFIG).is_file():
            from peft import load_peft_weights, set_peft_model_state_dict

            set_peft_model_state_dict(host, load_peft_weights(resume_from_checkpoint, device="cpu"), "default")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the weights, of all processes if they are divided."""
        weights = sharding.whole_weights(self.model)  # type: ignore[attr-defined]  # the trainer's
        if weights is None:
            super().save_model(output_dir, _internal_call)  # type: ignore[misc]  # transformers'
        elif self.args.should_save:
            self._save(output_dir, state_dict=weights)  # type: ignore[attr-defined]  # transformers'

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Write the optimiser's state, of all processes if it is divided."""
        optimizer = self.optimizer  # type: ignore[attr-defined]  # the trainer's
        state = sharding.whole(optimizer.state_dict())
        optimizer.state_dict = lambda: state
        try:
            super()._save_optimizer_and_scheduler(output_dir)  # type: ignore[misc]  # transformers'
        finally:
            del optimizer.state_dict

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load the optimiser's state, and divide it if the model is."""
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]  # transformers'
        sharding.divide_state(self.optimizer)  # type: ignore[attr-defined]  # the trainer's

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint aside, add what callbacks have for it, and put it in its place."""
        name = f"checkpoint-{self.state.global_step}"  # type: ignore[attr-defined]
        with distributed.written(Path(self._get_output_dir(trial)) / name) as draft:
            self._draft = distributed.from_main(lambda: draft)
            try:
                super()._save_checkpoint(model, trial)  # type: ignore[misc]
            finally:
                self._draft = None
            distributed.wait()  # each writes the state of its random numbers
            if draft is None:
                return
            for callback in self.callback_handler.callbacks:  # type: ignore[attr-defined]
                if isinstance(callback, MetricsCallback):
                    callback.write(draft / name)
            for file in sorted((draft / name).iterdir()):
                file.rename(draft / file.name)
            (draft / name).rmdir()
        if self.args.should_save:
            remove_checkpoints(Path(self.args.output_dir), self.args.save_total_limit)


class _Bundling:
    """What the trainers share: a forward and a backward pass for each bundle, so that memory need hold one only.

    Attributes:
        gib: GiB that a bundle may take beside the weights; None: see `memory.budget`.
        micro_batch: Maximum of rows of a bundle; None: as many as memory has room for.
        watch: Shows how many passes of a step are done.
    """

    gib: float | None = None
    micro_batch: int | None = None
    watch: Watch = staticmethod(unwatched)

    def bundles(self, model: Any, rows: Sequence[list[int]]) -> list[list[int]]:
        """Return the numbers of the rows of each pass: of rows that begin alike, then of others of like length."""
        with self.accelerator.autocast():  # type: ignore[attr-defined]  # the trainer's
            size = memory.number_size(model)
        config = self.model.config  # type: ignore[attr-defined]  # the trainer's
        checkpointing = bool(getattr(self.model, "is_gradient_checkpointing", False))  # type: ignore[attr-defined]
        per_id = memory.ModelShape.of(config).train_bytes(size, checkpointing=checkpointing)
        device = next(model.parameters()).device
        budget = memory.budget(device, self.gib)
        fitting = memory.padded_rows(budget, per_id, masked=False)
        most = self.micro_batch or len(rows)
        sharing = sharing_bundles(rows, budget // per_id, most) if shares_prefix(model) else []
        alone = sorted(set(range(len(rows))).difference(*sharing))
        found = bundles([len(rows[n]) for n in alone], max_rows=lambda length: min(most, fitting(length)))
        return [*sharing, *([alone[n] for n in bundle] for bundle in found)]

    def backward_each(self, losses: Iterator[Tensor]) -> Tensor:
        """Make the backward pass of each loss but the last, and return their sum, with the gradient of the last."""
        total = torch.zeros(())
        waiting: Tensor | None = None
        for loss in losses:
            if waiting is not None and waiting.requires_grad:
                self.accelerator.backward(waiting)  # type: ignore[attr-defined]  # the trainer's
            total, waiting = total.to(loss.device) + loss.detach(), loss
        assert waiting is not None
        return waiting + (total - waiting.detach())

    def in_step(self, model: Any, found: list[list[int]]) -> list[list[int]]:
        """Return bundles, and if the model is divided some more that do not count, as many as other processes have."""
        if not sharding.sharded(model):
            return found
        return found + [found[-1][:1]] * (max(distributed.gather(len(found))) - len(found))

    def _wrap_model(self, model: Any, *arguments: Any, **options: Any) -> Any:
        """Return the model without a wrapper that would exchange gradients in every backward pass."""
        prepare = self.accelerator.prepare_model  # type: ignore[attr-defined]  # the trainer's
        self.accelerator.prepare_model = partial(prepare, evaluation_mode=True)  # type: ignore[attr-defined]
        return super()._wrap_model(model, *arguments, **options)  # type: ignore[misc]  # transformers'

    def training_step(self, model: Any, *arguments: Any, **options: Any) -> Tensor:
        """Make the forward and backward passes of a step.

        Processes may have different numbers of them, so their gradients are averaged once, after the last.
        """
        loss: Tensor = super().training_step(model, *arguments, **options)  # type: ignore[misc]  # the trainer's
        distributed.add_gradients(model.parameters(), mean=True)
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        """Clip gradients, and return their norm before that as a number that all processes have."""
        return sharding.whole(super()._clip_grad_norm(model))  # type: ignore[misc]  # transformers'


class MicroBatchSFTTrainer(_WholeCheckpoints, _Bundling, SFTTrainer):
    """`SFTTrainer` that computes logits of labelled positions only, in bundles and chunks.

    The data set has the numbers of `rows`, each of which is asked for when the batch with it is collated.
    """

    rows: Rows

    def get_train_dataloader(self) -> Any:
        """Return the batches, with rows in place of their numbers."""
        collate = self.data_collator

        def collated(numbered: Sequence[Mapping[str, Sequence[int]]]) -> Any:
            rows = (self.rows[row["input_ids"][0]] for row in numbered)
            return collate([{"input_ids": ids, "labels": labels} for ids, labels in rows])

        self.data_collator = collated
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collate

    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Tensor:
        """Return the mean cross-entropy over the labels of a batch."""
        labels = inputs["labels"]
        ids = _unpadded(inputs["input_ids"], inputs["attention_mask"])
        count = (
            max(1, sum(distributed.gather(int((labels[:, 1:] != -100).sum())))) / distributed.world_size()
        )  # gradients are averaged
        rows = [row for row in range(len(ids)) if bool((labels[row, 1:] != -100).any())] or [0]
        found = self.bundles(model, [ids[row] for row in rows])

        def entropy(several: list[int]) -> Tensor:
            with self.accelerator.autocast():
                states = hidden_states(model, [ids[row] for row in several], 0)  # (B, W, H)
                wanted = labels[several, 1 : states.size(1)]
                known = wanted != -100
                return in_chunks(model, _cross_entropy, states[:, :-1][known], wanted[known]).sum()

        def losses(done: Count) -> Iterator[Tensor]:
            for number, bundle in enumerate(self.in_step(model, found)):
                done(number)
                several = [rows[n] for n in bundle]
                yield sharding.forward(model, partial(entropy, several)) / count * (number < len(found))

        with self.watch("Passes of a step", len(found), _STEP) as done:
            return self.backward_each(losses(done))


def _unpadded(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """Return the ids of each row without padding."""
    return [row[kept].tolist() for row, kept in zip(ids, mask.bool(), strict=True)]


def _scores(temperature: float, logits: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probability of each id, and the entropy where it was drawn, from logits (n, V)."""
    logps = (logits / temperature).log_softmax(-1)
    return torch.stack([logps.gather(1, ids[:, None])[:, 0], -(logps.exp() * logps).sum(-1)], 1)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


class MicroBatchGRPOTrainer(_WholeCheckpoints, _Bundling, GRPOTrainer):
    """`GRPOTrainer` that trains on bundles of rows of similar length, each with a backward pass of its own.

    Rows without a token to train on are left out. The gradient is that of the whole batch. `mismatch` compares
    log-probabilities with those of the sampler.
    """

    vllm_generation: Any = None
    _latest: Tensor | None = None  # log-probabilities of the last forward pass

    def __init__(self, *arguments: Any, product_ratio: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.mismatch = Mismatch()
        self.product_ratio = product_ratio

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the loss of a bundle: TRL's, or with `product_ratio` that with the ratio of whole sequences."""
        if not self.product_ratio:
            loss: Tensor = super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]  # TRL's
            return loss
        return product_ratio_loss(self, model, inputs)

    def correct_importance(self) -> None:
        """Correct for the sampler's log-probabilities as TRL does with vLLM, though the model itself generates."""
        self.use_vllm, self._last_loaded_step = True, -1
        self.vllm_generation = SimpleNamespace(sync_weights=lambda: None)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Tensor:
        """Return the loss of a batch; all but the last bundle's part of it has been through its backward pass."""
        weights = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        trained = weights.sum(1)
        whole = (torch.cat([inputs[f"prompt_{what}"], inputs[f"completion_{what}"]], 1) for what in ("ids", "mask"))
        ids = _unpadded(*whole)
        count = len(ids)
        rows = trained.nonzero().flatten().tolist() or [min(range(count), key=lambda row: len(ids[row]))]
        found = self.bundles(model, [ids[row] for row in rows])
        metrics = self._metrics["train" if model.training else "eval"]
        before = {name: len(values) for name, values in metrics.items()}
        shares: list[float] = []

        def losses(done: Count) -> Iterator[Tensor]:
            for number, bundle in enumerate(self.in_step(model, found)):
                done(number)
                several, counts = [rows[n] for n in bundle], number < len(found)
                part = {
                    name: value[several] if torch.is_tensor(value) and value.dim() and len(value) == count else value
                    for name, value in inputs.items()
                }
                loss: Tensor = super(MicroBatchGRPOTrainer, self).compute_loss(model, part)
                if counts and "sampling_per_token_logps" in part and self._latest is not None:
                    # later updates of a batch are off policy; log-probabilities from before them are then at hand
                    logps = part.get("old_per_token_logps", self._latest)
                    self.mismatch.add(part["sampling_per_token_logps"], logps, weights[several])
                shares.append(float(trained[several].sum()) * counts)
                # a mean over rows; dapo divides by the tokens of the whole batch already
                yield (loss if self.loss_type == "dapo" else loss * len(several) / count) * counts

        accelerator = self.accelerator
        gather, reduce = accelerator.gather, accelerator.reduce
        accelerator.gather = accelerator.reduce = lambda value, **_: (
            value
        )  # others have other bundles, and may have more
        try:
            with self.watch("Passes of a step", len(found)) as done:
                loss = self.backward_each(losses(done))
        finally:
            accelerator.gather, accelerator.reduce = gather, reduce
        for name, values in metrics.items():  # of each part, as means over its tokens
            if len(new := values[before.get(name, 0) :]) == len(shares):
                parts = [part for own in distributed.gather(list(zip(new, shares, strict=True))) for part in own]
                total = sum(share for _, share in parts)  # 0: nobody has a token to train on
                values[before.get(name, 0) :] = [sum(v * (s if total else 1) for v, s in parts) / (total or len(parts))]
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return log-probabilities (B, T) and entropies (B, T) of completions, padded on the right with 0.

        Prompts are padded on the left, completions on the right, as in TRL; `logits_to_keep` is T.
        """
        if any(value is not None and value is not False for value in others.values()):  # images and the like
            whole: tuple[Tensor, Tensor | None, Tensor | None] = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **others
            )
            return whole
        before = input_ids.size(1) - logits_to_keep
        prompts = attention_mask[:, :before].sum(1)
        lengths = attention_mask.sum(1)
        logps = input_ids.new_zeros((len(input_ids), logits_to_keep), dtype=torch.float32)
        entropies = torch.zeros_like(logps)
        unpadded = _unpadded(input_ids, attention_mask)
        for rows in self.in_step(model, self.bundles(model, unpadded)):
            width = int(lengths[rows].max())
            places = torch.arange(width, device=input_ids.device) + (before - prompts[rows])[:, None]  # (b, W)
            inside = torch.arange(width, device=input_ids.device) < lengths[rows][:, None]
            written = (inside & (places >= before))[:, 1:]
            row, place = written.nonzero(as_tuple=True)
            target = (torch.tensor(rows, device=row.device)[row], places[:, 1:][row, place] - before)
            found = sharding.forward(model, partial(self._scores, model, [unpadded[n] for n in rows], written))
            logps = logps.index_put(target, found[:, 0].float())
            if compute_entropy:
                entropies = entropies.index_put(target, found[:, 1].float())
        self._latest = logps.detach()
        return logps, entropies if compute_entropy else None, None

    def _scores(self, model: Any, rows: Sequence[list[int]], written: Tensor) -> Tensor:
        """Return log-probabilities and entropies, of shape (n, 2), of the ids where ``written`` (b, W - 1)."""
        wanted = [torch.tensor(row[1:], device=written.device) for row in rows]
        with self.accelerator.autocast():
            states = hidden_states(model, rows, 0)[:, :-1]  # (b, W - 1, H)
            ids = torch.nn.utils.rnn.pad_sequence(wanted, batch_first=True)
            return in_chunks(model, partial(_scores, self.temperature), states[written], ids[written])


class Reporter(TrainerCallback):
    """Reports the loss of each step."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Pass on the trainer's numbers."""
        if logs and "loss" in logs:
            self.report(state.global_step, {"loss": float(logs["loss"]), "learning_rate": float(logs["learning_rate"])})


class MetricsCallback(TrainerCallback):
    """Reports after each batch of rollouts, ends when it is time to, keeps the curriculum beside each checkpoint."""

    mismatch: Mismatch  # the trainer's

    def __init__(self, rollouts: GroupRollouts, report: Report, go_on: Callable[[int], bool]) -> None:
        self.rollouts, self.report, self.go_on = rollouts, report, go_on
        self.stopped = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Join the trainer's numbers with those of the rollouts."""
        wanted = {"loss": "loss", "grad_norm": "grad_norm", "entropy": "entropy", "clip_ratio/region_mean": "clipped"}
        extra = {ours: float(logs[theirs]) for theirs, ours in wanted.items() if logs and theirs in logs}
        if "loss" in extra:
            extra |= self.mismatch.metrics()
            self.report(state.global_step // self.rollouts.config.updates, {**self.rollouts.metrics, **extra})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate, or end, where it is time to."""
        done, within = divmod(state.global_step, self.rollouts.config.updates)
        if not within and not self.go_on(done):
            self.stopped = control.should_training_stop = True

    def write(self, folder: Path) -> None:
        """Write the curriculum into a checkpoint."""
        (folder / "curriculum.json").write_text(json.dumps(self.rollouts.curriculum.state()), encoding="utf-8")
