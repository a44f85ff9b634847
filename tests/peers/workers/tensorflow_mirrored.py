"""TensorFlow's MultiWorkerMirroredStrategy over TF_CONFIG; the first worker prints its losses.

Without TF_CONFIG: the same in this process alone. The batch is split over the workers and every
gradient is summed over all of them, so the losses are the same.
"""

import json
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

config = json.loads(os.environ.get("TF_CONFIG", '{"cluster": {"worker": [""]}, "task": {}}'))
workers = len(config["cluster"]["worker"])
strategy = (
    tf.distribute.MultiWorkerMirroredStrategy() if workers > 1 else tf.distribute.get_strategy()
)
assert strategy.num_replicas_in_sync == workers, strategy.num_replicas_in_sync

rows = np.random.default_rng(3).normal(size=(64, 8)).astype(np.float32)
wanted = (rows @ np.arange(8, dtype=np.float32) / 8)[:, None]
own = slice(config["task"].get("index", 0), None, workers)
with strategy.scope():
    weights = tf.Variable(np.zeros((8, 1), np.float32))
    x, y = tf.constant(rows[own]), tf.constant(wanted[own])


@tf.function
def step():
    def one():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weights - y) ** 2) / len(rows)
        total = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, weights))
        weights.assign_sub(0.1 * total)
        return loss

    return strategy.reduce("SUM", strategy.run(one), axis=None)


losses = [float(step()) for _ in range(5)]
if config["task"].get("index", 0) == 0:
    print("losses", json.dumps(losses), flush=True)
