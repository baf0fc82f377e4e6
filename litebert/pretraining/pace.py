"""How long a pre-training run takes, by timing a little of it: how many steps fit into so many minutes."""

from typing import NamedTuple

from litebert.config import require
from litebert.pretraining.config import PretrainConfig, plan_stages
from litebert.training.loop import NUM_EVALUATIONS, Training
from litebert.training.parallel import Ranks
from litebert.training.timing import time_evaluation, time_step


class Pace(NamedTuple):
    """How long a run takes."""

    step: float
    """Seconds of a step, with its share of the evaluations that come every so many."""
    evaluations: float
    """Seconds of the evaluations that come however many steps there are."""

    def fit(self, seconds: float) -> int:
        """How many steps can be taken in so many seconds."""
        require(
            seconds > self.evaluations,
            f"evaluations alone take over {seconds / 60:.3g} minutes; lower --evaluation-sequences, or raise --minutes",
        )
        return max(1, int((seconds - self.evaluations) / self.step))


def measure_pace(config: PretrainConfig, training: Training, ranks: Ranks) -> Pace:
    """Times some steps of every stage, and an evaluation."""
    stages = plan_stages(config, training.model.config.num_layers, training.schedule.steps)
    seconds = sum(
        stage.num_steps / training.schedule.steps * time_step(training, ranks, stage.first_step) for stage in stages
    )
    evaluation, every = time_evaluation(training, ranks), config.loop.evaluate_every
    if every:
        return Pace(seconds + evaluation / every, 0.0)
    return Pace(seconds, evaluation * (NUM_EVALUATIONS if every is None else 1))
