"""TRL's own `GRPOTrainer` trains a model, and the service is killed and restarted meanwhile."""

import os
from pathlib import Path

from datasets import Dataset
from rapid_verifier.trl import reward_func
from service import Service
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

PACKAGE = "trl"
STEPS, OUTAGE = 5, (2, 3)
"""The service is down in the steps of the outage, counted from 0."""


class Outage(TrainerCallback):
    def __init__(self, service: Service) -> None:
        self.service = service

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        if state.global_step == OUTAGE[0]:
            self.service.kill()
        if state.global_step == OUTAGE[-1] + 1:
            self.service.start()


def test_training_goes_on_through_an_outage_whose_completions_get_no_reward(tmp_path: Path) -> None:
    with Service() as service:
        reward = reward_func(service.url, service.token, column="answer", patience_s=0.5)
        told: list[list[float | None]] = []

        def recorded(*args, **columns) -> list[float | None]:
            told.append(reward(*args, **columns))
            return told[-1]

        recorded.__name__ = reward.__name__
        rows = [{"prompt": f"{n} plus {n} is", "answer": str(2 * n)} for n in range(1, 11)]
        trainer = GRPOTrainer(
            model=os.environ["RAPID_CLIENTS_MODEL"],
            reward_funcs=recorded,
            args=GRPOConfig(
                output_dir=str(tmp_path),
                max_steps=STEPS,
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=12,
                learning_rate=1e-6,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                seed=1,
            ),
            train_dataset=Dataset.from_list(rows),
            callbacks=[Outage(service)],
        )
        trainer.train()
        assert len(told) == STEPS
        for step, rewards in enumerate(told):
            expected = {None} if step in OUTAGE else {0.0, 1.0}
            assert set(rewards) <= expected, step
        logs = [log for log in trainer.state.log_history if "rewards/rapid_verifier/mean" in log]
        assert len(logs) == STEPS
        for step, log in enumerate(logs):
            down = step in OUTAGE
            assert log["rapid_verifier/unavailable"] == float(down)
            assert (log["rewards/rapid_verifier/mean"] is None) == down
            # Without a reward there is no gradient.
            assert not down or log["grad_norm"] == 0.0
